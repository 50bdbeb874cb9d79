"""The store's semantics in a dict: used by `replay`, and by a worker while Redis is away.

Reduced on purpose: no leases, budgets of this process alone, and requests without tools are turns like others. The
rules are those of `store/begin.lua`; a test plays the same conversations through both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from guardproxy.core.added import new_facts
from guardproxy.core.lineage import FAILED, LATEST_MS, Lineage, Session, Thread
from guardproxy.core.model import Line
from guardproxy.core.view import Closing, Opening, Spent, View
from guardproxy.core.windows import chosen

REARMS = 3
"""How often new words of the user open a closed thread again."""

ONCE = ("turns", "tool_calls", "requests", "concurrent_requests")
"""What another attempt of a turn does not hold again."""

At = tuple[str, str]
"""Where a budget line counts: its scope (a request span with its number), or its key's window, and its dimension."""

OUTSIDE = "window "
"""Begins where what outlives a session counts."""

WINDOWS_KEPT = 10_000
"""Counters of tenants' windows; beyond that all begin anew, so that an outage cannot fill the memory."""


@dataclass(frozen=True, slots=True)
class _Hold:
    thread: Thread
    conversation: str
    lines: tuple[tuple[At, int], ...]
    retry: bool


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a request is to its thread, found before anything is changed."""

    first: bool  # of its session
    same: bool  # asks what was asked before
    retry: bool
    rearm: bool
    anew: bool  # new words of the user begin something
    main: bool  # where the user speaks: the session's main thread, now or still
    opens: bool  # a request span
    span: int
    span_started: int
    forgot: bool  # new words, and the answer before them is not in the history


class LocalMemory:
    """Begin and settle for the sessions of this process. Times are given by the caller."""

    def __init__(self, *, degraded: bool = False) -> None:
        self._lineage = Lineage()
        self._holds: dict[str, _Hold] = {}
        self._windows = Session("", 0)  # counters that outlive a session
        self._degraded = degraded

    def _counters(self, at: At, session: Session) -> Session:
        return self._windows if at[0].startswith(OUTSIDE) else session

    def begin(self, opening: Opening, now_ms: int) -> View:
        """Admit a turn or say what did not fit. Same answers as the script, as far as one process can know."""
        grows = self._lineage.grows(opening, now_ms)
        thread = self._lineage.resolve(opening, now_ms)
        kind = _kind(thread, opening, now_ms)
        if thread.closed_by and not kind.rearm:
            thread.answers += 1
            self._lineage.ended(thread)
            if not opening.identity.fresh:  # a start again meets the cut for a while after it, not for ever
                thread.at = now_ms
            return self._view(thread, now_ms, closed=True, closed_by=thread.closed_by, answers=thread.answers)
        lines = tuple((_at(line, kind.span, now_ms), _hold(line, retry=kind.retry)) for line in opening.lines)
        short, spent = self._fit(thread.session, opening.lines, lines, now_ms, kind)
        about = {"retry": kind.retry, "new_session": kind.first, "spent": spent, "main": kind.main}
        forgot = self._lineage.had(thread, opening) if kind.forgot else not thread.turn and grows
        about |= {"missing": forgot, "status": thread.status, "carried": self._lineage.carried(opening)}
        if short:
            turn = thread.turn if kind.retry else thread.session.turn + 1
            about |= {"turn": turn, "span": kind.span, "span_started_ms": kind.span_started}
            return self._view(thread, now_ms, admitted=False, short=short, **about)
        self._lineage.moved_on(opening, thread, now_ms)
        if not kind.retry:
            _append(thread, opening, kind)
        elif kind.first:  # a retry under another name
            thread.session.stands(thread.turn, kind.span, kind.span_started)
            thread.session.users.add(opening.fact.user)
        thread.at, thread.state = now_ms, "open"
        thread.status = thread.status if kind.same else "active"
        for at, hold in lines:
            held = self._counters(at, thread.session).held
            held[at] = held.get(at, 0) + hold
        if len(self._windows.held) > WINDOWS_KEPT:
            self._windows = Session("", 0)
        self._holds[opening.token] = _Hold(thread, thread.conversation, lines, kind.retry)
        counts = {name: thread.session.counts.get(name, 0) for name in thread.names}
        view = self._view(thread, now_ms, counts=counts, **about)
        if kind.opens and not kind.first:  # what was done before the new words belongs to the span before them
            thread.session.counts.clear()
            _forget(thread.session)
        return view

    def extend(self, token: str, lines: Sequence[Line], now_ms: int) -> bool:
        """Hold for one more attempt under a token: all lines or none, but not the turn and its calls again."""
        hold = self._holds.get(token)
        if hold is None:
            return False
        session = hold.thread.session
        more = dict.fromkeys((at for at, _ in hold.lines), 0)
        places = {(at[0].partition(" ")[0], at[1]): at for at in more}
        for line in lines:
            at = _at(line, 0, now_ms) if line.key else places.get((line.scope, line.dimension))
            if at not in more:
                continue
            amount = 0 if line.clock or line.dimension in ONCE else line.hold
            counters = self._counters(at, session)
            standing = counters.used.get(at, 0) + counters.held.get(at, 0)
            if line.clock:
                standing = now_ms - (session.span_started if line.scope == "span" else session.started)
            if 0 <= line.limit < standing + amount:
                return False
            more[at] = amount
        for at, amount in more.items():
            counters = self._counters(at, session)
            counters.held[at] = counters.held.get(at, 0) + amount
        held = tuple([(at, amount + more[at]) for at, amount in hold.lines])
        self._holds[token] = replace(hold, lines=held)
        return True

    def settle(self, closing: Closing, now_ms: int) -> None:
        """Release the hold and keep what the answer was. Without a hold: nothing."""
        hold = self._holds.pop(closing.token, None)
        if hold is None:
            return
        thread, session = hold.thread, hold.thread.session
        for at, held in hold.lines:
            amount = 0 if hold.retry and at[1] == "turns" else closing.spent.get(at[1], 0)
            counters = self._counters(at, session)
            counters.held[at] = max(0, counters.held.get(at, 0) - held)
            counters.used[at] = counters.used.get(at, 0) + amount
        thread.at = now_ms
        if hold.conversation == thread.conversation:  # an attempt at an earlier one leaves the present one alone
            _conclude(thread, closing, now_ms)
        self._lineage.gave(thread, closing.links, closing.count)
        thread.ring.extend(closing.facts)
        thread.steps += len(closing.facts)
        thread.episodes.extend(closing.episodes)
        for anchor, text in closing.ledger.items():  # the first text at a place stays: it has to be repeated
            thread.ledger.setdefault(anchor, text)
        if closing.close:
            thread.closed_by, thread.answers = closing.close, 0

    def _fit(
        self, session: Session, lines: tuple[Line, ...], holds: tuple[tuple[At, int], ...], now_ms: int, kind: _Kind
    ) -> tuple[tuple[Line, ...], tuple[Spent, ...]]:
        """The lines without room, and where all stand: this turn's hold included if there is room on each."""
        standing = []
        for line, (at, hold) in zip(lines, holds, strict=True):
            counters = self._counters(at, session)
            used, held = counters.used.get(at, 0), counters.held.get(at, 0)
            if line.clock:
                begun = kind.span_started if line.scope == "span" else session.started
                used, held = (0 if kind.first else now_ms - begun), 0
            standing.append((line, used, held, hold))
        short = tuple(line for line, used, held, hold in standing if 0 <= line.limit < used + held + hold)
        return short, tuple(Spent(line, used, held + (0 if short else hold)) for line, used, held, hold in standing)

    def _view(self, thread: Thread, now_ms: int, **more: object) -> View:
        session = thread.session
        base = View(
            session=session.name,
            thread=thread.name,
            turn=thread.turn,
            now_ms=now_ms,
            rearmed=thread.rearmed,
            equal=thread.equal,
            steps=thread.steps,
            ring=tuple(thread.ring),
            episodes=tuple(thread.episodes),
            ledger=dict(thread.ledger),
            since_ms=max(1, now_ms - thread.answered) if thread.answered else 0,
            status=thread.status,
            span=session.span,
            span_started_ms=session.span_started,
            session_started_ms=session.started,
            main=session.main in (None, thread),
            degraded=self._degraded,
        )
        return replace(base, **more)  # type: ignore[arg-type]  # field names are checked by the table test


def _kind(thread: Thread, opening: Opening, now_ms: int) -> _Kind:
    fact, session = opening.fact, thread.session
    words = bool(fact.user) and fact.user not in session.users
    same = bool(thread.turn) and fact.conversation == thread.conversation
    rearm = bool(thread.closed_by) and words and thread.rearmed < REARMS and not thread.closed_by.startswith("budget")
    anew = rearm or (not same and words and thread.state == "answered" and thread.answer == "text")
    who = opening.identity
    speaks = anew or (words and not thread.turn and (who.fresh or who.spoken))
    main = session.main in (None, thread) or (speaks and _through(session.main, now_ms))
    opens = not session.turn or (speaks and main)
    return _Kind(
        first=not session.turn,
        same=same,
        retry=same and thread.state in FAILED,
        rearm=rearm,
        anew=anew,
        main=main,
        opens=opens,
        span=session.span + opens,
        span_started=now_ms if opens else session.span_started,
        forgot=words and not same and _forgot(thread, opening),
    )


def _forgot(thread: Thread, opening: Opening) -> bool:
    """Whether the answer last given is not in the history, which has grown and has no other round either."""
    if not thread.delivered or thread.state != "answered" or opening.fact.count <= thread.count:
        return False
    return all(r.index < thread.count and r.digest != thread.delivered for r in opening.fact.rounds)


def _through(main: Thread | None, now_ms: int) -> bool:
    """Whether the main thread is done, so that another is main when the user speaks there: else that is a sub-agent."""
    if main is None or main.closed_by or main.state == "open":
        return main is None or bool(main.closed_by)
    return (main.state == "answered" and main.answer == "text") or now_ms - main.at >= LATEST_MS


def _forget(session: Session) -> None:
    """Drop the counters of spans that are over; calls of the one before may still run."""
    kept = {"session", f"span {session.span}", f"span {session.span - 1}"}
    for counters in (session.used, session.held):
        for at in [at for at in counters if at[0].startswith("span ") and at[0] not in kept]:
            del counters[at]


def _at(line: Line, span: int, now_ms: int) -> At:
    if line.key:
        return OUTSIDE + chosen(line.key, now_ms)[0], line.dimension
    return f"span {span}" if line.scope == "span" else line.scope, line.dimension


def _hold(line: Line, *, retry: bool) -> int:
    return 0 if line.clock or (retry and line.dimension == "turns") else line.hold


def _append(thread: Thread, opening: Opening, kind: _Kind) -> None:
    fact, session = opening.fact, thread.session
    again = kind.same and thread.state == "answered"  # equal after a complete answer
    blank = again and thread.answer == "empty"
    facts = [fact.boundary] if kind.anew else []
    if kind.rearm:
        thread.closed_by, thread.answers, thread.rearmed = "", 0, thread.rearmed + 1
    session.main = thread if kind.main else session.main
    thread.names = ()
    if blank:
        facts.append(fact.blank)
    elif not kind.same:
        facts += new_facts(thread, opening.fact)
    thread.equal = thread.equal + again if kind.same and not blank else 0
    thread.ring.extend(facts)
    thread.steps += len(facts)
    session.stands(session.turn + 1, kind.span, kind.span_started)
    thread.turn, thread.conversation, thread.count = session.turn, fact.conversation, fact.count
    if fact.user:
        session.users.add(fact.user)
        thread.user = fact.user


def _conclude(thread: Thread, closing: Closing, now_ms: int) -> None:
    """Where the conversation stands after an answer, or after none."""
    if closing.outcome == "answered":
        thread.state, thread.answer = closing.outcome, closing.answer
        thread.delivered, thread.taken = closing.delivered, False
        thread.answered, thread.status = now_ms, closing.status
    elif thread.state != "answered":
        thread.state, thread.answer = closing.outcome, ""
