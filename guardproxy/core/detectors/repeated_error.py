"""The same call with the same error, again and again with nothing in between.

Sees: identical failing calls, also when the error's text carries changing numbers, times or echoed code (compared by
signature). Cost: as many rounds as the streak is long. Known false alarm: a retry that would have succeeded at the
third try; growing pauses between the tries therefore earn one more, and two more before the end, and twice that where
the agent itself has waited longer each time (`sleep 5`, `sleep 15`): it knows what it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from guardproxy.core.detectors._count import (
    FAILED,
    PENDING,
    Round,
    announced,
    evidence,
    in_row,
    members,
    named,
    newest,
    recurs,
    rounds,
)
from guardproxy.core.detectors._signs import REPEAT
from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Finding, Trail, Triple

NEEDS = REPEAT


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds: two retries are free."""

    triple: Triple = Triple(3, 4, 6)
    """Equal failing rounds in a row (`loop-detectors.md` section 5: exact call and same error)."""

    growth: float = 1.4
    """Pauses that grow by this factor each time are a retry with backoff; alarms wait one more (case B26)."""

    pause_ms: int = 1000
    """The last pause of a backoff is at least this long: shorter ones grow by chance."""

    patience_ms: int = 30_000
    """A pause longer than this need not grow any more: backoff has an upper bound."""


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Count how many rounds in a row fail with the same calls and the same errors as the newest."""
    last = newest(trail)
    if last is None or not last.every(FAILED):
        return None
    run: list[Round] = []
    for one in rounds(trail):
        if not one.every(FAILED) or (run and _errors(one) != _errors(run[0])):
            break
        run.append(one)
    if len(run) < 2 or run[0].every(PENDING):
        return None
    triple, spared, at = settings.triple, None, evidence(run)
    if len(run) >= triple.nudge and (more := _patience(run, settings)):
        firm, cut = triple.firm and triple.firm + more, triple.cut and triple.cut + 2 * more
        later = Triple(triple.nudge and triple.nudge + more, firm, cut)
        if later.rung(len(run)) < triple.rung(len(run)):
            spared = Spared(Exemption.GROWING_PAUSES, "repeated_error", len(run), at)
        triple = later
    reason = f"{named(run)} called {len(run)} times in a row with the same error"
    nears, unit = members(run), len(run[0].steps)
    return Finding("repeated_error", len(run), triple, nears[0], nears, reason, at, unit, spared)


def spare(trail: Trail, settings: Settings) -> Spared | None:
    """Equal failing calls in a row that would be spoken of, had they not failed differently."""
    least = settings.triple.nudge
    if not least or not recurs(trail, least):
        return None
    run = in_row(rounds(trail))
    if len(run) < least or not run[0].every(FAILED) or len({_errors(one) for one in run}) == 1:
        return None
    return Spared(Exemption.CHANGED_RESULTS, "repeated_error", len(run), evidence(run))


def _errors(one: Round) -> frozenset[tuple[bytes, bytes]]:
    return frozenset((step.near, step.signature) for step in one.steps)


def _patience(run: list[Round], settings: Settings) -> int:
    """How many more tries the pauses earn: two where the agent says that it waits longer each time, one where its
    waits are as long as before, or where the time between the tries grows; 0: none.
    """
    rests = announced(run, range(len(run)))[::-1]
    if min(rests) >= settings.pause_ms:
        if _grows(rests, settings.growth, settings):
            return 2
        return int(_grows(rests, 1.0, settings))
    times = [one.steps[0].at_ms for one in reversed(run)]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    first, second = pauses[:2]
    started = second >= settings.growth * first > 0
    return int(started and pauses[-1] >= settings.pause_ms and _grows(pauses, settings.growth, settings))


def _grows(pauses: list[int], factor: float, settings: Settings) -> bool:
    """Whether each pause is that much longer than the one before it, or long enough by itself."""
    return all(later >= factor * earlier or later > settings.patience_ms for earlier, later in pairwise(pauses))
