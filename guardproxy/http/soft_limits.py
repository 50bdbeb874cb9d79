"""Soft limits of tenants: nothing is refused. A header says it; a run is told once, and the webhook."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from guardproxy.core import denial, session
from guardproxy.core.advice import limits
from guardproxy.core.budget import DIMENSIONS
from guardproxy.core.edit import AppendText
from guardproxy.core.interventions._context import append
from guardproxy.core.model import Kind, Rung
from guardproxy.core.tenant_budget import Crossed, crossed
from guardproxy.core.windows import chosen, kind_of
from guardproxy.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from guardproxy.http.turn import Turn

KEPT_MS = 35 * 86_400_000
"""How long a crossing is remembered, so that it is told once: longer than any window but the one without an end."""


def look(turn: Turn) -> tuple[AppendText, ...]:
    """What is passed already: noted for the header, told to the webhook; the edit that tells the run."""
    found = turn.crossed = crossed(turn.dues, turn.seen)
    if not found:
        return ()
    _tell(turn, found)
    return _advice(turn, max(found, key=lambda one: one.percent))


def settled(turn: Turn, spent: Mapping[str, int]) -> None:
    """What is passed now that the turn is paid for: for the webhook alone, nobody else is there any more."""
    if found := crossed(turn.dues, turn.seen, lambda dimension: spent.get(dimension, 0)):
        _tell(turn, found)


def header(found: tuple[Crossed, ...]) -> str:
    """The value of `x-guardproxy-budget-soft`: whose budget, of what, in which window, how many percent are passed."""
    return ", ".join(f"{_named(one)}={one.percent}%" for one in found)


def _named(one: Crossed) -> str:
    budget = one.due.budget
    return f"{budget.scope} {DIMENSIONS[budget.dimension].setting} {kind_of(one.due.key)}"


def _advice(turn: Turn, one: Crossed) -> tuple[AppendText, ...]:
    """One line to an agent that is at work. A chat, and a run's first request, are left as they are."""
    view = turn.seen
    if not (view.admitted and view.counted and view.steps) or view.panic or turn.decision.rung >= Rung.NUDGE:
        return ()
    if turn.chosen.policy.mode != "enforce":
        return ()
    if not turn.ask.tools and all(step.kind is not Kind.CALL for step in session.trail(view).steps):
        return ()
    made = append(turn.ask, limits.nearly_spent(turn.language, one.percent, _named(one)))
    told = {edit.text for edit in turn.put_back if isinstance(edit, AppendText)}
    return tuple(edit for edit in made if edit.text not in told)


def _tell(turn: Turn, found: tuple[Crossed, ...]) -> None:
    if turn.proxy.webhook is None:
        return
    for one in found:
        window = f"{chosen(one.due.key, turn.seen.now_ms)[0]} {one.due.budget.dimension} {one.percent}"
        if turn.proxy.budgets.crossing(window):
            turn.proxy.spawn(_once(turn, one, window))


async def _once(turn: Turn, one: Crossed, window: str) -> None:
    """Tell the webhook, unless another worker did."""
    proxy, budget, row = turn.proxy, one.due.budget, DIMENSIONS[one.due.budget.dimension]
    try:
        first = await proxy.books.claim(turn.opening.org, f"soft:{window}", KEPT_MS)
    except StoreError:
        proxy.budgets.forget(window)  # the next request tells it
        return
    if not first:
        return
    line = next(spent.line for spent in turn.seen.spent if spent.line.key == one.due.key)
    data = {
        "scope": budget.scope,
        "name": unquote(window.split(":")[2]),
        "kind": row.setting,
        "window": kind_of(one.due.key),
        "percent": one.percent,
        "limit": denial.amount(row, budget.limit),
        "used": denial.amount(row, one.used),
        "resets_at": denial.resets_at(line, turn.seen) or None,
    }
    proxy.tell("budget.soft", turn.opening.org, turn.seen.session, window, data)
