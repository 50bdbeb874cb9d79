"""The events of a streamed response that is judged, or goes on with an earlier one: see `_gated`.

From the first call that the gate wants on all that comes is held, since items are numbered in their order and nothing
may overtake.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from guardproxy.api._calls import index_of
from guardproxy.api._gate import Gate, Joint, summed
from guardproxy.api._gated import Editor, Kind
from guardproxy.api._json import dumps, peek
from guardproxy.api._reading import may_call
from guardproxy.api._responses_answer import ENDS, Reader
from guardproxy.api._responses_given import Sequel, given_in, given_of
from guardproxy.api._responses_items import CALLS, Fields, is_call, kind_of, name_of
from guardproxy.api._sse import data_of, events_in, payload_of, with_data


class Event(NamedTuple):
    """An event with its JSON."""

    plain: bytes
    payload: Fields


class ItemEvents:
    """`Events` of items."""

    gathers = False

    def __init__(self, editor: Editor, reader: Reader, gate: Gate | None, joint: Joint | None) -> None:
        self._edit = editor.event
        self._reader = reader
        self._gate = gate
        self._before = given_of(joint)
        self._sequel = Sequel(self._before) if joint is not None else None
        self._passed: list[bytes] = []  # as the client has them
        self._early = 0  # calls that passed before anything was held
        self._begun: set[tuple[str, ...]] = set()  # calls that were seen
        self._shut = False
        self._changed = False
        self.unread = 0

    @property
    def touched(self) -> bool:
        return self._changed or self._sequel is not None

    def read(self, event: bytes) -> Iterator[Event]:
        if self._gate is None or self._gate.firm:
            read = _clear(event)
            if read is not event:
                self._changed = True
                self.unread += not read
                if not read:
                    return
                event = read
        out = self._edit(event)
        for one in [event] if out is event else events_in(out):
            yield Event(one, payload_of(one))

    def calls(self, event: Event) -> bool:
        return bool(self._fresh(event))

    def wanted(self, event: Event, *, shut: bool) -> bool:
        fresh = self._fresh(event)
        self._begun |= {_key(item) for item in fresh}
        gate, names = self._gate, [name_of(item) for item in fresh]
        if not shut and (gate is None or gate.every or any(not name or gate.wants(name) for name in names)):
            shut = self._shut = True
            self._early = max(0, self._reader.heard.call_count - len(fresh))
        return shut

    def named(self) -> bool:
        return True

    def passed(self) -> None:
        """They are counted as they are given."""

    def kind(self, event: Event) -> Kind:
        if any(kind_of(item) == "message" for item in _items(event.payload)):
            return Kind.TEXT
        kind = kind_of(event.payload)
        return Kind.END if kind in ENDS and kind != "response.failed" else Kind.NEXT

    def speaks(self, event: Event) -> bool:
        return True  # nothing may overtake it

    def give(self, event: Event) -> bytes:
        out = event.plain if self._sequel is None else self._sequel.give(event.plain)
        if out:
            self._passed.append(out)
        return out

    def release(self, held: Sequence[Event], keep: frozenset[int] | None) -> bytes:
        calls = [part.item for part in self._reader.heard.parts if part.kind in CALLS]
        out = range(self._early, len(calls)) if self._shut and keep is not None else ()
        gone = [calls[at] for at in out if keep is not None and at not in keep]
        if gone:
            self._changed = True
            if self._sequel is None:
                self._sequel = Sequel(given_in(self._passed, self._before), own=True)
            for item in gone:
                self._sequel.drop(_place(held, item), item)
        return b"".join([self.give(event) for event in held])

    def end(self) -> bytes:
        return b""  # an end that nobody sends is none that a client misses

    def joint(self, held: Sequence[Event]) -> Joint:
        given = given_in(self._passed, self._before)
        usage = _usage(held)  # it counts, whether anybody is given the end or not
        return replace(given, usage=summed(self._before.usage, usage)) if usage else given

    def _fresh(self, event: Event) -> list[Fields]:
        """The calls that begin with it."""
        return [item for item in _items(event.payload) if is_call(item) and _key(item) not in self._begun]


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


def _usage(held: Sequence[Event]) -> Fields:
    """That of the end which is held."""
    for event in reversed(held):
        response = event.payload.get("response")
        if isinstance(response, dict) and isinstance(usage := response.get("usage"), dict):
            return usage
    return {}


def _place(held: Sequence[Event], item: Fields) -> int | None:
    """The index of a call among what is held."""
    index = None
    for event in held:
        one = event.payload.get("item")
        if isinstance(one, dict) and is_call(one) and _same(one, item):
            index = index_of(event.payload.get("output_index"))
    return index


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
