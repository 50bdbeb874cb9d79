"""`invalid_call`: malformed calls of one tool in a row."""

from __future__ import annotations

import pytest

from guardproxy.core.detectors.invalid_call import Settings, detect
from tests.core.detectors.scripts import Turn, trails

BROKEN: Turn = ("f", '{"a": ', "could not be parsed")
REJECTED: Turn = ("f", '{"b":1}', "Invalid arguments: a must be set")
NAMELESS: Turn = ("", "{}", "no tool was named")


@pytest.mark.parametrize(
    ("turns", "count"),
    [
        ([BROKEN], None),
        ([BROKEN] * 3, 3),
        ([BROKEN, REJECTED, BROKEN], 3),
        ([REJECTED, ("f", '{"b":2}', "Missing required argument: a"), REJECTED], 3),
        ([NAMELESS] * 3, 3),
        ([("g", "{}", "Unknown tool: g")] * 2, 2),
        ([(f"tool_{n}", "{}", "Error: unknown tool") for n in "abc"], 3),
        ([("f", "{}", "Unknown tool: f"), ("g", "{}", "Tool g not found"), ("h", "{}", "No such function: h")], 3),
        ([("f", "{}", "Invalid arguments: a"), ("g", "{}", "Invalid arguments: a")], None),
        ([BROKEN, ("g", "[]", "x"), BROKEN], None),
        ([BROKEN, ("f", '{"a":1}', "fine"), BROKEN], None),
        ([BROKEN, BROKEN, ("f", '{"a":1}', "fine")], None),
    ],
)
def test_counts(turns: list[Turn], count: int | None) -> None:
    found = detect(trails(turns)[-1], Settings())
    assert (found.count if found else None) == count
