"""Calls that no tool can serve: no name, arguments that are not an object, an unknown tool, arguments it rejects.

Sees: malformed calls by their shape and by the answer, of one tool, in a row, whatever the arguments, and calls of
tools that do not exist, whatever their names: a model does not mend its form by repeating it. Cost: as many rounds as
the row is long. Known false alarm: none known; a call that is mended ends the row.
"""

from __future__ import annotations

from dataclasses import dataclass

from guardproxy.core.detectors._count import INVALID, NO_TOOL, Round, evidence, members, named, newest, rounds
from guardproxy.core.detectors._signs import MALFORMED
from guardproxy.core.model import Finding, Trail, Triple

NEEDS = MALFORMED


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds."""

    triple: Triple = Triple(3, 4, 6)
    """Malformed calls in a row (case B15)."""


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Count how many rounds in a row hold nothing but malformed calls of the newest one's kind."""
    last = newest(trail)
    if last is None or not last.every(INVALID):
        return None
    run: list[Round] = []
    for one in rounds(trail):
        if not one.every(INVALID) or (run and not _alike(one, run[0])):
            break
        run.append(one)
    if len(run) < 2:
        return None
    reason = f"{named(run)} called {len(run)} times in a row in a form that it cannot serve"
    nears = members(run)
    return Finding("invalid_call", len(run), settings.triple, nears[0], nears, reason, evidence(run))


def _alike(one: Round, other: Round) -> bool:
    tools = {step.tool for step in other.steps}
    return any(step.tool in tools for step in one.steps) or (one.every(NO_TOOL) and other.every(NO_TOOL))
