"""What the newest message of a trail shows, as bits: what rules begin with. Read once a turn, for all of them.

A rule that can have nothing to say without one of some signs names them in `NEEDS`, and is not asked on a turn that has
none of them: most turns have none at all.
"""

from __future__ import annotations

from guardproxy.core.bearing import NOTHING, Bearing
from guardproxy.core.detectors._count import FAILED, INVALID, ROUND_START, SKIPPED, THINK, has, repeats
from guardproxy.core.model import NO_FP, Kind, Step, Trail

REPEAT, ROW, STALE, FAILURE, MALFORMED, RANGE, PLAN, SAID, REPORT, REPLY = (1 << bit for bit in range(10))
"""A call that stands elsewhere, too; the tool and the answer of the round before; a result that was there before; an
error; a malformed call; a range that is read; a plan; words beside the call; a report of progress; no call at all."""

EVERY = (1 << 10) - 1
"""All of them."""

_CALL = Kind.CALL
_or = int.__or__


def signs(trail: Trail) -> int:
    """The signs of a trail with at least one step. There may be one too many, never one too few."""
    steps = trail.steps
    last = steps[-1]
    if last.kind is not _CALL:
        return EVERY
    begun = len(steps) - 1
    while begun and not (has(steps[begun].flags, ROUND_START) and steps[begun].kind is _CALL):
        begun -= 1
    newest = steps[begun:]
    shown = REPEAT if has(last.flags, THINK) or repeats(trail) else 0
    if [step.result for step in steps].count(last.result) > 1:
        shown |= STALE
    if _row(steps, begun):
        shown |= ROW
    flags = 0
    for step in newest:
        flags = _or(flags, step.flags)
        if step.bearing is not NOTHING:
            shown |= _borne(step.bearing)
    return shown | (FAILURE if flags & FAILED else 0) | (MALFORMED if flags & INVALID else 0)


def _borne(bearing: Bearing) -> int:
    found = RANGE if bearing.target != NO_FP else 0
    found |= PLAN if bearing.shape != NO_FP else 0
    found |= SAID if bearing.said != NO_FP else 0
    return found | (REPORT if bearing.report else 0)


def _row(steps: tuple[Step, ...], begun: int) -> bool:
    """Whether one of the two rounds before the newest message (a row may hold a stranger) has an answer of it again."""
    answers = {(step.tool, step.masked_result) for step in steps[begun:]}
    held, rounds = False, 0
    for place in range(begun - 1, -1, -1):
        step = steps[place]
        if step.kind is not _CALL:
            continue
        if not has(step.flags, SKIPPED):
            if (step.tool, step.masked_result) in answers:
                return True
            held = True
        if held and has(step.flags, ROUND_START):
            held, rounds = False, rounds + 1
            if rounds > 1:
                return False
    return False
