"""One connection to a Redis, and the protocol on it.

Calls made in one turn of the event loop leave in one write; answers come in order. One timer watches the oldest call
instead of a timer a call. hiredis packs and parses; redis-py's own client costs two to four times the CPU (measured:
`make bench`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

import hiredis

from guardproxy.store._address import Address

pack: Callable[[tuple[str | bytes | int, ...]], bytes] = hiredis.pack_command  # type: ignore[assignment]
"""A command in the protocol's form. (The stub of hiredis means a tuple of any length and says one of length one.)"""

GRACE_S = 0.005
"""Seconds beyond the time limit: if the loop was busy, it has not yet read all the answers in the socket."""


class Frozen(Exception):
    """The server did not answer in time."""


class Lost(Exception):
    """The connection ended before the answer came. The call may or may not have been carried out."""


class Wire(asyncio.Protocol):
    """A connection. `ended(wire, reason, frozen)` is called once, when it is of no more use."""

    def __init__(self, ended: Callable[[Wire, str, bool], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()
        self._waiting: deque[tuple[asyncio.Future[object], float]] = deque()
        self._out: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._ended = ended
        self.reason = ""

    @classmethod
    async def open(cls, to: Address, ended: Callable[[Wire, str, bool], None]) -> Wire:
        """Connect. `OSError` if that fails; the caller bounds the time."""
        loop = asyncio.get_running_loop()
        if to.path:
            _, wire = await loop.create_unix_connection(lambda: cls(ended), to.path)
        else:
            _, wire = await loop.create_connection(lambda: cls(ended), to.host, to.port, ssl=to.tls)
        return wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Part of `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)

    def send(self, packed: bytes, deadline: float, *, answers: int = 1) -> asyncio.Future[object]:
        """Send packed commands and give the last answer's future. `deadline` is on the loop's clock.

        The future raises `Frozen` or `Lost`; an error answer of the server is its value.
        """
        future: asyncio.Future[object] = self._loop.create_future()
        if self._transport is None or self.reason:
            future.set_exception(Lost(self.reason))
            return future
        if not self._out:
            self._loop.call_soon(self.flush)
        self._out.append(packed)
        if answers > 1:
            self._waiting.extend([(self._loop.create_future(), deadline) for _ in range(answers - 1)])
        self._waiting.append((future, deadline))
        if self._timer is None:
            self._timer = self._loop.call_at(deadline, self._check)
        return future

    def close(self, reason: str = "closed", *, frozen: bool = False) -> None:
        """End the connection and every call on it."""
        if self.reason:
            return
        self.reason = reason
        if self._timer:
            self._timer.cancel()
        if self._transport:
            self._transport.abort()
        error = Frozen if frozen else Lost
        for future, _ in self._waiting:
            if not future.done():
                future.set_exception(error(reason))
                future.exception()  # seen: a caller that was cancelled does not ask any more
        self._waiting.clear()
        self._ended(self, reason, frozen)

    def data_received(self, data: bytes) -> None:
        """Part of `asyncio.Protocol`."""
        reader, waiting = self._reader, self._waiting
        reader.feed(data)
        try:
            while (reply := reader.gets()) is not False:
                future, _ = waiting.popleft()
                if not future.done():
                    future.set_result(reply)
        except (hiredis.ProtocolError, IndexError) as error:
            self.close(f"what answers is not a Redis: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Part of `asyncio.Protocol`."""
        self.close(f"the connection was lost ({exc})" if exc else "the server closed the connection")

    def flush(self) -> None:
        """Send what waits now, and not with the end of this turn of the loop."""
        if self._out and self._transport and not self.reason:
            self._transport.write(b"".join(self._out))
        self._out.clear()

    def _check(self) -> None:
        """The oldest call's time may be up. Answered ones have left the queue."""
        self._timer = None
        if not self._waiting:
            return
        now, due = self._loop.time(), self._waiting[0][1]
        if now < due:
            self._timer = self._loop.call_at(due, self._check)
        else:
            self._timer = self._loop.call_later(GRACE_S, self._give_up, self._waiting[0][0])

    def _give_up(self, oldest: asyncio.Future[object]) -> None:
        self._timer = None
        if self._waiting and self._waiting[0][0] is oldest:
            self.close("no answer in time", frozen=True)
        else:
            self._check()


async def told(to: Address, hello: tuple[tuple[str, ...], ...], words: tuple[str, ...], timeout_s: float) -> object:
    """One answer over a connection of its own. `OSError` (`TimeoutError` too), `Frozen` or `Lost` without one."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    async with asyncio.timeout(timeout_s):
        wire = await Wire.open(to, _unheard)
        try:
            return (await asyncio.gather(*(wire.send(pack(one), deadline) for one in (*hello, words))))[-1]
        finally:
            wire.close()


def _unheard(wire: Wire, reason: str, frozen: bool) -> None:  # noqa: FBT001  # a callback's arguments
    """Whoever asks once sees the end of it in the answer."""
