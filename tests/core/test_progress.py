"""`progress`: which reports are taken, and which are a gain."""

from __future__ import annotations

import pytest

from guardproxy.core.bearing import ABSENT
from guardproxy.core.progress import FIELDS, MOST, gains, read


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        ({"completed_steps": 3}, (3, ABSENT, ABSENT, ABSENT, ABSENT)),
        (dict.fromkeys(FIELDS, 0), (0, 0, 0, 0, 0)),
        ({"artifacts": MOST, "unresolved": None, "mood": "good"}, (ABSENT, ABSENT, ABSENT, MOST, ABSENT)),
    ],
)
def test_what_is_taken(value: object, numbers: tuple[int, ...]) -> None:
    assert read(value) == numbers


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        (None, "JSON object"),
        ([1], "JSON object"),
        ({}, "must hold one of completed_steps"),
        ({"completed_step": 1}, "must hold one of"),
        ({"unresolved": -1}, "`unresolved` must be an integer from 0"),
        ({"unresolved": True}, "`unresolved` must be"),
        ({"unresolved": 1.0}, "`unresolved` must be"),
        ({"unresolved": "1"}, "`unresolved` must be"),
        ({"unresolved": MOST + 1}, "`unresolved` must be"),
        ({"completed_steps": 1, "artifacts": [1]}, "`artifacts` must be"),
    ],
)
def test_what_is_refused(value: object, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        read(value)


def report(line: str) -> tuple[int, ...]:
    return tuple(ABSENT if word == "-" else int(word) for word in line.split())


@pytest.mark.parametrize(
    ("lines", "gained"),
    [
        ([], []),
        (["1 5 0 0 9"], [False]),
        (["1 5 0 0 9", "2 5 0 0 9"], [False, True]),  # another step
        (["1 5 0 0 9", "1 4 0 0 9"], [False, True]),  # one open question less
        (["1 5 0 0 9", "1 5 0 0 8"], [False, True]),
        (["1 5 0 0 9", "1 6 0 0 9"], [False, False]),  # one more is none
        (["1 5 0 0 9", "0 5 0 0 9", "1 5 0 0 9"], [False, False, False]),  # back where it was
        (["3 - - - -", "2 - - - -", "3 - - - -", "4 - - - -"], [False, False, False, True]),
        (["3 - - - -", "- 7 - - -", "- 6 - - -"], [False, False, True]),
    ],
)
def test_what_is_a_gain(lines: list[str], gained: list[bool]) -> None:
    assert gains([report(line) for line in lines]) == gained
