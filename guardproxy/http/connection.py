"""One connection of a client: HTTP/1.1 (and 1.0), its requests answered one by one and in order.

What every turn goes through, so it is only as much of a server as that needs (aiohttp's took 60 µs a request).
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from guardproxy import api
from guardproxy.errors import BadAsk, GuardError
from guardproxy.http.incoming import MAX_LINE, Incoming
from guardproxy.http.whole import Whole

if TYPE_CHECKING:
    from guardproxy.http.request import Request
    from guardproxy.http.server import Server

READ = 256 << 10
"""Bytes of a body that may wait to be taken, up to twice as many, before no more are read: as much as comes at once.
With less a connection would be stopped and started again with every part.
"""

LINGER_S = 10.0
"""Seconds that the rest of a body is read and dropped after the answer: a client that still sends does not read it."""

GONE = "the client is gone"


class Connection(asyncio.Protocol):
    """One connection. `seen_s`: when bytes came last, by the loop's clock; `clogged`: the client reads too slowly."""

    def __init__(self, server: Server) -> None:
        self.loop = server.loop
        self.seen_s = 0.0
        self.clogged = False
        self.task: asyncio.Task[None] | None = None
        """What makes the answer under way."""
        self._server = server
        self._incoming = Incoming(self)
        self._transport: asyncio.Transport | None = None
        self._request: Request | None = None  # under way, until its body has come, too
        self._tail: deque[bytes] = deque()  # what came behind a request that is not answered yet
        self._tail_size = 0
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None

    def late(self, kept_s: float, head_s: float) -> bool:
        """Whether nothing was asked for so long, or a head takes longer."""
        now, incoming = self.loop.time(), self._incoming
        if self._request is not None:
            return False
        return now - incoming.begun_s > head_s if incoming.heading else now - self.seen_s > kept_s

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Part of `asyncio.Protocol`."""
        self._transport = made = cast("asyncio.Transport", transport)
        self._server.connections.add(self)
        self.seen_s = self.loop.time()
        sock = made.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            with suppress(OSError):  # it is gone already
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._server.closing:
            made.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Part of `asyncio.Protocol`. Nobody waits for the answer: what makes it is cancelled."""
        self._server.connections.discard(self)
        self._transport = None
        self._tail.clear()
        self._incoming.over(exc or ConnectionResetError(GONE))
        if self._drained is not None and not self._drained.done():
            self._drained.set_exception(ConnectionResetError(GONE))
            self._drained.exception()  # seen, also where nobody waits any more
        for timer in (self._timer, self._watch):
            if timer is not None:
                timer.cancel()
        if self.task is not None:
            self.task.cancel()

    def pause_writing(self) -> None:
        """Part of `asyncio.Protocol`."""
        self.clogged = True

    def resume_writing(self) -> None:
        """Part of `asyncio.Protocol`."""
        self.clogged = False
        waiting, self._drained = self._drained, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Part of `asyncio.Protocol`."""
        incoming = self._incoming
        if incoming.deaf:
            return
        self.seen_s = self.loop.time()
        if self._reads_later():
            self._tail.append(data)  # it is read when that request is answered
            self._tail_size += len(data)
        elif rest := incoming.feed(data):
            self._tail.appendleft(rest)
            self._tail_size += len(rest)
        coming = incoming.coming
        if self._tail_size > READ or (coming is not None and coming.held > 2 * READ and not coming.gathers):
            self._stop()
        if self._request is None:
            if incoming.waiting:
                self._begin()
        elif self._request is incoming.dropped and coming is not self._request:
            self._go_on()
        if incoming.wrong:
            self._server.malformed(incoming.wrong)
            incoming.wrong = ""

    def _reads_later(self) -> bool:
        """Whether a request is under way and all there: what comes now stands behind it."""
        return self._request is not None and self._incoming.coming is None and not self._incoming.heading

    def _begin(self) -> None:
        self._request = request = self._incoming.waiting.popleft()
        self.task = self.loop.create_task(self._serve(request))

    async def _serve(self, request: Request) -> None:
        try:
            answer = await self._server.handler(request) if request.method else _malformed()
            if request.begun and isinstance(answer, Whole):  # it broke off: a second head would be its body
                self.abort()
                return
            answer.prepare(request)
            await answer.write_eof()
        except ConnectionError:
            self.abort()
        except Exception as error:  # noqa: BLE001  # a fault of ours: the connection ends, the worker goes on
            self._server.failed(error)
            await self._fail(request)
        except BaseException:
            self.abort()
            raise
        else:
            self._answered(request, keep=answer.keep_alive)

    async def _fail(self, request: Request) -> None:
        """Nobody has answered."""
        if request.begun:
            self.abort()
            return
        request.keep_alive = False
        error = GuardError("guardproxy failed on this request; its log says where", code="internal_error")
        answer = _error(error)
        try:
            answer.prepare(request)
            await answer.write_eof()
        except ConnectionError:
            self.abort()
        else:
            self._answered(request, keep=False)

    def _answered(self, request: Request, *, keep: bool) -> None:
        """The answer is out. What still comes of the body is dropped, for a while."""
        self.task = None
        request.keep_alive = keep and request.keep_alive
        if request.arrived or request.broken is not None:
            self._go_on()
            return
        self._incoming.dropped = request
        request.drop()
        self._timer = self.loop.call_later(LINGER_S, self.close)

    def _go_on(self) -> None:
        """With the next request, if there may be one."""
        incoming = self._incoming
        request, self._request, incoming.dropped = self._request, None, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if request is None or not request.keep_alive:
            self.close()
            return
        self.seen_s = self.loop.time()
        if incoming.waiting:
            self._begin()
        while self._tail and not self._reads_later():
            part = self._tail.popleft()
            self._tail_size -= len(part)
            self.data_received(part)
        self.flow()

    def _stop(self) -> None:
        if not self._stopped and self._transport is not None:
            self._stopped = True
            self._transport.pause_reading()

    def flow(self) -> None:
        """Read on, if reading was stopped: what was held has been taken."""
        if self._stopped and self._transport is not None and self._tail_size <= READ:
            self._stopped = False
            self._transport.resume_reading()

    def watch(self, seconds: float) -> None:
        """Look after that time whether the body that is waited for still comes. One timer for many bodies."""
        if self._watch is None:
            self._watch = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self._watch, coming = None, self._incoming.coming
        if coming is None or not coming.gathers:
            return
        left = self.seen_s + coming.idle_s - self.loop.time()
        if left > 0:
            self.watch(left)
        else:
            coming.late()

    @property
    def gone(self) -> bool:
        """Whether nothing can be sent any more: known a moment before `connection_lost`."""
        return self._transport is None or self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Send bytes. ConnectionResetError: the client is gone."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError(GONE)
        transport.write(data)

    async def drain(self) -> None:
        """Wait until a slow client has taken enough. ConnectionResetError: it is gone."""
        while self.clogged:
            if self._transport is None:
                raise ConnectionResetError(GONE)
            if self._drained is None:
                self._drained = self.loop.create_future()
            await asyncio.shield(self._drained)

    def end(self) -> None:
        """End the connection: now, or after the answer under way."""
        for request in (self._request, *self._incoming.waiting):
            if request is not None:
                request.keep_alive = False
        if self.task is None:
            self.close()

    def close(self) -> None:
        """End the connection once what was written has left."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()


def _malformed() -> Whole:
    says = f"the request is not well-formed HTTP, or a line of its head is longer than {MAX_LINE} bytes"
    return _error(BadAsk(says, code="malformed_http"))


def _error(error: GuardError) -> Whole:
    kind = [("Content-Type", "application/json"), ("x-should-retry", "false")]
    return Whole(error.status, kind, api.SURFACES["passthrough"].error(error, {}))
