"""Whose turn is it? The threads that this process knows, and how a request finds its own: `store/resolve.lua` in small.

Runs of one head are never taken for one: a nightly job or ten equal runs side by side are no loop, also while the store
is away. In doubt a run begins anew.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TypeVar

from guardproxy.core.view import Opening

RING = 64
"""Facts kept per thread (DESIGN section 2)."""

EPISODES = 16
"""Decisions kept per thread, as the store does."""

SESSIONS, THREADS = 4096, 4096
LINKS, LINKED = 32_768, 256
"""Links remembered, and threads of each."""

RETRY_MS, LATEST_MS = 120_000, 600_000
"""How long a client that starts again meets its ended run, and how long a derived run is found by its head alone."""

RENEW_MS = 3_600_000
"""How often a derived run is noted as the latest of its own head: the store writes that once an hour."""

FAILED = ("failed", "abandoned")

K = TypeVar("K")
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Session:
    """What the threads of a session share: its turns, its spans and its budgets."""

    name: str
    started: int
    main: Thread | None = None
    turn: int = 0
    span: int = 0
    span_started: int = 0
    threads: int = 0
    users: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    used: dict[tuple[str, str], int] = field(default_factory=dict)
    held: dict[tuple[str, str], int] = field(default_factory=dict)

    def stands(self, turn: int, span: int, span_started: int) -> None:
        """So many turns it had; in this request span, which began then."""
        self.turn, self.span, self.span_started = turn, span, span_started


@dataclass(slots=True, eq=False)
class Thread:
    """`turn` 0: it has had none. `at`: when it was last asked; `answered`: when it was last answered, 0 = never."""

    session: Session
    name: str
    turn: int = 0
    at: int = 0
    steps: int = 0
    count: int = 0
    conversation: str = ""
    user: str = ""
    head: str = ""  # under which a derived run began
    heads: set[str] = field(default_factory=set)  # under which it was asked
    noted: int = -RENEW_MS  # when it was noted as the latest of `head`
    state: str = ""
    answer: str = ""
    answered: int = 0
    status: str = "active"
    delivered: str = ""
    taken: bool = True
    equal: int = 0
    closed_by: str = ""
    answers: int = 0
    rearmed: int = 0
    ring: deque[bytes] = field(default_factory=lambda: deque(maxlen=RING))
    episodes: deque[bytes] = field(default_factory=lambda: deque(maxlen=EPISODES))
    ledger: dict[str, bytes] = field(default_factory=dict)
    names: tuple[str, ...] = ()  # of the counters that its last turn raised

    def under(self, session: Session, name: str) -> Thread:
        """The same conversation under other names: all but what belongs to the attempts made under these."""
        lists = {what: copy(getattr(self, what)) for what in ("ring", "episodes", "ledger", "heads")}
        return replace(self, session=session, name=name, names=(), **lists)

    @property
    def came_to_nothing(self) -> bool:
        """Whether its last attempt failed, was left, or got an empty answer: an equal request is the same run's."""
        return self.state in FAILED or (self.state == "answered" and self.answer == "empty")


class Lineage:
    """The threads of this process, newest `THREADS` of them."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[str, str], Session] = OrderedDict()
        self._threads: OrderedDict[tuple[str, str, str], Thread] = OrderedDict()
        self._links: OrderedDict[str, dict[Thread, int]] = OrderedDict()
        self._asked: OrderedDict[str, Thread] = OrderedDict()
        self._heads: OrderedDict[str, Thread] = OrderedDict()
        self._ended: OrderedDict[str, Thread] = OrderedDict()  # by us, the last one of a head
        self._runs = 0

    def resolve(self, opening: Opening, now_ms: int) -> Thread:
        """The thread of a request, made if need be."""
        who, org = opening.identity, opening.org
        heir_of = self._left(opening)
        if who.session and who.thread:
            return self._thread(org, who.session, who.thread, now_ms, heir_of)
        found = None if who.fresh else self._by_place(opening, now_ms, own=True)
        found = (
            found
            or self._by_digest(opening, now_ms)
            or (None if who.fresh else self._by_place(opening, now_ms, own=False))
        )
        latest = self._heads.get(self._head(opening))
        if found is None and latest is None and not who.fresh:
            found, _ = self._by_link(opening, far=True)
        if found is None and latest is not None and not (who.session or who.fresh):
            found = self._ended_by_us(opening, now_ms)
        if found is None and latest is not None:
            found = latest if _goes_on(latest, opening, now_ms) else None
        if found is not None:
            return found
        if who.session:
            number = self._session(org, who.session, now_ms).threads + 1
            return self._thread(org, who.session, f"{who.head[:12]}-{number}", now_ms, heir_of)
        self._runs += 1
        return self._thread(org, f"{who.owner}d-{who.head[:12]}-local{self._runs}", "main", now_ms)

    def gave(self, thread: Thread, links: tuple[str, ...], count: int) -> None:
        """The thread, whose history was so long then, was given a round that is found again by these links."""
        if thread.answer == "own":
            self.ended(thread)
        for link in links:
            given = _keep(self._links, link, self._links.get(link) or {}, LINKS)
            _ = given.pop(thread, None)  # given the same round again: now it is the latest
            given[thread] = count
            if len(given) > LINKED:
                del given[next(iter(given))]

    def carried(self, opening: Opening) -> bool:
        """Whether the newest round of this history was given out under this head, and is not left behind yet."""
        links = opening.identity.links[:1]
        return bool(links and not links[0].startswith("*") and self._links.get(links[0]))

    def grows(self, opening: Opening, now_ms: int) -> bool:
        """Whether a start says more than the last one of its head, which was answered and not taken up."""
        who, fact = opening.identity, opening.fact
        starts = (who.fresh or who.spoken) and not (who.session and who.thread)
        t = self._heads.get(self._head(opening)) if starts else None
        if t is None or not t.delivered or t.state != "answered" or now_ms - t.at > LATEST_MS:
            return False
        grown = fact.count > max(2, t.count) and fact.user not in ("", t.user)
        return grown and all(r.index < t.count for r in fact.rounds)

    def had(self, thread: Thread, opening: Opening) -> bool:
        """Whether the thread was asked under this head before: a compacted conversation has a new one."""
        head = self._head(opening)
        return self._heads.get(head) is thread if opening.identity.session else head in thread.heads

    def _head(self, opening: Opening) -> str:
        return f"{opening.org} {opening.identity.session} {opening.identity.head}"

    def _mine(self, thread: Thread, opening: Opening) -> bool:
        return opening.identity.session in ("", thread.session.name)

    def _ended_by_us(self, opening: Opening, now_ms: int) -> Thread | None:
        """The run of this head that we ended a moment ago: clients drop what we say, or write it in other words."""
        who, head = opening.identity, self._head(opening)
        thread = (self._heads if who.session else self._ended).get(head)
        if thread is None or who.spoken or now_ms - thread.at > RETRY_MS or opening.fact.count <= thread.count:
            return None
        return thread if thread.closed_by or thread.answer == "own" else None

    def ended(self, thread: Thread) -> None:
        """The thread was given our own words: it is the last one of its head that we ended."""
        if thread.head:
            _keep(self._ended, thread.head, thread, THREADS)

    def _left(self, opening: Opening) -> Thread | None:
        """The thread that goes on under another name: of whatever session, where this one's is not known yet."""
        who = opening.identity
        if not who.session or who.fresh or (opening.org, who.session) in self._sessions:
            return None
        left, _ = self._by_link(opening, far=False, anyone=True)
        return None if left is None or left.closed_by else left

    def _by_place(self, opening: Opening, now_ms: int, *, own: bool) -> Thread | None:
        """By the links, but for another run that did the same at another place of its history: its texts are not ours.

        `own`: by what is most specific; the thread may have been given its round last all the same.
        """
        who, count = opening.identity, opening.fact.count
        found, long = self._by_link(opening, far=False, upto=1 if own else 9)
        before = None if who.spoken else self._asked.get(opening.fact.conversation)
        if before is not None and not (self._mine(before, opening) and now_ms - before.at <= LATEST_MS):
            before = None
        ids = len([link for link in who.links if not link.startswith("*")]) > 1  # they tell it from equal ones
        if found is None:
            return None if own or not ids else before
        digest, index = next(((r.digest, r.index) for r in reversed(opening.fact.rounds)), ("", -1))
        placed = index < long or who.links[0].startswith("-")  # of an empty answer, whose link says its place
        by_ids = own and ids
        last = (own or index <= long) and found.delivered == digest
        if (placed and long < count) or (last and (by_ids or who.spoken or index <= long)):
            return found
        if who.spoken or (before is not None and not last):  # the same words at another place may be anybody's
            return before
        # And what was done, too, where a run has just been ended.
        return (None if by_ids else self._ended_by_us(opening, now_ms)) or found

    def _by_link(
        self, opening: Opening, *, far: bool, anyone: bool = False, upto: int = 9
    ) -> tuple[Thread | None, int]:
        """Who was given this round, and how long its history was: the longest shorter than this one, else the latest.

        `far`: by the links that hold without the head, for heads that nothing is known of. `anyone`: in any session.
        `upto`: by the most specific ones alone; what was done may have been done by another run, too.
        """
        wanted = [link for link in opening.identity.links if link.startswith("*") is far][:upto]
        for number, link in enumerate(wanted):
            given = {one: long for one, long in self._links.get(link, {}).items() if anyone or self._mine(one, opening)}
            fit = [thread for thread, long in given.items() if long < opening.fact.count]
            if fit:
                longest = max(reversed(fit), key=given.__getitem__)  # of equal ones the latest
                return longest, given[longest]
            if given and (number or not opening.identity.spoken):
                return next(reversed(given)), opening.fact.count
        return None, 0

    def _by_digest(self, opening: Opening, now_ms: int) -> Thread | None:
        """Who asked exactly this; without an assistant turn only if the asking came to nothing, or to a cut."""
        thread = self._asked.get(opening.fact.conversation)
        if thread is None or thread.conversation != opening.fact.conversation or not self._mine(thread, opening):
            return None
        if not opening.identity.fresh:
            return thread
        ended = bool(thread.closed_by) and bool(opening.identity.session)
        return thread if (thread.came_to_nothing or ended) and now_ms - thread.at <= RETRY_MS else None

    def moved_on(self, opening: Opening, thread: Thread, now_ms: int) -> None:
        """The thread has moved on: it is found by its next round, and equal runs beside it find their own."""
        for link in opening.identity.links:
            self._links.get(link, {}).pop(thread, None)
        _keep(self._asked, opening.fact.conversation, thread, LINKS)
        head = self._head(opening)
        renew = now_ms - thread.noted >= RENEW_MS
        thread.head, thread.noted = thread.head or head, now_ms if renew else thread.noted
        thread.heads.add(head)
        if renew or opening.identity.session or head != thread.head:
            _keep(self._heads, head, thread, THREADS)

    def _session(self, org: str, name: str, now_ms: int) -> Session:
        known = self._sessions.get((org, name)) or Session(name, now_ms)
        return _keep(self._sessions, (org, name), known, SESSIONS)

    def _thread(self, org: str, session: str, name: str, now_ms: int, heir_of: Thread | None = None) -> Thread:
        at = (org, session, name)
        if at not in self._threads:
            owner = self._session(org, session, now_ms)
            owner.threads += 1
            self._threads[at] = Thread(owner, name) if heir_of is None else heir_of.under(owner, name)
        return _keep(self._threads, at, self._threads[at], THREADS)


def _keep(found: OrderedDict[K, T], key: K, value: T, most: int) -> T:
    """Put an entry at the end of a bounded table; the oldest fall out."""
    found[key] = value
    found.move_to_end(key)
    while len(found) > most:
        found.popitem(last=False)
    return value


def _goes_on(latest: Thread, opening: Opening, now_ms: int) -> bool:
    """Whether the latest thread of a head is meant where nothing else tells."""
    who = opening.identity
    ours = bool(latest.closed_by) or latest.answer == "own"
    if who.spoken and not (ours and opening.fact.count > latest.count):  # examples in a prompt are nobody's history
        return False
    if who.session:
        return not who.fresh
    if who.fresh:  # a client that starts again after our own ending
        return bool(latest.closed_by) and now_ms - latest.at <= RETRY_MS
    return now_ms - latest.at <= LATEST_MS
