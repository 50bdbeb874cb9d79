"""deny: a 400 that says which limit, how much is used, and what was found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from guardproxy.core.edit import Reject
from guardproxy.core.interventions import deny
from guardproxy.core.model import Line, Rung
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


def test_a_run_that_did_not_begin_is_told_no_command() -> None:
    denied = decision("deny", rule="budget.turns", finding=None, refused=Line("span", "turns", 1, 8))
    for new in (True, False):
        (edit,) = deny.carry_out(denied, ask(*RUN), replace(context(), view=replace(context().view, new_session=new)))
        assert isinstance(edit, Reject)
        assert ("guardproxy sessions extend" in edit.message) is not new


@pytest.mark.parametrize("status", [400, 402, 403, 422, 429])
def test_the_status_is_the_policys(status: int) -> None:
    denied = decision("deny", rule="budget.turns", finding=None, refused=Line("span", "turns", 1, 8))
    (edit,) = deny.carry_out(denied, ask(*RUN), replace(context(), deny_status=status))
    assert isinstance(edit, Reject)
    assert (edit.status, edit.code) == (status, "budget_exceeded")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_rate_is_worth_another_try_whatever_the_policy_says(language: str) -> None:
    soon = decision(
        "deny", rule="rate.requests", reason="5 of 5 a minute", finding=None, refused=Line("org", "requests", 1)
    )
    (edit,) = deny.carry_out(replace(soon, rung=Rung.OBSERVE), ask(*RUN), replace(context(language), deny_status=402))
    assert isinstance(edit, Reject)
    assert (edit.status, edit.code) == (429, "rate_limit_exceeded")
    assert "5 of 5 a minute" in edit.message
    assert "nothing here" not in edit.message, "the run goes on: no summary"
