"""Decodes gzip and deflate piece by piece, with a bound on what may come out. Pure; knows no HTTP."""

from __future__ import annotations

import zlib
from typing import Final

READABLE: Final = ("gzip", "x-gzip", "deflate")
"""Content encodings that can be read here."""

PIECE = 64 * 1024
"""Bytes decoded at a time: what is left over at the end of a gzip member is copied, and must stay small."""

MAX_MEMBERS = 10_000
"""Members of one gzip body; block-wise packers make one for each 64 KB."""

_ANY, _RAW = 47, -15  # wbits of zlib: a gzip or zlib header is looked for; none is expected


class TooMuchError(ValueError):
    """It expands to more than was allowed."""


class Inflate:
    """One body. gzip members may follow one another (RFC 1952); deflate comes with zlib's header or bare."""

    def __init__(self, encoding: str, limit: int) -> None:
        self._gzip = encoding != "deflate"
        self._left = limit
        self._members = 0
        self._head = b""
        self._codec = zlib.decompressobj(_ANY) if self._gzip else None

    @property
    def complete(self) -> bool:
        """The body may end here."""
        return self._members > 0 and (self._codec is None or self._codec.eof)

    def feed(self, data: bytes) -> bytes:
        """The decoded bytes. Raises `zlib.error` for what is no such body, `TooMuchError` past the limit."""
        if len(data) <= PIECE:
            return self._piece(data)
        return b"".join([self._piece(data[start : start + PIECE]) for start in range(0, len(data), PIECE)])

    def _piece(self, data: bytes) -> bytes:
        out = []
        while data:
            codec = self._codec or self._next(data)
            if codec is None:
                break
            plain = codec.decompress(self._head + data, self._left + 1)  # never 0, which means without a bound
            self._head = b""
            self._left -= len(plain)
            if self._left < 0:
                raise TooMuchError
            out.append(plain)
            data = self._end(codec) if codec.eof else b""
        return out[0] if len(out) == 1 else b"".join(out)

    def _end(self, codec: zlib._Decompress) -> bytes:
        """A member is over: what follows it."""
        self._members += 1
        self._codec = None
        if self._members > MAX_MEMBERS:
            message = "too many gzip members"
            raise zlib.error(message)
        return codec.unused_data

    def _next(self, data: bytes) -> zlib._Decompress | None:
        """The codec for what begins here; None while there is too little to tell, and for the padding at the end."""
        if self._members:
            if self._gzip and not data.strip(b"\0"):
                return None
            if not self._gzip:
                message = "there is something behind its end"
                raise zlib.error(message)
            self._codec = zlib.decompressobj(_ANY)
            return self._codec
        head = self._head + data
        if len(head) < 2:
            self._head = head
            return None
        self._codec = zlib.decompressobj(_ANY if _has_header(head) else _RAW)
        return self._codec


def _has_header(head: bytes) -> bool:
    zlibs = head[0] & 15 == 8 and int.from_bytes(head[:2], "big") % 31 == 0
    return zlibs or head[:2] == b"\x1f\x8b"
