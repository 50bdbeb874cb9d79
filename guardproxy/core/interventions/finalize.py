"""finalize: the tools stay in the body but may not be called; the model is asked for its answer with what it has.

Used one rung before a cut and on the last affordable turn of a budget. Calls that the model makes all the same are
dropped; an answer left without text becomes the cut text in that turn.
"""

from __future__ import annotations

from guardproxy.core import advice
from guardproxy.core.edit import DropCalls, Edit, ForbidTools
from guardproxy.core.interventions._context import Context, append, facts, progress
from guardproxy.core.model import Ask, Decision


def carry_out(decision: Decision, ask: Ask, context: Context) -> tuple[Edit, ...]:
    """The request for an answer, the ban on calls, and what to say if the answer is empty."""
    text = advice.finalize(context.language, decision, facts(decision, ask, context))
    fallback = advice.summary(context.language, decision, progress(ask, decision))
    forbid = (ForbidTools(),) if ask.tools else ()  # an edit that changes nothing is not said to be one
    return (*append(ask, text), *forbid, DropCalls(fallback))
