"""cut: end the run with what it achieved. A well-formed answer in the model's place, no upstream call.

Some clients ask again after a text; they get it up to three times in all, then HTTP 400 `session_cut`, which ends those
that take no text for an end (clients: mini-swe-agent, smolagents).
"""

from __future__ import annotations

from guardproxy.core import advice, commands
from guardproxy.core.edit import Edit, Reject, Reply
from guardproxy.core.interventions._context import Context, progress
from guardproxy.core.model import Ask, Decision

STATUS = 400
"""Never 402-5xx (clients repeat those), never 413 (clients compact and retry without end)."""


def carry_out(decision: Decision, ask: Ask, context: Context) -> tuple[Edit, ...]:
    """The partial summary with the way on, or the error once it was said often enough."""
    how = commands.reopen(context.view.session, decision.rule, context.where)
    text = advice.ended(context.language, decision, progress(ask, decision), how)
    if decision.over:
        return (Reject(STATUS, "session_cut", text),)
    return (Reply(text),)
