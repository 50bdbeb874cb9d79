"""One tool, different arguments, the same kind of error in a row: variants of what cannot work.

Sees: errors by their signature, without numbers and without what the call itself brought (an id, a quoted name, a
line of code). A success of the tool in between ends the row; something else, alone and without a change, costs one.
Looking through a list of names, hardly two of them equal but for numbers, is given more time than counting through
ids, and is never ended.
Cost: as many rounds as the row is long. Known false alarm: trying names one after the other until one exists.
"""

from __future__ import annotations

from dataclasses import dataclass

from guardproxy.core.detectors._count import FAILED, MUTATES, Round, evidence, has, members, named, newest, rounds
from guardproxy.core.detectors._rows import row
from guardproxy.core.detectors._signs import FAILURE
from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Finding, Step, Trail, Triple

NEEDS = FAILURE

AGAIN = 6
"""Calls of a list to one that is an earlier one again: a link checker asks a dead link twice."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds: three is too eager on exploration (goose), most others wait for five to eight."""

    triple: Triple = Triple(4, 5, 8)
    """Failures in a row with one signature (cases B06, B07)."""

    listing: Triple = Triple(4, 8, 0)
    """The same where nearly all arguments differ in more than numbers and nothing would have been changed: never an
    end, since a check of many links is right to find them all dead."""


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Count how many rounds in a row hold a failure of a tool and kind that the newest one has, too."""
    last = newest(trail)
    if last is None:
        return None
    wanted = {(step.tool, step.signature): step for step in last.steps if has(step.flags, FAILED)}
    found = [f for step in wanted.values() if (f := _row(step, trail, settings))]
    return max(found, key=lambda f: (f.rung, f.count), default=None)


def _row(wanted: Step, trail: Trail, settings: Settings) -> Finding | None:
    sign, tool = wanted.signature, wanted.tool
    run, strangers = row(rounds(trail), lambda one: any(s.signature == sign and s.tool == tool for s in one.steps))
    if len(run) - strangers < 2 or len(members(run)) < 2:
        return None
    reason = f"{named(run)} failed {len(run)} times in a row in the same way with changing arguments"
    triple, spared, count, at = settings.triple, None, len(run) - strangers, evidence(run)
    if _listing(run):
        triple = settings.listing
        if triple.rung(count) < settings.triple.rung(count):
            spared = Spared(Exemption.DISTINCT_TARGETS, "error_signature", count, at)
    return Finding("error_signature", count, triple, wanted.signature, members(run), reason, at, 1, spared)


def _listing(run: list[Round]) -> bool:
    """Whether each call tries another name; in a long list one in AGAIN may be tried again."""
    tried = [step for one in run for step in one.steps]
    again = len(tried) - len({step.masked for step in tried})
    return again * AGAIN <= len(tried) and not any(has(step.flags, MUTATES) for step in tried)
