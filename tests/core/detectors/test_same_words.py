"""`same_words`: equal words beside different calls, told and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from guardproxy.core.detectors.same_words import Settings, detect
from guardproxy.core.model import NO_FP, Rung, Step, Trail
from tests.core.detectors.scripts import PRINTER, steps_of


def trail(line: str) -> Trail:
    """`x:a x:b :c -`: words and the call beside them; `-` is a reply without a call."""
    found: list[Step] = []
    for word in line.split():
        if word == "-":
            found += steps_of("a reply", 0)
            continue
        said, _, call = word.partition(":")
        (made,) = steps_of(("sh", f'{{"cmd":"{call}"}}', f"did {call}"), 0)
        words = PRINTER.words(said) if said else NO_FP
        found.append(replace(made, bearing=made.bearing._replace(said=words)))
    return Trail(tuple(found))


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("x:a x:b x:c", None),
        ("x:a x:b x:c x:d", 4),
        ("x:a x:b x:c X:d", 4),
        ("y:a x:b x:c x:d x:e", 4),
        ("x:a x:b y:c x:d x:e", None),
        ("x:a x:b :c x:d x:e", None),
        (":a :b :c :d :e", None),  # no words at all
        ("x:a x:a x:a x:a x:a", None),  # `repeated_call`
        ("x:a x:b x:c x:d -", None),
        ("x:a x:b - x:c x:d", None),
    ],
)
def test_counts(line: str, count: int | None) -> None:
    found = detect(trail(line), Settings())
    assert (found.count if found else None) == count
    assert found is None or found.rung is Rung.OBSERVE
