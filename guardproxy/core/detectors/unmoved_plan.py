"""A plan or todo list sent again and again with other words, while no item of it moves.

Sees: calls in a row whose list has the same statuses in the same order (openclaw's plan tool, codex#7049), with the
same answer. A status that moves, an item that comes or goes and any other call in between end the row: a list that is
kept beside the work is sent often and is no loop. Never more than a nudge, since planning costs little and may come to
an end by itself. Cost: nothing where the newest call is no plan. Known false alarm: a batch of items without ids, all
new, that are entered two or more at a time and acknowledged with the same words.
"""

from __future__ import annotations

from dataclasses import dataclass

from guardproxy.core.detectors._count import FAILED, Round, evidence, has, members, named, newest, rounds
from guardproxy.core.detectors._signs import PLAN
from guardproxy.core.model import NO_FP, Finding, Fp, Trail, Triple

NEEDS = PLAN


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds."""

    triple: Triple = Triple(3, 0, 0)
    """Plans of one shape in a row (case B27)."""


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Count how many rounds in a row send a plan of the newest one's shape."""
    last = newest(trail)
    if last is None or not _plans(last):
        return None
    wanted = _shapes(last)
    run: list[Round] = []
    for one in rounds(trail):
        if not _plans(one) or _shapes(one) != wanted:
            break
        run.append(one)
    if len(run) < 2:
        return None
    reason = f"{named(run)} sent a plan {len(run)} times in a row in which nothing has moved"
    return Finding(
        "unmoved_plan", len(run), settings.triple, last.steps[0].bearing.shape, members(run), reason, evidence(run)
    )


def _shapes(one: Round) -> frozenset[tuple[Fp, Fp]]:
    return frozenset((step.bearing.shape, step.result) for step in one.steps)


def _plans(one: Round) -> bool:
    return all(step.bearing.shape != NO_FP and not has(step.flags, FAILED) for step in one.steps)
