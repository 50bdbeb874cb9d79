"""deny: no room for this request. Nothing is held, and nothing goes upstream.

A hard limit is HTTP 400 `budget_exceeded` unless the policy says otherwise: clients end on it, and neither the SDKs nor
the second retry layers repeat it (`clients`, surprise 2). A rate is 429 `rate_limit_exceeded`, which they do repeat.
"""

from __future__ import annotations

from guardproxy.core import advice, commands
from guardproxy.core.advice import limits
from guardproxy.core.edit import Edit, Reject
from guardproxy.core.interventions._context import Context, progress
from guardproxy.core.model import Ask, Decision, Rung

BUSY = 429
"""Come again: what a rate answers."""


def carry_out(decision: Decision, ask: Ask, context: Context) -> tuple[Edit, ...]:
    """The error, which says which limit, how much is used, and what was found."""
    if decision.rung is not Rung.CUT:  # a rate: the run goes on in a moment
        return (Reject(BUSY, "rate_limit_exceeded", limits.rate_reached(context.language, decision)),)
    text = advice.summary(context.language, decision, progress(ask, decision))
    ours = decision.refused is None or not decision.refused.key  # of the run, not of whose it is
    if ours and not context.view.new_session:  # refused at its first request it never began
        how = commands.extend(context.view.session, decision.rule, context.where)
        text = f"{text}\n{advice.way_on(context.language, how)}"
    return (Reject(context.deny_status, "budget_exceeded", text),)
