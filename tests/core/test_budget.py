"""What is held for a request, and what the counters say of the next one."""

from __future__ import annotations

import json

import pytest

from guardproxy.core import budget
from guardproxy.core.budget import COUNTED, DIMENSIONS, Limit, Need
from guardproxy.core.model import Line, Trail
from guardproxy.core.view import Spent, View
from tests.core.talk import PRINTER, step, steps

NEED = Need(input_tokens=300, output_tokens=50, cost_microusd=7)


def view(*spent: tuple[str, str, int, int, int, int], counts: dict[str, int] | None = None) -> View:
    """Lines as (scope, dimension, hold, limit, used, held)."""
    lines = tuple(
        Spent(Line(scope, name, hold, limit, clock=DIMENSIONS[name].clock), used, held)
        for scope, name, hold, limit, used, held in spent
    )
    return View("s", "main", 1, 0, spent=lines, counts=counts or {})


HOLDS = {
    "turns": 1,
    "tool_calls": 1,
    "input_tokens": 300,
    "output_tokens": 50,
    "total_tokens": 350,
    "cost_microusd": 7,
    "wall_ms": 0,
    "consecutive_failures": 0,
    "same_call": 0,
    "calls_per_tool": 0,
    "requests": 0,
    "concurrent_requests": 0,
}


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_what_is_held(dimension: str) -> None:
    assert NEED.holds().get(dimension, 0) == HOLDS[dimension]


def test_without_limits_the_session_is_counted() -> None:
    assert budget.price((), NEED) == tuple(Line("session", name, 0) for name in COUNTED)


def test_price() -> None:
    limits = (
        Limit("span", "turns", 5),
        Limit("session", "turns", 9),
        Limit("span", "wall_ms", 7_200_000),
        Limit("session", "cost_microusd", 20_000_000),
        Limit("span", "consecutive_failures", 3),
    )
    lines = budget.price(limits, NEED)

    assert lines[:4] == (
        Line("span", "turns", 1, 5),
        Line("session", "turns", 1, 9),
        Line("span", "wall_ms", 0, 7_200_000, clock=True),
        Line("session", "cost_microusd", 7, 20_000_000),
    ), "judged dimensions are read off the steps, not held"
    rest = [name for name in COUNTED if name not in ("turns", "cost_microusd")]
    assert lines[4:] == tuple(Line("session", name, 0) for name in rest), "each counter once"


LAST = {
    # lines as (scope, dimension, hold, limit, used, held): the one by which this turn is the last
    "room for many": ([("span", "turns", 1, 10, 3, 1)], None),
    "room for one more": ([("span", "turns", 1, 5, 3, 1)], None),
    "the last turn": ([("span", "turns", 1, 5, 4, 1)], "turns"),
    "others hold the rest": ([("span", "turns", 1, 5, 0, 5)], "turns"),
    "others hold money for now": ([("session", "cost_microusd", 100, 400, 0, 400)], None),
    "a limit of one": ([("session", "turns", 1, 1, 0, 1)], "turns"),
    "no limit": ([("session", "turns", 1, -1, 999, 1)], None),
    "money for another of that size": ([("session", "cost_microusd", 100, 400, 200, 100)], None),
    "no money for another": ([("session", "cost_microusd", 100, 399, 200, 100)], "cost_microusd"),
    "the mean is for the clock alone": (
        [("span", "turns", 1, 99, 4, 1), ("session", "cost_microusd", 100, 199, 40, 100)],
        "cost_microusd",
    ),
    "nothing is held": ([("session", "cost_microusd", 0, 100, 100, 0)], None),
    "time for another turn": ([("span", "turns", 1, 99, 4, 1), ("span", "wall_ms", 0, 50_000, 40_000, 0)], None),
    "no time": ([("span", "turns", 1, 99, 4, 1), ("span", "wall_ms", 0, 49_999, 40_000, 0)], "wall_ms"),
    "the first turn has no mean yet": ([("span", "turns", 1, 99, 0, 1), ("span", "wall_ms", 0, 1, 0, 0)], None),
    "the first of several": (
        [("span", "turns", 1, 9, 0, 1), ("session", "tool_calls", 1, 1, 0, 1), ("session", "turns", 1, 1, 0, 1)],
        "tool_calls",
    ),
}


@pytest.mark.parametrize("name", LAST)
def test_last_affordable(name: str) -> None:
    lines, expected = LAST[name]
    spent = budget.last_affordable(view(*lines))

    assert (spent and spent.line.dimension) == expected


FAILURES = Limit("span", "consecutive_failures", 4)
SAME, TOOL = Limit("span", "same_call", 5), Limit("span", "calls_per_tool", 6)
JUDGED = {
    "nothing": ([FAILURES, SAME, TOOL], "a b", {}, None),
    "two failures": ([FAILURES], "a !b !c", {}, None),
    "one short": ([FAILURES], "a !b !b !c", {}, (FAILURES, 3)),
    "reached": ([FAILURES], "!a !b !b !c", {}, (FAILURES, 4)),
    "a success between": ([FAILURES], "!a !b c !b !c", {}, None),
    "a limit of one": ([Limit("span", "consecutive_failures", 1)], "a", {}, None),
    "a limit of one, reached": ([Limit("span", "consecutive_failures", 1)], "!a", {}, (Limit(*"span x 1".split()), 1)),
    "the same call, one short": ([SAME], "a", {"call:1": 4, "tool:a": 90}, (SAME, 4)),
    "the same call": ([SAME], "a", {"call:1": 3, "call:2": 9}, (SAME, 9)),
    "calls of a tool": ([TOOL], "a", {"call:1": 90, "tool:a": 5}, (TOOL, 5)),
    "the first that is near": ([TOOL, SAME], "a", {"call:1": 5, "tool:a": 5}, (TOOL, 5)),
    "held ones are not judged": ([Limit("span", "turns", 1)], "a", {"tool:a": 5}, None),
}


@pytest.mark.parametrize("name", JUDGED)
def test_judge(name: str) -> None:
    limits, ring, counts, expected = JUDGED[name]
    found = budget.judge(Trail(steps(ring)), view(counts=counts), limits)

    assert (found and found[1]) == (expected and expected[1])
    if found and len(limits) > 1:
        assert found == expected


FAILING = {
    "thoughts and open calls do not count": (
        (*steps("!a !b"), step("think", answer="hm"), step("f", answer=None)),
        2,
    ),
    "replies without a call do not count": ((*steps("!a"), PRINTER.text_step("x", "y", at_ms=0)), 1),
    "nothing": ((), 0),
}


@pytest.mark.parametrize("name", FAILING)
def test_failing(name: str) -> None:
    ring, expected = FAILING[name]

    assert budget.failing(Trail(ring)) == expected


def test_remaining_says_the_tightest_line_of_each_kind() -> None:
    found = view(
        ("span", "turns", 1, 10, 3, 1),
        ("session", "turns", 1, 5, 3, 1),
        ("org", "turns", 1, 500, 3, 1),
        ("session", "cost_microusd", 9, 100, 90, 30),
        ("span", "wall_ms", 0, 7_200_000, 200_000, 0),
        ("session", "input_tokens", 0, -1, 5, 0),
    )

    assert json.loads(budget.remaining(found)) == {"turns": 1, "cost_usd": 0, "wall_seconds": 7_000}
    assert budget.remaining(view()) == "{}"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0 s"),
        (39.6, "40 s"),
        (60, "1 min"),
        (3599, "59 min 59 s"),
        (86_399, "23 h 59 min"),
        (3605, "1 h"),
        (1e6, "11 d 13 h"),
    ],
)
def test_duration(seconds: float, told: str) -> None:
    assert budget.duration(seconds) == told
