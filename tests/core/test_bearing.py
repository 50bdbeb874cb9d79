"""`bearing`: what most steps have nothing of."""

from __future__ import annotations

import pytest

from guardproxy.core.bearing import ABSENT, NOTHING, Bearing
from guardproxy.core.fact import pack
from guardproxy.core.model import NO_FP, Step
from tests.core.talk import step

ANY = bytes(range(16))


def test_most_steps_bear_on_nothing_and_cost_nothing_for_it() -> None:
    plain = step("f", '{"a":1}')
    assert plain.bearing is NOTHING
    assert NOTHING.target == NOTHING.shape == NOTHING.said == NO_FP


@pytest.mark.parametrize(
    ("bearing", "more"),
    [
        (Bearing(), 0),
        (Bearing(ANY, 1, 40), 32),
        (Bearing(shape=ANY), 16),
        (Bearing(said=ANY), 16),
        (Bearing(report=(1, 2, 3, 4, ABSENT)), 20),
        (Bearing(left=0), 4),
        (Bearing(ANY, 1, 2, ANY, ANY, (0, 0, 0, 0, 0), 3), 88),
    ],
)
def test_a_fact_grows_by_what_there_is(bearing: Bearing, more: int) -> None:
    plain = step("f")
    bearing_step = Step(**{name: getattr(plain, name) for name in plain.__slots__} | {"bearing": bearing})
    assert len(pack(bearing_step)) - len(pack(plain)) == more
