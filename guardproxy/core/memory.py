"""The store's semantics in a dict, for one thread a session: used by `replay`, and by a worker while Redis is away.

Reduced on purpose: no leases, no links, no threads beside the main one, budgets of this process alone. The rules are
those of `store/begin.lua`; a test plays the same conversations through both.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace

from guardproxy.core.model import Line
from guardproxy.core.view import Closing, Opening, Spent, View

RING = 64
"""Facts kept per thread (DESIGN section 2)."""

EPISODES = 16
SESSIONS = 4096
REARMS = 3


@dataclass(slots=True)
class _Thread:
    number: int = 0
    turn: int = 0
    steps: int = 0
    count: int = 0
    conversation: str = ""
    state: str = ""
    answer: str = ""
    delivered: str = ""
    taken: bool = True
    equal: int = 0
    closed_by: str = ""
    answers: int = 0
    rearmed: int = 0
    span: int = 0
    span_started: int = 0
    started: int = 0
    ring: deque[bytes] = field(default_factory=lambda: deque(maxlen=RING))
    episodes: deque[bytes] = field(default_factory=lambda: deque(maxlen=EPISODES))
    ledger: dict[str, bytes] = field(default_factory=dict)
    users: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    used: dict[tuple[str, str], int] = field(default_factory=dict)
    held: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass(slots=True)
class _Hold:
    thread: _Thread
    lines: tuple[Line, ...]
    retry: bool


class LocalMemory:
    """Sessions of this process, newest `SESSIONS` of them. Times are given by the caller."""

    def __init__(self, *, degraded: bool = False) -> None:
        self._threads: OrderedDict[tuple[str, str], _Thread] = OrderedDict()
        self._holds: dict[str, _Hold] = {}
        self._degraded = degraded

    def begin(self, opening: Opening, now_ms: int) -> View:
        """Admit a turn or say what did not fit. Same answers as the script for a conversation that only grows."""
        who = opening.identity
        session = who.session or f"d-{who.head[:12]}"
        thread = self._thread(opening.org, session, now_ms)
        fact = opening.fact
        fresh_user = bool(fact.user) and fact.user not in thread.users
        if thread.closed_by and not self._rearm(thread, fresh=fresh_user):
            thread.answers += 1
            return self._view(session, thread, now_ms, opening, closed=True)
        retry = fact.conversation == thread.conversation and thread.state in ("failed", "abandoned")
        short, spent = _fit(thread, opening.lines, now_ms, retry=retry)
        if short:
            return self._view(session, thread, now_ms, opening, admitted=False, short=short, spent=spent)
        if not retry:
            _append(thread, opening, now_ms, fresh_user=fresh_user)
        self._hold(opening, thread, retry=retry)
        _, spent = _fit(thread, tuple(Line(x.scope, x.dimension, 0, -1, x.key, x.clock) for x in opening.lines), now_ms)
        return self._view(session, thread, now_ms, opening, spent=spent, retry=retry)

    def settle(self, closing: Closing, now_ms: int) -> None:
        """Release the hold and keep what the answer was. Without a hold: nothing."""
        hold = self._holds.pop(closing.token, None)
        if hold is None:
            return
        thread = hold.thread
        for line in hold.lines:
            at = (line.scope, line.dimension)
            amount = 0 if hold.retry and line.dimension == "turns" else closing.spent.get(line.dimension, 0)
            thread.held[at] = thread.held.get(at, 0) - (0 if line.clock else line.hold)
            thread.used[at] = thread.used.get(at, 0) + amount
        thread.state = closing.outcome
        if closing.outcome == "answered":
            thread.answer = closing.answer
            thread.delivered, thread.taken = closing.delivered, False
        thread.ring.extend(closing.facts)
        thread.steps += len(closing.facts)
        thread.episodes.extend(closing.episodes)
        thread.ledger.update(closing.ledger)
        thread.closed_by = closing.close or thread.closed_by

    def _thread(self, org: str, session: str, now_ms: int) -> _Thread:
        at = (org, session)
        if at not in self._threads:
            self._threads[at] = _Thread(started=now_ms)
            while len(self._threads) > SESSIONS:
                self._threads.popitem(last=False)
        self._threads.move_to_end(at)
        return self._threads[at]

    def _rearm(self, thread: _Thread, *, fresh: bool) -> bool:
        if not fresh or thread.rearmed >= REARMS or thread.closed_by.startswith("budget"):
            return False
        thread.closed_by, thread.answers = "", 0
        thread.rearmed += 1
        thread.answer = "text"  # so that the new text opens a span
        return True

    def _hold(self, opening: Opening, thread: _Thread, *, retry: bool) -> None:
        lines = opening.lines
        if retry:
            lines = tuple(line for line in lines if line.dimension != "turns")
        for line in lines:
            at = (line.scope, line.dimension)
            thread.held[at] = thread.held.get(at, 0) + (0 if line.clock else line.hold)
        self._holds[opening.token] = _Hold(thread, lines, retry)

    def _view(self, session: str, thread: _Thread, now_ms: int, opening: Opening, **more: object) -> View:
        names = {name for part in opening.fact.rounds for name in part.counts}
        base = View(
            session=session,
            thread="main",
            turn=thread.turn,
            now_ms=now_ms,
            closed_by=thread.closed_by,
            answers=thread.answers,
            rearmed=thread.rearmed,
            equal=thread.equal,
            steps=thread.steps,
            ring=tuple(thread.ring),
            episodes=tuple(thread.episodes),
            ledger=dict(thread.ledger),
            counts={name: thread.counts.get(name, 0) for name in names},
            span=thread.span,
            span_started_ms=thread.span_started,
            session_started_ms=thread.started,
            new_session=thread.turn == 1,
            degraded=self._degraded,
        )
        return replace(base, **more)  # type: ignore[arg-type]  # field names are checked by the table test


def _fit(
    thread: _Thread, lines: tuple[Line, ...], now_ms: int, *, retry: bool = False
) -> tuple[tuple[Line, ...], tuple[Spent, ...]]:
    short, spent = [], []
    for line in lines:
        at = (line.scope, line.dimension)
        held = thread.held.get(at, 0)
        used = thread.used.get(at, 0)
        hold = 0 if retry and line.dimension == "turns" else line.hold
        if line.clock:
            begun = thread.span_started if line.scope == "span" else thread.started
            used, held, hold = (now_ms - begun if thread.turn else 0), 0, 0
        if 0 <= line.limit < used + held + hold:
            short.append(line)
        spent.append(Spent(line, used, held))
    return tuple(short), tuple(spent)


def _append(thread: _Thread, opening: Opening, now_ms: int, *, fresh_user: bool) -> None:
    fact = opening.fact
    equal = bool(thread.turn) and fact.conversation == thread.conversation
    empty = thread.answer == "empty"
    facts: list[bytes] = []
    opens = not thread.turn or (thread.answer == "text" and fresh_user)
    if opens:
        thread.span += 1
        thread.span_started = now_ms
        thread.counts.clear()
        for at in [at for at in thread.used if at[0] == "span"]:
            thread.used[at] = 0
        if thread.turn:
            facts.append(fact.boundary)
    if equal and empty:
        facts.append(fact.blank)
    elif not equal:
        facts += _new_facts(thread, opening)
    thread.equal = thread.equal + 1 if equal and not empty else 0
    thread.ring.extend(facts)
    thread.steps += len(facts)
    thread.turn += 1
    thread.conversation, thread.state, thread.count = fact.conversation, "open", fact.count
    if fact.user:
        thread.users.add(fact.user)


def _new_facts(thread: _Thread, opening: Opening) -> list[bytes]:
    found = opening.fact.rounds
    first = len(found)
    if not thread.turn:
        first = 0
    else:
        first = next((i for i, r in enumerate(found) if r.index >= thread.count), first)
        if not thread.taken:
            newest = [i for i, r in enumerate(found) if r.digest == thread.delivered]
            first = newest[-1] if newest else first
    thread.taken = True
    facts: list[bytes] = []
    for part in found[first:]:
        facts += part.facts
        for name, amount in part.counts.items():
            thread.counts[name] = thread.counts.get(name, 0) + amount
    return facts
