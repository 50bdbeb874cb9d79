"""What may be done to an answer made of blocks beside taking calls out of it, where the configuration asks for it.

The same as for chat (`_chat_halt`): a text that says the same again and again is not read to its end; a reason that
promises calls where there are none becomes `end_turn`.
"""

from __future__ import annotations

from guardproxy.api._blocks_answer import Reader
from guardproxy.api._blocks_cut import CALLING
from guardproxy.api._blocks_made import event
from guardproxy.api._chat_halt import RULE, Options
from guardproxy.api._gate import GAP
from guardproxy.api._json import dumps
from guardproxy.api._repeats import Repeats
from guardproxy.api._sse import comment, with_data
from guardproxy.core.advice import LANGUAGES
from guardproxy.core.fingerprint import GUARD_MARK

Fields = dict[str, object]
LENGTH = "max_tokens"
"""The reason of an answer that was cut short."""


class Halt:
    """The events of a stream up to where it is halted. `repeats` is the count that it was halted at."""

    def __init__(self, reader: Reader, options: Options, language: str) -> None:
        self._reader = reader
        self._repeats = Repeats(options.halt_repeats, options.repeats_within) if options.halt_repeats else None
        self._mends = options.mend_finish
        self._language = language
        self._heard = 0  # pieces of the text that were looked at
        self.repeats = 0
        self.mended = False

    def take(self, raw: bytes, payload: Fields) -> bytes:
        """An event for the client; nothing is left of those that come after the end."""
        if self.repeats:
            return b""
        if self._mends and payload.get("type") == "message_delta":
            return self._mend(raw, payload)
        return raw + self._halted(payload) if self._again() else raw

    def _again(self) -> bool:
        """Whether the newest text makes it enough. An answer with a call is let go on: it does something."""
        blocks = self._reader.blocks
        fresh = blocks.newer(self._heard)
        self._heard += len(fresh)
        if not fresh or self._repeats is None or blocks.call_count or self._reader.answer.done:
            return False
        return self._repeats.feed("".join(fresh))

    def _halted(self, payload: Fields) -> bytes:
        """The end of the stream in our words, in the block that is open."""
        self.repeats = self._repeats.count if self._repeats is not None else 0
        self._reader.answer.done = True
        self._reader.blocks.finish = LENGTH
        text = f"{GAP}{GUARD_MARK} " + LANGUAGES[self._language].HALTED.format(count=self.repeats)
        index = payload.get("index", 0)
        note = event("content_block_delta", index=index, delta={"type": "text_delta", "text": text})
        note += event("content_block_stop", index=index)
        delta = {"stop_reason": LENGTH, "stop_sequence": None}
        note += event("message_delta", delta=delta, usage=self._reader.usage)
        return note + comment("cut", RULE) + event("message_stop")

    def _mend(self, raw: bytes, payload: Fields) -> bytes:
        delta = payload.get("delta")
        called = isinstance(delta, dict) and delta.get("stop_reason") == CALLING
        if not isinstance(delta, dict) or not called or self._reader.blocks.call_count:
            return raw
        self.mended = True
        return with_data(raw, dumps({**payload, "delta": {**delta, "stop_reason": "end_turn"}}))
