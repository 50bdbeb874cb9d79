"""What is derived from a report: interventions, what counts as a turn, repeats, the end of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from guardproxy.core.model import Decision
from guardproxy.telemetry.ending import run_end
from guardproxy.telemetry.report import Attempt, Objected, TurnReport
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


REFUSED = Objected("cycle", "f", "refuse", count=5, call=reports.CALL)
SEEN = replace(REFUSED, mode="observe")


@pytest.mark.parametrize(
    ("decision", "objected", "intervention", "number"),
    [
        (Decision("firm", rule="cycle"), (), ("firm", "enforce"), 1),
        (Decision("firm", rule="cycle"), (REFUSED,), ("firm", "enforce"), 2),
        (Decision("pass"), (REFUSED, REFUSED, SEEN), ("", ""), 2),
        (Decision("refuse", rule="cycle"), (REFUSED,), ("", ""), 1),
        (Decision("refuse", rule="tools.deny"), (REFUSED,), ("refuse", "enforce"), 2),
        (Decision("observe", rule="cycle", would="firm"), (SEEN,), ("firm", "observe"), 0),
    ],
    ids=str,
)
def test_what_is_done_to_calls_is_an_intervention_and_is_told_once(
    decision: Decision, objected: tuple[Objected, ...], intervention: tuple[str, str], number: int
) -> None:
    told = report(decision=decision, objected=objected)

    assert (told.intervention, told.interventions) == (intervention, number)


@pytest.mark.parametrize(
    ("changes", "eventful"),
    [
        ({}, False),
        ({"state": "active"}, False),
        ({"attempts": (Attempt(1, 2),)}, False),
        ({"attempts": (Attempt(1, 2), Attempt(2, 3))}, True),
        ({"attempts": (Attempt(1, 2, kept_back=True),)}, True),
        ({"objected": (SEEN,)}, True),
        *[({name: value}, True) for name, value in reports.EVENTS.items()],
    ],
    ids=str,
)
def test_nearly_no_turn_has_more_to_tell(changes: dict[str, object], eventful: bool) -> None:
    assert report(**changes).eventful is eventful


def test_a_retry_is_no_reask() -> None:
    asked = [Attempt(1, 2), Attempt(2, 3), Attempt(3, 4, reason="repair"), Attempt(4, 5, reason="finalize")]

    assert report(attempts=tuple(asked)).asked == ("repair", "finalize")


@pytest.mark.parametrize(
    ("objected", "dropped"),
    [
        ((), "aab"),
        ((REFUSED,), "ab"),
        ((REFUSED, REFUSED, REFUSED), "b"),
        ((replace(REFUSED, attempt=1),), "aab"),
        ((replace(REFUSED, attempt=2),), "ab"),
        ((Objected("cycle", "f", "refuse"),), "aab"),  # whose call is not known
        ((replace(REFUSED, action="pause"), replace(REFUSED, action="repair", call=b"b" * 16)), "a"),
    ],
    ids=str,
)
def test_calls_that_the_agent_did_not_get(objected: tuple[Objected, ...], dropped: str) -> None:
    """Of an answer that is kept back all; what is told of one by one is told once."""
    calls = tuple(("f", "", {"a": reports.CALL, "b": b"b" * 16}[name]) for name in "aab")
    handed = report(attempts=(Attempt(1, 2, kept_back=True), Attempt(2, 3, calls=calls)), objected=objected)
    kept = report(attempts=(Attempt(1, 2), Attempt(2, 3, calls=calls, kept_back=True)), objected=objected)

    assert (handed.given, handed.dropped) == (calls, ())
    assert kept.given == ()
    assert report(attempts=(), released=calls).given == calls
    assert "".join("a" if call[2] == reports.CALL else "b" for call in kept.dropped) == dropped


def test_a_run_ends_with_the_calls_that_the_agent_got() -> None:
    assert run_end(reports.refused(5)).tool_calls == run_end(reports.turn(5)).tool_calls == 5


def test_run_end_adds_this_turn() -> None:
    told = report(outcome="cut", decision=Decision("cut", rule="cycle"), cost_microusd=7)

    end = run_end(told)

    assert (end.outcome, end.rule, end.cost_microusd) == ("cut", "cycle", 1500 * 3 + 7)
