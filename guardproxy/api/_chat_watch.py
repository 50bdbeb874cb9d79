"""Watches one answer of /v1/chat/completions: the bytes go to the client, a copy is read.

Untouched answers are read in batches, after the bytes have gone: `feed` hands back the very object it got. Edited ones
(the usage chunk stripped, calls taken out) are handed on event by event. Never raises on what a provider sends.
"""

from __future__ import annotations

from guardproxy.api import _chat_halt
from guardproxy.api._answer import Answer
from guardproxy.api._chat_cut import StreamCut, WholeCut
from guardproxy.api._chat_gate import Chunks
from guardproxy.api._chat_gate_whole import GatedWhole
from guardproxy.api._chat_halt import OFF, Options
from guardproxy.api._gate import Gate, Joint, half
from guardproxy.api._gated import Editor, GatedStream
from guardproxy.api._gathered import Fields, assembled
from guardproxy.api._passing import Edited
from guardproxy.api._sse import Decoder
from guardproxy.api._template import Reader
from guardproxy.api._watcher import Kept, Watcher, Way
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
    plain = _Plain(answer)
    kept = Kept(plain.raw_message, plain.raw_calls, plain.joint)
    ok = 200 <= status < 300
    may = ok and ask.choices == 1
    text = drop.text if drop is not None and may else None
    held = may and (gate is not None or joint is not None)
    used = options is not OFF and options.used and may
    if not _is_stream(ask, content_type):
        way: Way = WholeCut(answer, text)
        if used and options.mend_finish:
            way = _chat_halt.Whole(way, answer)
        if not held:
            return Watcher(way, answer, kept, ok=ok)
        holder = GatedWhole(way, answer, gate, joint, usage=ask.wants_usage)
        return Watcher(holder, answer, Kept(holder.raw_message, holder.raw_calls, holder.joint), ok=ok, holder=holder)
    if text is None and not (strip_usage and ok) and not held and not used:
        return Watcher(_Passing(answer), answer, kept, ok=ok)
    cut = StreamCut(text, ask.model) if text is not None else None
    editor: Editor = _Edits(answer, cut, strip_usage=strip_usage and ok)
    if used:
        editor = _chat_halt.Halt(editor, answer, options, language)
    if not held:
        return Watcher(Edited(editor), answer, kept, ok=ok)
    chunks = Chunks(editor, answer, gate, joint)
    gated = GatedStream(chunks, editor, answer, gate)
    return Watcher(gated, answer, Kept(chunks.raw_message, chunks.raw_calls, gated.joint), ok=ok, holder=gated)


def _is_stream(ask: Ask, content_type: str) -> bool:
    kind = content_type.lower()
    return "event-stream" in kind or ("json" not in kind and ask.stream)


class _Plain:
    """What is kept of an answer that passes, as far as our view of it goes."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def raw_message(self) -> Fields:
        return assembled({"content": self._answer.first.text or None}, self.raw_calls())

    def raw_calls(self) -> list[Fields]:
        return [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in self._answer.first.built()
        ]

    def joint(self) -> Joint:
        first = self._answer.first
        known = {key: value for key, value in (("id", self._answer.id), ("model", self._answer.model)) if value}
        return Joint(
            known, bool(first.text or first.call_count), first.text, first.call_count, half=half(first.built())
        )


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


class _Edits:
    """The events without the usage chunk, or without calls."""

    repeats = 0

    def __init__(self, answer: Answer, cut: StreamCut | None, *, strip_usage: bool) -> None:
        self._answer = answer
        self._reader = Reader(answer, shortcuts=cut is None)
        self._strip = strip_usage
        self._cut = cut

    @property
    def touched(self) -> bool:
        return self._cut is not None and self._cut.touched

    @property
    def own_text(self) -> bool:
        return self._cut is not None and self._cut.own_text

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
