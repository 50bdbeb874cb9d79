"""What a client was given of a stream of a response, and how an answer goes on from there under the same id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from guardproxy.api._calls import index_of
from guardproxy.api._gate import GAP, Joint, summed
from guardproxy.api._json import dumps
from guardproxy.api._responses_answer import ENDS, Reader
from guardproxy.api._responses_events import end, event, item_events, message_of, part_events
from guardproxy.api._responses_items import CALLS, Fields, is_call, kind_of, text_in
from guardproxy.api._sse import payload_of, with_data

BEGINS = frozenset(("response.created", "response.in_progress", "response.queued"))
"""Events that say that an answer has begun."""


@dataclass(frozen=True, slots=True)
class Given(Joint):
    """The same with its items. `base`: the response as it began. `opened`: items that have begun and not ended.

    `index`, `number`: of the next item, and of the next event.
    """

    items: tuple[Fields, ...] = ()
    opened: tuple[tuple[int, Fields], ...] = field(default=())
    index: int = 0
    number: int = 0


NOTHING = Given()
"""Nothing was given."""


def given_of(joint: Joint | None) -> Given:
    """What was given, by any attempt."""
    return joint if isinstance(joint, Given) else NOTHING


def given_in(events: Iterable[bytes], before: Given) -> Given:
    """What these events gave, behind what was given before. They are numbered as the client has them."""
    done: dict[int, Fields] = {}
    opened: dict[int, Fields] = {}
    base: Mapping[str, object] = before.base
    begun, index, number = before.role, before.index, before.number
    usage: Mapping[str, object] = before.usage
    for raw in events:
        payload = payload_of(raw)
        kind = str(payload.get("type", ""))
        number = _number(payload, number)
        response = payload.get("response")
        if isinstance(response, dict):
            base, begun = base or {**response, "output": [], "usage": None}, True
            if kind in ENDS and isinstance(now := response.get("usage"), dict):
                usage = now
        at = index_of(payload.get("output_index"))
        if at is None:
            continue
        index = max(index, at + 1)
        item = payload.get("item")
        if kind == "response.output_item.added" and isinstance(item, dict):
            opened[at] = item
        elif kind == "response.output_item.done" and isinstance(item, dict):
            done[at] = item
            opened.pop(at, None)
        elif at in opened and kind.endswith(".delta"):
            opened[at] = _longer(opened[at], kind, payload)
    items = (*before.items, *[done[at] for at in sorted(done)])
    texts = [text for item in (*items, *opened.values()) if kind_of(item) == "message" and (text := text_in(item))]
    calls = sum(is_call(item) for item in (*items, *opened.values()))
    return Given(
        base,
        begun,
        GAP.join(texts),
        calls,
        usage,
        streamed=True,
        items=items,
        opened=(*before.opened, *sorted(opened.items())),
        index=index,
        number=number,
    )


def given_by(reader: Reader) -> Given:
    """What a stream gave that was handed on as it came."""
    heard = reader.heard
    opened = [(at, part.begun()) for at, part in enumerate(heard.parts) if not part.done]
    return Given(
        {**reader.base, "output": [], "usage": None} if reader.base else {},
        bool(reader.base),
        heard.text,
        heard.call_count,
        streamed=True,
        items=tuple(heard.items),
        opened=tuple(opened),
        index=len(heard.parts),
        number=reader.number,
    )


def _number(payload: Fields, number: int) -> int:
    found = index_of(payload.get("sequence_number"))
    return number if found is None else max(number, found + 1)


def _longer(item: Fields, kind: str, payload: Fields) -> Fields:
    """A message with one more piece of its text. Of other items nothing is kept before they are whole."""
    delta = payload.get("delta")
    named = {"response.output_text.delta": ("output_text", "text"), "response.refusal.delta": ("refusal", "refusal")}
    if kind not in named or not isinstance(delta, str):
        return item
    what, field_name = named[kind]
    content = item.get("content")
    parts = [*content] if isinstance(content, list) else []
    at = index_of(payload.get("content_index")) or 0
    while len(parts) <= min(at, 64):
        parts.append({"type": what, field_name: "", **({"annotations": []} if what == "output_text" else {})})
    last = parts[min(at, 64)]
    if isinstance(last, dict):
        parts[min(at, 64)] = {**last, field_name: f"{last.get(field_name) or ''}{delta}"}
    return {**item, "content": parts}


class Sequel:
    """Events so changed that they go on with what was given: counted on, whatever of them is left out.

    `own`: what was given was of this same answer, so that indices count on by themselves.
    """

    def __init__(self, given: Given = NOTHING, *, own: bool = False) -> None:
        self.given = given
        self.number = given.number
        self.next = given.index
        self.begun = given.role
        self.items: list[Fields] = [*given.items]
        self._ours: list[Fields] = []
        self.ended = False
        self._own = own
        self._places: dict[int, int] = {at: at for at in range(given.index)} if own else {}

    def give(self, raw: bytes) -> bytes:
        """An event of the provider's; empty where nothing is left of it."""
        payload = payload_of(raw)
        kind = payload.get("type")
        if not isinstance(kind, str):
            return raw
        before = dict(payload)
        response = payload.get("response")
        if kind in BEGINS and isinstance(response, dict):
            if self.given.role and not self._own:
                return b""
            self.begun = True
        at = index_of(payload.get("output_index"))
        if at is not None:
            if kind == "response.output_item.added":
                self._places.pop(at, None)  # one more under a number that another had
            payload["output_index"] = self._place(at)
        if kind == "response.output_item.done" and isinstance(item := payload.get("item"), dict):
            self.items.append(item)
        if kind in ENDS and isinstance(response, dict):
            payload["response"] = self._last(response)
            self.ended = True
        if index_of(payload.get("sequence_number")) is not None:
            payload["sequence_number"] = self.number
            self.number += 1
        return raw if payload == before else with_data(raw, dumps(payload))

    def made(self, payloads: Iterable[Fields]) -> bytes:
        """Events of ours."""
        out = []
        for one in payloads:
            out.append(event({"type": one["type"], "sequence_number": self.number, **one}))
            self.number += 1
        return b"".join(out)

    def item(self, item: Fields) -> bytes:
        """An item that is given whole."""
        at, self.next = self.next, self.next + 1
        self.items.append(item)
        self._ours.append(item)
        return self.made(item_events(item, at))

    def say(self, text: str, item_id: str) -> bytes:
        """Words of ours, as a message of their own."""
        return self.item(message_of(text, item_id))

    def close(self) -> bytes:
        """The ends of messages that were under way. A call that was is never completed: it must not be carried out."""
        out = b""
        for at, item in self.given.opened:
            if kind_of(item) == "message":
                ended: Fields = {**item, "status": "completed"}
                out += self.made(_rest_of(ended, at))
                self.items.append(ended)
            elif kind_of(item) not in CALLS:
                ended = {**item, "status": "incomplete"}
                out += self.made([{"type": "response.output_item.done", "output_index": at, "item": ended}])
                self.items.append(ended)
        return out

    def end(self, response: Mapping[str, object], usage: Mapping[str, object]) -> bytes:
        """The end of the answer."""
        self.ended = True
        return self.made([end(response, self.items, usage)])

    def _place(self, at: int) -> int:
        if at not in self._places:
            self._places[at] = self.next
            self.next += 1
        return self._places[at]

    def _last(self, response: Fields) -> Fields:
        """The response as it ends: with what was given before, and what of it was put in."""
        output = response.get("output")
        listed = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
        items = [*([] if self._own else self.given.items), *listed, *self._ours] if listed else self.items
        named = {key: self.given.base[key] for key in ("id", "created_at") if key in self.given.base}
        now, before = response.get("usage"), {} if self._own else self.given.usage
        usage = summed(before, now) if isinstance(now, dict) else (dict(before) or now)
        return {**response, **({} if self._own else named), "output": items, "usage": usage}


def _rest_of(item: Fields, at: int) -> list[Fields]:
    """The ends of a message whose text was given."""
    content = item.get("content")
    found: list[Fields] = []
    for number, part in enumerate(content if isinstance(content, list) else ()):
        if isinstance(part, dict):
            whole = len(str(part.get("text") or part.get("refusal") or ""))
            place: Fields = {"item_id": item.get("id", ""), "output_index": at, "content_index": number}
            found += part_events(part, place, said=whole)
    return [*found, {"type": "response.output_item.done", "output_index": at, "item": item}]
