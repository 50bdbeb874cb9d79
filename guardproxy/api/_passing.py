"""Streams that nobody judges: handed on as they came and read in batches, or edited event by event."""

from __future__ import annotations

from collections.abc import Callable

from guardproxy.api._gated import Editor
from guardproxy.api._sse import Decoder

BATCH = 16 * 1024
"""Bytes of a stream that may wait to be read: small beside a stream, large beside a chunk."""

EDGE = 128
"""Bytes of what was read that are looked at with what comes after them: an end may come in pieces."""


class Passing:
    """A stream that nobody edits. Whether it may be over, a surface sees by what ends its streams: each time anew."""

    touched = False
    own_text = False
    repeats = 0

    def __init__(self, read: Callable[[bytes], object], settle: Callable[[], None] | None = None) -> None:
        self._read = read
        self._rest = settle
        self._decoder = Decoder()
        self._waiting: list[bytes] = []
        self._tail = b""  # the last bytes that were read
        self._size = 0

    def feed(self, chunk: bytes) -> bytes:
        self._waiting.append(chunk)
        self._size += len(chunk)
        if self._size > BATCH:
            self._decode()
        return chunk

    def finish(self) -> bytes:
        self._decode()
        if rest := self._decoder.rest():
            self._read(rest)
        self.settle()
        return b""

    def settle(self) -> None:
        self._decode()
        if self._rest is not None:
            self._rest()

    def _decode(self) -> None:
        if not self._waiting:
            return
        batch = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        self._tail = (self._tail + batch)[-EDGE:]
        read = self._read
        for event in self._decoder.feed(batch):
            read(event)


class Edited:
    """A stream handed on in whole events, as an editor leaves them."""

    may_be_over = False  # nothing waits

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._event = editor.event
        self._decoder = Decoder()

    @property
    def touched(self) -> bool:
        return self._editor.touched

    @property
    def own_text(self) -> bool:
        return self._editor.own_text

    @property
    def repeats(self) -> int:
        return self._editor.repeats

    def feed(self, chunk: bytes) -> bytes:
        passed = b"".join(map(self._event, self._decoder.feed(chunk)))
        return chunk if passed == chunk else passed

    def finish(self) -> bytes:
        rest = self._decoder.rest()
        return self._event(rest) if rest else b""

    def settle(self) -> None:
        self._editor.settle()
