"""One tool, different arguments, always the same answer: nothing there, or one that does not depend on the arguments.

Sees: empty and "not found" answers in a row (different searches that cannot find anything), sooner where only numbers
in the arguments differ, and equal informative answers in a long row. Calls that change something are left out: they
acknowledge everything with the same words; so do bare successes (blank, "ok", "closed", "all checks passed") of calls
that are not known to only look: that is a batch at work. A row of empty answers is never ended by this rule, since
an audit may be right to find nothing. Cost: as many rounds as the row is long. Known false alarm: a check of many
places that is right to find the same everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from guardproxy.core.detectors._count import (
    FAILED,
    MUTATES,
    PENDING,
    SILENT,
    VOID,
    Round,
    evidence,
    has,
    members,
    named,
    rounds,
)
from guardproxy.core.model import Finding, Step, Trail, Triple


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds per strength of the evidence."""

    void: Triple = Triple(5, 8, 0)
    """Empty answers in a row (development set: five find the loops, four stop healthy searches)."""

    numbers: Triple = Triple(4, 6, 0)
    """Empty or failing answers to calls that are equal but for numbers (clearwing#106)."""

    informative: Triple = Triple(8, 12, 16)
    """Equal answers with content (gemini-cli#16954); late, because checking a batch looks the same."""


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Count how many rounds in a row get the newest one's answer from the same tool."""
    run: list[Round] = []
    for one in rounds(trail):
        if len(one.steps) > 1 or has(one.steps[0].flags, MUTATES | PENDING | SILENT):
            break
        if run and not _alike(one.steps[0], run[0].steps[0]):
            break
        run.append(one)
    if len(run) < 2 or len(members(run)) < 2:
        return None
    flags = run[0].steps[0].flags
    triple = settings.informative
    if has(flags, VOID | FAILED) and len({one.steps[0].masked for one in run}) == 1:
        triple = settings.numbers
    elif has(flags, VOID):
        triple = settings.void
    elif has(flags, FAILED):
        return None
    reason = f"{named(run)} gave the same answer to {len(run)} different calls in a row"
    return Finding("same_result", len(run), triple, run[0].steps[0].masked_result, members(run), reason, evidence(run))


def _alike(one: Step, other: Step) -> bool:
    return one.tool == other.tool and one.masked_result == other.masked_result
