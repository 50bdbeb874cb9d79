"""The server that clients speak to: its connections, how long they may do nothing, and how it ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from guardproxy.http import quiet
from guardproxy.http.connection import Connection

if TYPE_CHECKING:
    from guardproxy.http.request import Request
    from guardproxy.http.streamed import Response

KEPT_S = 3630.0
"""Seconds that a connection without a request is kept: longer than load balancers do, which would find it closed."""

HEAD_S = 60.0
"""Seconds that a request's head may take to come."""

LOOK_S = 5.0
"""Seconds between two looks at the connections: one timer for all of them."""

BACKLOG = 1024
"""Connections that may wait to be accepted."""


class Server:
    """The connections of one listener. `count` hears of each malformed request. Make it inside the running loop."""

    def __init__(self, handler: Callable[[Request], Awaitable[Response]], count: Callable[[], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.handler = handler
        self.connections: set[Connection] = set()
        self.closing = False
        self._count = count
        self._listening: asyncio.Server | None = None
        self._looking: asyncio.TimerHandle | None = None

    def __call__(self) -> Connection:
        """A new connection."""
        return Connection(self)

    async def listen(self, sock: socket.socket) -> None:
        """Accept connections from now on."""
        self._listening = await self.loop.create_server(self, sock=sock, backlog=BACKLOG)
        self._look()

    async def close(self, seconds: float) -> None:
        """Take no more, and wait until what is under way is answered; after `seconds` it is cancelled."""
        self.closing = True
        if self._looking is not None:
            self._looking.cancel()
        if self._listening is not None:
            self._listening.close()
        for connection in list(self.connections):
            connection.end()
        await self._answered(seconds)
        for connection in list(self.connections):
            if connection.task is not None:
                connection.task.cancel()
        await self._answered(seconds)
        for connection in list(self.connections):
            connection.close()

    def malformed(self, kind: str) -> None:
        """Somebody sent what is no HTTP."""
        self._count()
        quiet.malformed(kind)

    def failed(self, error: Exception) -> None:
        """A fault of ours has ended a connection."""
        quiet.failed(error)

    async def _answered(self, seconds: float) -> None:
        tasks = [one.task for one in self.connections if one.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def _look(self) -> None:
        """End the connections that have done nothing for too long."""
        for connection in list(self.connections):
            if connection.late(KEPT_S, HEAD_S):
                connection.close()
        self._looking = self.loop.call_later(LOOK_S, self._look)
