"""The webhook's `run.paused` and `run.cut`: each once, by whichever turn of whichever worker meets the end first.

What people do to a run they do in the store, where no turn is; a limit that has no room refuses every request anew.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from guardproxy.core.model import Rung
from guardproxy.core.view import Closing
from guardproxy.errors import StoreError
from guardproxy.http.stopping import RULE as OPERATOR

if TYPE_CHECKING:
    from guardproxy.http.turn import Turn

KEPT_MS = 7 * 86_400_000
"""How long it is remembered that an end was told."""

MET = 8
"""Requests of a run that a person has stopped, of which each looks whether that was told: the store may be away."""

_DONE = {"cut": "cut", "pause": "paused"}


def ended(turn: Turn, told: Closing) -> None:
    """A turn is settled: it may end its run, or hand it to a person."""
    if turn.proxy.webhook is None:
        return
    if told.close == OPERATOR:
        turn.proxy.spawn(_by_person(turn, "cut"))
    elif told.close:
        tell(turn, "run.cut", told.token)
    elif told.pause:
        tell(turn, "run.paused", told.token)
    else:
        _by_limit(turn)


def refused(turn: Turn) -> None:
    """A turn was not let in: a person may have stopped its run, or a limit of the run has no room."""
    view = turn.seen
    if turn.proxy.webhook is None or view.degraded:
        return
    if view.closed:
        if view.closed_by == OPERATOR and view.answers <= MET:
            turn.proxy.spawn(_by_person(turn, "cut"))
    elif view.paused:
        if view.paused == OPERATOR and view.answers <= MET:
            turn.proxy.spawn(_by_person(turn, "pause"))
    else:
        _by_limit(turn)


def tell(turn: Turn, kind: str, about: str, rule: str = "", reason: str = "") -> None:
    """Tell it, as the turn's decision says it."""
    view, decision = turn.seen, turn.decision
    data = {
        "rule": rule or decision.rule,
        "reason": reason or decision.reason,
        "turn": view.turn,
        "thread": view.thread,
    }
    turn.proxy.tell(kind, turn.opening.org, view.session, about, data)


def _by_limit(turn: Turn) -> None:
    """A limit of the run itself. A tenant's ends no run: it has room again with its next window (`budget.soft`)."""
    decision, view = turn.decision, turn.seen
    if decision.action != "deny" or not decision.rule.startswith("budget."):
        return
    if decision.rung is not Rung.CUT or (decision.refused is not None and decision.refused.key):
        return
    whole = decision.refused is not None and decision.refused.scope == "session"
    place = "" if whole else f":{view.thread}:{view.span}"
    turn.proxy.spawn(_once(turn, "run.cut", f"{decision.rule}:{decision.count}{place}"))


async def _by_person(turn: Turn, what: str) -> None:
    with suppress(StoreError):
        history = await turn.proxy.books.runs.history(turn.opening.org, turn.seen.session)
        change = next((one for one in reversed(history) if one.what == what), None)
        if change is not None:
            reason = f"{_DONE[what]} by {change.by}{': ' if change.why else ''}{change.why}"
            await _once(turn, f"run.{_DONE[what]}", f"{OPERATOR}:{change.at_ms}", OPERATOR, reason)


async def _once(turn: Turn, kind: str, about: str, rule: str = "", reason: str = "") -> None:
    """Tell it unless another turn did. Without the store nobody knows: the next request asks again."""
    session = turn.seen.session
    with suppress(StoreError):
        name = f"refused:{session}:{kind}:{about}"  # by such a name it is erased with the run
        if await turn.proxy.books.claim(turn.opening.org, name, KEPT_MS):
            tell(turn, kind, f"{session}:{about}", rule, reason)
