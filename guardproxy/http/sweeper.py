"""What must happen without a request: expired holds are settled, idle runs are closed, workers' counts are fetched."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from guardproxy.errors import StoreError
from guardproxy.http import ended
from guardproxy.store.known import Known
from guardproxy.store.redis import Store
from guardproxy.telemetry import RunEnd, Telemetry
from guardproxy.telemetry._ids import read_segment
from guardproxy.telemetry.record import NOBODY, TurnRecord, acts, read_record
from guardproxy.telemetry.report import CLOSING

EVERY_SECONDS = 5.0
"""A dead worker's holds block budgets until they are swept; the lease is two minutes, so this adds little."""

IDLE_MS = 15 * 60_000
"""A run without a turn for so long has ended. Above the 10 minutes in which a derived run is still found again."""

WAITING = frozenset({"paused", "need_human", "waiting"})
"""States of a run that goes on when somebody has decided, or a result is there."""

_log = logging.getLogger(__name__)


class Sweeper:
    """Runs in the parent; every step may fail without harm to the others or to the next round."""

    def __init__(
        self, store: Store, telemetry: Telemetry, steps: Iterable[Callable[[], Awaitable[None]]], idle_ms: int = IDLE_MS
    ) -> None:
        self._store = store
        self._telemetry = telemetry
        self._steps = (self._settle, self._close_idle, *steps)
        self._idle_ms = idle_ms

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            await self.round()

    async def round(self) -> None:
        """Do all of it once."""
        for step in self._steps:
            try:
                await step()
            except StoreError:
                continue  # the workers say when the store goes and comes
            except Exception:  # noqa: BLE001 - the proxy serves on without its sweeper, but somebody must hear of it
                _log.exception("a step of the sweeper failed; it is tried again in %.0f s", EVERY_SECONDS)

    async def _settle(self) -> None:
        await _sweep(self._store)

    async def _close_idle(self) -> None:
        for known in await self._store.idle_sessions(self._idle_ms):
            if known.state in WAITING:
                continue  # a person, or a late result, may still come: the run is not over
            records = [read_record(raw) for raw in await self._store.records(known.org, known.session)]
            if records and (ended.turns(records) or known.closed):
                self._telemetry.close_run(run_of(known, records))


async def claim(store: Store, run: RunEnd) -> bool:
    """Whether this process is the one of all workers and machines that tells of this end."""
    finalized = run.outcome == "finalized"
    return await store.runs.seal(run.org, run.session, run.started_ms, run.segment, finalized=finalized)


async def _sweep(store: Store) -> None:
    for swept in await store.sweep():
        _log.warning("settled an expired hold of session %s, turn %d, in full", swept.session, swept.turn)


async def bury(store: Store, mark: str) -> None:
    """Settle what a worker left that died: its clients ask again at once, and that is a retry then, no second run."""
    with suppress(StoreError):  # the leases end by themselves
        for org in await store.orgs():
            with suppress(StoreError):  # other orgs may lie elsewhere
                await store.orphans.expire(org, mark)
        await _sweep(store)


def run_of(known: Known, records: list[TurnRecord]) -> RunEnd:
    """The end of a run that was closed without a turn: by people, or since it was idle. Then it is finished if its last
    answer was final, else the agent left it.
    """
    last, segment = (ended.turns(records) or records)[-1], read_segment(known.traceparent)
    outcome = "cut" if known.closed == "operator" else ended.outcome(records, known.main) or "abandoned"
    named = next((record["of"] for record in reversed(records) if "of" in record), NOBODY)
    return RunEnd(
        org=known.org,
        session=known.session,
        outcome=outcome,
        started_ms=known.started_ms,
        ended_ms=known.at_ms,
        agent=named["agent"],
        declared=named["declared"],
        rule=known.closed or (last["rule"] if outcome in CLOSING else ""),
        turns=known.turn,
        tool_calls=sum(len(record["calls"]) for record in records),
        interventions=sum(len(acts(record)) for record in records),
        input_tokens=known.used.get("input_tokens", sum(record["input_tokens"] for record in records)),
        output_tokens=known.used.get("output_tokens", sum(record["output_tokens"] for record in records)),
        cost_microusd=known.used.get("cost_microusd", sum(record["cost_microusd"] for record in records)),
        traceparent=segment.caller,
        segment=segment.number,
        segment_ms=segment.since_ms,
        team=named["team"],
        key=named["key"],
        abandoned=tuple(call.get("tool", "") for call in last["calls"]) if outcome == "abandoned" else (),
    )
