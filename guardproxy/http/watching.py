"""Looks, while turns are under way: has a person cut one of their runs (it ends within a second anywhere); does a
stream become longer than what was held for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from guardproxy.errors import StoreError
from guardproxy.http import overrun

if TYPE_CHECKING:
    from guardproxy.http.app import Proxy
    from guardproxy.http.turn import Turn

LOOK_S = 0.4
"""Seconds between two looks; only while something runs."""

WHY = "a person has cut this run"


async def watch(proxy: Proxy) -> None:
    """Stop the turns of runs that were cut, as long as the proxy is open."""
    while True:
        await asyncio.sleep(LOOK_S)
        running = [turn for turn in proxy.turns if turn.view is not None and not turn.settled]
        if not running:
            continue
        for org in {turn.opening.org for turn in running}:
            await _stop(proxy, org, [turn for turn in running if turn.opening.org == org])
        await overrun.look(running)


async def _stop(proxy: Proxy, org: str, running: list[Turn]) -> None:
    try:
        stopped = await proxy.books.runs.stopped(org, min(turn.seen.now_ms for turn in running))
    except StoreError:
        return
    for turn in running:
        cut = stopped.get(turn.seen.session, -1) >= turn.seen.now_ms  # one that began later was let go on
        if cut and not _over(turn):
            turn.stop(WHY)


def _over(turn: Turn) -> bool:
    """The client has all of the answer: there is nothing to stop any more."""
    watcher = turn.look.watcher if turn.look is not None and turn.response is not None else None
    return watcher is not None and watcher.complete and not watcher.holding
