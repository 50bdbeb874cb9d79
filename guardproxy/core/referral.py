"""Results that hold nothing but a reference to an earlier one: "file unchanged since last read, see above".

Agents answer so to save context (Claude Code, Qwen Code and Hermes in their file readers, others after them). By its
own words such an answer is the one that the same call got before, so that this is what it counts as: a loop shows as
early as it would without the saving. A fact holds no content; what marks the answer is a fingerprint of its own, and a
trail puts the earlier one in its place.
"""

from __future__ import annotations

import re
from dataclasses import replace

from guardproxy.core.model import NO_FP, Flag, Fp, Kind, Step, Trail

REFERRAL: Fp = b"\xff" * 16
"""What stands in a fact for such an answer."""

LONGEST = 1_000
"""Characters of the longest: they are made to be short; some show the beginning of what they refer to."""

BEFORE = 240
"""Characters at most before the words: a path may stand there."""

WORDS = 60
"""Characters of the longest such words."""

RECENT = 6
"""Newest steps of which one must be such an answer, or nothing is read: as many as the longest cycle has calls."""

_REFERS = re.compile(
    r"(?:unchanged|unmodified|not (?:been )?(?:changed|modified)|no changes?) since "
    r"(?:(?:your|the|its) )?(?:(?:last|latest|previous|prior|earlier) (?:full |complete )?|it was last )"
    r"(?:read|view|fetch|retriev)"
)
_SHOWN = re.compile(r"\s*\d+[^\w\s.,]|\s*\d+\t|[^\n]*:\d+[:\-]")
"""A line as tools show it of a file, with its number: the words are what the file says."""

_OF_RESULTS = int(Flag.VOID | Flag.PENDING | Flag.MEDIA | Flag.SILENT | Flag.ZERO)
_NO_SOURCE = int(Flag.FAILED | Flag.CLEARED | Flag.UNANSWERED)
_has = int.__and__


def refers(text: str) -> bool:
    """Whether a result's body, of a tool that only looks, is no more than a reference to an earlier one."""
    if len(text) > LONGEST or ("ed since " not in text and "o change" not in text):
        return False
    found = _REFERS.search(text[: BEFORE + WORDS].lower())
    if found is None or found.start() > BEFORE:
        return False
    before = text[: found.start()]
    return ("\n" not in before or before[0] in "{[") and _SHOWN.match(before) is None


def resolved(trail: Trail) -> Trail:
    """The trail in which such an answer is the last one that the same call got; without one it stays what it is."""
    steps = trail.steps
    if REFERRAL not in [one.result for one in steps[-RECENT:]]:
        return trail  # nearly always
    known: dict[Fp, Step] = {}
    made: list[Step] = []
    for one in steps:
        step = one
        if one.kind is Kind.CALL:
            if one.result != REFERRAL:
                if one.result != NO_FP and not _has(one.flags, _NO_SOURCE):
                    known[one.near] = one
            elif (source := known.get(one.near)) is not None:
                step = _as(one, source)
        made.append(step)
    return Trail(tuple(made), trail.first)


def _as(one: Step, source: Step) -> Step:
    """The step with the result of another one, and with what that brought of a file."""
    flags = Flag(_has(one.flags, ~_OF_RESULTS) | _has(source.flags, _OF_RESULTS))
    own, brought = one.bearing, source.bearing
    bears = brought._replace(said=own.said, report=own.report, rest_ms=own.rest_ms)
    return replace(
        one,
        result=source.result,
        masked_result=source.masked_result,
        signature=source.signature,
        flags=flags,
        bearing=bears,
    )
