"""A run with what the proxy has on record of it: what it did to single calls, and what came after it said stop.

In a stream the last action is not in the headers, which were sent before; the record has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from guardproxy.telemetry.record import TurnRecord

if TYPE_CHECKING:
    from guardproxy.demo.agent import Run  # it needs the extra, and `run` says so

STOPS = ("firm", "refuse", "finalize", "cut")
"""Actions that tell a loop to stop; a nudge only says what it is."""


class After(NamedTuple):
    """What was still spent on a run once a call of it was refused, or, where none was, once it was told to stop."""

    models: int
    tools: int


NOTHING = After(0, 0)
"""A run that nobody told to stop."""


def join(run: Run, records: Sequence[TurnRecord]) -> None:
    """Put what was decided into the records of a run, which have what its tools were given and answered."""
    decided = {record["turn"]: record for record in records}
    for record in run.records:
        known = decided.get(record["turn"])
        if known is None:
            continue
        known = known.copy()
        known["calls"] = record["calls"]
        record.update(known)


def attempts(record: TurnRecord) -> int:
    """How often the model was asked in a turn."""
    asked = len(record.get("events", {}).get("asked", ()))
    return asked + (record["action"] not in ("cut", "deny") or bool(asked))


def refused(record: TurnRecord) -> bool:
    """Whether a call was not handed to the agent in this turn because it belongs to a loop."""
    objected = record.get("events", {}).get("objected", ())
    return any(one["action"] == "refuse" and one["mode"] == "enforce" for one in objected)


def after(records: Sequence[TurnRecord]) -> After:
    """What came after the first refusal, the refused answer itself apart; or after the first word to stop."""
    first = next((at for at, record in enumerate(records) if refused(record)), None)
    made = 1  # the answer that was refused
    if first is None:
        first = next((at for at, record in enumerate(records) if record["action"] in STOPS), len(records))
        made = 0
    rest = records[first:]
    tools = sum(len(record["calls"]) for record in rest)
    return After(sum(map(attempts, rest)) - made if rest else 0, tools)
