"""Asking again and again for something that says "not ready yet" in the same words.

Sees: a pending answer to one call, counted per target, other work in between allowed. Waiting is legitimate, so it
takes much longer than for other repeats, and pauses of more than 45 s between two looks, measured or
announced, count half. A changed answer ("step 4 of 9") starts anew. Cost: the rounds of the window. Known false alarm:
a build that is silent for long.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from guardproxy.core.detectors._count import PENDING, Pair, Round, announced, has, newest, rounds
from guardproxy.core.detectors._signs import REPEAT
from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Finding, Rung, Step, Trail, Triple

PLAIN = 3
"""Looks from which it is said that waiting spares them: a plain repeat is nudged then."""


NEEDS = REPEAT


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds, about three times those of a plain repeat (typeclaw#669, openclaw#16808)."""

    triple: Triple = Triple(8, 12, 24)
    """Looks at an unchanged pending answer (case B20)."""

    gap: int = 6
    """Rounds from one look to the next."""

    patience_ms: int = 45_000
    """A longer pause than this before a look counts it half."""


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Count the looks at each pending answer of the newest round; report the one that was looked at most."""
    last = newest(trail)
    if last is None or not any(has(step.flags, PENDING) for step in last.steps):
        return None
    past = list(rounds(trail))
    best: Finding | None = None
    for step in last.steps:
        if has(step.flags, PENDING):
            found = _looks(past, step, settings)
            best = found if found and (best is None or found.count > best.count) else best
    return best


def _looks(past: list[Round], wanted: Step, settings: Settings) -> Finding | None:
    looks: list[tuple[int, Step]] = []
    places: list[int] = []
    last = 0
    for place, one in enumerate(past):
        if place - last > settings.gap:
            break
        found = _find(one, wanted.pair)
        if found:
            looks.append(found)
            places.append(place)
            last = place
        elif any(step.near == wanted.near for step in one.steps):
            break  # it answered differently before: that was progress
    if len(looks) < 2:
        return None
    measured = [newer.at_ms - older.at_ms for (_, newer), (_, older) in pairwise(looks)]
    pauses = map(max, measured, announced(past, places))
    patient = sum(pause > settings.patience_ms for pause in pauses)
    count = len(looks) - patient // 2 if patient < len(measured) else -(-len(looks) // 2)
    reason = f"{wanted.tool} asked {len(looks)} times for something that is not ready"
    at = tuple(at for at, _ in reversed(looks))
    spared = _spared(len(looks), count, at, settings)
    return Finding("unchanged_poll", count, settings.triple, wanted.near, (wanted.near,), reason, at, 1, spared)


def _spared(looks: int, count: int, at: tuple[int, ...], settings: Settings) -> Spared | None:
    if settings.triple.rung(count) < settings.triple.rung(looks):
        return Spared(Exemption.LONG_PAUSES, "unchanged_poll", looks, at)
    if settings.triple.rung(count) < Rung.NUDGE and looks >= PLAIN:
        return Spared(Exemption.NOT_READY, "unchanged_poll", looks, at)
    return None


def _find(one: Round, pair: Pair) -> tuple[int, Step] | None:
    return next(((at, step) for at, step in zip(one.at, one.steps, strict=True) if step.pair == pair), None)
