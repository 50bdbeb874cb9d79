"""Short conversations, written down as turns, and the rung that they reach after each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from guardproxy.core.detectors import NEEDS, RULES, SPECIFICITY, default_settings, detect_all
from guardproxy.core.detectors._signs import signs
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import Call, Finding, Kind, Message, Rung, Step, Trail

PRINTER = Fingerprinter(b"a key for tests")

Turn = list[tuple[str, str, str | None]] | tuple[str, str, str | None] | str | None
"""A round of (tool, arguments, result), one call, a text reply to the prompt `again`, or None: an empty answer."""


def steps_of(turn: Turn, at_ms: int) -> list[Step]:
    """The steps that a turn adds."""
    if turn is None:
        return [PRINTER.blank_step(at_ms)]
    if isinstance(turn, str):
        return [PRINTER.text_step(turn, "again", at_ms=at_ms)]
    calls = turn if isinstance(turn, list) else [turn]
    return [
        PRINTER.step(
            Call(tool, arguments),
            None if result is None else Message("tool", result),
            first=number == 0,
            at_ms=at_ms,
        )
        for number, (tool, arguments, result) in enumerate(calls)
    ]


def trails(turns: Sequence[Turn], pause_ms: int = 4_000) -> list[Trail]:
    """The trail as it stands after each turn; on the last of them whoever has something to say is asked."""
    ring: list[Step] = []
    found = []
    for number, turn in enumerate(turns):
        ring += steps_of(turn, number * pause_ms)
        found.append(Trail(tuple(ring[-64:]), max(0, len(ring) - 64)))
    speak = detect_all(found[-1], default_settings()) if found else ()
    assert all(NEEDS[one.rule] & signs(found[-1]) for one in speak)
    return found


def judge(trail: Trail, chosen: Mapping[str, object] | None = None) -> Finding | None:
    """What speaks on a trail: the finding furthest up the ladder, the more specific one among equals."""
    chosen = chosen or default_settings()
    found = [f for rule, settings in chosen.items() if (f := RULES[rule].detect(trail, settings))]
    return max(found, key=lambda f: (f.rung, SPECIFICITY[f.rule]), default=None)


def rungs(turns: Sequence[Turn], pause_ms: int = 4_000) -> dict[str, int]:
    """The turn (from 1) at which each rung from nudge on is first reached, by name."""
    reached: dict[str, int] = {}
    highest = Rung.OBSERVE
    for number, trail in enumerate(trails(turns, pause_ms), start=1):
        finding = judge(trail)
        if finding is not None and finding.rung > highest:
            highest = finding.rung
            reached[highest.name.lower()] = number
    return reached


def rules(turns: Sequence[Turn]) -> set[str]:
    """The rules that reach a nudge anywhere."""
    return {
        rule
        for trail in trails(turns)
        for rule, settings in default_settings().items()
        if (f := RULES[rule].detect(trail, settings)) and f.rung >= Rung.NUDGE
    }


def kinds(trail: Trail) -> list[Kind]:
    """The kinds of a trail's steps."""
    return [step.kind for step in trail.steps]
