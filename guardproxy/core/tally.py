"""How many failures a check tells of: whether it gets better is what shows progress, and none is what is hoped for.

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


LAST = 240
"""Characters at the end of a result in which a success is told."""

_PASSED = re.compile(
    r"(?<!\d)[1-9]\d{0,6} (?:tests? |checks? |specs? |examples? )?pass(?:ed|ing)\b"
    r"|all (?:\d{1,6} )?(?:tests?|checks?) pass(?:ed)?\b"
)
_CLEAN = (
    "test result: ok",
    "build success",
    "no issues",
    "no errors",
    "no problems",
    " 0 errors",
    " 0 failed",
    "\nok (",
)


def passed(text: str) -> bool:
    """Whether the result of a check that did not fail says that all is well: green tests, a clean build."""
    end = "\n" + text[-LAST:].lower()
    if "pass" in end and _PASSED.search(end) is not None:
        return True
    if "ok" in end or "no " in end or " 0 " in end or "build s" in end:  # one of these is in all that follow
        return any(map(end.__contains__, _CLEAN)) or "\nok \t" in end or "\nok  " in end
    return False


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
