"""The end of a run, made from the turn that ended it."""

from __future__ import annotations

import pytest

from guardproxy.telemetry.ending import run_end, segment_end
from tests.telemetry.reports import T0, cut, turn, view

CALLER = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"


def told(text: str, number: int = 3):
    return turn(number, view=view(number, traceparent=text, new_session=False))


def test_an_end_says_which_part_of_the_run_it_ends():
    end = run_end(cut())
    later = run_end(told(f"{CALLER};4;5000;2;o"))

    assert (end.segment, end.segment_ms, end.traceparent) == (0, 0, "")
    assert (later.segment, later.segment_ms, later.traceparent) == (4, 5000, CALLER)


@pytest.mark.parametrize(("adopted", "expected"), [(True, CALLER), (False, "")], ids=["adopted", "only linked"])
def test_the_header_of_a_first_request_counts_where_it_may_be_joined(adopted, expected):
    assert run_end(turn(1, traceparent=CALLER, adopted=adopted)).traceparent == expected


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("", False),
        (f";1;{view(3).now_ms};2;o", False),  # its root was sent before
        (";1;5000;2;r;10;20", False),  # another turn told of it
        (f";1;{view(3).now_ms};1;r;10;20", False),  # another turn of the same millisecond
        (f";1;{view(3).now_ms};2;r;10;20", True),
    ],
)
def test_one_turn_tells_of_the_segment_before_it(text, ends):
    end = segment_end(told(text))

    assert (end is not None) == ends
    if end is not None:
        assert (end.segment, end.segment_ms, end.ended_ms, end.outcome) == (0, 10, 20, "")
        assert (end.turns, end.tool_calls, end.cost_microusd) == (2, 2, 3000)  # without this turn's own
        assert end.started_ms == T0 // 10**6
