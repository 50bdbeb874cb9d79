"""Runs in figures: from decision lines, from records, from recordings."""

from __future__ import annotations

from typing import Any

import pytest

from guardproxy.calibrating.happened import UNNAMED, of_lines, of_recording, of_records, turn_at
from guardproxy.core.pricing import Rates
from guardproxy.replaying.told import SessionReport, Told
from guardproxy.telemetry.record import read_record, record_of
from tests.replaying.test_judged import plain
from tests.telemetry.reports import cut, life, turn

USER = {"role": "user", "content": "x" * 400}
ANSWER = {"role": "assistant", "content": "y" * 40}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "z"}


def report(**changes: Any) -> SessionReport:
    return SessionReport(**({"id": "s", "steps": 1, "decisions": ()} | changes))


def test_a_run_of_the_store() -> None:
    run = of_records("s-1", [read_record(record_of(one)) for one in life()])

    assert (run.agent, run.outcome, run.finished) == ("codex", "cut", False)
    assert (run.turns, run.tool_calls, run.tokens, run.cost_microusd) == (6, 6, 6300, 9000)
    assert run.heard == {"repeated_call"}
    assert run.seconds == pytest.approx(60.01)


def test_time_between_two_requests_is_a_person_s() -> None:
    lines = [plain(number, span=1 + number // 3, outcome="finished") for number in range(6)]
    run = of_lines("s", lines)

    assert run.seconds == pytest.approx(2 * 60.1)
    assert (run.finished, run.agent, run.turns, run.tool_calls) == (True, UNNAMED, 6, 6)


def test_a_turn_without_an_upstream_call_is_none() -> None:
    finished = read_record(record_of(turn(1, outcome="finished")))
    refused = read_record(record_of(cut(2)))

    assert of_records("s", [finished, refused]).turns == 1
    assert of_records("s", [finished, finished]).turns == 1  # a retry


def test_what_is_only_noted_is_not_heard() -> None:
    noted = plain(1, action="observe", rule="cycle", count=2)
    would = plain(2, action="observe", rule="no_progress", count=9, would="nudge")

    assert of_lines("s", [noted, would]).heard == {"no_progress"}


@pytest.mark.parametrize(
    ("success", "messages", "outcome"),
    [
        (True, [USER, CALL], "finished"),
        (False, [USER, ANSWER], "failed"),
        (None, [USER, ANSWER], "finished"),
        (None, [USER, CALL, RESULT], "abandoned"),
        (None, [], "abandoned"),
    ],
)
def test_when_a_recorded_run_is_finished(success: object, messages: list[Any], outcome: str) -> None:
    run = of_recording({"success": success, "messages": messages}, report(), lambda _model: Rates(1, 1))

    assert run.outcome == outcome


def test_a_recorded_run_is_estimated() -> None:
    told = (Told(0, 1, "nudge", "cycle", 3, ""), Told(0, 1, "observe", "monologue", 2, ""))
    session = {"source": "a/b@1:x", "model": "m", "messages": [USER, CALL, RESULT, ANSWER]}
    models: list[str] = []

    def rates(model: str) -> Rates:
        models.append(model)
        return Rates(1, 10)

    run = of_recording(session, report(decisions=told), rates)

    assert (run.agent, run.turns, run.estimated, run.seconds, models) == ("a/b", 2, True, None, ["m"])
    assert run.tokens == 100 + 1 + 100 + 11  # what was said before is input, each time
    assert run.spent == (100 + 10, 100 + 110)
    assert run.heard == {"cycle"}


def test_which_turn_a_message_belongs_to() -> None:
    session = {"messages": [USER, CALL, RESULT, ANSWER]}

    assert [turn_at(session, at) for at in range(5)] == [0, 0, 1, 1, 2]
