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
    r"\b[1-9]\d{0,6} (?:tests? |checks? |specs? |examples? )?pass(?:ed|ing)\b"
    r"|\ball (?:\d+ )?(?:tests?|checks?) pass(?:ed)?\b|\btest result: ok\b|^ok\s+\S+\s|^ok \(\d+ tests?\)"
    r"|\bbuild success|\b(?:no|0) (?:issues|errors|problems)\b|\b0 fail(?:ed|ures)\b",
    re.MULTILINE,
)


def passed(text: str) -> bool:
    """Whether the result of a check that did not fail says that all is well: green tests, a clean build."""
    end = text[-LAST:].lower()
    if "pass" not in end and "ok" not in end and "succ" not in end and "no " not in end and "0 " not in end:
        return False
    return _PASSED.search(end) is not None


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
