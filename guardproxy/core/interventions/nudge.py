"""nudge: say what repeats, how often and with what result, and name two ways out. The run goes on as it was."""

from __future__ import annotations

from guardproxy.core import advice
from guardproxy.core.interventions._context import Context, append, facts
from guardproxy.core.model import Ask, Decision, Edit, Rung


def carry_out(decision: Decision, ask: Ask, context: Context) -> tuple[Edit, ...]:
    """One text, appended to the newest tool result (or user message)."""
    if decision.finding is None:
        return ()
    text = advice.render(context.language, Rung.NUDGE, decision.finding, facts(decision, ask, context))
    return append(ask, text)
