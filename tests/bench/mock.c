/* The provider of the bench: one thread, epoll, prepared answers.
 *
 * The answers file (written by bodies.py) holds, for each step of a conversation, a whole HTTP answer and the same
 * answer as chunk-framed SSE events. Which one is sent is read from the end of the request's body: "seed": and
 * fifteen digits, eleven of the session's token, three of the step, one of the mode (0 JSON, 1 events one write each
 * as fast as they go, 2 one event an interval). The token is written over the placeholders of the answer, so the call
 * that a session is given is the call that its next request carries.
 *
 * usage: mock PORT ANSWERS INTERVAL_US */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MARK "@TOKEN_HERE"
enum { MARK_N = sizeof MARK - 1, CONNS = 2048, HEAD_MAX = 16384, IN_MAX = 1 << 18, TAIL = 256, MARKS = 6, OUT_MAX = 16384 };

struct text { char *p; size_t n, marks[MARKS], marks_n; };
struct answer { struct text json, *events; size_t events_n; };
struct client {
    int fd, body, chunked, live; /* live: index + 1 among the streams */
    size_t head_n, left, tail_n, event, step;
    long long due;
    int paced;
    char token[MARK_N], tail[TAIL + 1], head[HEAD_MAX];
};

static struct answer *answers;
static size_t answers_n;
static struct client *clients, *streams[CONNS];
static int ep, streams_n;
static long long interval;
static char in[IN_MAX], out[OUT_MAX];

static void fail(const char *why) { perror(why); exit(1); }

static long long ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static struct text take(FILE *f) {
    struct text t = { 0 };
    if (fscanf(f, "%zu", &t.n) != 1 || fgetc(f) != '\n' || t.n > OUT_MAX) fail("bad answers");
    t.p = malloc(t.n);
    if (fread(t.p, 1, t.n, f) != t.n) fail("answers are cut short");
    for (char *p = t.p; (p = memmem(p, t.p + t.n - p, MARK, MARK_N)); p += MARK_N) {
        if (t.marks_n == MARKS) fail("too many placeholders");
        t.marks[t.marks_n++] = p - t.p;
    }
    return t;
}

static void read_answers(const char *name) {
    FILE *f = fopen(name, "rb");
    if (!f || fscanf(f, "%zu", &answers_n) != 1) fail(name);
    answers = calloc(answers_n, sizeof *answers);
    for (struct answer *a = answers; a < answers + answers_n; a++) {
        a->json = take(f);
        if (fscanf(f, "%zu", &a->events_n) != 1) fail("bad answers");
        a->events = calloc(a->events_n, sizeof *a->events);
        for (size_t i = 0; i < a->events_n; i++) a->events[i] = take(f);
    }
    fclose(f);
}

static void rest(struct client *c) {
    if (!c->live) return;
    struct client *last = streams[--streams_n];
    streams[c->live - 1] = last;
    last->live = c->live;
    c->live = 0;
}

static void hang_up(struct client *c) {
    rest(c);
    close(c->fd);
    c->fd = -1;
}

/* One write, with the session's token in place. A peer that does not read such small answers is dropped. */
static int say(struct client *c, struct text *t) {
    memcpy(out, t->p, t->n);
    for (size_t i = 0; i < t->marks_n; i++) memcpy(out + t->marks[i], c->token, MARK_N);
    if (send(c->fd, out, t->n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)t->n) return 1;
    hang_up(c);
    return 0;
}

static void answer(struct client *c) {
    c->body = 0;
    char *seed = NULL;
    for (char *p = c->tail; (p = strstr(p, "\"seed\":")); p++) seed = p + 7;
    int mode = 0;
    c->step = 0;
    memset(c->token, '0', MARK_N);
    if (seed && strspn(seed, "0123456789") == MARK_N + 4) {
        memcpy(c->token, seed, MARK_N);
        int tail = atoi(seed + MARK_N);
        c->step = tail / 10 % answers_n;
        mode = tail % 10;
    }
    if (!mode) { say(c, &answers[c->step].json); return; }
    c->paced = mode == 2;
    c->event = 0;
    c->due = ns();
    streams[streams_n++] = c;
    c->live = streams_n;
}

/* Sends one due event of a stream; the end of the chunked body leaves with the last one. */
static void step(struct client *c) {
    struct answer *a = answers + c->step;
    int last = c->event + 1 == a->events_n;
    if (!say(c, a->events + c->event++)) return;
    if (last) rest(c);
    else if (c->paced) c->due += interval;
}

static int read_head(struct client *c, char **p, char *end) {
    while (*p < end) {
        if (c->head_n == HEAD_MAX - 1) { hang_up(c); return 0; }
        c->head[c->head_n++] = *(*p)++;
        if (c->head_n < 4 || memcmp(c->head + c->head_n - 4, "\r\n\r\n", 4)) continue;
        c->head[c->head_n] = 0;
        char *length = strcasestr(c->head, "\r\ncontent-length:");
        c->left = length ? strtoull(length + 17, NULL, 10) : 0;
        c->chunked = !length && strcasestr(c->head, "\r\ntransfer-encoding: chunked");
        c->head_n = c->tail_n = 0;
        c->body = 1;
        return 1;
    }
    return 0;
}

static void keep_tail(struct client *c, const char *p, size_t n) {
    if (n >= TAIL) { memcpy(c->tail, p + n - TAIL, TAIL); c->tail_n = TAIL; }
    else {
        size_t keep = c->tail_n + n > TAIL ? TAIL - n : c->tail_n;
        memmove(c->tail, c->tail + c->tail_n - keep, keep);
        memcpy(c->tail + keep, p, n);
        c->tail_n = keep + n;
    }
    c->tail[c->tail_n] = 0;
}

static void hear(struct client *c) {
    ssize_t n = recv(c->fd, in, IN_MAX, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) { hang_up(c); return; }
    char *p = in, *end = in + n;
    if (!c->body && !read_head(c, &p, end)) return;
    keep_tail(c, p, end - p);
    c->left -= (size_t)(end - p) < c->left ? (size_t)(end - p) : c->left;
    int whole = c->chunked ? c->tail_n >= 5 && !memcmp(c->tail + c->tail_n - 5, "0\r\n\r\n", 5) : !c->left;
    if (whole) answer(c);
}

static void greet(int door) {
    int fd = accept4(door, NULL, NULL, SOCK_NONBLOCK), on = 1;
    if (fd < 0) return;
    struct client *c = clients;
    while (c < clients + CONNS && c->fd >= 0) c++;
    if (c == clients + CONNS) { close(fd); return; }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    c->fd = fd;
    c->body = c->live = 0;
    c->head_n = 0;
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };
    epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
}

static int pump(void) {
    long long t = ns(), wait = 1000000000;
    for (int i = streams_n - 1; i >= 0; i--) {
        struct client *c = streams[i];
        if (c->due <= t) step(c);
        if (!c->live) continue;
        long long until = c->due > t ? c->due - t : 0;
        if (until < wait) wait = until;
    }
    return (wait + 999999) / 1000000;
}

int main(int argc, char **argv) {
    if (argc != 4) { fputs("usage: mock PORT ANSWERS INTERVAL_US\n", stderr); return 2; }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    read_answers(argv[2]);
    interval = atoll(argv[3]) * 1000;
    clients = calloc(CONNS, sizeof *clients);
    for (int i = 0; i < CONNS; i++) clients[i].fd = -1;
    int door = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[1])) };
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(door, (struct sockaddr *)&a, sizeof a) || listen(door, 1024)) fail("listen");
    ep = epoll_create1(0);
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = NULL }, seen[256];
    epoll_ctl(ep, EPOLL_CTL_ADD, door, &e);
    for (;;) {
        int n = epoll_wait(ep, seen, 256, streams_n ? pump() : 1000);
        for (int i = 0; i < n; i++) {
            struct client *c = seen[i].data.ptr;
            if (!c) greet(door);
            else if (c->fd >= 0) hear(c);
        }
    }
}
