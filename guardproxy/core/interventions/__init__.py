"""The interventions: a file is an action. Each has `carry_out(decision, ask, context)`, which answers edits.

They return values of the closed set of edits; every surface knows how to write each (N + M, not N x M).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from guardproxy.core.edit import Edit
from guardproxy.core.interventions._context import Context
from guardproxy.core.model import Ask, Decision

__all__ = ["ACTIONS", "Context", "carry_out"]

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
