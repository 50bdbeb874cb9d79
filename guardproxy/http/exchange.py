"""One connection to a provider, and the answers that come over it: HTTP/1.1, a request whole, its answer in pieces.

What every turn goes through, so it is only as much of a client as that needs: httptools reads the answers, aiohttp's
client (a quarter of a turn's CPU, measured: `make bench`) serves the other routes. Errors are `UpstreamError`s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import httptools

from guardproxy.errors import UpstreamError

BUFFERED = 256 << 10
"""Bytes of an answer that wait for a slow client before no more are read."""

MOST_HEAD = 256 << 10
"""Bytes that the head of an answer may have."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is said and allowed on all connections to a provider. `base` is shown in errors."""

    base: str
    connect_s: float
    first_byte_s: float
    idle_s: float

    def broken(self, how: str) -> UpstreamError:
        """The provider, or the way to it, ended in the middle."""
        return UpstreamError(f"the provider at {self.base} broke off ({how})", code="upstream_broken")

    def late(self) -> UpstreamError:
        """The provider took too long."""
        message = f"the provider at {self.base} did not answer in time"
        return UpstreamError(message, status=504, code="upstream_timeout")

    def late_connect(self) -> UpstreamError:
        """No connection to the provider was made in time: nothing was sent."""
        message = f"the provider at {self.base} did not answer in time"
        return UpstreamError.before(message, status=504, code="upstream_timeout")


class Answer:
    """An answer as it arrives. `status` and `headers` (names as spelled, in order) are known from the start."""

    def __init__(self, connection: Connection) -> None:
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.known: dict[str, str] = {}
        self.complete = False
        self.error: UpstreamError | None = None
        self._connection = connection
        self._parts: list[bytes] = []
        self._waiting: asyncio.Future[None] | None = None

    def header(self, name: str) -> str:
        """The first value of a header; `name` in lower case; "" if there is none."""
        return self.known.get(name, "")

    @property
    def content_type(self) -> str:
        """The media type without parameters, in lower case."""
        return "application/json" if self.known.get("content-type") == "application/json" else self._content_type()

    def _content_type(self) -> str:
        return self.header("content-type").partition(";")[0].strip().lower() or "application/octet-stream"

    async def read(self) -> bytes:
        """The whole body. `UpstreamError` when it breaks off."""
        parts = []
        while self._parts or not self.complete:
            if self._parts:
                parts.append(self._take())
            elif self.error is not None:
                raise self.error
            else:
                await self.wait()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def ready(self) -> bool:
        """Whether a part of the body is there already."""
        return bool(self._parts)

    async def piece(self) -> bytes:
        """The next part of the body: what arrived together comes together. b"" at its end; `UpstreamError` when it
        breaks off.
        """
        while not self._parts:
            if self.complete:
                return b""
            if self.error is not None:
                raise self.error
            await self.wait()
        return self._take()

    def _take(self) -> bytes:
        parts, self._parts = self._parts, []
        self._connection.taken()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def wait(self) -> None:
        """Wait for news."""
        self._waiting = asyncio.get_running_loop().create_future()
        await self._waiting

    def news(self) -> None:
        """Something has come."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def add(self, part: bytes) -> None:
        """The next part of the body."""
        self._parts.append(part)

    def end(self) -> None:
        """Nobody reads on. The connection is kept if the answer was read to its end, else it is closed."""
        self._connection.release()


class Connection(asyncio.Protocol):
    """One connection. It carries one request at a time."""

    def __init__(self, terms: Terms, keep: Callable[[Connection], None]) -> None:
        self._terms = terms
        self._keep = keep
        self._often_s = min(terms.first_byte_s, terms.idle_s)
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._answer: Answer | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._head = self._held = 0
        self._limit_s = self._seen_s = 0.0
        self._begun = self._sized = self._lasts = self._paused = self._surplus = False
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Part of `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)

    async def ask(self, head: bytes, body: bytes) -> Answer:
        """Send a request; its answer once the answer's head is there."""
        transport = self._transport
        if transport is None or self.closed:  # closed by the other side this very moment
            message = f"the provider at {self._terms.base} broke off (the connection was closed)"
            raise UpstreamError.before(message, code="upstream_broken")
        answer = self._answer = Answer(self)
        self._parser = httptools.HttpResponseParser(self)  # nothing of an earlier answer is left in it
        self._begun = self._sized = self._lasts = self._surplus = False
        self._head = 0
        self._limit_s, self._seen_s = self._terms.first_byte_s, self._loop.time()
        if self._timer is None:
            self._watch(self._often_s)
        transport.writelines((head, body))
        try:
            while not self._begun and answer.error is None:
                await answer.wait()
        except BaseException:
            self.close()
            raise
        if answer.error is not None:
            self.close()
            raise answer.error
        return answer

    def data_received(self, data: bytes) -> None:
        """Part of `asyncio.Protocol`."""
        answer = self._answer
        if answer is None or answer.complete:  # nobody asked
            self.close()
            return
        self._seen_s = self._loop.time()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.fail(self._terms.broken("it wants to speak another protocol"))
        except httptools.HttpParserError as error:
            if self._answer is not None and self._answer.complete:
                self._lasts = False  # what stands behind an answer is nobody's
            else:
                self.fail(self._terms.broken(f"what it sent is not HTTP: {error}"))
        if self._held > BUFFERED and self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        answer.news()

    def on_message_begin(self) -> None:
        """Part of httptools' protocol. A second answer in the same packet: nobody asked, and nobody may get it."""
        if self._answer is not None and self._answer.complete:
            self._lasts, self._surplus = False, True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Part of httptools' protocol. Trailers are left out."""
        if self._surplus:
            return
        self._head += len(name) + len(value)
        if self._head > MOST_HEAD:
            self.fail(self._terms.broken(f"the head of its answer has more than {MOST_HEAD} bytes"))
        elif self._answer is not None and not self._begun:
            spelled, text = name.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape")
            self._answer.headers.append((spelled, text))
            self._answer.known.setdefault(spelled.lower(), text)

    def on_headers_complete(self) -> None:
        """Part of httptools' protocol."""
        answer, status = self._answer, self._parser.get_status_code()
        if answer is None or self._surplus:
            return
        if status < 200:  # to be continued (RFC 9110, section 15.2)
            answer.headers.clear()
            answer.known.clear()
            return
        self._begun, answer.status = True, status
        self._sized = "content-length" in answer.known or "transfer-encoding" in answer.known
        self._lasts = self._parser.should_keep_alive()
        self._limit_s = self._terms.idle_s

    def on_body(self, part: bytes) -> None:
        """Part of httptools' protocol."""
        if self._answer is not None and not self._surplus:
            self._held += len(part)
            self._answer.add(part)

    def on_message_complete(self) -> None:
        """Part of httptools' protocol."""
        if self._answer is not None and self._begun:
            self._answer.complete = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Part of `asyncio.Protocol`. Without a length the end of the connection is the end of the answer."""
        self.closed = True
        answer = self._answer
        if self._timer is not None:
            self._timer.cancel()
        if answer is None or answer.complete:
            return
        if self._begun and not self._sized and exc is None:
            answer.complete = True
        elif answer.error is None:
            answer.error = self._terms.broken(f"{type(exc).__name__}: {exc}" if exc else "the connection was closed")
        answer.news()

    def taken(self) -> None:
        """What was held is with the reader."""
        self._held = 0
        if self._paused and self._transport is not None:
            self._paused, self._seen_s = False, self._loop.time()
            self._transport.resume_reading()

    def fail(self, error: UpstreamError) -> None:
        """End the answer and the connection."""
        if self._answer is not None and self._answer.error is None:
            self._answer.error = error
        self.close()

    def release(self) -> None:
        """The reader is done with the answer."""
        answer, self._answer = self._answer, None
        whole = answer is not None and answer.complete and self._lasts and not self.closed
        if whole and self._transport is not None and not self._transport.get_write_buffer_size():
            if self._paused:
                self.taken()
            self._held = 0
            self._keep(self)
        else:
            self.close()

    def close(self) -> None:
        """End the connection at once."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def _watch(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._check)

    def _check(self) -> None:
        """One timer for all requests of a connection: it looks when the oldest limit could be reached, and again."""
        self._timer = None
        answer = self._answer
        if answer is None or answer.complete or self.closed:
            return
        left = self._seen_s + self._limit_s - self._loop.time()
        if self._paused:
            left = self._limit_s  # it is the client that takes its time
        if left > 0:
            self._watch(min(left, self._often_s))
            return
        self.fail(self._terms.late())
        answer.news()
