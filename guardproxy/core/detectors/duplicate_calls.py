"""The same call several times in one message: one occurrence, and worth knowing.

Sees: parallel calls that are equal, with equal results (goose#9136: four times the same build in one message). Every
other rule counts them once, so that a model with this habit is not taken for one that does not learn; this one only
says that they were there, and never speaks to the model. Cost: nothing beyond the newest round. Known false alarm:
none, as it raises none.
"""

from __future__ import annotations

from dataclasses import dataclass

from guardproxy.core.detectors._count import named, newest
from guardproxy.core.detectors._signs import REPEAT
from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Finding, Trail, Triple

NEVER = Triple(0, 0, 0)
"""It tells and never speaks."""


NEEDS = REPEAT


@dataclass(frozen=True, slots=True)
class Settings:
    """What is told."""

    least: int = 1
    """Calls beyond the first from which it is told (case B02 has three)."""


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Say how many calls of the newest round stand there more than once."""
    last = newest(trail)
    if last is None or last.twins < max(1, settings.least):
        return None
    reason = f"{named([last])}: {last.twins} calls of one message only repeat another one in it; they count once"
    nears = tuple(step.near for step in last.steps)
    at = tuple(sorted(last.at))
    spared = Spared(Exemption.DUPLICATE_IN_ROUND, "duplicate_calls", last.twins + 1, at)
    return Finding("duplicate_calls", last.twins + 1, NEVER, nears[0], nears, reason, at, 1, spared)
