"""`nothing_new`: rounds in a row that only repeat earlier pairs."""

from __future__ import annotations

import pytest

from guardproxy.core.detectors.nothing_new import Settings, detect
from tests.core.detectors.scripts import Turn, trails

A, B, C = (("look", f'{{"at":"{place}"}}', f"saw {place}") for place in "abc")
NEW: Turn = ("look", '{"at":"d"}', "saw d")


@pytest.mark.parametrize(
    ("turns", "count"),
    [
        ([A, B, C], None),
        ([A, B, C, B, A, C, A, B], 5),
        ([A, B, C, B, A, NEW], None),
        ([A, B, C, B, A, NEW, A, C], 2),
        ([A, B, A, B, ("look", '{"at":"a"}', "saw something else")], None),
        ([A, A, A, A, A, A], None),  # `repeated_call`
        ([[A, B], [B, NEW], [A, NEW], [B, A]], 2),
        ([("touch_create", '{"p":"a"}', ""), ("touch_create", '{"p":"b"}', "")] * 4, None),
    ],
)
def test_counts(turns: list[Turn], count: int | None) -> None:
    found = detect(trails(turns)[-1], Settings())
    assert (found.count if found else None) == count
