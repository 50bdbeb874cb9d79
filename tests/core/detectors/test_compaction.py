"""`compaction`: the conversation is shortened again and again, and nothing new comes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from guardproxy.core.detectors.compaction import Settings, detect
from guardproxy.core.model import Rung, Step, Trail
from tests.core.detectors.scripts import steps_of


def trail(line: str) -> Trail:
    """`a2 b4 +c6 -`: call and place of its message; its result is the letter's, a `+` makes it new, `!` edits."""
    found: list[Step] = []
    for number, word in enumerate(line.split()):
        if word == "-":
            found += steps_of("a reply", 0)
            continue
        name = word.lstrip("+!")
        tool = "edit" if "!" in word else "look"
        answer = f"saw {number}" if "+" in word else "edited it" if "!" in word else f"saw {name[0]}"
        (made,) = steps_of((tool, f'{{"at":"{name[0]}","n":"{number}x"}}', answer), 0)
        found.append(replace(made, place=int(name[1:])))
    return Trail(tuple(found))


LAP = " a2 b4 c6"


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("a2 b4 c6 d8 e10", None),
        ("a2 b4 c6 a2", 1),
        (LAP * 3, 2),
        (LAP * 3 + " a2", 3),
        (LAP * 6 + " a2", 6),
        (LAP * 3 + " +d2", None),  # something new
        (LAP * 3 + " a2 +d4" + " a2", None),
        (LAP * 2 + " a2 b4 +d6 a2", 1),
        (LAP * 2 + " a2 !b4 c6 a2", 1),  # an edit is new
        (LAP * 2 + " a2 b4 c6 -", None),
        ("a2 b4 a2 b4 a2 b4 a2", None),  # too short to tell
        ("a20 b22 c24 a22 b20 c18", None),  # a message or two less
        ("a20 b22 c24 a0 b0 c0", None),  # places that are not known
    ],
)
def test_counts(line: str, count: int | None) -> None:
    found = detect(trail(line), Settings())
    assert (found.count if found else None) == count


def test_case_b57() -> None:
    rungs = [found.rung if (found := detect(trail(LAP * laps + " a2"), Settings())) else 0 for laps in range(1, 7)]
    assert rungs == [Rung.OBSERVE, Rung.OBSERVE, Rung.NUDGE, Rung.NUDGE, Rung.FINALIZE, Rung.CUT]
