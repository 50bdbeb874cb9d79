"""How a run has ended, read off its turns: for lists of runs, and for who reports a run that was left idle."""

from __future__ import annotations

from collections.abc import Sequence

from guardproxy.telemetry.record import TurnRecord

ASIDE = "aside"
"""The thread of requests that are no turns, as `begin.lua` names it."""

_GONE_ON = ("pass", "observe", "nudge", "firm", "finalize")
"""Actions of a turn whose answer is the model's own."""


def turns(records: Sequence[TurnRecord]) -> list[TurnRecord]:
    """Those that are turns: a title, or an embedding, says nothing of how its run went, and alone it is no run."""
    return [record for record in records if record["thread"] != ASIDE]


def outcome(records: Sequence[TurnRecord], main: str) -> str:
    """How the last of these turns left the run, "" while it goes on. `main`: the run's main thread.

    What another thread is answered ends no run while calls of the main one are out: it is a sub-agent's. Once the main
    one has none (it was answered for good, refused, or stopped), an agent that was started again under the same name
    speaks there, with the same task: its last answer is the run's.
    """
    every = turns(records)
    if not every:
        return ""
    last = every[-1]
    if last["outcome"] or last["thread"] == main:
        return last["outcome"]
    before = next((one for one in reversed(every) if one["thread"] == main), None)
    over = before is not None and not before["calls"]
    return "finished" if over and _answered(last) else ""


def _answered(record: TurnRecord) -> bool:
    """Whether the agent was given words of the model's, and nothing to carry out or to wait for."""
    events = record.get("events", {})
    waits = "dropped" in events or "state" in events
    return record["status"] == 200 and record["action"] in _GONE_ON and not (record["calls"] or waits)
