"""How the parent and a worker talk: lines of JSON over a socket pair. The end of the line is the end of the parent.

Messages to a worker: `start`, `reload`, `snapshot`, `drain`. From it: `ready`, `failed`, `reloaded`, `snapshot`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Any

import orjson

LARGEST = 16 << 20
"""Bytes of one message; a snapshot has some hundred kilobytes at most."""


class Channel:
    """One end. Every message has `do`, what it is about."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> Channel:
        """The channel over a connected socket, which it owns from now on."""
        end.setblocking(False)
        return cls(*await asyncio.open_connection(sock=end, limit=LARGEST))

    async def send(self, do: str, **fields: object) -> None:
        """Send a message. What the other end can no longer read is lost without a word: its death is seen elsewhere."""
        try:
            self._writer.write(orjson.dumps({"do": do, **fields}) + b"\n")
            await self._writer.drain()
        except (ConnectionError, RuntimeError):
            return

    async def receive(self) -> Mapping[str, Any] | None:
        """The next message; None when the other end is gone."""
        try:
            line = await self._reader.readline()
        except (ConnectionError, ValueError):
            return None
        if not line.endswith(b"\n"):
            return None
        message = orjson.loads(line)
        return message if isinstance(message, dict) else {}

    def close(self) -> None:
        """Close this end."""
        self._writer.close()
