"""Takes the calls out of an answer made of blocks: from each event of a stream, or from a whole answer.

An answer left without any words gets the given ones. What the provider ran itself stays. Blocks that come after one
that was taken out get the numbers that are free.
"""

from __future__ import annotations

from guardproxy.api._blocks_answer import Blocks
from guardproxy.api._blocks_made import block_events, event
from guardproxy.api._json import dumps
from guardproxy.api._sse import with_data

Fields = dict[str, object]

CALLING = "tool_use"
"""The kind of a call's block, and the reason of an answer that ends in calls."""


class Numbers:
    """The numbers of the blocks that the client is given. `next`: that of the next one."""

    def __init__(self, first: int = 0) -> None:
        self.next = first
        self.open: object = None  # the provider's number of the block that is open
        self._given: dict[object, int | None] = {}

    def begin(self, index: object, *, keep: bool) -> None:
        """A block begins, which is given or left out."""
        self._given[_key(index)] = self.next if keep else None
        if keep:
            self.next += 1
            self.open = _key(index)

    def end(self, index: object) -> None:
        """A block ends."""
        if self.open == _key(index):
            self.open = None

    def of(self, index: object) -> int | None:
        """The number of a block for the client; None where it is left out."""
        key = _key(index)
        if key in self._given:
            return self._given[key]
        return index if type(index) is int else 0


def _key(index: object) -> object:
    return index if isinstance(index, int | str | None) else str(index)


class StreamCut:
    """The state of one edited stream. `touched` once anything was changed."""

    def __init__(self, text: str, blocks: Blocks) -> None:
        self.touched = False
        self.own_text = False  # the given text stands in the place of an answer
        self._text = text
        self._blocks = blocks
        self._numbers = Numbers()
        self._dropped = False
        self._stopped = False

    def take(self, raw: bytes, payload: Fields) -> bytes:
        """The event's bytes for the client; the blocks have read it already."""
        kind = payload.get("type")
        if kind == "content_block_start":
            block = payload.get("content_block")
            called = isinstance(block, dict) and block.get("type") == CALLING
            self._dropped = self._dropped or called
            self._numbers.begin(payload.get("index"), keep=not called)
        if kind in ("content_block_start", "content_block_delta", "content_block_stop"):
            return self._block(raw, payload)
        if kind == "message_delta":
            return self._end(raw, payload)
        if kind == "message_stop" and not self._stopped:
            self.touched = True
            return self._speak() + event("message_delta", delta={"stop_reason": "end_turn"}, usage={}) + raw
        return raw

    def _block(self, raw: bytes, payload: Fields) -> bytes:
        number = self._numbers.of(payload.get("index"))
        if number is None:
            self.touched = True
            return b""
        if number == payload.get("index"):
            return raw
        self.touched = True
        return with_data(raw, dumps({**payload, "index": number}))

    def _end(self, raw: bytes, payload: Fields) -> bytes:
        delta = payload.get("delta")
        self._stopped = True
        before = self._speak()
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        if not isinstance(delta, dict) or not (reason == CALLING or (self._dropped and reason != "end_turn")):
            return before + raw
        self.touched = True
        return before + with_data(raw, dumps({**payload, "delta": {**delta, "stop_reason": "end_turn"}}))

    def _speak(self) -> bytes:
        """The text for an answer without one, once."""
        if self._blocks.spoken or self.own_text:
            return b""
        self.touched = self.own_text = True
        return block_events(self._numbers.next, {"type": "text", "text": self._text})


def whole(payload: Fields, text: str, blocks: Blocks) -> bool:
    """Take the calls out of a whole answer; whether anything had to change."""
    content = payload.get("content")
    if payload.get("type") == "error" or not isinstance(content, list):
        return False
    kept = [block for block in content if not (isinstance(block, dict) and block.get("type") == CALLING)]
    changed = len(kept) < len(content)
    if not blocks.spoken:
        kept.append({"type": "text", "text": text})
        changed = True
    if changed or payload.get("stop_reason") == CALLING:
        payload["content"], payload["stop_reason"] = kept, "end_turn"
        return True
    return False
