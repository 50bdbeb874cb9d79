"""Waiting until replicas have what a server was told: what a failover then cannot forget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from guardproxy.errors import StoreError
from guardproxy.store._wire import Frozen, Lost, Wire, pack

REPLICATED = frozenset(
    {"begin", "extend", "meter", "approval", "checkpoint", "registry", "policy", "run", "admin", "erase"}
)
"""Scripts that wait, if calls are to. One that closes a call does not: without it the hold stands until its lease ends,
and then counts in full.
"""


class Replicas:
    """`count` of them must have each write. `wire`: the connection of now; `fall` hears why they have not."""

    def __init__(self, count: int, wire: Callable[[], Wire | None], fall: Callable[[str], None]) -> None:
        self._count = count
        self._wire = wire
        self._fall = fall
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Task[None] | None = None
        self._one = asyncio.Lock()

    async def keep(self, deadline: float) -> None:
        """Wait until they have what the connection has written; `StoreError` if they do not. All who ask while one
        WAIT is under way share the next: the server answers nothing else on a connection that waits.
        """
        if self._next is None:
            self._next = self._loop.create_task(self._wait(self._wire(), deadline))
            self._next.add_done_callback(lambda task: task.cancelled() or task.exception())  # seen
        await asyncio.shield(self._next)

    async def have(self, wire: Wire, deadline: float) -> None:
        """One WAIT. Half of the time at most: behind it others wait for their answers."""
        for_ms = max(1, int((deadline - self._loop.time()) * 500))
        reply = await wire.send(pack(("WAIT", self._count, for_ms)), deadline)
        if not isinstance(reply, int) or reply < self._count:
            raise StoreError(f"{reply} of {self._count} replicas have what it was told")

    async def _wait(self, wire: Wire | None, deadline: float) -> None:
        async with self._one:
            self._next = None
            if wire is None or wire is not self._wire():
                raise StoreError("the store was lost before its replicas had what it was told")
            try:
                await self.have(wire, deadline)
            except (Lost, Frozen, StoreError) as error:
                self._fall(str(error))
                raise StoreError(f"the store: {error}") from error
