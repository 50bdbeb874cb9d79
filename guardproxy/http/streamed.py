"""An answer that comes in parts, for aiohttp's server: each part one write, and the head in the first one's.

What `web.StreamResponse` would write, byte for byte; it goes through half as many hands.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import ClientConnectionResetError, web
from aiohttp.abc import AbstractStreamWriter

AT_ONCE = 0x10000
"""Bytes after which a client that reads slowly is waited for; as aiohttp has it."""


class Streamed(web.StreamResponse):
    """`with_first`: the first part is there, and the head leaves with it; else it leaves at once."""

    def __init__(self, status: int, headers: Sequence[tuple[str, str]], *, with_first: bool = False) -> None:
        super().__init__(status=status, headers=headers)
        self._send_headers_immediately = not with_first
        self._chunks: AbstractStreamWriter | None = None
        self._sent = 0

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
