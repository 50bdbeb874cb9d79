"""Replies without a call that say the same again, say nothing, or get the same automatic answer every time.

Sees: the same words to the same prompt (SpeakMCP#828), empty answers and equal requests after them (mastra#14187), and
different words that a harness rejects in the same way: a person's "go on" is too short for that. Any call ends it, and
so does a minute's rest between equal replies, which makes them a schedule, or ten minutes between any. Cost: as many
replies as there are since the last call. Known false alarm: a person who asks the same twice and gets the same answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from guardproxy.core.detectors._count import LONG, THINK, has
from guardproxy.core.detectors._signs import REPLY
from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import NO_FP, Finding, Kind, Rung, Step, Trail, Triple

NEEDS = REPLY


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds count replies."""

    same_text: Triple = Triple(2, 3, 4)
    """The same words to the same prompt (case B18), and empty answers (case B16): each feeds the re-prompt loop."""

    same_words: Triple = Triple(3, 4, 6)
    """The same words to different prompts."""

    same_answer: Triple = Triple(4, 6, 10)
    """Different words, the same long, automatic answer (development set: replies rejected for their form)."""

    rest_ms: int = 75_000
    """Equal replies this far apart or more come from a schedule (a heartbeat), not from a loop."""

    pause_ms: int = 600_000
    """Any replies this far apart or more are none of one loop: whoever asks again after that has other work."""


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Count the newest replies since the last call in three ways; the one furthest up the ladder is reported."""
    said = _until_rest(_said(trail), settings.pause_ms)
    if not said:
        return None
    if said[0].kind is Kind.EMPTY:
        found = [_empty(trail, said, settings.same_text)]
    else:
        lively = _until_rest(said, settings.rest_ms)
        found = [
            _run(trail, lively, lambda s: s.pair, settings.same_text, "the same reply to the same prompt"),
            _run(trail, lively, lambda s: s.near, settings.same_words, "the same reply"),
        ]
        if has(said[0].flags, LONG):
            answered = "a reply that got the same answer"
            found.append(_run(trail, said, lambda s: s.result, settings.same_answer, answered))
    return max((f for f in found if f), key=lambda f: (f.rung, f.count), default=None)


def spare(trail: Trail, settings: Settings) -> Spared | None:
    """Equal replies that would be spoken of, were there no rest between them, or no person's words after them."""
    said = _said(trail)
    if len(said) < 2 or said[0].kind is Kind.EMPTY:
        return None
    rested = _run(trail, said, lambda s: s.near, settings.same_words, "the same reply")
    rest_ms = min(settings.rest_ms, settings.pause_ms)
    if rested is not None and rested.rung >= Rung.NUDGE and len(_until_rest(said, rest_ms)) < rested.count:
        return Spared(Exemption.LONG_PAUSES, "monologue", rested.count, rested.evidence)
    asked = _run(trail, said, lambda s: s.result, settings.same_answer, "a reply that got the same answer")
    if asked is None or asked.rung < Rung.NUDGE:
        return None
    because = Exemption.USER_MESSAGE
    if has(said[0].flags, LONG):
        if len(_until_rest(said, settings.pause_ms)) >= asked.count:
            return None
        because = Exemption.LONG_PAUSES
    return Spared(because, "monologue", asked.count, asked.evidence)


def _said(trail: Trail) -> list[Step]:
    """The model's replies since the last call, newest first; not those that we gave in its place."""
    said: list[Step] = []
    for step in reversed(trail.steps):
        if step.kind is Kind.CALL:
            break
        if step.kind is not Kind.BOUNDARY and not has(step.flags, THINK):
            said.append(step)
    return said


def _until_rest(said: list[Step], rest_ms: int) -> list[Step]:
    """The newest replies as far as they follow one another without a rest."""
    for place, (newer, older) in enumerate(pairwise(said), start=1):
        if newer.at_ms - older.at_ms >= rest_ms:
            return said[:place]
    return said


def _empty(trail: Trail, said: list[Step], triple: Triple) -> Finding | None:
    count = 0
    for step in said:
        if step.kind is not Kind.EMPTY:
            break
        count += 1
    asked_again = said[0].result == NO_FP  # known from an equal request: that request is one more occurrence
    return _finding(trail, said[:count], count + asked_again, triple, "an empty reply without a call")


def _run(trail: Trail, said: list[Step], of: Callable[[Step], object], triple: Triple, what: str) -> Finding | None:
    run = 0
    for step in said:
        if step.kind is not Kind.TEXT or of(step) != of(said[0]):
            break
        run += 1
    return _finding(trail, said[:run], run, triple, f"{what}, without a call")


def _finding(trail: Trail, run: list[Step], count: int, triple: Triple, what: str) -> Finding | None:
    if count < 2:
        return None
    at = tuple(range(trail.last - len(run) + 1, trail.last + 1))
    nears = tuple(dict.fromkeys(step.near for step in run))
    return Finding("monologue", count, triple, run[-1].result, nears, f"{what}, {count} times in a row", at)
