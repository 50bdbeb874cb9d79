"""nudge: say what repeats, how often and with what result, and name two ways out. The run goes on as it was."""

from __future__ import annotations

from guardproxy.core.edit import Edit
from guardproxy.core.interventions._context import Context, advise
from guardproxy.core.model import Ask, Decision, Rung


def carry_out(decision: Decision, ask: Ask, context: Context) -> tuple[Edit, ...]:
    """One text, appended to the newest tool result (or user message)."""
    return advise(Rung.NUDGE, decision, ask, context)
