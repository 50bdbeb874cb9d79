"""The ladders of the cases follow the presets."""

from __future__ import annotations

import pytest

from tests.thresholds import Marks, Thresholds, each, every_other, laps_of

LADDERS = {
    "finalize before the cut": (
        Marks(3, 4, 6),
        each,
        {3: "nudge", 4: "firm", 5: "finalize", 6: "cut", 7: "cut", 8: "cut", 9: "over"},
    ),
    "no room for finalize": (Marks(3, 4, 5), each, {3: "nudge", 4: "firm", 5: "cut", 6: "cut", 7: "cut", 8: "over"}),
    "never ended": (Marks(5, 8, 0), each, {5: "nudge", 8: "firm"}),
    "a nudge only": (Marks(6, 0, 0), every_other, {11: "nudge"}),
    "laps": (Marks(2, 3, 4), laps_of(3), {6: "nudge", 9: "firm", 12: "cut", 13: "cut", 14: "cut", 15: "over"}),
}


@pytest.mark.parametrize("name", LADDERS)
def test_ladder(name: str) -> None:
    marks, at, expected = LADDERS[name]
    assert marks.ladder(at) == expected


def test_a_finalize_is_said_until_the_cut() -> None:
    found = Marks(4, 6, 8).ladder(laps_of(2), held=True)
    assert [turn for turn, verdict in found.items() if verdict == "finalize"] == [14, 15]


def test_ladder_ends_where_the_scene_does() -> None:
    assert Marks(3, 4, 6).ladder(upto=5) == {3: "nudge", 4: "firm", 5: "finalize"}


def test_later() -> None:
    assert Marks(3, 4, 6).later(1, 1, 2) == Marks(4, 5, 8)
    assert Marks(3, 4, 0).later(1, 1, 2) == Marks(4, 5, 0)


def test_a_moved_threshold_moves_the_case() -> None:
    strict, balanced, patient = (Thresholds(name)("repeated_call") for name in ("strict", "balanced", "patient"))
    assert strict.cut < balanced.cut < patient.cut
    assert len({tuple(marks.ladder().items()) for marks in (strict, balanced, patient)}) == 3
