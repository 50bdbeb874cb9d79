"""Work that goes on and gets nowhere: a check that fails as before after each change, or reports without a gain.

Sees: (1) changes and a failing check in turns, where neither the output nor the number of failures moves, whatever the
check is called with; a number that changes, another failure, or the check's success ends it. People work like that for
a while, so it is nudged late, and ended only when it is hopeless. (2) What the agent itself reports in
`x-guardproxy-progress` (DESIGN section 6): reports in a row of which none is better in any number than all before it.
Plain reads are no progress and no lack of it. Cost: nothing where the newest call did not fail and reported nothing;
else the rounds of the window. Known false alarm: a long search for the cause of one failure, with edits that only
print; hence six.
"""

from __future__ import annotations

from dataclasses import dataclass

from guardproxy.core.detectors._count import FAILED, MUTATES, PENDING, VOID, has, newest, rounds
from guardproxy.core.detectors._signs import FAILURE, REPORT
from guardproxy.core.model import Finding, Kind, Step, Trail, Triple
from guardproxy.core.progress import gains

NEEDS = FAILURE | REPORT


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds."""

    unmoved: Triple = Triple(6, 0, 24)
    """Failing checks of one kind with a change before each but the first (development set: healthy runs go to five)."""

    reports: Triple = Triple(4, 8, 0)
    """Reports without a gain in a row (DESIGN section 6: four); the agent judges itself, so it is never ended by it."""

    gap: int = 6
    """Rounds from one failing check to the next."""


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Count failing checks that do not move, and reports without a gain; the one further up the ladder is told."""
    last = newest(trail)
    failing = [step for step in last.steps if has(step.flags, FAILED) and not has(step.flags, VOID)] if last else []
    found = [*[_unmoved(trail, step, settings) for step in failing], _reported(trail, settings)]
    return max((f for f in found if f), key=lambda f: (f.rung, f.count), default=None)


def _unmoved(trail: Trail, wanted: Step, settings: Settings) -> Finding | None:
    checks: list[tuple[int, Step]] = []
    changed, since = True, 0
    for one in rounds(trail):
        since += 1
        if since > settings.gap:
            break
        moved = False
        for at, step in sorted(zip(one.at, one.steps, strict=True), key=lambda pair: pair[0], reverse=True):
            if _equal(step, wanted):
                if changed:
                    checks.append((at, step))
                changed, since = False, 0
            elif _moves(step, wanted, checks):
                moved = True
            elif has(step.flags, MUTATES):
                changed = True
        if moved:
            break
    if len(checks) < 2:
        return None
    checks.reverse()
    reason = f"{wanted.tool} failed {len(checks)} times in the same way, with changes in between that moved nothing"
    nears = tuple(dict.fromkeys(step.near for _, step in checks))
    ordinals = tuple(at for at, _ in checks)
    return Finding("no_progress", len(checks), settings.unmoved, wanted.signature, nears, reason, ordinals)


def _equal(step: Step, wanted: Step) -> bool:
    """Whether a check failed as the newest one did: as many failures of a kind, or the very same output.

    A kind alone is not enough: "exit code 1" is the kind of everything that fails without a word. Where no number of
    failures is told, other numbers may be what moves ("accuracy 0.83").
    """
    if step.tool != wanted.tool or step.bearing.left != wanted.bearing.left:
        return False
    if step.result == wanted.result:
        return True
    same = step.masked_result == wanted.masked_result or step.signature == wanted.signature
    return wanted.bearing.left >= 0 and same


def _moves(step: Step, wanted: Step, checks: list[tuple[int, Step]]) -> bool:
    """Whether a step shows that the check did not always fail like this: the same call, another outcome."""
    if has(step.flags, PENDING):
        return False
    return step.near == wanted.near or any(step.near == check.near for _, check in checks)


def _reported(trail: Trail, settings: Settings) -> Finding | None:
    if not trail.steps or not trail.steps[-1].bearing.report:
        return None
    told = [(at, step) for at, step in enumerate(trail.steps, trail.first) if step.bearing.report]
    gained = gains([step.bearing.report for _, step in told])
    without = 0
    while without < len(told) - 1 and not gained[-1 - without]:  # the first of all is what others are measured by
        without += 1
    if without < 2:
        return None
    run = [(at, step) for at, step in told[-without:] if step.kind is Kind.CALL]
    if not run:
        return None
    nears = tuple(dict.fromkeys(step.near for _, step in run))
    reason = f"the agent reported its progress {without} times in a row without a gain"
    return Finding("no_progress", without, settings.reports, nears[0], nears, reason, tuple(at for at, _ in run))
