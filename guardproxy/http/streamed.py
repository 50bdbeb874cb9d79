"""An answer that comes in parts, for aiohttp's server: each part one write, and the head in the first one's.

What `web.StreamResponse` would write, byte for byte; it goes through half as many hands.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import ClientConnectionResetError, HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE

from guardproxy.http.whole import BODILESS

AT_ONCE = 0x10000
"""Bytes after which a client that reads slowly is waited for; as aiohttp has it."""


class Streamed(web.StreamResponse):
    """`with_first`: the first part is there, and the head leaves with it; else it leaves at once."""

    def __init__(self, status: int, headers: Sequence[tuple[str, str]], *, with_first: bool = False) -> None:
        super().__init__(status=status, headers=headers)
        self._send_headers_immediately = not with_first
        self._chunks: AbstractStreamWriter | None = None
        self._sent = 0

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """The head; the shorter way is that of nearly all."""
        headers = self._headers
        usual = request.version == HttpVersion11 and request.method == "POST" and self._status not in BODILESS
        if not usual or "Content-Length" in headers or self.prepared:
            return await super().prepare(request)
        self._req, self._payload_writer = request, request.writer
        writer = request.writer
        if self._keep_alive is None:
            self._keep_alive = request.keep_alive
        writer.enable_chunking()
        headers["Transfer-Encoding"] = "chunked"
        headers.setdefault("Content-Type", "application/octet-stream")
        if "Date" not in headers:
            headers["Date"] = rfc822_formatted_time()
        headers.setdefault("Server", SERVER_SOFTWARE)
        if not self._keep_alive:
            headers.setdefault("Connection", "close")
        await writer.write_headers(f"HTTP/1.1 {self._status} {self._reason}", headers)
        if self._send_headers_immediately:
            writer.send_headers()
        return writer

    def begin(self) -> None:
        """Let the head leave, if it has not: what it was to leave with is nothing for the client."""
        if self._payload_writer is not None:
            self._payload_writer.send_headers()

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Hand a part on. `ConnectionError`: the client is gone."""
        writer = self._chunks
        if writer is None or not data:
            await super().write(data)
            if self._payload_writer is not None and self.headers.get("Transfer-Encoding") == "chunked":
                self._chunks = self._payload_writer  # from now on a part is a chunk and nothing else
            return
        transport = self._req.transport if self._req is not None else None
        if transport is None or transport.is_closing():
            message = "Cannot write to closing transport"
            raise ClientConnectionResetError(message)
        transport.write(b"".join((b"%x\r\n" % len(data), data, b"\r\n")))
        self._sent += len(data)
        if self._sent > AT_ONCE:
            self._sent = 0
            await writer.drain()

    async def write_eof(self, data: bytes = b"") -> None:
        """The end."""
        self._chunks = None
        await super().write_eof(data)
