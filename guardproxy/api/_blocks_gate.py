"""Holds back the calls of a stream of blocks until they were judged, and goes on where an earlier attempt has stopped.

Before the first call that the gate wants, everything passes as it came. From it on all is held but comments: blocks are
numbered, and what comes later has a higher number. Released as it is, it is the provider's own bytes.
"""

from __future__ import annotations

from guardproxy.api._answer import Answer
from guardproxy.api._blocks_answer import Reader, message_of
from guardproxy.api._blocks_clear import Clear
from guardproxy.api._blocks_cut import CALLING, Numbers, StreamCut
from guardproxy.api._blocks_halt import Halt
from guardproxy.api._blocks_made import event as made
from guardproxy.api._calls import MAX_CALLS
from guardproxy.api._gate import GAP, Gate, Joint, summed
from guardproxy.api._json import dumps, peek
from guardproxy.api._sse import Decoder, data_of, with_data

Fields = dict[str, object]

_ENDS = frozenset(("message_delta", "message_stop"))


class GatedStream:
    """A stream that is edited: behind a gate, without its calls, or going on with an earlier one (`joint`)."""

    may_be_over = False  # nothing waits to be read

    def __init__(
        self, reader: Reader, cut: StreamCut | None, halt: Halt | None, gate: Gate | None, joint: Joint | None
    ) -> None:
        self._reader = reader
        self._cut = cut
        self._halt = halt
        self._gate = gate or Gate(lambda _: False, calls=False)
        self._giver = Giver(reader, joint)
        self._decoder = Decoder()
        self._clear = Clear(firm=self._gate.firm)
        self._held: list[tuple[bytes, Fields, int]] = []
        self._final = self._gate.text  # what comes may be a final answer, which is held
        self._shut = False  # a call that is wanted was seen
        self._open = False  # it was judged
        self._over = False  # the stream has ended

    @property
    def touched(self) -> bool:
        halted = self._halt is not None and bool(self._halt.mended or self._halt.repeats)
        return self._giver.writes or self._clear.changed or halted or (self._cut is not None and self._cut.touched)

    @property
    def repeats(self) -> int:
        return self._halt.repeats if self._halt is not None else 0

    @property
    def own_text(self) -> bool:
        return self._cut is not None and self._cut.own_text

    @property
    def holding(self) -> bool:
        """Something is held."""
        return bool(self._held)

    @property
    def unread(self) -> int:
        """Events that nobody can read, and that were left out."""
        return self._clear.unread

    def feed(self, chunk: bytes) -> bytes:
        out = b"".join([self._take(event) for event in self._decoder.feed(chunk)])
        return chunk if out == chunk else out

    def finish(self) -> bytes:
        rest = self._decoder.rest()
        out = self._take(rest) if rest else b""
        self._over = True
        return out if self._held else out + self._giver.end()

    def settle(self) -> None:
        """Nothing waits."""

    def release(self, keep: frozenset[int] | None = None) -> bytes:
        """What is held, once; with `keep` only the calls at these positions, and what passed before."""
        if self._open:
            return b""
        held, self._held = self._held, []
        self._open = True
        places = [place for _, payload, place in held if payload.get("type") == "content_block_start" and place != -1]
        if keep is not None and any(place not in keep for place in places):
            self._giver.writes, self._giver.keep = True, keep
        out = b"".join([self._giver.give(*one) for one in held])
        return out + (self._giver.end() if self._over else b"")

    def made(self) -> list[Fields]:
        """The blocks of the provider's answer."""
        return [block.built() for block in self._reader.blocks.blocks]

    def raw_message(self) -> Fields:
        """The answer as an assistant message of a request."""
        return message_of(self.made())

    def raw_calls(self) -> list[Fields]:
        """Its calls."""
        return [block.built() for block in self._reader.blocks.blocks if block.position >= 0]

    def joint(self) -> Joint:
        """What the client was given so far, earlier attempts included."""
        return self._giver.joint()

    def _take(self, event: bytes) -> bytes:
        return b"".join([self._edited(one) for one in self._clear.events(event)])

    def _edited(self, event: bytes) -> bytes:
        if self.repeats:
            return b""
        payload = self._reader.read(event)
        out = event if self._cut is None else self._cut.take(event, payload)
        if self._halt is not None:
            out = self._halt.take(out, payload)
        if out is event:
            return self._pass(event, payload)
        splitter = Decoder()
        parts = [one for one in (*splitter.feed(out), splitter.rest()) if one]
        return b"".join([self._pass(one, _payload(one)) for one in parts])

    def _pass(self, event: bytes, payload: Fields) -> bytes:
        kind = _kind(payload)
        if not kind and not data_of(event):
            return event  # a comment waits for nothing
        place = self._place(payload) if kind == "content_block_start" else -1
        if self._open:
            return self._giver.give(event, payload, place)
        before = b""
        if kind == "content_block_start" and place != -1:
            before = self._call(payload)
        if self._held or self._shut or self._awaited(kind, payload):
            self._held.append((event, payload, place))
            return before
        return before + self._giver.give(event, payload, place)

    def _awaited(self, kind: str, payload: Fields) -> bool:
        """Whether an event is part of what may be a final answer."""
        if not self._final:
            return False
        return kind in _ENDS or (kind == "content_block_start" and _block(payload).get("type") == "text")

    def _place(self, payload: Fields) -> int:
        """The position of the call that begins here; -1 where none does, -2 of one beyond those that are kept."""
        if _block(payload).get("type") != CALLING:
            return -1
        block = self._reader.blocks.at(payload.get("index"))
        return block.position if block is not None and block.position != -1 else -2

    def _call(self, payload: Fields) -> bytes:
        """A call begins. It is no final answer then: text that was held is given."""
        before = b""
        if self._final:
            self._final = False
            held, self._held = self._held, []
            before = b"".join([self._giver.give(*one) for one in held])
        name = _block(payload).get("name")
        unseen = not isinstance(name, str) or not name or self._reader.blocks.call_count > MAX_CALLS
        self._shut = self._shut or (self._gate.calls and (unseen or self._gate.every or self._gate.wants(str(name))))
        return before


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

    def give(self, event: bytes, payload: Fields, place: int) -> bytes:
        """An event for the client; empty where nothing is left of it."""
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
        if not self._calls and (reason == CALLING or self._left_out or not reason):
            delta["stop_reason"] = "end_turn"
        elif self._calls and not reason:
            delta["stop_reason"] = CALLING
        usage = payload.get("usage")
        usage = summed(self._before.usage, self._reader.usage) if self._before.usage else usage or {}
        kind = {"type": "message_delta"}
        return with_data(event, dumps({**kind, **payload, "delta": delta, "usage": usage}))


_BLOCK = frozenset(("content_block_start", "content_block_delta", "content_block_stop"))


def _block(payload: Fields) -> Fields:
    found = payload.get("content_block")
    return found if isinstance(found, dict) else {}


def _kind(payload: Fields) -> str:
    found = payload.get("type")
    return found if isinstance(found, str) else ""


def _payload(event: bytes) -> Fields:
    found = peek(data_of(event) or b"0")
    return found if isinstance(found, dict) else {}
