"""`cycle`: periods two to six, laps with equal results, the shortest period first."""

from __future__ import annotations

import pytest

from guardproxy.core.detectors.cycle import Settings, detect
from guardproxy.core.model import Rung
from tests.core.detectors.scripts import Turn, trails


def lap(period: int, answer: str = "same") -> list[Turn]:
    return [(f"tool{number}", '{"x":1}', f"{answer} {number}") for number in range(period)]


@pytest.mark.parametrize(
    ("turns", "laps", "unit"),
    [
        (lap(2), None, None),
        (lap(2) * 2, 2, 2),
        (lap(2) * 3, 3, 2),
        ([*lap(2) * 3, *lap(2)[:1]], 3, 2),
        (lap(3) * 3, 3, 3),
        (lap(6) * 4, 4, 6),
        (lap(7) * 3, None, None),
        (lap(1) * 6, None, None),  # `repeated_call`
        ([turn for n in range(4) for turn in lap(2, f"answer {'x' * n}")], None, None),
        ([*lap(2) * 3, ("other", "{}", "new")], None, None),
        ([*lap(2)[:1], ("think", '{"thought":"a"}', "OK."), *lap(2)[1:]] * 3, 3, 2),
        ([[*lap(3)], ("other", "{}", "x")] * 3, 3, 4),
        ([("a", "{}", "still running"), ("b", "{}", "still running")] * 4, None, None),
        ([*[*lap(2), ("wait", '{"seconds":300}', "")] * 4, *lap(2)], 5, 2),
    ],
)
def test_laps(turns: list[Turn], laps: int | None, unit: int | None) -> None:
    found = detect(trails(turns)[-1], Settings())
    assert (found.count if found else None) == laps
    assert (found.unit if found else None) == unit


def test_the_subject_does_not_depend_on_where_the_circle_is_entered() -> None:
    whole = detect(trails(lap(3) * 3)[-1], Settings())
    later = detect(trails([*lap(3) * 3, *lap(3)[:1]])[-1], Settings())
    assert whole is not None
    assert later is not None
    assert whole.subject == later.subject
    assert set(whole.members) == set(later.members)
    assert whole.evidence == tuple(range(9))


@pytest.mark.parametrize(("seconds", "rung"), [(300, Rung.OBSERVE), (60, Rung.OBSERVE), (10, Rung.CUT)])
def test_rounds_of_checks_by_a_clock_are_only_observed(seconds: int, rung: Rung) -> None:
    wait: Turn = ("wait", f'{{"seconds":{seconds}}}', "")
    found = detect(trails([*[*lap(2), wait] * 5, *lap(2)])[-1], Settings())
    assert found is not None
    assert found.rung is rung
    assert (found.spared is not None) == (rung is Rung.OBSERVE)
