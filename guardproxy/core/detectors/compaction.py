"""A conversation that is shortened again and again while nothing new comes of the calls between.

Sees: that the newest message stands at half the place of the one before it, or further to the front: the client has
put a summary in the place of its history (claude-code#24179: 211 compactions, nearly all within a few lines of each
other). A result never seen before, or a new call that changes something, is progress and ends the count; each
compaction is told. A client that begins a new conversation with its summary begins a new thread, and only budgets see
it. Cost: nothing but a look at the places while they rise. Known false alarm: none known; what was learned after a
compaction may be learned again after the next, and that is what this rule is about.
"""

from __future__ import annotations

from dataclasses import dataclass

from guardproxy.core.detectors._count import MUTATES, SILENT, has
from guardproxy.core.detectors._signs import STALE
from guardproxy.core.model import Finding, Fp, Kind, Step, Trail, Triple

LEAST = 6
"""Place in the conversation from which going back to half of it is a compaction: the shortest are a few messages."""


NEEDS = STALE


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds."""

    triple: Triple = Triple(3, 0, 6)
    """Compactions without progress (case B57; happyclaw#300 acts at three)."""


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Count the compactions since something new was seen."""
    steps = trail.steps
    if not steps or steps[-1].kind is not Kind.CALL:
        return None
    shorter = _shortened(steps)
    if not shorter:
        return None
    since = _since_news(steps)
    at = [place for place in shorter if place >= since]
    if not at:
        return None
    count = len(at)
    run = [step for step in steps[at[0] :] if step.kind is Kind.CALL]
    nears = tuple(dict.fromkeys(step.near for step in run))
    reason = f"the conversation was shortened {count} times and no call since has brought anything new"
    evidence = tuple(trail.first + place for place in sorted({*at, len(steps) - 1}))
    return Finding("compaction", count, settings.triple, nears[0], nears, reason, evidence)


def _shortened(steps: tuple[Step, ...]) -> list[int]:
    """Positions of the steps with which a shortened conversation begins."""
    places = [step.place for step in steps if step.place]
    if places == sorted(places):  # as nearly always, and told at C speed
        return []
    found, before = [], 0
    for position, step in enumerate(steps):
        place = step.place
        if place:
            if before >= LEAST and place * 2 <= before:
                found.append(position)
            before = place
    return found


def _since_news(steps: tuple[Step, ...]) -> int:
    """Position after the newest step that brought something new."""
    results: set[Fp] = set()
    calls: set[Fp] = set()
    newest = 0
    for position, step in enumerate(steps):
        if step.kind is not Kind.CALL:
            continue
        changed = has(step.flags, MUTATES | SILENT) and step.call not in calls
        if changed or step.result not in results:
            newest = position + 1
        results.add(step.result)
        calls.add(step.call)
    return newest
