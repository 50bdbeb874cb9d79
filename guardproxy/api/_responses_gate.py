"""Holds back the calls of a streamed response until they were judged: text and thoughts flow meanwhile.

Before the first call that the gate wants, everything passes as it came; from it on all that comes is held, since items
are numbered in their order and nothing may overtake. Released as it is, it is the provider's own bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from guardproxy.api._calls import index_of
from guardproxy.api._gate import Gate, Joint, summed
from guardproxy.api._json import dumps, peek
from guardproxy.api._reading import may_call
from guardproxy.api._responses_answer import ENDS, Reader
from guardproxy.api._responses_given import Sequel, given_in, given_of, payload_of
from guardproxy.api._responses_items import CALLS, Fields, is_call, kind_of
from guardproxy.api._sse import Decoder, data_of, with_data
from guardproxy.api._watcher import Way


class GatedStream:
    """A stream behind a gate, or one that goes on with an earlier one (`joint`), or both."""

    may_be_over = False  # nothing waits to be read

    def __init__(
        self, way: Way, edit: Callable[[bytes], bytes], reader: Reader, gate: Gate | None, joint: Joint | None
    ) -> None:
        self._way = way
        self._edit = edit
        self._reader = reader
        self._gate = gate or Gate(lambda _: False)
        self._alone = gate is None  # nobody judges: what is held is given at the end
        self._before = given_of(joint)
        self._sequel = Sequel(self._before) if joint is not None else None
        self._decoder = Decoder()
        self._passed: list[bytes] = []  # as the client has them
        self._held: list[bytes] = []
        self._early = 0  # calls that passed before anything was held
        self._begun: set[tuple[str, ...]] = set()  # calls that were seen
        self._final = self._gate.text  # what comes may be a final answer, which is held
        self._shut = False
        self._open = False
        self._changed = False
        self.unread = 0
        """Events that nobody can read, and that were left out."""

    @property
    def touched(self) -> bool:
        return self._way.touched or self._changed or self._sequel is not None

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
        out += self._pass_all(self._way.finish())
        return out + self.release() if self._alone and not self._open else out

    def settle(self) -> None:
        self._way.settle()

    def release(self, keep: frozenset[int] | None = None) -> bytes:
        """What is held, once; with `keep` only the calls at these positions, and what passed before."""
        if self._open:
            return b""
        self._open = True
        held, self._held = self._held, []
        calls = [part.item for part in self._reader.heard.parts if part.kind in CALLS]
        out = range(self._early, len(calls)) if self._shut and keep is not None else ()
        gone = [calls[at] for at in out if keep is not None and at not in keep]
        if gone:
            self._changed = True
            if self._sequel is None:
                self._sequel = Sequel(given_in(self._passed, self._before), own=True)
            for item in gone:
                self._leave_out(held, item)
        return b"".join([self._give(event) for event in held])

    def raw_message(self) -> Fields:
        """Never asked: the watcher knows the items."""
        return {}

    def raw_calls(self) -> list[Fields]:
        """Never asked either."""
        return []

    def joint(self) -> Joint:
        """What the client was given so far, earlier attempts included."""
        given = given_in(self._passed, self._before)
        if self._held:  # its usage counts, whether anybody is given the end or not
            usage = self._usage()
            return replace(given, usage=summed(self._before.usage, usage) if usage else given.usage)
        return given

    def _usage(self) -> Fields:
        for event in reversed(self._held):
            response = payload_of(event).get("response")
            if isinstance(response, dict) and isinstance(usage := response.get("usage"), dict):
                return usage
        return {}

    def _take(self, event: bytes) -> bytes:
        if self._gate.firm:
            read = _clear(event)
            if read is not event:
                self._changed = True
                self.unread += not read
                if not read:
                    return b""
                event = read
        out = self._edit(event)
        return self._pass(event) if out is event else self._pass_all(out)

    def _pass_all(self, out: bytes) -> bytes:
        splitter = Decoder()
        events = [*splitter.feed(out), splitter.rest()] if out else []
        return b"".join([self._pass(event) for event in events if event])

    def _pass(self, event: bytes) -> bytes:
        if self._open:
            return self._give(event)
        payload = payload_of(event)
        fresh = [item for item in _items(payload) if is_call(item) and _key(item) not in self._begun]
        before = b""
        if fresh:
            if self._final:
                self._final = False
                before = self._flush()
            self._begin(fresh)
        if self._shut or self._final_part(payload):
            self._held.append(event)
            return before
        return before + self._give(event)

    def _begin(self, fresh: list[Fields]) -> None:
        """Calls begin. From the first one on that somebody wants all is held."""
        self._begun |= {_key(item) for item in fresh}
        names = [self._name(item) for item in fresh]
        if (
            not self._shut
            and self._gate.calls
            and (self._gate.every or any(not name or self._gate.wants(name) for name in names))
        ):
            self._shut = True
            self._early = max(0, self._reader.heard.call_count - len(fresh))

    def _name(self, item: Fields) -> str:
        name = item.get("name") or CALLS.get(kind_of(item))
        return name if isinstance(name, str) else ""

    def _final_part(self, payload: Fields) -> bool:
        """Whether it belongs to what may be a final answer: a message, all that comes after one has begun, the end."""
        if not self._final:
            return False
        says = any(kind_of(item) == "message" for item in _items(payload))
        kind = kind_of(payload)
        return bool(self._held) or says or (kind in ENDS and kind != "response.failed")

    def _flush(self) -> bytes:
        held, self._held = self._held, []
        return b"".join([self._give(event) for event in held])

    def _give(self, event: bytes) -> bytes:
        out = event if self._sequel is None else self._sequel.give(event)
        if out:
            self._passed.append(out)
        return out

    def _leave_out(self, held: list[bytes], item: Fields) -> None:
        """Of what is held, one call."""
        assert self._sequel is not None  # noqa: S101  # for the type checker
        index = None
        for event in held:
            payload = payload_of(event)
            one = payload.get("item")
            if isinstance(one, dict) and is_call(one) and _same(one, item):
                index = index_of(payload.get("output_index"))
        self._sequel.drop(index, item)


def _clear(event: bytes) -> bytes:
    """An event as all clients read it; empty where it may hold a call and nobody can tell."""
    data = data_of(event)
    payload = peek(data) if data else None
    if not isinstance(payload, dict):
        return b"" if b"{" in event and may_call(event) else event
    return with_data(event, dumps(payload)) if may_call(data) and doubled(data) else event


def doubled(data: bytes) -> bool:
    """Whether an object of it has a key twice: clients differ in which of them they take."""
    found = []

    def pairs(listed: list[tuple[str, object]]) -> None:
        found.append(len({key for key, _ in listed}) < len(listed))

    try:
        json.loads(data, object_pairs_hook=pairs, strict=False)
    except (ValueError, RecursionError):
        return True  # one of those that forgive has read it
    return any(found)


def _key(item: Fields) -> tuple[str, ...]:
    return str(item.get("id")), str(item.get("call_id")), kind_of(item)


def _same(one: Fields, other: Fields) -> bool:
    return (one.get("id"), one.get("call_id")) == (other.get("id"), other.get("call_id"))


def _items(payload: Fields) -> list[Fields]:
    """The items that an event brings: one that begins or ends, or those of a whole response."""
    item = payload.get("item")
    if isinstance(item, dict):
        return [item]
    response = payload.get("response") if kind_of(payload) in ENDS else None
    output = response.get("output") if isinstance(response, dict) else None
    return [one for one in output if isinstance(one, dict)] if isinstance(output, list) else []
