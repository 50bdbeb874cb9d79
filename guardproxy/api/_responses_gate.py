"""The events of a streamed response that is judged, or goes on with an earlier one: see `_gated`.

From the first call that the gate wants on all that comes is held, since items are numbered in their order and nothing
may overtake.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from guardproxy.api._gate import Gate, Joint, summed
from guardproxy.api._gated import Editor, Kind
from guardproxy.api._json import dumps
from guardproxy.api._responses_answer import ENDS, Reader
from guardproxy.api._responses_clear import clear
from guardproxy.api._responses_given import Sequel, given_in, given_of
from guardproxy.api._responses_heard import Part
from guardproxy.api._responses_items import CALLS, Fields, call_of, is_call, kind_of, name_of
from guardproxy.api._sse import events_in, payload_of, with_data


class Event(NamedTuple):
    """An event with its JSON. `part`: the item that it is about; `names`: of the calls that begin with it."""

    plain: bytes
    payload: Fields
    part: Part | None
    names: tuple[str, ...]


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
        self._whole: set[Part] = set()  # calls that the client has whole
        self._known: dict[Part, str] = {}  # calls that were seen, by the name that they had
        self._firm = gate is None or gate.firm
        self._changed = False
        self.unread = 0

    @property
    def touched(self) -> bool:
        return self._changed or self._sequel is not None

    def read(self, event: bytes) -> Iterator[Event]:
        if self._firm:
            read = clear(event)
            if read is not event:
                self._changed = True
                self.unread += not read
                if not read:
                    return
                event = read
        out = self._edit(event)
        for one in [event] if out is event else events_in(out):
            yield self._event(one)

    def calls(self, event: Event) -> bool:
        return bool(event.names)

    def wanted(self, event: Event, *, shut: bool) -> bool:
        gate = self._gate
        return shut or gate is None or gate.every or any(not name or gate.wants(name) for name in event.names)

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
        if event.part is not None and kind_of(event.payload) == "response.output_item.done":
            self._whole.add(event.part)
        return out

    def release(self, held: Sequence[Event], keep: frozenset[int] | None) -> bytes:
        calls = self._calls()
        if self._firm:
            held = [self._one_name(event) for event in held]
        gone = {part for at, part in enumerate(calls) if keep is not None and at not in keep} - self._whole
        if gone:
            self._changed = True
            if self._sequel is None:
                self._sequel = Sequel(given_in(self._passed, self._before), own=True)
            places = [at for at, part in enumerate(calls) if part in gone]
            held = [_without(event, places) for event in held if event.part not in gone]
        return b"".join([self.give(event) for event in held])

    def end(self) -> bytes:
        return b""  # an end that nobody sends is none that a client misses

    def joint(self, held: Sequence[Event]) -> Joint:
        given = given_in(self._passed, self._before)
        usage = _usage(held)  # it counts, whether anybody is given the end or not
        return replace(given, usage=summed(self._before.usage, usage)) if usage else given

    def _calls(self) -> list[Part]:
        return [part for part in self._reader.heard.parts if part.kind in CALLS]

    def _event(self, raw: bytes) -> Event:
        payload = payload_of(raw)
        part = self._reader.about(payload)
        if kind_of(payload) in ENDS:
            if self._firm:
                raw, payload = self._agreed(raw, payload)
            return Event(raw, payload, None, self._fresh(self._calls()))
        brings = part is not None and part.kind in CALLS and "item" in payload
        return Event(raw, payload, part, self._fresh([part]) if brings and part is not None else ())

    def _fresh(self, parts: Sequence[Part]) -> tuple[str, ...]:
        """The names of calls that were not seen before, or had another one then."""
        found = [(part, name_of(part.item)) for part in parts]
        fresh = [(part, name) for part, name in found if self._known.get(part) != name]
        self._known.update(fresh)
        return tuple([name for _, name in fresh])

    def _one_name(self, event: Event) -> Event:
        """A call's event with the name by which it was judged: some clients read the first that is said, others the
        last.
        """
        name = event.part.item.get("name") if event.part is not None and event.part.kind in CALLS else None
        item = event.payload.get("item")
        told = item if isinstance(item, dict) else event.payload
        if not isinstance(name, str) or told.get("name", name) == name:
            return event
        self._changed = True
        mended: Fields = {**told, "name": name}
        payload = {**event.payload, "item": mended} if told is item else mended
        return event._replace(plain=with_data(event.plain, dumps(payload)), payload=payload)

    def _agreed(self, raw: bytes, payload: Fields) -> tuple[bytes, Fields]:
        """An end that tells of the calls that were heard, or of none: some clients read nothing else."""
        response = payload.get("response")
        told = [_said(item) for item in _items(payload) if is_call(item)]
        if not told or told == [_said(part.item) for part in self._calls()] or not isinstance(response, dict):
            return raw, payload
        self._changed = True
        payload = {**payload, "response": {**response, "output": self._reader.heard.items}}
        return with_data(raw, dumps(payload)), payload


def _without(event: Event, places: Collection[int]) -> Event:
    """The end of an answer without the calls at these places."""
    response = event.payload.get("response")
    output = response.get("output") if isinstance(response, dict) else None
    if not isinstance(response, dict) or not isinstance(output, list):
        return event
    kept, at = list[object](), -1
    for item in output:
        at += isinstance(item, dict) and is_call(item)
        if not (isinstance(item, dict) and is_call(item) and at in places):
            kept.append(item)
    payload = {**event.payload, "response": {**response, "output": kept}}
    return event._replace(plain=with_data(event.plain, dumps(payload)), payload=payload)


def _usage(held: Sequence[Event]) -> Fields:
    """That of the end which is held."""
    for event in reversed(held):
        response = event.payload.get("response")
        if isinstance(response, dict) and isinstance(usage := response.get("usage"), dict):
            return usage
    return {}


def _said(item: Fields) -> tuple[object, object, object]:
    """What a call says, whatever its ids are."""
    made = call_of(item)["function"]
    return (kind_of(item), made.get("name"), made.get("arguments")) if isinstance(made, dict) else ("", "", "")


def _items(payload: Fields) -> list[Fields]:
    """The items that an event brings: one that begins or ends, or those of a whole response."""
    item = payload.get("item")
    if isinstance(item, dict):
        return [item]
    response = payload.get("response") if kind_of(payload) in ENDS else None
    output = response.get("output") if isinstance(response, dict) else None
    return [one for one in output if isinstance(one, dict)] if isinstance(output, list) else []
