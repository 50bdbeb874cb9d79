"""Watches one answer of /v1/messages: the bytes go to the client, a copy is read.

Untouched answers are read in batches, after the bytes have gone: `feed` hands back the very object it got. Edited ones
are handed on event by event. Never raises on what a provider sends.
"""

from __future__ import annotations

from guardproxy.api._answer import Answer
from guardproxy.api._blocks_answer import Reader
from guardproxy.api._blocks_cut import StreamCut
from guardproxy.api._blocks_gate import BlockEvents, Edits, Event
from guardproxy.api._blocks_halt import Halt
from guardproxy.api._blocks_skim import Skimmer
from guardproxy.api._blocks_whole import Whole
from guardproxy.api._chat_halt import OFF, Options
from guardproxy.api._gate import Gate, Joint
from guardproxy.api._gated import GatedStream
from guardproxy.api._sse import Decoder
from guardproxy.api._watcher import Kept, Watcher
from guardproxy.core.edit import DropCalls
from guardproxy.core.model import Ask

__all__ = ["Watcher", "watch"]

BATCH = 16 * 1024
"""Bytes of a stream that may wait to be read: small beside a stream, large beside a chunk."""

LAST = 96
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
    """A watcher for the answer to `ask`. An error answer is never edited, nor held.

    `joint`: what earlier attempts of the turn gave the client; this one goes on with it.
    """
    answer = Answer()
    reader = Reader(answer)
    ok = 200 <= status < 300
    if not ok:
        drop = gate = joint = None
        options = OFF
    halt = Halt(reader, options, language) if options is not OFF and options.used else None
    kind = content_type.lower()
    way: Whole | Passing | GatedStream[Event]
    if not ("event-stream" in kind or ("json" not in kind and ask.stream)):
        way = Whole(reader, drop, halt, gate, joint)
        return Watcher(way, answer, Kept(reader.raw_message, reader.raw_calls, way.joint), ok=ok, holder=way)
    if drop is None and halt is None and gate is None and joint is None:
        return Watcher(Passing(reader), answer, Kept(reader.raw_message, reader.raw_calls, reader.joint), ok=ok)
    editor = Edits(reader, StreamCut(drop.text, reader.blocks) if drop is not None else None, halt)
    events = BlockEvents(editor, reader, gate, joint)
    way = GatedStream(events, editor, answer, gate)
    return Watcher(way, answer, Kept(reader.raw_message, reader.raw_calls, way.joint), ok=ok, holder=way)


class Passing:
    """A stream that nobody edits."""

    touched = own_text = False
    repeats = 0

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._skimmer = Skimmer(reader)
        self._decoder = Decoder()
        self._waiting: list[bytes] = []
        self._tail = b""  # the last bytes that were read
        self._size = 0

    @property
    def may_be_over(self) -> bool:
        if not self._waiting:
            return False
        last = self._waiting[-1]
        return b"_stop" in (last if len(last) > LAST else b"".join((self._tail, *self._waiting[-LAST:])))

    def feed(self, chunk: bytes) -> bytes:
        self._waiting.append(chunk)
        self._size += len(chunk)
        if self._size > BATCH:
            self.settle()
        return chunk

    def finish(self) -> bytes:
        self.settle()
        self._skimmer.read(self._decoder.rest())
        return b""

    def settle(self) -> None:
        if not self._waiting:
            return
        batch = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        self._tail = (self._tail + batch)[-LAST:]
        read = self._skimmer.read
        for event in self._decoder.feed(batch):
            read(event)
