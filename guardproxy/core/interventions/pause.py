"""pause: the run waits for a person. A well-formed answer that says who holds it and how it goes on; no upstream call.

What ends a run by itself (a loop, a budget) says what was achieved, too. A client that asks again gets the same answer
a few times, then HTTP 400 `session_paused`: a loop that waits must not cost a poll a second.
"""

from __future__ import annotations

from guardproxy.core import advice, commands
from guardproxy.core.edit import Edit, Reject, Reply
from guardproxy.core.interventions._context import Context, progress
from guardproxy.core.model import Ask, Decision
from guardproxy.core.view import View

STATUS = 400
"""As for a cut: clients end on it, and repeat 402 to 5xx."""


def carry_out(decision: Decision, ask: Ask, context: Context) -> tuple[Edit, ...]:
    """The notice, or the error once it was given often enough."""
    view = context.view
    if view.paused:
        how = _ends_by(view, decision.reason, context.where)
        asked = view.paused == "approval" and view.status == "need_human"
        text = advice.paused_notice(context.language, "question" if asked else view.paused, view.paused_why, how)
    else:
        by = "budget" if decision.rule.startswith("budget.") else "loop"
        how = commands.go_on(view.session, by, decision.rule, context.where)
        text = advice.handed_over(context.language, decision, progress(ask, decision), how)
    return (Reject(STATUS, "session_paused", text),) if decision.over else (Reply(text),)


def _ends_by(view: View, why: str, where: str) -> str:
    """The command by which a person lets the run go on."""
    if view.paused == "approval":
        return commands.decide(view.approval, question=view.status == "need_human", where=where)
    return commands.go_on(view.session, view.paused, why, where)
