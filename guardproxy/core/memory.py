"""The store's semantics in a dict: used by `replay`, and by a worker while Redis is away.

Reduced on purpose: no leases, budgets of this process alone, and requests without tools are turns like others. The
rules are those of `store/begin.lua`; a test plays the same conversations through both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from guardproxy.core.lineage import FAILED, Lineage, Session, Thread
from guardproxy.core.model import Line
from guardproxy.core.view import Closing, Opening, Spent, View

REARMS = 3
"""How often new words of the user open a closed thread again."""


@dataclass(slots=True)
class _Hold:
    thread: Thread
    lines: tuple[Line, ...]
    retry: bool


class LocalMemory:
    """Begin and settle for the sessions of this process. Times are given by the caller."""

    def __init__(self, *, degraded: bool = False) -> None:
        self._lineage = Lineage()
        self._holds: dict[str, _Hold] = {}
        self._degraded = degraded

    def begin(self, opening: Opening, now_ms: int) -> View:
        """Admit a turn or say what did not fit. Same answers as the script, as far as one process can know."""
        fact = opening.fact
        thread = self._lineage.resolve(opening, now_ms)
        fresh_user = bool(fact.user) and fact.user not in thread.session.users
        rearm = bool(thread.closed_by) and _rearms(thread, fresh=fresh_user)
        if thread.closed_by and not rearm:
            thread.answers += 1
            thread.at = now_ms
            return self._view(thread, now_ms, opening, closed=True)
        retry = fact.conversation == thread.conversation and thread.state in FAILED
        short, spent = _fit(thread.session, opening.lines, now_ms, retry=retry)
        if short:
            return self._view(thread, now_ms, opening, admitted=False, short=short, spent=spent)
        if rearm:
            thread.closed_by, thread.answers, thread.rearmed = "", 0, thread.rearmed + 1
        if not retry:
            self._lineage.moved_on(opening, thread)
            _append(thread, opening, now_ms, fresh_user=fresh_user, rearm=rearm)
        thread.at = now_ms
        self._hold(opening, thread, retry=retry)
        _, spent = _fit(thread.session, opening.lines, now_ms)  # as it stands with this turn's hold
        return self._view(thread, now_ms, opening, spent=spent, retry=retry)

    def settle(self, closing: Closing, now_ms: int) -> None:
        """Release the hold and keep what the answer was. Without a hold: nothing."""
        hold = self._holds.pop(closing.token, None)
        if hold is None:
            return
        thread, session = hold.thread, hold.thread.session
        for line in hold.lines:
            at = (line.scope, line.dimension)
            amount = 0 if hold.retry and line.dimension == "turns" else closing.spent.get(line.dimension, 0)
            session.held[at] = session.held.get(at, 0) - (0 if line.clock else line.hold)
            session.used[at] = session.used.get(at, 0) + amount
        thread.state, thread.at = closing.outcome, now_ms
        if closing.outcome == "answered":
            thread.answer = closing.answer
            thread.delivered, thread.taken = closing.delivered, False
            self._lineage.gave(thread, closing.links)
        thread.ring.extend(closing.facts)
        thread.steps += len(closing.facts)
        thread.episodes.extend(closing.episodes)
        thread.ledger.update(closing.ledger)
        thread.closed_by = closing.close or thread.closed_by

    def _hold(self, opening: Opening, thread: Thread, *, retry: bool) -> None:
        lines = opening.lines
        if retry:
            lines = tuple(line for line in lines if line.dimension != "turns")
        held = thread.session.held
        for line in lines:
            at = (line.scope, line.dimension)
            held[at] = held.get(at, 0) + (0 if line.clock else line.hold)
        self._holds[opening.token] = _Hold(thread, lines, retry)

    def _view(self, thread: Thread, now_ms: int, opening: Opening, **more: object) -> View:
        names = {name for part in opening.fact.rounds for name in part.counts}
        session = thread.session
        base = View(
            session=session.name,
            thread=thread.name,
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
            counts={name: session.counts.get(name, 0) for name in names},
            span=session.span,
            span_started_ms=session.span_started,
            session_started_ms=session.started,
            new_session=session.turn == 1,
            degraded=self._degraded,
        )
        return replace(base, **more)  # type: ignore[arg-type]  # field names are checked by the table test


def _rearms(thread: Thread, *, fresh: bool) -> bool:
    """Whether new words open a closed thread again. Budgets are opened by people only."""
    return fresh and thread.rearmed < REARMS and not thread.closed_by.startswith("budget")


def _fit(
    session: Session, lines: tuple[Line, ...], now_ms: int, *, retry: bool = False
) -> tuple[tuple[Line, ...], tuple[Spent, ...]]:
    short, spent = [], []
    for line in lines:
        at = (line.scope, line.dimension)
        held = session.held.get(at, 0)
        used = session.used.get(at, 0)
        hold = 0 if retry and line.dimension == "turns" else line.hold
        if line.clock:
            begun = session.span_started if line.scope == "span" else session.started
            used, held, hold = (now_ms - begun if session.turn else 0), 0, 0
        if 0 <= line.limit < used + held + hold:
            short.append(line)
        spent.append(Spent(line, used, held))
    return tuple(short), tuple(spent)


def _append(thread: Thread, opening: Opening, now_ms: int, *, fresh_user: bool, rearm: bool) -> None:
    fact, session = opening.fact, thread.session
    equal = bool(thread.turn) and fact.conversation == thread.conversation
    answered = thread.answer if thread.state == "answered" else ""
    anew = rearm or (answered == "text" and fresh_user)
    facts = [fact.boundary] if anew else []
    session.main = session.main or thread.name
    if not session.turn or (anew and thread.name == session.main):
        _open_span(session, now_ms)
    if equal and answered == "empty":
        facts.append(fact.blank)
    elif not equal:
        facts += _new_facts(thread, opening)
    thread.equal = thread.equal + 1 if equal and answered != "empty" else 0
    thread.ring.extend(facts)
    thread.steps += len(facts)
    session.turn += 1
    thread.turn = session.turn
    thread.conversation, thread.state, thread.count = fact.conversation, "open", fact.count
    if fact.user:
        session.users.add(fact.user)


def _open_span(session: Session, now_ms: int) -> None:
    session.span += 1
    session.span_started = now_ms
    session.counts.clear()
    for at in [at for at in session.used if at[0] == "span"]:
        session.used[at] = 0


def _new_facts(thread: Thread, opening: Opening) -> list[bytes]:
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
    counts = thread.session.counts
    for part in found[first:]:
        facts += part.facts
        for name, amount in part.counts.items():
            counts[name] = counts.get(name, 0) + amount
    return facts
