"""The few properties that the nouns have."""

from __future__ import annotations

import pytest

from guardproxy.core.model import NO_FP, Finding, Rung, Trail, Triple
from tests.core.talk import step, steps

LADDERS = {
    # one rung a count, from 1; finalize stands at cut - 1 where that is above firm
    (3, 4, 6): "OBSERVE OBSERVE NUDGE FIRM FINALIZE CUT CUT",
    (3, 4, 5): "OBSERVE OBSERVE NUDGE FIRM CUT CUT",
    (2, 3, 4): "OBSERVE NUDGE FIRM CUT CUT",
    (4, 5, 8): "OBSERVE OBSERVE OBSERVE NUDGE FIRM FIRM FINALIZE CUT",
    (3, 4, 0): "OBSERVE OBSERVE NUDGE FIRM FIRM FIRM FIRM",
    (3, 0, 0): "OBSERVE OBSERVE NUDGE NUDGE NUDGE",
    (0, 0, 0): "OBSERVE OBSERVE OBSERVE",
    (0, 0, 3): "OBSERVE FINALIZE CUT",
}


@pytest.mark.parametrize("triple", LADDERS, ids=str)
def test_rungs(triple: tuple[int, int, int]) -> None:
    rungs = LADDERS[triple].split()

    assert [Triple(*triple).rung(count).name for count in range(1, len(rungs) + 1)] == rungs


def test_a_finding_stands_where_its_count_is() -> None:
    finding = Finding("cycle", 4, Triple(3, 4, 6), NO_FP, (), "", ())

    assert finding.rung is Rung.FIRM


@pytest.mark.parametrize(("first", "line", "last"), [(0, "a b c", 2), (40, "a", 40), (7, "", 6)])
def test_last_ordinal(first: int, line: str, last: int) -> None:
    assert Trail(steps(line), first).last == last


def test_a_pair_is_the_action_with_its_result() -> None:
    one, cosmetic, other = step("f", '{"a": 1}'), step("f", '{ "a":1.0 }'), step("f", '{"a": 1}', "new")

    assert one.pair == cosmetic.pair
    assert one.pair != other.pair
