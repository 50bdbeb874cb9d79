"""`nothing_new`: rounds in a row that only repeat earlier pairs."""

from __future__ import annotations

import pytest

from guardproxy.core.detectors.nothing_new import Settings, detect
from tests.core.detectors.scripts import Turn, trails

A, B, C = (("look", f'{{"at":"{place}"}}', f"saw {place}") for place in "abc")
EDIT: Turn = ("edit", '{"p":"a","new":"1"}', "ok")
SAVED, SAVED_TOO = (("edit", f'{{"new":"{n}"}}', "the fix misses two of all lines") for n in "12")
REFUSED: Turn = ("edit", '{"p":"a","new":"2"}', "Error: no such text")
WAIT: Turn = ("wait", '{"seconds":90}', "")
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
        ([A, B, C, EDIT, A, B, C, A, B], 2),  # looking again after a change is a check
        ([A, B, C, EDIT, A, B, C, EDIT, A, B, C], 4),  # the same change again is none
        ([A, B, C, SAVED, A, B, C, SAVED_TOO, A, B, C, B], 4),  # nor is one that is told of in the same words
        ([A, B, C, REFUSED, A, B, C], 3),
        ([A, B, C, SAVED, A, B, C], None),
        ([A, B, C, WAIT, A, B, C, A, B], 2),
        ([("touch_create", '{"p":"a"}', ""), ("touch_create", '{"p":"b"}', "")] * 4, None),
    ],
)
def test_counts(turns: list[Turn], count: int | None) -> None:
    found = detect(trails(turns)[-1], Settings())
    assert (found.count if found else None) == count
