"""The same call with the same result over and over, with other work in between.

Sees: what suffix-based detectors are blind to (stella#1902): a test run again after each glance at another file.
Occurrences at most `gap` rounds apart belong together; a longer gap starts a new run (openclaw#71671). Where
something new happened in between (an edit, a check that fails differently), the repeat is weak evidence: people do
run one test after each fix, so that is nudged late and never ended.
Cost: the rounds of the run, plus the whole window once the count reaches a threshold. Known false alarm: a state
switched on and off for verification within six rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from guardproxy.core.detectors._count import (
    FAILED,
    LOOKS,
    MEDIA,
    MUTATES,
    NEVER,
    PENDING,
    SILENT,
    THINK,
    VOID,
    Pair,
    Round,
    has,
    named,
    news,
    recurs,
    rounds,
    scheduled,
)
from guardproxy.core.detectors._signs import REPEAT
from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Finding, Step, Trail, Triple

NEEDS = REPEAT


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds: one more than for repeats in a row, since edits may lie between."""

    triple: Triple = Triple(4, 5, 8)
    """Occurrences since the last news (case B03)."""

    weak: Triple = Triple(6, 0, 0)
    """Occurrences with news in between (case B23; healthy runs of the development set go up to five)."""

    looks: Triple = Triple(12, 0, 0)
    """The same where what is repeated only shows something, or says that all is well: what one does after a change."""

    gap: int = 6
    """Rounds from one occurrence to the next (case B21)."""


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Count the occurrences of each pair of the newest round; the one furthest up the ladder is reported."""
    if not recurs(trail, 3):
        return None
    newest, past = None, []
    since = 0
    wanted: dict[Pair, list[int]] = {}
    for place, one in enumerate(rounds(trail)):
        if newest is None:
            newest = one
            wanted = {step.pair: [] for step in one.steps if not _mute(step.flags)}
        past.append(one)
        since = _collect(place, one, wanted, settings.gap, since)
        if since > settings.gap or not wanted:
            break
    found = [f for pair, places in wanted.items() if (f := _judge(trail, past, pair, places, settings))]
    return max(found, key=lambda f: (f.rung, f.count), default=None)


def _mute(flags: int) -> bool:
    """Answers that are no evidence: "not ready", and the bare acknowledgement of a change."""
    return bool(has(flags, PENDING)) or (bool(has(flags, MUTATES)) and bool(has(flags, VOID)))


def _collect(place: int, one: Round, wanted: dict[Pair, list[int]], gap: int, since: int) -> int:
    hit = False
    for pair in one.pairs:
        places = wanted.get(pair)
        if places is not None and (not places or place - places[-1] <= gap):
            places.append(place)
            hit = True
    return 0 if hit else since + 1


def _judge(trail: Trail, past: list[Round], pair: Pair, places: list[int], settings: Settings) -> Finding | None:
    if len(places) < 3 or places[-1] == len(places) - 1:  # nothing lies between: `repeated_call`
        return None
    step = next(step for step in past[0].steps if step.pair == pair)
    look = not has(step.flags, FAILED | VOID) and (bool(has(step.flags, LOOKS | SILENT)) or step.bearing.left == 0)
    (strong, because), everything = _since_news(trail, past, places, step, look=look), len(places)
    triple, count, spared = settings.triple, strong, None
    weak = settings.looks if look else settings.weak
    if weak.rung(everything) > settings.triple.rung(strong):
        triple, count = weak, everything
    at = tuple(past[place].at[past[place].pairs.index(pair)] for place in reversed(places))
    if because is not None and triple.rung(count) < settings.triple.rung(everything):
        spared = Spared(because, "interleaved_repeat", everything, at)
    if scheduled(past, places):
        triple, spared = NEVER, Spared(Exemption.LONG_PAUSES, "interleaved_repeat", everything, at)
    reason = f"{named([past[0]])} gave the same result {count} times with other calls in between"
    near = pair[0]
    return Finding("interleaved_repeat", count, triple, near, (near,), reason, at, 1, spared)


def _since_news(
    trail: Trail, past: list[Round], places: list[int], step: Step, *, look: bool
) -> tuple[int, Exemption | None]:
    """The occurrences since the last news, and what the news was."""
    whole = list(rounds(trail))
    for number, (later, earlier) in enumerate(pairwise(places), start=1):
        because = news(past[later + 1 : earlier], whole[earlier:], step, look=look)
        if because is not None:
            return number, because
    return len(places), None


def spare(trail: Trail, settings: Settings) -> Spared | None:
    """A call that stands often enough in the trail, and why it is not counted so often."""
    least, newest = settings.triple.nudge, trail.steps[-1]
    if least and has(newest.flags, THINK):
        at = tuple([at for at, step in enumerate(trail.steps, trail.first) if step.pair == newest.pair])
        return _apart(Exemption.WAIT_TOOL, at, least)
    if not least or not recurs(trail, least):
        return None
    past = list(rounds(trail))
    if not past:  # the newest step is no call
        return None
    found = [_held(past, step, settings) for step in past[0].steps]
    return next((one for one in found if one is not None), None)


def _held(past: list[Round], step: Step, settings: Settings) -> Spared | None:
    least, gap = settings.triple.nudge, settings.gap
    equal = [place for place, one in enumerate(past) if step.pair in one.pairs]
    if len(equal) >= least and not has(step.flags, PENDING):  # those `unchanged_poll` counts
        at = tuple([past[place].ordinal(step.near) for place in reversed(equal)])
        if _mute(step.flags):
            return _apart(Exemption.ACKNOWLEDGED, at, least)
        return Spared(Exemption.OTHER_WORK, "interleaved_repeat", len(at), at) if _torn(equal, gap) else None
    calls = [place for place, one in enumerate(past) if any(other.near == step.near for other in one.steps)]
    calls = calls[: _torn(calls, gap) or len(calls)]
    if len(equal) >= least:
        return None
    because = Exemption.IMAGES if has(step.flags, MEDIA) else Exemption.CHANGED_RESULTS
    return _apart(because, tuple([past[place].ordinal(step.near) for place in reversed(calls)]), least)


def _torn(places: list[int], gap: int) -> int:
    """How many occurrences follow one another before the first gap that is too long; 0: there is none."""
    return next((number for number, (a, b) in enumerate(pairwise(places), start=1) if b - a > gap), 0)


def _apart(because: Exemption, at: tuple[int, ...], least: int) -> Spared | None:
    """Often enough, and with something else in between."""
    enough = len(at) >= least and at[-1] - at[0] >= len(at)
    return Spared(because, "interleaved_repeat", len(at), at) if enough else None
