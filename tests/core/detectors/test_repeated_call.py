"""`repeated_call`: the same call and result in a row; what it leaves to others; what it tells."""

from __future__ import annotations

import pytest

from guardproxy.core.detectors.repeated_call import Settings, detect
from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Rung, Triple
from tests.core.detectors.scripts import Turn, trails

SAME: Turn = ("look", '{"at":"x"}', "there it is")
BOTH: Turn = [("f", '{"x":1}', "one"), ("g", '{"y":2}', "two")]
SWAPPED: Turn = [("g", '{"y":2}', "two"), ("f", '{"x":1}', "one")]


THINK: Turn = ("think", '{"thought":"hm"}', "ok")


@pytest.mark.parametrize(
    ("turns", "count"),
    [
        ([THINK] * 8, 8),
        ([("sh", '{"command":"sleep 5"}', "")] * 8, 8),
        ([THINK, ("look", "{}", "x")] * 8, 8),  # the look repeats: thoughts do not part it
        ([("think", f'{{"thought":"{n}"}}', "ok") for n in "abcdefgh"], None),
        ([*[THINK] * 4, "well", *[THINK] * 3], 3),
    ],
)
def test_thoughts_alone(turns: list[Turn], count: int | None) -> None:
    found = detect(trails(turns)[-1], Settings())
    assert (found.count if found else None) == count
    if found and turns[-1][0] != "look":  # type: ignore[index]
        assert found.triple == Settings().thoughts


@pytest.mark.parametrize(
    ("turns", "count"),
    [
        ([], None),
        ([SAME], None),
        ([SAME] * 2, 2),
        ([SAME] * 5, 5),
        ([SAME, ("look", '{"at":"y"}', "no"), SAME, SAME], 2),
        ([SAME, SAME, ("look", '{"at":"x"}', "something else")], None),
        ([SAME, "a reply without a call", SAME, SAME], 3),
        ([SAME, ("think", '{"thought":"hm"}', "OK."), SAME, SAME], 3),
        ([SAME, SAME, SAME, "a reply without a call"], None),
        ([SAME, SAME, SAME, ("think", '{"thought":"hm"}', "OK.")], None),
        ([SAME, ("look", '{"at":"x"}', None), SAME], 2),
        ([BOTH, SWAPPED, BOTH], 3),
        ([BOTH, SAME, BOTH], None),
        ([("book", "{}", "Error: full")] * 3, None),
        ([("status", "{}", "still running")] * 3, None),
        ([("f", "{broken", "x")] * 3, None),
    ],
)
def test_counts(turns: list[Turn], count: int | None) -> None:
    found = detect(trails(turns)[-1], Settings()) if turns else detect(trails([SAME])[0], Settings())
    assert (found.count if found else None) == count


def test_a_round_of_equal_calls_is_one_occurrence_and_says_so() -> None:
    found = detect(trails([[SAME] * 4])[-1], Settings())  # type: ignore[list-item]
    assert found is not None
    assert (found.count, found.rung, found.spared) == (
        1,
        Rung.OBSERVE,
        Spared(Exemption.DUPLICATE_IN_ROUND, "repeated_call", 4, (0,)),
    )


def test_evidence_members_and_unit() -> None:
    trail = trails([("read", "{}", "a"), BOTH, BOTH, BOTH])[-1]
    found = detect(trail, Settings())
    assert found is not None
    assert found.evidence == (1, 2, 3, 4, 5, 6)
    assert set(found.members) == {step.near for step in trail.steps[1:]}
    assert (found.unit, found.triple) == (2, Settings().batch)
    assert "g, f" in found.reason or "f, g" in found.reason


def test_thresholds_are_settings() -> None:
    found = detect(trails([SAME] * 2)[-1], Settings(triple=Triple(2, 0, 0)))
    assert found is not None
    assert found.rung is Rung.NUDGE


@pytest.mark.parametrize(
    ("times", "wait", "rung"),
    [
        (3, '{"command":"sleep 60"}', Rung.OBSERVE),
        (24, '{"command":"sleep 300"}', Rung.OBSERVE),
        (30, '{"command":"sleep 300"}', Rung.NUDGE),
        (32, '{"command":"sleep 5m"}', Rung.NUDGE),
        (6, '{"command":"sleep 59"}', Rung.CUT),
        (3, '{"command":"date"}', Rung.OBSERVE),  # no row at all
    ],
)
def test_a_schedule_is_never_ended(times: int, wait: str, rung: Rung) -> None:
    turns = [turn for k in range(times) for turn in (SAME, ("bash", wait, f"{k}" if "date" in wait else ""))]
    found = detect(trails(turns[:-1])[-1], Settings())
    assert (found.rung if found else Rung.OBSERVE) is rung
    if found and rung is Rung.OBSERVE:
        assert found.spared == Spared(Exemption.LONG_PAUSES, "repeated_call", times, tuple(range(0, 2 * times, 2)))


def test_pauses_in_the_look_itself_count() -> None:
    look: Turn = ("bash", '{"command":"sleep 300; curl -s x"}', "it is well")
    steps = trails([look] * 6)[-1].steps
    assert {step.bearing.rest_ms for step in steps} == {300_000}
