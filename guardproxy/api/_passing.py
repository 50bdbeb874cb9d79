"""Streams that nobody judges: handed on as they came and read in batches, or edited event by event."""

from __future__ import annotations

from guardproxy.api._gated import Editor
from guardproxy.api._sse import Decoder


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
        passed = b"".join([self._event(event) for event in self._decoder.feed(chunk)])
        return chunk if passed == chunk else passed

    def finish(self) -> bytes:
        rest = self._decoder.rest()
        return self._event(rest) if rest else b""

    def settle(self) -> None:
        self._editor.settle()
