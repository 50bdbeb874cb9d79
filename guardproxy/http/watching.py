"""Looks, while turns are under way, whether a person has cut one of their runs: it ends within a second anywhere."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from guardproxy.errors import StoreError

if TYPE_CHECKING:
    from guardproxy.http.app import Proxy

LOOK_S = 0.4
"""Seconds between two looks; only while something runs."""

BACK_MS = 5_000
"""How far back a look goes: the worker's clock and the store's may differ, and a turn is stopped once."""


async def watch(proxy: Proxy) -> None:
    """Stop the turns of runs that were cut, as long as the proxy is open."""
    while True:
        await asyncio.sleep(LOOK_S)
        if not proxy.turns:
            continue
        try:
            stopped = await proxy.books.runs.stopped(proxy.org, BACK_MS)
        except StoreError:
            continue
        for session, why in stopped.items() if stopped else ():
            for turn in list(proxy.turns):
                if turn.view is not None and turn.view.session == session:
                    turn.stop(why)
