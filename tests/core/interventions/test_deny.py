"""deny: a 400 that says which limit, how much is used, and what was found."""

from __future__ import annotations

from guardproxy.core.edit import Reject
from guardproxy.core.interventions import deny
from guardproxy.core.model import Line
from tests.core.interventions.loops import RUN, context, decision
from tests.core.talk import ask


def test_the_error() -> None:
    reason = "turns of this span: 8 used and 0 held, 1 more would pass the limit of 8"
    denied = decision("deny", rule="budget.turns", reason=reason, finding=None, refused=Line("span", "turns", 1, 8))
    (edit,) = deny.carry_out(denied, ask(*RUN), context())

    assert isinstance(edit, Reject)
    assert (edit.status, edit.code) == (400, "budget_exceeded")
    assert reason in edit.message
    assert "nothing here" in edit.message
    lower = edit.message.lower()
    assert not any(word in lower for word in ("context length", "maximum context", "too long")), "clients compact on it"
