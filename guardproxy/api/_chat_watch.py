"""Watches one answer of /v1/chat/completions: the bytes go to the client, a copy is read.

Untouched answers are read in batches, after the bytes have gone: `feed` hands back the very object it got. Edited ones
(the usage chunk stripped, calls taken out) are handed on event by event. Never raises on what a provider sends.
"""

from __future__ import annotations

from guardproxy.api import _chat_halt
from guardproxy.api._answer import Answer
from guardproxy.api._chat_cut import StreamCut, WholeCut
from guardproxy.api._chat_gate import GatedStream
from guardproxy.api._chat_gate_whole import GatedWhole
from guardproxy.api._chat_halt import OFF, Options
from guardproxy.api._gate import Gate, Joint
from guardproxy.api._sse import Decoder
from guardproxy.api._template import Reader
from guardproxy.api._watcher import Holder, Watcher, Way
from guardproxy.core.edit import DropCalls
from guardproxy.core.model import Ask

__all__ = ["Watcher", "watch"]

BATCH = 16 * 1024
"""Bytes of a stream that may wait to be read: small beside a stream, large beside a chunk."""

SHORT = 24
"""A chunk longer than the last event of a stream with its surroundings: such an event may come in pieces."""


def watch(
    ask: Ask,
    *,
    strip_usage: bool = False,
    drop: DropCalls | None = None,
    status: int = 200,
    content_type: str = "text/event-stream",
    options: Options = OFF,
    language: str = "en",
    gate: Gate | None = None,
    joint: Joint | None = None,
) -> Watcher:
    """A watcher for the answer to `ask`. An error answer and one with several choices are never edited, nor held.

    `joint`: what earlier attempts of the turn gave the client; this one goes on with it.
    """
    answer = Answer()
    ok = 200 <= status < 300
    may = ok and ask.choices == 1
    text = drop.text if drop is not None and may else None
    streamed = _is_stream(ask, content_type)
    held = may and (gate is not None or joint is not None)
    way = _way(ask, answer, text, strip=strip_usage and ok, at_once=held) if streamed else WholeCut(answer, text)
    if options is not OFF and options.used and may:
        way = _chat_halt.around(way, answer, options, language, streamed=streamed)
    if not held:
        return Watcher(way, answer, ok=ok)
    holder: Holder
    if isinstance(way, _Edited | _chat_halt.Stream):
        holder = GatedStream(way, way.event, answer, gate, joint)
    else:
        holder = GatedWhole(way, answer, gate, joint, usage=ask.wants_usage)
    return Watcher(holder, answer, ok=ok, holder=holder)


def _way(ask: Ask, answer: Answer, text: str | None, *, strip: bool, at_once: bool) -> Way:
    if text is None and not strip and not at_once:
        return _Passing(answer)
    return _Edited(answer, StreamCut(text, ask.model) if text is not None else None, strip_usage=strip)


def _is_stream(ask: Ask, content_type: str) -> bool:
    kind = content_type.lower()
    return "event-stream" in kind or ("json" not in kind and ask.stream)


class _Passing:
    """A stream that nobody edits."""

    touched = own_text = False
    repeats = 0

    def __init__(self, answer: Answer) -> None:
        self._reader = Reader(answer)
        self._decoder = Decoder()
        self._waiting: list[bytes] = []
        self._tail = b""  # the last bytes that were read
        self._size = 0

    @property
    def may_be_over(self) -> bool:
        if not self._waiting:
            return False
        last = self._waiting[-1]
        return b"DONE" in (last if len(last) > SHORT else b"".join((self._tail, *self._waiting[-SHORT:])))

    def feed(self, chunk: bytes) -> bytes:
        self._waiting.append(chunk)
        self._size += len(chunk)
        if self._size > BATCH:
            self.settle()
        return chunk

    def finish(self) -> bytes:
        self.settle()
        self._reader.read(self._decoder.rest())
        return b""

    def settle(self) -> None:
        if not self._waiting:
            return
        batch = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        self._tail = (self._tail + batch)[-SHORT:]
        read = self._reader.read
        for event in self._decoder.feed(batch):
            read(event)


class _Edited:
    """A stream handed on in whole events: without the usage chunk, or without calls."""

    may_be_over = False  # nothing waits
    repeats = 0

    def __init__(self, answer: Answer, cut: StreamCut | None, *, strip_usage: bool) -> None:
        self._answer = answer
        self._reader = Reader(answer, shortcuts=cut is None)
        self._decoder = Decoder()
        self._strip = strip_usage
        self._cut = cut

    @property
    def touched(self) -> bool:
        return self._cut is not None and self._cut.touched

    @property
    def own_text(self) -> bool:
        return self._cut is not None and self._cut.own_text

    def feed(self, chunk: bytes) -> bytes:
        passed = b"".join([self.event(event) for event in self._decoder.feed(chunk)])
        return chunk if passed == chunk else passed

    def finish(self) -> bytes:
        rest = self._decoder.rest()
        return self.event(rest) if rest else b""

    def settle(self) -> None:
        """Nothing waits."""

    def event(self, event: bytes) -> bytes:
        payload = self._reader.read(event)
        if self._strip and isinstance(payload, dict) and _only_usage(payload):
            return b""
        if self._cut is None:
            return event
        if payload is None and self._answer.done:
            return self._cut.end(self._answer) + event
        return self._cut.chunk(event, payload, self._answer)


def _only_usage(payload: dict[str, object]) -> bool:
    return not payload.get("choices") and isinstance(payload.get("usage"), dict)
