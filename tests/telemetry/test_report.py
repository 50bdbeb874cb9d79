"""What is derived from a report: interventions, what counts as a turn, repeats, the end of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from guardproxy.core.model import Decision
from guardproxy.telemetry.report import TurnReport, run_end
from tests.telemetry import reports


def report(**changes: object) -> TurnReport:
    view = reports.view(4)
    values = {"org": "o", "session": "s-1", "thread": "main", "view": view, "decision": Decision("pass")}
    return TurnReport(**{**values, "started_ns": 1, "ended_ns": 2, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (Decision("pass"), ("", "")),
        (Decision("observe"), ("", "")),
        (Decision("nudge"), ("nudge", "enforce")),
        (Decision("deny"), ("deny", "enforce")),
        (Decision("observe", mode="observe", would="cut"), ("cut", "observe")),
    ],
    ids=str,
)
def test_intervention(decision: Decision, expected: tuple[str, str]) -> None:
    assert report(decision=decision).intervention == expected


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        ({}, True),
        ({"retry": True}, False),
        ({"closed": True}, False),
        ({"admitted": False}, False),
        ({"counted": False}, False),
    ],
    ids=str,
)
def test_counted(changes: dict[str, bool], counted: bool) -> None:
    assert report(view=replace(reports.view(4), **changes)).counted is counted


def test_repeats_are_those_of_the_finding() -> None:
    found = reports.finding(3, last=2)
    steps = (reports.step(),)
    told = report(decision=Decision("nudge", finding=found), steps=steps, view=reports.view(4))

    assert told.ordinal(0) == told.view.steps - 1 == 2
    assert told.repeats(0) == 3


def test_run_end_adds_this_turn() -> None:
    told = report(outcome="cut", decision=Decision("cut", rule="cycle"), cost_microusd=7)

    end = run_end(told)

    assert (end.outcome, end.rule, end.cost_microusd) == ("cut", "cycle", 1500 * 3 + 7)
