"""`no_progress`: failing checks that do not move, and reports without a gain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from guardproxy.core.detectors import nothing_new
from guardproxy.core.detectors.no_progress import Settings, detect
from guardproxy.core.exemption import Exemption
from guardproxy.core.model import Rung, Trail
from tests.core.detectors.scripts import Turn, trails

LOG = "ran the suite\nexpected 1, got 2\n"


def edit(number: int) -> Turn:
    return ("edit", f'{{"p":"a.py","new":"v{number}"}}', "edited")


def check(result: str, args: str = "") -> Turn:
    return ("sh", f'{{"cmd":"pytest -q{args}"}}', result)


def cycle(*results: str, args: bool = False) -> list[Turn]:
    """An edit and the check with each of the results; with other arguments each time, if so wished."""
    return [
        turn
        for number, result in enumerate(results)
        for turn in (edit(number), check(result, f" -k part{chr(97 + number)}" if args else ""))
    ]


def look(number: int) -> Turn:
    return ("look", f'{{"at":"{chr(97 + number)}"}}', f"saw {chr(97 + number)}")


@pytest.mark.parametrize(
    ("turns", "count"),
    [
        (cycle("3 failed"), None),
        (cycle(*["3 failed"] * 6), 6),
        (cycle(*["3 failed"] * 6, args=True), 6),
        (cycle("5 failed", "4 failed", "3 failed", "2 failed", "1 failed"), None),  # it gets better
        (cycle(*["3 failed"] * 5, "2 failed"), None),
        (cycle(*["3 failed"] * 5, "4 failed"), None),  # it moves, if not forwards
        (cycle("3 failed", "2 failed", "3 failed"), None),  # the same check has moved in between
        (cycle(*["3 failed"] * 3, "5 passed", *["3 failed"] * 2), 2),
        (cycle(*[LOG + f"AssertionError: wrong in {n} ms" for n in range(6)]), 6),
        (cycle(LOG + "AssertionError: wrong", LOG + "TypeError: wrong", LOG + "AssertionError: wrong"), None),
        ([check("3 failed"), look(0), check("3 failed"), look(1), check("3 failed")], None),  # nothing was changed
        ([*cycle("3 failed", "3 failed"), look(0), look(1), *cycle("3 failed")], 3),
        ([*cycle("3 failed", "3 failed"), *map(look, range(6)), *cycle("3 failed")], None),  # a longer pause
        ([turn for n in range(6) for turn in (edit(n), ("sh", f'{{"cmd":"grep x{n}"}}', ""))], None),
        ([*cycle(*["3 failed"] * 6), look(0)], None),  # the newest is no failure
        ([turn for n in range(6) for turn in (edit(n), ("sh", f'{{"cmd":"c{n}"}}', f"Error: accuracy 0.8{n}"))], None),
        ([turn for n in "abcdef" for turn in (edit(1), ("sh", f'{{"cmd":"{n}"}}', f"Error: no {n * 3} here"))], None),
    ],
)
def test_failing_checks(turns: list[Turn], count: int | None) -> None:
    found = detect(trails(turns)[-1], Settings())
    assert (found.count if found else None) == count


def test_it_is_ended_only_when_it_is_hopeless() -> None:
    rungs = [found.rung if (found := detect(t, Settings())) else 0 for t in trails(cycle(*["3 failed"] * 24))[1::2]]
    assert rungs[1:5] == [Rung.OBSERVE] * 4
    assert rungs[5:22] == [Rung.NUDGE] * 17
    assert rungs[22:] == [Rung.FINALIZE, Rung.CUT]


def reported(turns: list[Turn], reports: list[tuple[int, ...] | None]) -> Trail:
    """The trail of turns whose requests brought these reports, the newest last."""
    trail = trails(turns)[-1]
    told = [None] * (len(trail.steps) - len(reports)) + reports
    steps = (
        replace(step, bearing=step.bearing._replace(report=report or ()))
        for step, report in zip(trail.steps, told, strict=True)
    )
    return Trail(tuple(steps), trail.first)


SAME = (1, 1, 1, 1, 1)
FRESH = [look(number) for number in range(20)]


@pytest.mark.parametrize(
    ("reports", "count"),
    [
        ([SAME], None),
        ([SAME] * 3, 2),
        ([SAME] * 5, 4),  # the first is what the others are measured by
        ([(n, 1, 1, 1, 1) for n in range(12)], None),
        ([SAME, SAME, (2, 1, 1, 1, 1), SAME, SAME], 2),
        ([SAME, (1, 2, 1, 1, 1), (1, 1, 1, 1, 2), SAME, SAME], 4),  # worse and back again
        ([SAME] * 6 + [(1, 0, 1, 1, 1)], None),
        ([SAME] * 6 + [None], None),  # it reports no more
        ([SAME, None, SAME, None, SAME, SAME], 3),
    ],
)
def test_reports(reports: list[tuple[int, ...] | None], count: int | None) -> None:
    found = detect(reported(FRESH, reports), Settings())
    assert (found.count if found else None) == count


def test_four_reports_without_a_gain_are_said_and_none_ends() -> None:
    rungs = [f.rung if (f := detect(reported(FRESH, [SAME] * n), Settings())) else 0 for n in range(3, 20)]
    assert rungs[:2] == [Rung.OBSERVE] * 2
    assert rungs[2:6] == [Rung.NUDGE] * 4
    assert set(rungs[6:]) == {Rung.FIRM}


GAINED = Exemption.REPORTED_PROGRESS
AGAIN = [look(number) for number in (0, 1, 2, 1, 0, 2, 1, 0, 2)]


@pytest.mark.parametrize(
    ("reports", "count", "spared"),
    [
        ([None] * 9, 6, None),
        ([SAME] * 9, 6, None),
        ([SAME] * 6 + [(2, 1, 1, 1, 1)] * 3, 2, GAINED),
        ([SAME] * 8 + [(2, 1, 1, 1, 1)], 1, GAINED),
        ([SAME] + [(2, 1, 1, 1, 1)] * 8, 6, None),  # before it all began
    ],
)
def test_a_gain_begins_the_count_of_nothing_new_anew(
    reports: list[tuple[int, ...] | None], count: int, spared: Exemption | None
) -> None:
    found = nothing_new.detect(reported(AGAIN, reports), nothing_new.Settings())
    assert found is not None
    assert (found.count, found.spared and found.spared.because) == (count, spared)
