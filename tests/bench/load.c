/* Load generator: sessions that grow, over keep-alive connections, from one thread.
 *
 * The pool file (written by bodies.py) holds conversations and, for each, the places where a turn's request ends.
 * A request is that prefix, a short suffix, and the session's token written over every placeholder, in the body and
 * in the session header; so no two sessions share a call, a result or an id, and none has to be generated here.
 *   chain  a connection plays one session turn by turn, then takes a new one: with ten turns a session, one request
 *          in ten comes from a session that the server has not seen.
 *   split  first turns are sent in the warm-up for nine of ten sessions; only second turns are measured.
 * After the warm-up it prints "warm" and waits for a byte on stdin, so that the caller can read CPU counters.
 * Ends with one line of JSON; times in microseconds from the first byte sent.
 *
 * usage: load PORT PATH POOL CONNS WARM COUNT MAX_SECONDS TOKEN named|derived|both */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MARK "@TOKEN_HERE"
enum { MARK_N = sizeof MARK - 1, HEAD_MAX = 16384, MAX_TURNS = 64, IN_MAX = 1 << 18 };
enum parse { STATUS, SIZED, CHUNK_SIZE, CHUNK, CHUNK_END, TRAILER };

struct turn { size_t cut, suffix_n; char *suffix; };
struct talk { size_t n; char *text; size_t *marks, marks_n; struct turn turns[MAX_TURNS]; };
struct conn {
    int fd, busy, writing, close, acted, good, newline;
    long long token, began, first;
    int turn;
    char *out;
    size_t out_n, sent, head_n, left;
    enum parse at;
    char head[HEAD_MAX];
};

static struct talk *talks;
static int talks_n, turns_n, split, port, ep, ids;
static const char *path;
static size_t biggest;
static char in[IN_MAX];
static struct conn *conns;
static int conns_n, measuring, busy;
static long long issued, target, prepared, base, next_token, deadline;
static double *lat, *ttfb;
static size_t good_n, bad_n, reset_n, acted_n, events, bytes;
static char first_bad[200];

static void fail(const char *why) { perror(why); exit(1); }

static long long ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static char *take(FILE *f, size_t n) {
    char *p = malloc(n + 1);
    if (!p || fgetc(f) != '\n' || fread(p, 1, n, f) != n) fail("pool is cut short");
    p[n] = 0;
    return p;
}

static void read_pool(const char *name) {
    FILE *f = fopen(name, "rb");
    if (!f) fail(name);
    if (fscanf(f, "%d %d %d", &talks_n, &turns_n, &split) != 3 || turns_n > MAX_TURNS) fail("bad pool");
    talks = calloc(talks_n, sizeof *talks);
    for (struct talk *k = talks; k < talks + talks_n; k++) {
        if (fscanf(f, "%zu", &k->n) != 1) fail("bad pool");
        k->text = take(f, k->n);
        k->marks = malloc(sizeof(size_t) * (k->n / MARK_N + 1));
        for (char *p = k->text; (p = memmem(p, k->text + k->n - p, MARK, MARK_N)); p += MARK_N)
            k->marks[k->marks_n++] = p - k->text;
        for (int i = 0; i < turns_n; i++) {
            struct turn *t = k->turns + i;
            if (fscanf(f, "%zu %zu", &t->cut, &t->suffix_n) != 2) fail("bad pool");
            t->suffix = take(f, t->suffix_n);
        }
        if (k->n > biggest) biggest = k->n;
    }
    fclose(f);
}

static void watch(struct conn *c, int op, int out) {
    struct epoll_event e = { .events = EPOLLIN | (out ? EPOLLOUT : 0), .data.ptr = c };
    epoll_ctl(ep, op, c->fd, &e);
}

/* Writes the request of the session `c->token` at `c->turn` into the connection's buffer. */
static void compose(struct conn *c) {
    struct talk *k = talks + c->token % talks_n;
    struct turn *t = k->turns + c->turn;
    char token[MARK_N + 1], session[80] = "";
    snprintf(token, sizeof token, "%0*lld", MARK_N, c->token);
    if (ids == 'n' || (ids == 'b' && c->token % 2)) sprintf(session, "x-guardproxy-session-id: bench-%s\r\n", token);
    c->out_n = sprintf(c->out, "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer sk-bench\r\n"
                       "Content-Type: application/json\r\nAccept: application/json\r\nUser-Agent: bench/1\r\n%s"
                       "Content-Length: %zu\r\n\r\n", path, port, session, t->cut + t->suffix_n);
    char *body = c->out + c->out_n;
    memcpy(body, k->text, t->cut);
    for (size_t i = 0; i < k->marks_n && k->marks[i] < t->cut; i++) memcpy(body + k->marks[i], token, MARK_N);
    char *end = body + t->cut;
    memcpy(end, t->suffix, t->suffix_n);
    char *mark = memmem(end, t->suffix_n, MARK, MARK_N);
    if (mark) memcpy(mark, token, MARK_N);
    c->out_n += t->cut + t->suffix_n;
}

/* Chooses what the connection asks next; 0 when there is nothing left in this phase. */
static int choose(struct conn *c) {
    if (issued >= target || ns() > deadline) return 0;
    long long i = issued++;
    if (split) {
        c->turn = measuring;
        long long known = measuring ? i - i / 10 : i;
        c->token = measuring && (i % 10 == 9 || known >= prepared) ? next_token++ : base + known;
        return 1;
    }
    if (c->token && c->turn + 1 < turns_n) { c->turn++; return 1; }
    c->turn = c->token ? 0 : (int)((c - conns) % turns_n); /* staggered: new sessions come evenly */
    c->token = next_token++;
    return 1;
}

static void push(struct conn *c) {
    while (c->sent < c->out_n) {
        ssize_t w = send(c->fd, c->out + c->sent, c->out_n - c->sent, MSG_NOSIGNAL);
        if (w < 0) {
            if (errno == EAGAIN && !c->writing) watch(c, EPOLL_CTL_MOD, c->writing = 1);
            return; /* a dead connection shows up as a read of nothing */
        }
        c->sent += w;
    }
    if (c->writing) watch(c, EPOLL_CTL_MOD, c->writing = 0);
}

static void ask(struct conn *c) {
    if (!choose(c)) return;
    compose(c);
    c->busy = 1;
    busy++;
    c->sent = c->head_n = c->close = c->newline = 0;
    c->first = 0;
    c->at = STATUS;
    c->began = ns();
    push(c);
}

static void dial(struct conn *c) {
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&a, sizeof a)) fail("connect");
    int on = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    c->writing = 0;
    watch(c, EPOLL_CTL_ADD, 0);
}

static void finish(struct conn *c, int whole) {
    long long t = ns();
    int good = whole && c->good;
    if (measuring) {
        if (good) {
            lat[good_n] = (t - c->began) / 1e3;
            ttfb[good_n++] = (c->first - c->began) / 1e3;
            acted_n += c->acted;
        } else bad_n++;
        reset_n += !whole;
    }
    if (!good && !*first_bad) snprintf(first_bad, sizeof first_bad, "%.80s", whole ? c->head : "connection lost");
    c->busy = 0;
    busy--;
    if (!whole || c->close) { close(c->fd); dial(c); }
    ask(c);
}

static void read_head(struct conn *c) {
    char *length = strcasestr(c->head, "\r\ncontent-length:"), *said = strcasestr(c->head, "\r\nx-guardproxy-verdict:");
    c->good = !strncmp(c->head, "HTTP/1.1 200", 12);
    c->close = strcasestr(c->head, "\r\nconnection: close") != NULL;
    c->acted = said && strncmp(said + 23 + strspn(said + 23, " "), "pass", 4);
    c->at = length ? SIZED : CHUNK_SIZE;
    c->left = length ? strtoull(length + 17, NULL, 10) : 0;
}

static void count(struct conn *c, const char *p, size_t n) {
    if (!c->first) c->first = ns();
    if (!measuring) return;
    bytes += n;
    for (const char *end = p + n; p < end; p++) {
        if (*p == '\n') { events += c->newline; c->newline = !c->newline; }
        else {
            c->newline = 0;
            p = memchr(p, '\n', end - p);
            if (!p) return;
            c->newline = 1;
        }
    }
}

/* Takes what it can of [p, end); returns the new p, or NULL when the answer is complete. */
static char *eat(struct conn *c, char *p, char *end) {
    size_t n = end - p;
    switch (c->at) {
    case STATUS:
        if (c->head_n == HEAD_MAX - 1) fail("answer head too long");
        c->head[c->head_n++] = *p++;
        if (p[-1] != '\n' || c->head_n < 4 || memcmp(c->head + c->head_n - 4, "\r\n\r\n", 4)) return p;
        c->head[c->head_n] = 0;
        read_head(c);
        return c->at == SIZED && !c->left ? NULL : p;
    case SIZED:
    case CHUNK:
        if (n > c->left) n = c->left;
        count(c, p, n);
        c->left -= n;
        if (!c->left && c->at == SIZED) return NULL;
        if (!c->left) c->at = CHUNK_END;
        return p + n;
    case CHUNK_SIZE:
        if (*p == '\n') c->at = c->left ? CHUNK : TRAILER;
        else if (*p != '\r') c->left = c->left * 16 + (*p <= '9' ? *p - '0' : (*p & 95) - 'A' + 10);
        return p + 1;
    case CHUNK_END:
        if (*p == '\n') c->at = CHUNK_SIZE;
        return p + 1;
    default:
        return *p == '\n' ? NULL : p + 1;
    }
}

static void pull(struct conn *c) {
    ssize_t n = recv(c->fd, in, IN_MAX, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
        if (c->busy) finish(c, 0);
        else { close(c->fd); dial(c); }
        return;
    }
    for (char *p = in, *end = in + n; p && p < end && c->busy;)
        if (!(p = eat(c, p, end))) { finish(c, 1); return; }
}

static double run(long long n, double seconds) {
    struct epoll_event seen[256];
    issued = 0;
    target = n;
    long long began = ns();
    deadline = began + (long long)(seconds * 1e9);
    long long hard = deadline + 20000000000LL; /* a hung server ends the run too */
    for (int i = 0; i < conns_n; i++) ask(conns + i);
    while (busy && ns() < hard) {
        int k = epoll_wait(ep, seen, 256, 200);
        for (int i = 0; i < k; i++) {
            struct conn *c = seen[i].data.ptr;
            if (seen[i].events & EPOLLOUT && c->busy) push(c);
            if (seen[i].events & ~EPOLLOUT) pull(c);
        }
    }
    return (ns() - began) / 1e9;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at(double *v, double share) { return good_n ? v[(size_t)(share * (good_n - 1))] : 0; }

int main(int argc, char **argv) {
    if (argc != 10) { fputs("usage: load PORT PATH POOL CONNS WARM COUNT MAX_SECONDS TOKEN named|derived|both\n", stderr); return 2; }
    port = atoi(argv[1]);
    path = argv[2];
    read_pool(argv[3]);
    conns_n = atoi(argv[4]);
    long long warm = atoll(argv[5]), n = atoll(argv[6]);
    base = next_token = atoll(argv[8]);
    ids = *argv[9];
    if (split) {
        warm = prepared = n - n / 10;
        next_token = base + prepared;
    }
    ep = epoll_create1(0);
    lat = malloc((n + 1) * sizeof *lat);
    ttfb = malloc((n + 1) * sizeof *ttfb);
    conns = calloc(conns_n, sizeof *conns);
    for (int i = 0; i < conns_n; i++) {
        conns[i].out = malloc(biggest + 4096);
        dial(conns + i);
    }
    run(warm, atof(argv[7]));
    if (split) prepared = issued < prepared ? issued : prepared;
    puts("warm");
    fflush(stdout);
    getchar();
    measuring = 1;
    double seconds = run(n, atof(argv[7]));
    double mean = 0;
    for (size_t i = 0; i < good_n; i++) mean += lat[i] / good_n;
    qsort(lat, good_n, sizeof *lat, by_size);
    qsort(ttfb, good_n, sizeof *ttfb, by_size);
    printf("{\"good\":%zu,\"bad\":%zu,\"resets\":%zu,\"acted\":%zu,\"hung\":%d,\"seconds\":%.4f,\"rps\":%.1f,\"events\":%zu,"
           "\"bytes\":%zu,\"sessions\":%lld,\"mean\":%.1f,\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"first_p50\":%.1f,"
           "\"first_p99\":%.1f,\"first_bad\":\"",
           good_n, bad_n, reset_n, acted_n, busy, seconds, good_n / seconds, events, bytes, next_token - base, mean,
           at(lat, .5), at(lat, .9), at(lat, .99), at(ttfb, .5), at(ttfb, .99));
    for (char *p = first_bad; *p; p++) if (*p >= ' ' && *p != '"' && *p != '\\') putchar(*p);
    puts("\"}");
    return 0;
}
