"""The end of a turn: what was held is given back, what happened is told and reported. Once, and beside the client."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from guardproxy.core.model import Rung
from guardproxy.core.view import Closing
from guardproxy.errors import GuardError, StoreError
from guardproxy.http import charging, closing, own_words, remembering, reporting, run_events, soft_limits, unread
from guardproxy.telemetry.record import record_of

if TYPE_CHECKING:
    from guardproxy.http.turn import Turn


def settle(turn: Turn) -> None:
    """Tell the store and report. A fault is logged: the client has its answer, and the lease ends the hold."""
    if turn.settled:
        return
    turn.settled = True
    turn.outcome.ended_ns = time.time_ns()
    try:
        _settle(turn)
    except Exception:  # noqa: BLE001  # said in the docstring
        turn.proxy.fault(f"settling a turn of {turn.route}")


def _settle(turn: Turn) -> None:
    view, proxy = turn.view, turn.proxy
    if view is None:
        unread.failed(turn)
        return
    turn.report = report = reporting.report_of(turn, view)
    remembering.keep(turn, view)
    if not view.admitted or view.closed:
        if (by := closing.paused_by(turn)) and not view.closed:
            proxy.spawn(_pause(turn, by))  # nothing was held, so there is nothing to settle it with
        if turn.decision.rung is Rung.CUT:
            run_events.refused(turn)
        proxy.books.charge(turn.opening.org, turn.opening.payer, charging.charge(turn, report).numbers())
        if turn.decision.refused is not None and turn.decision.rung is Rung.CUT and not view.degraded:
            proxy.spawn(_refused(turn, record_of(report)))
        if turn.kept:
            proxy.spawn(own_words.note(turn))
        proxy.done(turn)
        return
    if turn.outcome.stands and not turn.kept:
        own_words.keep(turn)
    told = closing.closing_of(turn, view, report)
    if turn.dues:
        soft_limits.settled(turn, told.spent)
    if turn.decision.rung is Rung.CUT:
        run_events.ended(turn, told)
    if not proxy.books.settle_soon(told, partial(_answered, turn, told)):
        proxy.spawn(_settle_later(turn, told))


async def _refused(turn: Turn, record: bytes) -> None:
    """Put a request that a limit refused on the run's record: only for who looks later."""
    view, decision = turn.seen, turn.decision
    once = f"{view.thread}:{view.turn}:{decision.rule}:{decision.count}"
    with suppress(StoreError):
        await turn.proxy.books.runs.refused(turn.opening.org, view.session, record, once)


async def _pause(turn: Turn, by: str) -> None:
    """Hand the run to a person: its budget has no room."""
    view, decision, proxy = turn.seen, turn.decision, turn.proxy
    with suppress(StoreError, GuardError):  # the next request is refused as this one was, and asks again
        await proxy.books.runs.pause(turn.opening.org, view.session, by, decision.reason, who=by)
        run_events.tell(turn, "run.paused", turn.opening.token)


def _answered(turn: Turn, told: Closing, went_well: bool) -> None:  # noqa: FBT001  # a callback's one argument
    if went_well:
        _over(turn)
    else:
        turn.proxy.spawn(_settle_later(turn, told))


async def _settle_later(turn: Turn, told: Closing) -> None:
    """The store is away, or comes back this moment: what it cannot be told now is owed to it."""
    await turn.proxy.books.settle(told)
    _over(turn)


def _over(turn: Turn) -> None:
    turn.outcome.settle_ns = time.time_ns() - turn.outcome.ended_ns
    try:
        turn.proxy.done(turn)
    except Exception:  # noqa: BLE001  # as above
        turn.proxy.fault(f"reporting a turn of {turn.route}")
