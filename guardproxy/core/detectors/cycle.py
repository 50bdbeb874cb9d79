"""A round of two to six different steps gone through again and again, with the same results each time.

Sees: A B A B A B, A B C A B C A B C and so on, with results equal on all sides; parallel calls count as one place in
the cycle. Cost: one look at each of the last few rounds per period; most turns end at the first comparison. Known
false alarm: none on the development set; the same steps with changing results are no cycle.
"""

from __future__ import annotations

from dataclasses import dataclass

from guardproxy.core.detectors._count import PENDING, Round, evidence, members, named, recurs, rounds
from guardproxy.core.model import Finding, Trail, Triple


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
    for period in range(2, settings.longest + 1):
        laps = _laps(past, period)
        if laps < 2:
            continue
        lap = past[:period]
        if len({one.key for one in lap}) < 2 or all(one.every(PENDING) for one in lap):
            return None
        run = past[: laps * period]
        reason = f"the same {period} steps ({named(lap[::-1])}, …) {laps} times in a circle with the same results"
        nears = members(lap)
        unit = sum(len(one.steps) for one in lap)
        return Finding("cycle", laps, settings.triple, min(nears), nears, reason, evidence(run), unit)
    return None


def _laps(past: list[Round], period: int) -> int:
    same = 0
    for newer, older in zip(past, past[period:], strict=False):
        if newer.key != older.key:
            break
        same += 1
    return same // period + 1 if same >= period else 1
