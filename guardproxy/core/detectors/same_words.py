"""The same words beside different calls: a model that announces the same again and again.

Sees: messages in a row with equal text and other calls (in some models the first sign of a loop, in others only the way
they talk). Evidence only: it is told, and never speaks to the model. Cost: nothing where the newest message has no
words; else as many steps as the row is long. Known false alarm: none, as it raises none.
"""

from __future__ import annotations

from dataclasses import dataclass

from guardproxy.core.detectors._count import ROUND_START, has
from guardproxy.core.detectors._signs import SAID
from guardproxy.core.model import NO_FP, Finding, Fp, Kind, Trail, Triple

NEVER = Triple(0, 0, 0)
"""It tells and never speaks."""


NEEDS = SAID


@dataclass(frozen=True, slots=True)
class Settings:
    """What is told."""

    least: int = 4
    """Messages in a row from which it is told (`loop-detectors.md` section 5)."""


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Count how many messages in a row have the newest one's words."""
    said: Fp = NO_FP
    at: list[int] = []
    nears: dict[Fp, None] = {}
    for place in range(len(trail.steps) - 1, -1, -1):
        step = trail.steps[place]
        if step.kind is not Kind.CALL:
            break
        if not has(step.flags, ROUND_START):
            continue
        words = step.bearing.said
        if words == NO_FP or (at and words != said):
            break
        said = words
        at.append(trail.first + place)
        nears[step.near] = None
    if len(at) < settings.least or len(nears) < 2:
        return None
    reason = f"{len(at)} messages in a row say the same words beside {len(nears)} different calls"
    return Finding("same_words", len(at), NEVER, said, tuple(nears), reason, tuple(reversed(at)))
