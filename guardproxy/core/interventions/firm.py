"""firm: name the forbidden calls and ask for the cause and one different next step; with a machine-readable block."""

from __future__ import annotations

from guardproxy.core.edit import Edit
from guardproxy.core.interventions._context import Context, advise
from guardproxy.core.model import Ask, Decision, Rung


def carry_out(decision: Decision, ask: Ask, context: Context) -> tuple[Edit, ...]:
    """One text with its block, appended to the newest tool result (or user message)."""
    return advise(Rung.FIRM, decision, ask, context)
