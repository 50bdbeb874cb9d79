"""How many failures a failing check tells of: whether it gets better is what shows progress.

Understood: "3 failed, 2 errors", "Failures: 1, Errors: 2", "3 tests failed", "FAILED (failures=2)". The last line that
tells a number counts: runners sum up at the end.
"""

from __future__ import annotations

import re

EDGE = 1_200
"""Characters at the end of a result that are searched: sums stand there."""

_NUMBER = re.compile(
    r"(?<![\w.])(\d{1,7}) (?:(?:tests?|checks?|specs?|cases?|examples?) )?(?:failed|failing|failures?|errors?)\b"
    r"|\b(?:failed|failing|failures?|errors?)(?: ?= ?|: )(\d{1,7})\b"
)


def failures(text: str) -> int:
    """The number of failures that the last line with one tells; -1: none does."""
    end = text[-EDGE:].lower()
    if "fail" not in end and "error" not in end:
        return -1
    for line in reversed(end.split("\n")):
        told = [int(before or after) for before, after in _NUMBER.findall(line)]
        if told:
            return sum(told)
    return -1
