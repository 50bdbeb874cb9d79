"""Steps in a row of which every one repeats an earlier call with its earlier result, in whatever order.

Sees: loops without a fixed period: a handful of calls sent again in changing order. A gain that the agent reported in
between begins the count anew, and so do a new change and an announced pause of a minute or more: looking again after
them is a check. Cost: the window's pairs, once the newest one is a repeat. Known false alarm: reading everything again
before handing in; that is why it takes five, and why it is later than the rules that know a pattern.
"""

from __future__ import annotations

from dataclasses import dataclass

from guardproxy.core.detectors._count import (
    FAILED,
    MUTATES,
    PENDING,
    SCHEDULE_MS,
    SILENT,
    VOID,
    Pair,
    Round,
    evidence,
    has,
    members,
    named,
    recurs,
    rounds,
)
from guardproxy.core.detectors._reports import last_gain
from guardproxy.core.detectors._signs import REPEAT
from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Finding, Fp, Rung, Step, Trail, Triple

NEEDS = REPEAT


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds."""

    triple: Triple = Triple(5, 8, 12)
    """Rounds in a row that add nothing (development set: five is free of false alarms, three is not)."""


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Count the newest rounds whose every pair stands further back in the trail."""
    if not recurs(trail, 2):
        return None
    past = list(rounds(trail))
    first: dict[Pair, int] = {}
    made: set[Pair] = set()
    told: set[Fp] = set()
    for place in range(len(past) - 1, -1, -1):
        one = past[place]
        if any(_changes(step, told) and step.pair not in made for step in one.steps):
            first.clear()  # looking again at what was known before is a check
        for pair in one.pairs:
            first.setdefault(pair, place)
        told.update(step.result for step in one.steps)
        made.update(one.pairs)
        if one.rest_ms >= SCHEDULE_MS:  # a schedule
            first.clear()
    run = []
    for place, one in enumerate(past):
        if _mute(one) or any(first.get(pair, place) <= place for pair in one.pairs):
            break
        run.append(one)
    if len(run) < 2 or len(members(run)) < 2:
        return None
    count, spared = len(run), None
    if settings.triple.rung(count) >= Rung.NUDGE and (gained := last_gain(trail)) >= min(run[-1].at):
        count = sum(min(one.at) > gained for one in run)
        spared = Spared(Exemption.REPORTED_PROGRESS, "nothing_new", len(run), evidence(run))
    reason = f"{len(run)} rounds in a row repeat earlier calls with their earlier results ({named(run)} last)"
    nears = members(run)
    at = evidence(run)
    return Finding("nothing_new", max(1, count), settings.triple, nears[0], nears, reason, at, 1, spared)


def _changes(step: Step, told: set[Fp]) -> bool:
    """Whether a call has changed something: it was told so in new words, or in none."""
    flags = step.flags
    if not has(flags, MUTATES) or has(flags, FAILED):
        return False
    return bool(has(flags, VOID | SILENT)) or step.result not in told


def _mute(one: Round) -> bool:
    return one.every(PENDING) or all(has(s.flags, MUTATES) and has(s.flags, VOID) for s in one.steps)
