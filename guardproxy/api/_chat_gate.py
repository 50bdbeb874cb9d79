"""Holds back the tool calls of a stream until they were judged: text flows meanwhile.

Before the first call that the gate wants, everything passes as it came. From it on, calls are held with all that must
come after them: finish reason, usage, [DONE]. Released as they are, they are the provider's own bytes.
"""

from __future__ import annotations

from guardproxy.api._answer import Answer
from guardproxy.api._calls import MAX_CALLS
from guardproxy.api._gate import GAP, META, Gate, Joint, summed
from guardproxy.api._gathered import CALLS, Fields, Gathered, choices, has_calls, said
from guardproxy.api._joined import Joined
from guardproxy.api._json import peek
from guardproxy.api._sse import Decoder, data_of
from guardproxy.api._usage import usage_of
from guardproxy.api._watcher import Way

_SILENT = frozenset(("role", *CALLS))
_VISIBLE = frozenset(("content", "refusal"))
_FREE, _TEXT, _CALL, _END = range(4)  # thoughts and comments; visible text; calls; what comes after them


class GatedStream:
    """A stream behind a gate, or one that goes on with an earlier one (`joint`), or both."""

    may_be_over = False  # nothing waits to be read

    def __init__(self, way: Way, answer: Answer, gate: Gate | None, joint: Joint | None) -> None:
        self._way = way
        self._answer = answer
        self._gate = gate or Gate(lambda _: False)
        self._alone = gate is None  # nobody judges: what is held is given at the end
        self._joint = joint
        self._joined = Joined(joint) if joint is not None else None
        self._decoder = Decoder()
        self._events: list[bytes] = []  # as the provider sent them
        self._passed: list[bytes] = []
        self._held: list[bytes] = []
        self._early = 0  # events with calls that passed
        self._wanted: dict[str, bool] = {}
        self._shut = False  # a call that is wanted was seen
        self._final = self._gate.text  # what comes may be a final answer, which is held
        self._open = False  # it was judged
        self._over = False  # the stream has ended
        self._given = 0  # calls given at the release
        self._changed = False

    @property
    def touched(self) -> bool:
        return self._way.touched or self._changed or self._joined is not None

    @property
    def own_text(self) -> bool:
        return self._way.own_text

    @property
    def repeats(self) -> int:
        return self._way.repeats

    @property
    def holding(self) -> bool:
        """Something is held."""
        return bool(self._held)

    def feed(self, chunk: bytes) -> bytes:
        out = b"".join([self._take(event) for event in self._decoder.feed(chunk)])
        return chunk if out == chunk else out

    def finish(self) -> bytes:
        rest = self._decoder.rest()
        out = self._take(rest) if rest else b""
        last = self._way.finish()
        out += self._pass_all(last) if last else b""
        self._over = True
        if self._alone and not self._open:
            return out + self.release()
        return out if self._held else out + self._end()

    def settle(self) -> None:
        """Nothing waits."""

    def release(self, keep: frozenset[int] | None = None) -> bytes:
        """What is held; with `keep` only the calls at these positions, and what passed before."""
        held, self._held = self._held, []
        self._open = True
        if self._joined is None and (keep is None or not self._lacks(keep)):
            return b"".join([self._give(event) for event in held])
        self._changed = True
        return self._release(held, keep)

    def raw_message(self) -> Fields:
        """The answer as an assistant message of a request."""
        return self._gathered().message

    def raw_calls(self) -> list[Fields]:
        """Its calls."""
        return self._gathered().calls

    def joint(self) -> Joint:
        """What the client was given so far, earlier attempts included."""
        before = self._joint or Joint()
        given = Answer()
        for event in self._passed:
            given.take(peek(data_of(event) or b"0"))
        text = given.first.text
        return Joint(
            base=before.base or self._base(),
            role=before.role or (self._joined.role if self._joined else self._role()),
            text=GAP.join([part for part in (before.text, text) if part]),
            calls=before.calls + len(self._early_calls()) + self._given,
            usage=summed(before.usage, self._usage()),
        )

    def _take(self, event: bytes) -> bytes:
        self._events.append(event)
        out = self._way.feed(event)
        if out is event:
            return self._pass(event)
        return self._pass_all(out) if out else b""

    def _pass_all(self, out: bytes) -> bytes:
        splitter = Decoder()
        events = [*splitter.feed(out), splitter.rest()]
        return b"".join([self._pass(event) for event in events if event])

    def _pass(self, event: bytes) -> bytes:
        if self._open:
            return self._give(event)
        if not self._held and not self._final and b"_call" not in event:
            return self._give(event)
        kind = _kind(event)
        if kind == _CALL and self._gate.calls:
            return self._call(event)
        before = b""
        if kind == _CALL:
            self._final = False
            before = self._flush()
        elif kind == _END and self._held and not self._shut and not self._final and self._named():
            before = self._flush()
        keeps = self._final if kind == _TEXT else kind == _END and (self._final or bool(self._held))
        if not keeps:
            return before + self._give(event, calls=kind == _CALL)
        self._held.append(event)
        return self.release() if self._alone and self._answer.done else b""

    def _call(self, event: bytes) -> bytes:
        """A chunk with calls. It is no final answer then: text that was held is given."""
        before = b""
        if self._final:
            self._final = False
            before = self._flush()
        self._shut = self._shut or self._joined is not None or self._wants()
        if self._shut or self._unsure():
            self._held.append(event)
            return before
        return before + self._flush() + self._give(event, calls=True)

    def _wants(self) -> bool:
        """Whether one of the calls so far is to be judged."""
        calls = self._answer.first.calls
        for name, _ in calls.names():
            if name not in self._wanted:
                self._wanted[name] = bool(name) and self._gate.wants(name)
        return any(self._wanted[name] for name, _ in calls.names()) or calls.count > MAX_CALLS

    def _unsure(self) -> bool:
        """Whether a name is not known yet, or not all of it."""
        return not all(whole for _, whole in self._answer.first.calls.names())

    def _named(self) -> bool:
        """Whether every call has a name."""
        return all(name for name, _ in self._answer.first.calls.names())

    def _flush(self) -> bytes:
        held, self._held = self._held, []
        return b"".join([self._give(event, calls=b"_call" in event and _kind(event) == _CALL) for event in held])

    def _give(self, event: bytes, *, calls: bool = False) -> bytes:
        self._passed.append(event)
        self._early += calls
        return event if self._joined is None else self._joined.give(event)

    def _release(self, held: list[bytes], keep: frozenset[int] | None) -> bytes:
        """The held events without their calls; those that are kept stand before what must come after them."""
        gathered, early = self._gathered(), self._early_calls()
        numbers = zip(gathered.order, gathered.calls, strict=False)
        kept = [
            call
            for place, (number, call) in enumerate(numbers)
            if number not in early and (keep is None or place in keep)
        ]
        if self._joined is None:
            self._joined = Joined(Joint(self._base(), self._role(), "", len(early)))
        joined, self._given = self._joined, len(kept)
        joined.stop = bool(gathered.calls) and not kept and not joined.given
        rest = [[entry for number, entry in chunk if number in early] for chunk in gathered.chunks[self._early :]]
        out = [joined.made({"tool_calls": entries}) for entries in rest if entries]
        for event in held:
            if kept and _kind(event) == _END:
                out.append(joined.calls(kept))
                kept = []
            out.append(self._give(event))
        return b"".join([*out, joined.calls(kept), self._end()])

    def _end(self) -> bytes:
        """What a stream that is over, and was written anew, still lacks."""
        joined = self._joined
        if joined is None or not self._over or not (self._answer.first.finish or self._answer.done):
            return b""
        return joined.end("tool_calls" if joined.given else "stop")

    def _lacks(self, keep: frozenset[int]) -> bool:
        """Whether a call that is held is not to be kept."""
        early = self._early_calls()
        return any(place not in keep and number not in early for place, number in enumerate(self._gathered().order))

    def _gathered(self) -> Gathered:
        return Gathered().stream(self._events)

    def _early_calls(self) -> set[int]:
        """The calls that passed, by the order of their beginnings."""
        if not self._early:
            return set()
        return {number for chunk in self._gathered().chunks[: self._early] for number, _ in chunk}

    def _role(self) -> bool:
        return any(
            b'"role"' in event and any(said(one).get("role") for one in _choices(event)) for event in self._passed
        )

    def _base(self) -> Fields:
        for event in self._events:
            payload = peek(data_of(event) or b"0")
            if isinstance(payload, dict) and payload.get("id"):
                return {key: payload[key] for key in META if payload.get(key) is not None}
        return {}

    def _usage(self) -> Fields:
        """The newest usage of the answer, as the provider put it."""
        found: Fields = {}
        for event in self._events:
            if b'"usage"' in event:
                found = usage_in(peek(data_of(event) or b"0")) or found
        return found


def usage_in(payload: object) -> Fields:
    """The usage of a chunk or completion, wherever providers put it; empty without."""
    if not isinstance(payload, dict):
        return {}
    groq = payload.get("x_groq")
    places = [payload.get("usage"), groq.get("usage") if isinstance(groq, dict) else None]
    places += [entry.get("usage") for entry in choices(payload)]
    return next((found for found in places if isinstance(found, dict) and usage_of(found) is not None), {})


def _choices(event: bytes) -> list[Fields]:
    return choices(peek(data_of(event) or b"0"))


def _kind(event: bytes) -> int:
    """What an event is for the gate. What is nothing of the answer flows; what is not known waits its turn."""
    data = data_of(event)
    if not data:
        return _FREE
    payload = peek(data)
    entries = choices(payload)
    if any(has_calls(said(entry)) for entry in entries):
        return _CALL
    if not entries or any(entry.get("finish_reason") for entry in entries):
        return _END
    held = [{key for key, value in said(entry).items() if value} - _SILENT for entry in entries]
    if any(keys & _VISIBLE for keys in held):
        return _TEXT
    return _FREE if any(held) else _END
