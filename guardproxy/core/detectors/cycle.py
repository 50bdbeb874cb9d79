"""A round of two to six different steps gone through again and again, with the same results each time.

Sees: A B A B A B, A B C A B C A B C and so on, with results equal on all sides; parallel calls count as one place in
the cycle. Cost: one look at each of the last few rounds per period; most turns end at the first comparison. Known
false alarm: none on the development set; the same steps with changing results are no cycle, and a round of checks with
a pause of minutes after each, which the agent announces, is a schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guardproxy.core.detectors._count import (
    NEVER,
    PENDING,
    evidence,
    members,
    named,
    recurs,
    rounds,
    scheduled,
    together,
)
from guardproxy.core.detectors._signs import REPEAT
from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Finding, Trail, Triple

NEEDS = REPEAT


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds count laps."""

    triple: Triple = Triple(3, 4, 5)
    """Laps (cases B09, B10); five laps, as one client has it, are ten to twenty wasted calls."""

    longest: int = 6
    """Longest period looked for."""


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Find the shortest period with at least two full laps at the end of the trail."""
    if not recurs(trail, 2):
        return None
    past = list(rounds(trail))
    keys = [one.key for one in past]
    for period in range(2, settings.longest + 1):
        laps = _laps(keys, period)
        if laps < 2:
            continue
        lap = past[:period]
        if len({one.key for one in lap}) < 2 or all(one.every(PENDING) for one in lap):
            return None
        run = past[: laps * period]
        reason = f"the same {period} steps ({named(lap[::-1])}, …) {laps} times in a circle with the same results"
        nears = members(lap)
        unit, triple, spared = sum(len(one.steps) for one in lap), settings.triple, None
        if scheduled(past, range(0, laps * period, period)):
            triple, spared = NEVER, Spared(Exemption.LONG_PAUSES, "cycle", laps, evidence(run))
        return Finding("cycle", laps, triple, together(nears), nears, reason, evidence(run), unit, spared)
    return None


def spare(trail: Trail, settings: Settings) -> Spared | None:
    """Equal calls in a circle that would be spoken of, were they not answered differently, or "not ready"."""
    least = settings.triple.nudge
    if not least or not recurs(trail, least):
        return None
    past = list(rounds(trail))
    calls = [one.calls for one in past]
    for period in range(2, settings.longest + 1):
        laps = _laps(calls, period)
        if laps >= least and len(set(calls[:period])) > 1:
            run = past[: laps * period]
            waits = all(one.every(PENDING) for one in past[:period])
            because = Exemption.NOT_READY if waits else Exemption.CHANGED_RESULTS
            return Spared(because, "cycle", laps, evidence(run))
    return None


def _laps(past: Sequence[object], period: int) -> int:
    same = 0
    for newer, older in zip(past, past[period:], strict=False):
        if newer != older:
            break
        same += 1
    return same // period + 1 if same >= period else 1
