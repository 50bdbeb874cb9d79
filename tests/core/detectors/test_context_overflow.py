"""`context_overflow`: refused for its length again and again, with nothing new between."""

from __future__ import annotations

import pytest

from guardproxy.core.detectors import default_settings, detect_all
from guardproxy.core.detectors.context_overflow import Settings, detect
from guardproxy.core.model import Rung, Step, Trail
from tests.core.detectors.scripts import PRINTER, steps_of


def trail(line: str) -> Trail:
    """`a # # b`: a call with its own result, `#` a refused length, `-` a reply."""
    found: list[Step] = []
    for at, word in enumerate(line.split()):
        if word == "#":
            found.append(PRINTER.refused_length(at))
        else:
            found += steps_of("a reply" if word == "-" else ("look", f'{{"n":"{at}x"}}', f"saw {word}"), at)
    return Trail(tuple(found))


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("a #", None),
        ("a # #", 2),
        ("a # # # #", 4),
        ("a # # # a #", 4),  # what was known before
        ("a # # # b #", None),  # something new
        ("a # # # b # #", 2),
        ("a # # - # #", 2),  # an answer came
        ("a # - # - # #", 2),
        ("a # # # b", None),  # it went on
        ("# # #", 3),
    ],
)
def test_counts(line: str, count: int | None) -> None:
    found = detect(trail(line), Settings())
    assert (found.count if found else None) == count


def test_clients_may_try_three_times() -> None:
    rungs = [found.rung if (found := detect(trail("a" + " #" * n), Settings())) else 0 for n in range(2, 9)]
    assert rungs == [*[Rung.OBSERVE] * 2, *[Rung.NUDGE] * 3, Rung.FINALIZE, Rung.CUT]


def test_no_other_rule_takes_it_for_a_reply() -> None:
    found = detect_all(trail("a" + " #" * 9), default_settings())
    assert [one.rule for one in found] == ["context_overflow"]
