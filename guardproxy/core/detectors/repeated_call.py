"""The same call (or the same set of parallel calls) with the same result, again and again with nothing in between.

Sees: exact repeats and cosmetic variants, across messages, whatever text stands between them; parallel duplicates count
once, and a thought or a pause that stands alone many times. Leaves failed calls to `repeated_error`, "not ready"
answers to `unchanged_poll`, malformed calls to `invalid_call`. Looks between which the agent itself pauses for a minute
or more each time are a schedule ("check every five minutes"): that all is well is the news, and it is never ended.
Cost: as many rounds as the streak is long. Known false alarm: a reader without a position whose pages happen to be
equal.
"""

from __future__ import annotations

from dataclasses import dataclass

from guardproxy.core.detectors._count import (
    FAILED,
    INVALID,
    MEDIA,
    PENDING,
    THINK,
    VOID,
    evidence,
    has,
    in_row,
    members,
    named,
    recurs,
    rounds,
    scheduled,
    streak,
)
from guardproxy.core.detectors._signs import REPEAT
from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Finding, Trail, Triple

NEEDS = REPEAT


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds: three is what most systems chose; clients throw a run away at four to six."""

    triple: Triple = Triple(3, 4, 6)
    """Equal rounds in a row (cases B01, B04, B13)."""

    batch: Triple = Triple(3, 4, 5)
    """Equal sets of parallel calls in a row; each costs several calls, so the end comes earlier."""

    thoughts: Triple = Triple(8, 12, 20)
    """The same thought, calculation or pause in a row: no evidence for others, but nothing happens any more."""

    scheduled: Triple = Triple(30, 0, 0)
    """Equal answers to looks at announced intervals: hours of them, and about as many as a ring holds."""


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Count how many rounds in a row are the same as the newest."""
    if trail.steps and has(trail.steps[-1].flags, THINK):
        return _thoughts(trail, settings)
    run = streak(rounds(trail))
    if not run or (len(run) == 1 and not run[0].twins):
        return None
    if run[0].every(FAILED) or run[0].every(PENDING) or run[0].every(INVALID):
        return None
    triple = settings.triple if len(run[0].steps) == 1 else settings.batch
    what = "an empty result" if run[0].every(VOID) else "the same result"
    reason = f"{named(run)} called {len(run)} times in a row with {what}"
    nears, unit, at = members(run), len(run[0].steps), evidence(run)
    spared = None
    if scheduled(run, range(len(run))):
        if settings.scheduled.rung(len(run)) < triple.rung(len(run)):
            spared = Spared(Exemption.LONG_PAUSES, "repeated_call", len(run), at)
        triple = settings.scheduled
    elif run[0].twins:
        spared = Spared(Exemption.DUPLICATE_IN_ROUND, "repeated_call", len(run) + run[0].twins, at)
    return Finding("repeated_call", len(run), triple, nears[0], nears, reason, at, unit, spared)


def spare(trail: Trail, settings: Settings) -> Spared | None:
    """Equal calls in a row that would be spoken of, were they not answered differently."""
    least = settings.triple.nudge
    if not least or not recurs(trail, least):
        return None
    run = in_row(rounds(trail))
    if len(run) < least or run[0].every(FAILED) or run[0].every(INVALID) or len({one.key for one in run}) == 1:
        return None
    because = Exemption.IMAGES if run[0].every(MEDIA) else Exemption.CHANGED_RESULTS
    return Spared(because, "repeated_call", len(run), evidence(run))


def _thoughts(trail: Trail, settings: Settings) -> Finding | None:
    newest, run = trail.steps[-1], 0
    for step in reversed(trail.steps):
        if step.pair != newest.pair:
            break
        run += 1
    if run < 2:
        return None
    reason = f"{newest.tool} called {run} times in a row, and nothing else"
    at = tuple(range(trail.last - run + 1, trail.last + 1))
    held = settings.thoughts.rung(run) < settings.triple.rung(run)
    spared = Spared(Exemption.WAIT_TOOL, "repeated_call", run, at) if held else None
    return Finding("repeated_call", run, settings.thoughts, newest.near, (newest.near,), reason, at, 1, spared)
