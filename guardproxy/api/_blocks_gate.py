"""The events of a stream of blocks that is edited, judged, or goes on with an earlier one: see `_gated`.

From the first call that the gate wants on all is held but comments: blocks are numbered, and what comes later has a
higher number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from guardproxy.api._answer import Answer
from guardproxy.api._blocks_answer import Reader
from guardproxy.api._blocks_clear import Clear
from guardproxy.api._blocks_cut import CALLING, Numbers, StreamCut
from guardproxy.api._blocks_halt import Halt
from guardproxy.api._blocks_made import event as made
from guardproxy.api._calls import MAX_CALLS
from guardproxy.api._gate import GAP, Gate, Joint, summed, torn
from guardproxy.api._gated import Kind
from guardproxy.api._json import dumps
from guardproxy.api._sse import data_of, events_in, payload_of, with_data

Fields = dict[str, object]

_ENDS = frozenset(("message_delta", "message_stop"))
_BLOCK = frozenset(("content_block_start", "content_block_delta", "content_block_stop"))


class Edits:
    """The events without calls, or up to where the answer is halted."""

    def __init__(self, reader: Reader, cut: StreamCut | None, halt: Halt | None) -> None:
        self._reader = reader
        self._cut = cut
        self._halt = halt
        self.payload: Fields = {}
        """Of the newest event."""

    @property
    def touched(self) -> bool:
        halted = self._halt is not None and bool(self._halt.mended or self._halt.repeats)
        return halted or (self._cut is not None and self._cut.touched)

    @property
    def repeats(self) -> int:
        return self._halt.repeats if self._halt is not None else 0

    @property
    def own_text(self) -> bool:
        return self._cut is not None and self._cut.own_text

    def event(self, event: bytes) -> bytes:
        if self.repeats:
            return b""
        self.payload = payload = self._reader.read(event)
        out = event if self._cut is None else self._cut.take(event, payload)
        return out if self._halt is None else self._halt.take(out, payload)

    def settle(self) -> None:
        """Nothing waits."""


class Event(NamedTuple):
    """An event. `place`: the position of the call that begins in it; -1: none does, -2: beyond those that are kept."""

    plain: bytes
    payload: Fields
    place: int


class BlockEvents:
    """`Events` of blocks."""

    gathers = False

    def __init__(self, editor: Edits, reader: Reader, gate: Gate | None, joint: Joint | None) -> None:
        self._editor = editor
        self._reader = reader
        self._gate = gate
        self._giver = Giver(reader, joint)
        self._clear = Clear(firm=gate is None or gate.firm)
        self.give = self._giver.give
        self.end = self._giver.end

    @property
    def touched(self) -> bool:
        return self._giver.writes or self._clear.changed

    @property
    def unread(self) -> int:
        return self._clear.unread

    def read(self, event: bytes) -> Iterator[Event]:
        for one in self._clear.events(event):
            out = self._editor.event(one)
            if out is one:
                yield self._event(one, self._editor.payload)
            else:
                yield from [self._event(part, payload_of(part)) for part in events_in(out)]

    def calls(self, event: Event) -> bool:
        return event.place != -1

    def wanted(self, event: Event, *, shut: bool) -> bool:
        name = _block(event.payload).get("name")
        unseen = not isinstance(name, str) or not name or self._reader.blocks.call_count > MAX_CALLS
        gate = self._gate
        return shut or unseen or gate is None or gate.every or gate.wants(str(name))

    def named(self) -> bool:
        return True

    def passed(self) -> None:
        """They are counted as they are given."""

    def kind(self, event: Event) -> Kind:
        kind = _kind(event.payload)
        if not kind and not data_of(event.plain):
            return Kind.FREE  # a comment
        if kind == "content_block_start" and _block(event.payload).get("type") == "text":
            return Kind.TEXT
        return Kind.END if kind in _ENDS else Kind.NEXT

    def speaks(self, event: Event) -> bool:
        return True  # nothing may overtake it

    def release(self, held: Sequence[Event], keep: frozenset[int] | None) -> bytes:
        if keep is not None and any(event.place != -1 and event.place not in keep for event in held):
            self._giver.writes, self._giver.keep = True, keep
        return b"".join([self.give(event) for event in held])

    def joint(self, held: Sequence[Event]) -> Joint:
        return self._giver.joint()

    def _event(self, event: bytes, payload: Fields) -> Event:
        if _kind(payload) != "content_block_start" or _block(payload).get("type") != CALLING:
            return Event(event, payload, -1)
        block = self._reader.blocks.at(payload.get("index"))
        return Event(event, payload, block.position if block is not None and block.position != -1 else -2)


class Giver:
    """What the client is given of one stream, and what it was given before. `writes`: events are written anew.

    `keep`: positions of the calls that are given; None: all.
    """

    def __init__(self, reader: Reader, joint: Joint | None) -> None:
        self.writes = joint is not None
        self.keep: frozenset[int] | None = None
        self._reader = reader
        self._before = joint or Joint()
        self._numbers = Numbers(self._before.blocks)
        self._heard = Reader(Answer())
        self._role = self._before.role
        self._calls = self._before.calls
        self._gap = bool(self._before.text)
        self._left_out = False
        self._finished = self._done = False

    def give(self, one: Event) -> bytes:
        """An event for the client; empty where nothing is left of it."""
        event, payload, place = one
        kind = _kind(payload)
        if kind == "message_start":
            return self._start(event, payload)
        if kind == "content_block_start":
            keep = place == -1 or self.keep is None or place in self.keep
            self._left_out = self._left_out or not keep
            self._numbers.begin(payload.get("index"), keep=keep)
            self._calls += keep and place != -1
            if _block(payload).get("type") != "text":
                self._gap = False
        number = self._numbers.of(payload.get("index")) if kind in _BLOCK else 0
        if number is None:
            return b""
        self._heard.take(payload)
        if kind == "content_block_stop":
            self._numbers.end(payload.get("index"))
        if kind in _BLOCK:
            return self._block(event, payload, number) if self.writes else event
        if kind == "message_delta":
            self._finished = True
            return self._ended(event, payload) if self.writes else event
        self._done = self._done or kind == "message_stop"
        return event

    def joint(self) -> Joint:
        """What the client has."""
        text = self._heard.blocks.text
        return Joint(
            base=self._before.base or self._reader.base,
            role=self._role,
            text=GAP.join([part for part in (self._before.text, text) if part]),
            calls=self._calls,
            usage=summed(self._before.usage, self._reader.usage),
            blocks=self._numbers.next,
            streamed=True,
            open=self._numbers.open is not None,
            half=self._heard.half,
        )

    def end(self) -> bytes:
        """What an answer that has ended, and was written anew, still lacks."""
        answer = self._reader.answer
        if not self.writes or not (answer.done or self._reader.blocks.finish):
            return b""
        last = b"" if self._finished else self._ended(made("message_delta", delta={}, usage={}), {})
        stop = b"" if self._done else made("message_stop")
        self._finished = self._done = True
        return last + stop

    def _start(self, event: bytes, payload: Fields) -> bytes:
        if self._role and self.writes:
            return b""
        self._role = True
        begun = payload.get("message")
        if not self._before.base or not isinstance(begun, dict):
            return event
        return with_data(event, dumps({**payload, "message": {**begun, **self._before.base}}))

    def _block(self, event: bytes, payload: Fields, number: int) -> bytes:
        changed = {**payload, "index": number}
        if self._gap:
            for key in ("content_block", "delta"):
                part = payload.get(key)
                text = part.get("text") if isinstance(part, dict) else None
                if text and isinstance(part, dict):
                    self._gap = False
                    changed[key] = {**part, "text": f"{GAP}{text}"}
        return event if changed == payload else with_data(event, dumps(changed))

    def _ended(self, event: bytes, payload: Fields) -> bytes:
        said = payload.get("delta")
        delta: Fields = {"stop_reason": None, "stop_sequence": None, **(said if isinstance(said, dict) else {})}
        reason = delta["stop_reason"]
        half = self._left_out and torn(self._reader.blocks.built(), str(reason))
        if not (self._calls or half) and (reason == CALLING or self._left_out or not reason):
            delta["stop_reason"] = "end_turn"
        elif self._calls and not reason:
            delta["stop_reason"] = CALLING
        usage = payload.get("usage")
        usage = summed(self._before.usage, self._reader.usage) if self._before.usage else usage or {}
        kind = {"type": "message_delta"}
        return with_data(event, dumps({**kind, **payload, "delta": delta, "usage": usage}))


def _block(payload: Fields) -> Fields:
    found = payload.get("content_block")
    return found if isinstance(found, dict) else {}


def _kind(payload: Fields) -> str:
    found = payload.get("type")
    return found if isinstance(found, str) else ""
