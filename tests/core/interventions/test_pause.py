"""pause: who holds the run, why, and how it goes on; after some answers an error that no client repeats."""

from __future__ import annotations

from dataclasses import replace

import pytest

from guardproxy.core.edit import Edit, Reject, Reply
from guardproxy.core.interventions import pause
from guardproxy.core.model import Decision, Rung
from tests.core.interventions.loops import FINDING, RUN, check_text, context
from tests.core.talk import ask

PAUSED = Decision("pause", Rung.CUT, "paused.operator", 1, "look at the numbers")


def carried_out(decision: Decision, language: str = "en", **view: str) -> tuple[Edit, ...]:
    given = context(language)
    return pause.carry_out(decision, ask(*RUN), replace(given, view=replace(given.view, session="run-7", **view)))


HELD: dict[str, tuple[dict[str, str], Decision, tuple[str, ...]]] = {
    # how the store says that it is held, the decision, what the answer says
    "by a person": (
        {"paused": "operator", "paused_why": "look at the numbers"},
        PAUSED,
        ("look at the numbers", "guardproxy sessions resume run-7")),
    "by an approval": (
        {"paused": "approval", "approval": "apr_1"},
        replace(PAUSED, rule="tools.approval", reason="delete"),
        ("guardproxy approvals approve apr_1",),
    ),
    "by a loop, once": (
        {},
        Decision("pause", Rung.CUT, "repeated_call", 6, FINDING.reason, finding=FINDING),
        ("f called 3 times in a row", "nothing here", "guardproxy sessions resume run-7"),
    ),
    "by a loop, later": (
        {"paused": "loop"}, replace(PAUSED, rule="paused.loop"), ("guardproxy sessions resume run-7",)),
    "by a question": (
        {"paused": "approval", "approval": "apr_1", "status": "need_human"},
        replace(PAUSED, rule="tools.approval", reason="ask_human"),
        ("guardproxy approvals answer apr_1 TEXT",),
    ),
    "by a budget, later": (
        {"paused": "budget"}, replace(PAUSED, rule="paused.budget", reason="limit wall_seconds of 2 s: 3 s used"),
        ("guardproxy sessions extend run-7 --seconds SECONDS",)),
    "by a budget, once": (
        {},
        Decision("pause", Rung.CUT, "budget.cost_usd", 1, "limit cost_usd of $1.00: $1.00 used"),
        ("$1.00 used", "guardproxy sessions extend run-7 --cost DOLLARS"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", HELD)
def test_the_notice(name: str, language: str) -> None:
    view, decision, parts = HELD[name]
    (edit,) = carried_out(decision, language, **view)

    assert isinstance(edit, Reply)
    check_text(f"\n\n{edit.text}")
    for part in parts:
        assert part in edit.text


@pytest.mark.parametrize("name", HELD)
def test_over(name: str) -> None:
    view, decision, parts = HELD[name]
    (edit,) = carried_out(replace(decision, over=True), **view)

    assert isinstance(edit, Reject)
    assert (edit.status, edit.code) == (400, "session_paused")
    assert parts[-1] in edit.message
