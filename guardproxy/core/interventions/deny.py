"""deny: a hard budget has no room for this request. HTTP 400 `budget_exceeded`, no upstream call, nothing held."""

from __future__ import annotations

from guardproxy.core import advice, commands
from guardproxy.core.edit import Edit, Reject
from guardproxy.core.interventions._context import Context, progress
from guardproxy.core.model import Ask, Decision

STATUS = 400
"""Clients end on it, and neither the SDKs nor the second retry layers repeat it (`clients`, surprise 2)."""


def carry_out(decision: Decision, ask: Ask, context: Context) -> tuple[Edit, ...]:
    """The error, which says which limit, how much is used, and what was found."""
    text = advice.summary(context.language, decision, progress(ask, decision))
    if decision.refused is None or not decision.refused.key:  # of the run, not of whose it is
        how = commands.extend(context.view.session, decision.rule, context.where)
        text = f"{text}\n{advice.way_on(context.language, how)}"
    return (Reject(STATUS, "budget_exceeded", text),)
