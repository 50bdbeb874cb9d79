"""deadlines: which calls were answered later than their tool's deadline, or not at all (`tools.deadlines`).

A proxy sees when it handed a call on and when the next request comes. Of several calls at once that is the time of all
of them, one after the other perhaps: they are late where it passes all their deadlines together. A call without a
result is late by itself. Time in which a person has written is not the tool's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from guardproxy.core.advice import LANGUAGES, quoted
from guardproxy.core.edit import Edit
from guardproxy.core.hygiene._case import Case, Cleaned, Done, Mode, chosen
from guardproxy.core.model import Flag
from guardproxy.core.rounds import Round
from guardproxy.core.session import AT_MOST


@dataclass(frozen=True, slots=True)
class Settings:
    """The deadlines themselves are rules of tools: `tools.deadlines`."""

    mode: Mode = "off"


def tidy(case: Case, settings: Settings) -> Cleaned:
    """The calls that are past their deadline; a late result is told so."""
    newest = case.round
    if newest is None or not case.deadlines or case.since_ms <= 0:
        return Cleaned()
    limits = [deadline(call.name, case.deadlines) for call in newest.calls[:AT_MOST]]
    done = [
        Done("deadlines", settings.mode, call.name.strip(), newest.index, "unanswered")
        for call, result, limit in zip(newest.calls, newest.results, limits, strict=False)
        if result is None and 0 < limit * 1000 < case.since_ms
    ]
    edits: list[Edit] = []
    if _late(newest, limits, case.since_ms):
        words = LANGUAGES[case.language]
        for result in case.results:
            limit = deadline(result.call.name, case.deadlines)
            text = words.LATE.format(tool=quoted(result.step.tool) or "-", seconds=f"{limit:g}")
            if not result.step.flags & Flag.FAILED:  # of a failure other things are to be said
                edits.append(case.note(result.index, text))
            done.append(Done("deadlines", settings.mode, result.step.tool, result.index, "late"))
    return Cleaned(tuple(edits), tuple(done))


def deadline(tool: str, deadlines: Mapping[str, float]) -> float:
    """Seconds that the tool has, by the first glob that fits; 0: as many as it takes."""
    return chosen(deadlines, tool, 0)


def _late(newest: Round, limits: list[float], since_ms: int) -> bool:
    """Whether the results took longer than all the calls together may; a call without a deadline may take any time."""
    if newest.reply is not None or not all(limits):
        return False
    return any(one is not None for one in newest.results) and sum(limits) * 1000 < since_ms
