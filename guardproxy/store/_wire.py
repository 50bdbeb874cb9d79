"""One connection to a Redis: where it leads, and the protocol on it.

Calls made in one turn of the event loop leave in one write; answers come in order. One timer watches the oldest call
instead of a timer a call. redis-py reads URLs and makes TLS contexts, hiredis packs and parses; redis-py's own client
costs two to four times the CPU (measured: `make bench`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import hiredis
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection, parse_url
from redis.exceptions import RedisError

from guardproxy.errors import ConfigError

pack: Callable[[tuple[str | bytes | int, ...]], bytes] = hiredis.pack_command  # type: ignore[assignment]
"""A command in the protocol's form. (The stub of hiredis means a tuple of any length and says one of length one.)"""

GRACE_S = 0.005
"""Seconds beyond the time limit: if the loop was busy, it has not yet read all the answers in the socket."""


class Frozen(Exception):
    """The server did not answer in time."""


class Lost(Exception):
    """The connection ended before the answer came. The call may or may not have been carried out."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the store is. `shown` is safe to log: no password."""

    shown: str
    path: str = ""
    host: str = "localhost"
    port: int = 6379
    tls: ssl.SSLContext | None = None
    hello: tuple[tuple[str, ...], ...] = field(default=(), repr=False)


def address(url: str | None, socket_path: str | None = None) -> Address:
    """Read a `redis://`, `rediss://` or `unix://` URL, or take a socket path. `ConfigError` if it cannot be read."""
    if socket_path:
        return Address(f"unix://{socket_path}", path=socket_path)
    if not url:
        message = "the store has neither a URL nor a socket"
        raise ConfigError(message, param="store.url")
    try:
        options: dict[str, Any] = dict(parse_url(url))
        made = options.pop("connection_class", Connection)(**options)
    except (ValueError, TypeError, RedisError, OSError, ssl.SSLError) as error:
        # Not the text of the URL: it may hold a password.
        message = f"store.url cannot be used: {error}"
        raise ConfigError(message, param="store.url") from None
    return _address(made)


def _address(made: Connection | SSLConnection | UnixDomainSocketConnection) -> Address:
    hello: list[tuple[str, ...]] = []
    if made.password:
        hello.append(("AUTH", made.username, made.password) if made.username else ("AUTH", made.password))
    if made.db:
        hello.append(("SELECT", str(made.db)))
    if isinstance(made, UnixDomainSocketConnection):
        return Address(f"unix://{made.path}", path=made.path, hello=tuple(hello))
    tls = made.ssl_context.get() if isinstance(made, SSLConnection) else None
    shown = f"{'rediss' if tls else 'redis'}://{made.host}:{made.port}/{made.db}"
    return Address(shown, host=made.host, port=int(made.port), tls=tls, hello=tuple(hello))


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
