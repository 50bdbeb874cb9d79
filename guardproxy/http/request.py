"""A request as its handler sees it: its head whole, its body as it comes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from multidict import CIMultiDict, CIMultiDictProxy

from guardproxy.core.tenant import NOBODY, Tenant

if TYPE_CHECKING:
    from guardproxy.errors import BadAsk
    from guardproxy.http.connection import Connection


class MalformedBody(Exception):
    """The body is not what HTTP knows: its chunks, or its length."""


class Request:
    """One request. `method` and `raw_path` as they were sent; `modern`: HTTP/1.1, else 1.0; `length`: as declared.

    `lower` are the headers with lower-case names, of a repeated one the first.
    """

    __slots__ = (
        "_connection",
        "_most",
        "_parts",
        "_waiting",
        "arrived",
        "begun",
        "body",
        "broken",
        "headers",
        "held",
        "idle_s",
        "keep_alive",
        "length",
        "lower",
        "method",
        "modern",
        "raw_path",
        "size",
        "tenant",
        "wrong",
    )

    def __init__(
        self, connection: Connection, method: str, raw_path: str, headers: list[tuple[str, str]], lower: dict[str, str]
    ) -> None:
        self.method, self.raw_path = method, raw_path
        self.headers = CIMultiDictProxy(CIMultiDict(headers))
        self.lower = lower
        self.modern = self.keep_alive = True
        self.length: int | None = None
        self.arrived = False
        """All of the body is there."""
        self.begun = False
        """Something of the answer is sent."""
        self.broken: Exception | None = None
        """Why the rest of the body will never come."""
        self.size = self.held = 0
        """Bytes of the body: that came, that nobody has taken yet."""
        self.tenant: Tenant = NOBODY
        self.body: bytes | None = None
        """The body, once it was waited for, or what is `wrong` with it (`intake`)."""
        self.wrong: BadAsk | None = None
        self._connection = connection
        self._parts: list[bytes] = []
        self._waiting: asyncio.Future[None] | None = None
        self._most = -1  # bytes that are waited for together
        self.idle_s = 0.0
        """Seconds within which the next bytes must come, while all of it is waited for."""

    @property
    def body_exists(self) -> bool:
        """Whether it has a body at all."""
        return bool(self.length) or "transfer-encoding" in self.lower

    @property
    def content_type(self) -> str:
        """The media type without parameters, in lower case."""
        return self.lower.get("content-type", "").partition(";")[0].strip().lower() or "application/octet-stream"

    @property
    def gathers(self) -> bool:
        """Whether somebody waits for all of it."""
        return self._most >= 0

    def add(self, part: bytes) -> None:
        """The next part of the body."""
        self._parts.append(part)
        self.size += len(part)
        self.held += len(part)

    def news(self) -> None:
        """Something has come, or nothing more will."""
        waiting = self._waiting
        if waiting is not None and not waiting.done() and (self.size > self._most or self.arrived or self.broken):
            waiting.set_result(None)

    def fail(self, error: Exception) -> None:
        """Nothing more will come of the body."""
        if not self.arrived and self.broken is None:
            self.broken = error
            self.news()

    def taken(self) -> bytes:
        """What is there of the body and was not taken yet."""
        parts, self._parts, self.held = self._parts, [], 0
        self._connection.flow()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def drop(self) -> None:
        """Nobody wants the body any more."""
        self._parts.clear()
        self.held = 0
        self._connection.flow()

    async def part(self) -> bytes:
        """The next part of the body: what came together. b"" at its end; raises what has broken it."""
        while not self.held:
            if self.broken is not None:
                raise self.broken
            if self.arrived:
                return b""
            await self._news()
        return self.taken()

    async def gathered(self, most: int, idle_s: float) -> None:
        """Wait until all of the body is there, or more than `most` bytes; raises what has broken it, and TimeoutError
        when nothing came for `idle_s`. Whoever waits is not woken by each part.
        """
        self._most, self.idle_s = most, idle_s
        self._connection.flow()
        self._connection.watch(idle_s)
        try:
            while not self.arrived and self.size <= most:
                if self.broken is not None:
                    raise self.broken
                await self._news()
        finally:
            self._most = -1

    def late(self) -> None:
        """Nothing has come for `idle_s`."""
        waiting = self._waiting
        if waiting is not None and not waiting.done():
            waiting.set_exception(TimeoutError())

    def go_on(self) -> None:
        """Tell a client that waits for it (`Expect: 100-continue`, RFC 9110 section 10.1.1) to send the body."""
        if self.modern and self.lower.get("expect", "").strip().lower() == "100-continue":
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def send(self, data: bytes) -> None:
        """Bytes of the answer. ConnectionResetError: the client is gone."""
        self._connection.write(data)
        self.begun = True

    @property
    def gone(self) -> bool:
        """Whether the client has left."""
        return self._connection.gone

    @property
    def clogged(self) -> bool:
        """Whether the client takes the answer more slowly than it comes: then `drain` waits."""
        return self._connection.clogged

    async def drain(self) -> None:
        """Wait for a client that is slow. ConnectionResetError: it is gone."""
        await self._connection.drain()

    def abort(self) -> None:
        """End the connection so that the client sees that the answer is not whole."""
        self._connection.abort()

    async def _news(self) -> None:
        self._waiting = self._connection.loop.create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None
