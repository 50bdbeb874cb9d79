"""One recorded run, turn by turn: whose turns they are, what is said, where it ends."""

from __future__ import annotations

from typing import Any

import pytest

from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.policy import Policy
from guardproxy.replaying.player import Player

Json = dict[str, Any]
TASK: Json = {"role": "user", "content": "List them."}


def rounds(count: int, result: str = "[]", **more: object) -> list[Json]:
    found: list[Json] = []
    for number in range(count):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "list", "arguments": "{}"}}
        found.append({"role": "assistant", "content": None, "tool_calls": [call]})
        found.append({"role": "tool", "tool_call_id": f"c{number}", "content": result.format(number), **more})
    return found


WRITTEN = [
    message
    for _ in range(3)
    for message in (
        {"role": "assistant", "content": "Thought: look.\nAction: Search[oil]"},
        {"role": "user", "content": "Observation: nothing"},
    )
]
RUNS: dict[str, tuple[list[Json], int, list[tuple[int, str]]]] = {
    # messages; calls; (step, action) of what is not passed
    "a loop": ([TASK, *rounds(3)], 3, [(1, "observe"), (2, "nudge")]),
    "a loop to its end": (
        [TASK, *rounds(9)],
        9,
        [(1, "observe"), (2, "nudge"), (3, "firm"), (4, "finalize"), (5, "cut")],
    ),
    "other answers": ([TASK, *rounds(6, "row {}a")], 6, []),
    "calls in texts": ([TASK, *WRITTEN], 3, [(1, "observe"), (2, "nudge")]),
    "words alone": ([TASK, {"role": "assistant", "content": "Done."}], 0, []),
    "nothing": ([], 0, []),
}


@pytest.mark.parametrize("name", RUNS)
def test_runs(name: str) -> None:
    messages, calls, expected = RUNS[name]
    report = Player({"id": name, "messages": messages}, Policy(), Fingerprinter(b"k")).report()

    assert (report.id, report.steps) == (name, calls)
    assert [(one.step, one.action) for one in report.decisions] == expected
