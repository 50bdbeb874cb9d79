"""`duplicate_calls`: told, and no more than told."""

from __future__ import annotations

import pytest

from guardproxy.core.detectors.duplicate_calls import Settings, detect
from guardproxy.core.model import Rung
from tests.core.detectors.scripts import Turn, trails

A, B, C = (("sh", f'{{"cmd":"{name}"}}', f"did {name}") for name in "abc")
ERROR = ("sh", '{"cmd":"x"}', "Error: x")


@pytest.mark.parametrize(
    ("turns", "times"),
    [
        ([[A, A, A, A]], 4),  # case B02
        ([[A, B, A, B]], 3),
        ([[ERROR, ERROR]], 2),
        ([[A, B, C]], None),
        ([[A, A], B], None),  # a round ago
        ([A, A, A], None),
        ([[A, ("sh", '{"cmd":"a"}', "another answer")]], None),
        ([[A, ("sh", '{"cmd":"a"}', None)]], None),
    ],
)
def test_what_is_told(turns: list[Turn], times: int | None) -> None:
    found = detect(trails(turns)[-1], Settings())
    assert (found.spared.times if found and found.spared else None) == times
    assert found is None or found.rung is Rung.OBSERVE


def test_from_how_many_on_is_a_setting() -> None:
    trail = trails([[A, A, A]])[-1]
    assert detect(trail, Settings(least=2)) is not None
    assert detect(trail, Settings(least=3)) is None
