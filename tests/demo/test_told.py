"""What came after a loop was told to stop, counted from records."""

from __future__ import annotations

import pytest

from guardproxy.demo.agent import Run
from guardproxy.demo.told import NOTHING, After, after, attempts, join, refused
from guardproxy.telemetry.record import CallRecord, TurnRecord, read_record


def turn(
    number: int, action: str = "pass", calls: int = 1, asked: tuple[str, ...] = (), did: str = "", mode: str = "enforce"
) -> TurnRecord:
    record = read_record(b'{"v": 1}')
    record |= {"turn": number, "action": action, "calls": [CallRecord(tool="f")] * calls}
    if asked:
        record["events"] = {"asked": list(asked)}
    if did:
        record["events"]["objected"] = [{"rule": "cycle", "tool": "f", "action": did, "mode": mode}]
    return record


REASKS = ("reask", "reask", "finalize")

RUNS = {
    "a run in peace": ([turn(1), turn(2, "observe"), turn(3, "nudge"), turn(4, calls=0)], NOTHING),
    "refused and made to answer": ([turn(1), turn(2, "nudge"), turn(3, "finalize", 0, REASKS, "refuse")], (3, 0)),
    "refused once, then other calls": ([turn(1), turn(2, "refuse", 2, ("reask",), "refuse"), turn(3)], (2, 3)),
    "told, and it went on": ([turn(1), turn(2, "firm"), turn(3), turn(4, "cut", 0)], (2, 2)),
    "told, then refused": ([turn(1), turn(2, "firm"), turn(3, "finalize", 0, REASKS, "refuse")], (3, 0)),
    "a repair is no refusal": ([turn(1, "repair", 1, ("repair",), "repair"), turn(2, calls=0)], NOTHING),
    "only observed": ([turn(1, "observe", 1, ("reask",), "refuse", "observe"), turn(2, calls=0)], NOTHING),
}


@pytest.mark.parametrize("name", RUNS)
def test_after(name: str) -> None:
    records, expected = RUNS[name]

    assert after(records) == After(*expected)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (turn(1), 1),
        (turn(1, "finalize", 0, REASKS, "refuse"), 4),
        (turn(1, "cut", 0), 0),
        (turn(1, "deny", 0), 0),
        (turn(1, "cut", 0, REASKS, "refuse"), 4),
    ],
)
def test_attempts(record: TurnRecord, expected: int) -> None:
    assert attempts(record) == expected


def test_a_run_gets_what_was_decided_and_keeps_what_its_tools_said() -> None:
    known = CallRecord(tool="f", arguments="{}", result="ok")
    run = Run("task", records=[turn(1), turn(2, "firm", 0), turn(3)])
    run.records[0]["calls"] = [known]

    join(run, [turn(1, "observe"), turn(2, "finalize", 1, REASKS, "refuse")])

    assert [record["action"] for record in run.records] == ["observe", "finalize", "pass"]
    assert [record["calls"] for record in run.records] == [[known], [], [CallRecord(tool="f")]]
    assert [refused(record) for record in run.records] == [False, True, False]
    assert run.actions == ["finalize"]
