"""One tool, different arguments, always the same answer: nothing there, or one that does not depend on the arguments.

Sees: empty and "not found" answers in a row (different searches that cannot find anything), sooner where only numbers
in the arguments differ, and equal informative answers in a long row. Calls that change something are left out: they
acknowledge everything with the same words; so do bare successes (blank, "ok", "closed", "all checks passed") of calls
that are not known to only look: that is a batch at work. A row of empty or informative answers is never ended by this
rule, since an audit may be right to find nothing, or the same everywhere; one of bare zeros (`total 0`) is. Something
else in between, alone and without a change, costs one. Cost: as many rounds as the row is long. Known false alarm: a
check of many places that is right to find the same everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from guardproxy.core.detectors._count import (
    FAILED,
    MUTATES,
    PENDING,
    SILENT,
    VOID,
    ZERO,
    Round,
    evidence,
    has,
    members,
    named,
    newest,
    rounds,
)
from guardproxy.core.detectors._rows import row
from guardproxy.core.detectors._signs import ROW
from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Finding, Step, Trail, Triple

NEEDS = ROW


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds per strength of the evidence."""

    void: Triple = Triple(5, 8, 0)
    """Empty answers in a row (development set: five find the loops, four stop healthy searches)."""

    numbers: Triple = Triple(4, 6, 0)
    """Empty or failing answers to calls that are equal but for numbers (clearwing#106)."""

    zero: Triple = Triple(8, 12, 16)
    """Bare counts of nothing, such as `total 0` (gemini-cli#16954): no answer, but not as plain as an empty one."""

    informative: Triple = Triple(8, 12, 0)
    """Equal answers with content; late and never an end, because checking a batch looks the same."""


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Count how many rounds in a row get the newest one's answer from the same tool."""
    last = newest(trail)
    if last is None or not _tells(last):
        return None
    wanted = last.steps[0]
    run, strangers = row(rounds(trail), lambda one: _tells(one) and _alike(one.steps[0], wanted))
    if len(run) - strangers < 2 or len(members(run)) < 2:
        return None
    flags = wanted.flags
    triple = settings.zero if has(flags, ZERO) else settings.informative
    if has(flags, VOID | FAILED) and len({one.steps[0].masked for one in run}) == 1:
        triple = settings.numbers
    elif has(flags, VOID):
        triple = settings.void
    elif has(flags, FAILED):
        return None
    reason = f"{named(run)} gave the same answer to {len(run)} different calls in a row"
    count, nears, at = len(run) - strangers, members(run), evidence(run)
    spared = None
    if triple.rung(count) < settings.void.rung(count) and len(nears) == len(run):
        spared = Spared(Exemption.DISTINCT_TARGETS, "same_result", count, at)
    return Finding("same_result", count, triple, wanted.masked_result, nears, reason, at, 1, spared)


def _tells(one: Round) -> bool:
    """Whether the round is one call whose answer is evidence."""
    return len(one.steps) == 1 and not has(one.steps[0].flags, MUTATES | PENDING | SILENT)


def spare(trail: Trail, settings: Settings) -> Spared | None:
    """A row of different calls that would be spoken of, and why it is not looked at.

    Changes that are only acknowledged (a batch, or a list that is written again), and calls that are equal but for
    numbers and bring something new each time (pages).
    """
    last = newest(trail)
    if last is None or len(last.steps) > 1:
        return None
    step = last.steps[0]
    changes = has(step.flags, MUTATES | SILENT)
    run: list[Round] = []
    for one in rounds(trail):
        other = one.steps[0]
        if len(one.steps) > 1 or not (_acknowledged(other, step) if changes else other.masked == step.masked):
            break
        run.append(one)
    different = len(run) == len({one.steps[0].near for one in run})
    if changes:
        because = Exemption.ADVANCING_LIST if _keeps_list(step.tool) else Exemption.DISTINCT_TARGETS
        least = settings.numbers.nudge if because is Exemption.ADVANCING_LIST else settings.void.nudge
    else:
        because, least = Exemption.FORWARD_PAGING, settings.numbers.nudge
        different = different and len(run) == len({one.steps[0].masked_result for one in run})
    held = different and 0 < least <= len(run)
    return Spared(because, "same_result", len(run), evidence(run)) if held else None


def _acknowledged(one: Step, other: Step) -> bool:
    return _alike(one, other) and bool(has(one.flags, MUTATES | SILENT))


@lru_cache(maxsize=256)
def _keeps_list(tool: str) -> bool:
    """Whether the tool keeps the agent's own plan, by its name."""
    return not _LISTS.isdisjoint(_NAME.findall(tool)) or "todo" in tool.lower()


_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_LISTS = frozenset("plan Plan tasks Tasks checklist Checklist".split())


def _alike(one: Step, other: Step) -> bool:
    return one.tool == other.tool and one.masked_result == other.masked_result
