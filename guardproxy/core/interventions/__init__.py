"""The interventions: a file is an action. Each has `carry_out(decision, ask, context)`, which answers edits.

They return values of the closed set of edits; every surface knows how to write each (N + M, not N x M).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from guardproxy.core.edit import Edit
from guardproxy.core.interventions._context import Context
from guardproxy.core.model import Ask, Decision, Rung

__all__ = ["ACTIONS", "Context", "carry_out", "unsaid"]

SPOKEN = frozenset({"nudge", "firm"})
"""Actions that are a text, and nothing beside it."""

ACTIONS: Mapping[str, ModuleType] = {
    name: import_module(f"{__name__}.{name}")
    for name in sorted(module.name for module in iter_modules(__path__))
    if not name.startswith("_")
}
"""Action to module."""


def carry_out(decision: Decision, ask: Ask, context: Context) -> tuple[Edit, ...]:
    """The edits that a decision asks for; none for pass and observe."""
    module = ACTIONS.get(decision.action)
    if module is None:
        return ()
    edits: tuple[Edit, ...] = module.carry_out(decision, ask, context)
    return edits


def unsaid(decision: Decision, edits: tuple[Edit, ...]) -> Decision:
    """The decision once its edits are known: where a text found no place, or had no words, nothing was said.

    A nudge is then said where the next request has room for it. From firm on calls are refused, which needs no place:
    that episode stands.
    """
    if edits or decision.action not in SPOKEN:
        return decision
    reason = f"{decision.reason}; not said: the request has no place for it"
    kept = decision.episode if decision.rung >= Rung.FIRM else None
    return replace(decision, action="observe", rung=Rung.OBSERVE, reason=reason, episode=kept)
