"""What a response holds, read event by event or whole. Never raises, whatever the provider sends.

Deltas are kept unread until somebody asks: the item that they belong to comes whole at its end. Where it does not, or
the stream is cut short, they are read after all. Items are known by `output_index` and id, whichever can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from guardproxy.api._answer import MAX_TEXT, Answer, Choice
from guardproxy.api._calls import MAX_CALLS, index_of
from guardproxy.api._gate import GAP
from guardproxy.api._json import mend, peek, text_of
from guardproxy.api._messages import calls_of
from guardproxy.api._responses_items import CALLS, HOSTED, Fields, call_of, kind_of, text_in
from guardproxy.api._sse import data_of
from guardproxy.api._usage import merge, usage_of
from guardproxy.core.model import Call

MOST = 4 * 1024 * 1024
"""Bytes of deltas that are kept unread."""

ENDS = frozenset(("response.completed", "response.incomplete", "response.failed"))
"""Events after which nothing comes."""

TEXTS = frozenset(("response.output_text.delta", "response.refusal.delta"))
"""Events that bring visible text."""

INPUTS = frozenset(("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"))
"""Events that bring a call's arguments."""

UNDER_WAY = frozenset(("queued", "in_progress"))
"""Statuses of a response that is made in the background."""


class Part:
    """One item of the answer, as far as it has come."""

    __slots__ = ("call", "chars", "done", "id", "inputs", "item", "kind", "produced", "texts")

    def __init__(self, item: Fields) -> None:
        self.item = item
        self.kind = kind_of(item)
        self.id = str(item.get("id") or "")
        self.inputs: list[str] = []
        self.texts: list[str] = []
        self.chars = 0  # of its text, taken so far
        self.produced = 0
        self.done = False
        self.call: Call | None = None

    def begun(self) -> Fields:
        """The item as far as its text has come."""
        text = mend("".join(self.texts))
        content = [{"type": "output_text", "text": text, "annotations": []}]
        return {**self.item, "content": content} if text else self.item

    def made(self) -> Call:
        """The call that it is."""
        if self.call is not None:
            return self.call
        item = self.item
        if self.inputs and self.kind in ("function_call", "custom_tool_call"):
            field = "input" if self.kind == "custom_tool_call" else "arguments"
            item = {**item, field: mend("".join(self.inputs))}
        call = calls_of({"tool_calls": [call_of(item)]})[0]
        made = Call(mend(call.name), mend(call.arguments), mend(call.id))
        if self.done:
            self.call = made
        return made


class Heard(Choice):
    """The one answer that a response is, item by item."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Part] = []
        self.by_index: dict[int, Part] = {}
        self._spoke: Part | None = None

    def built(self) -> tuple[Call, ...]:
        """The calls that the client is to carry out."""
        return tuple([part.made() for part in self._calls()[:MAX_CALLS]])

    def names(self) -> Iterator[tuple[str, bool]]:
        """The name of each call, and whether it is all of it."""
        return iter([(call.name, bool(call.name)) for call in self.built()])

    @property
    def call_count(self) -> int:
        """Its calls, also those that are not kept."""
        return len(self._calls())

    @property
    def hosted(self) -> list[Fields]:
        """The calls that the provider has carried out."""
        return [part.item for part in self.parts if part.kind in HOSTED and part.done]

    @property
    def items(self) -> list[Fields]:
        """All items, as far as they have come whole."""
        return [part.item for part in self.parts if part.done]

    def _calls(self) -> list[Part]:
        return [part for part in self.parts if part.kind in CALLS]

    def speak(self, part: Part, text: str) -> None:
        """More of the text of an item."""
        if text and self._spoke is not part:
            if self._spoke is not None:
                self.add_text(GAP)
            self._spoke = part
        if self.chars < MAX_TEXT:
            part.texts.append(text)
        part.chars += len(text)
        self.add_text(text)

    def begin(self, item: Fields, index: int | None) -> Part:
        """An item begins, or is there at once."""
        part = Part(item)
        self.parts.append(part)
        self.by_index[len(self.parts) - 1 if index is None else index] = part
        return part

    def find(self, index: int | None, item_id: str) -> Part | None:
        """The item that an event is about: by both, by its id, by its index while it is open, else the newest one."""
        found = self.by_index.get(index) if index is not None else None
        if item_id and (found is None or found.id != item_id):
            same = next((part for part in reversed(self.parts) if part.id == item_id), None)
            if same is not None:
                return same
        if found is not None and (not found.done or found.id == item_id):
            return found
        return self.parts[-1] if self.parts and index is None else None

    def end(self, item: Fields, index: int | None) -> Part:
        """An item has come whole."""
        part = self.find(index, str(item.get("id") or ""))
        again = part is not None and (index is None or self.by_index.get(index) is part) and _again(part, item)
        if part is None or (part.kind and part.kind != kind_of(item)) or (part.done and not again):
            part = self.begin(item, index)
        part.item = {**part.item, **{key: value for key, value in item.items() if value is not None}}
        part.kind, part.done = kind_of(item), True
        self._whole(part)
        return part

    def _whole(self, part: Part) -> None:
        """Take what the deltas have not brought, or what of them nobody has read."""
        item = part.item
        if part.kind == "message":
            text = text_in(item)
            if len(text) > part.chars:
                self.speak(part, text[part.chars :])
            return
        size = _size(item) if part.kind in CALLS or part.kind in HOSTED or part.kind == "reasoning" else 0
        self.produced += max(0, size - part.produced)
        part.produced = max(size, part.produced)
        if part.inputs and not (item.get("arguments") or item.get("input")):
            field = "input" if part.kind == "custom_tool_call" else "arguments"
            part.item = {**item, field: mend("".join(part.inputs))}


class Reader:
    """Reads a response into an answer."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.heard = cast("Heard", answer.choices.setdefault(0, Heard()))
        self._waiting: list[bytes] = []
        self._size = 0
        self.base: Fields = {}
        """The response as it began."""
        self.number = 0
        """Of the next event."""

    def read(self, event: bytes) -> None:
        """Take an event; a delta is only kept."""
        if event.startswith(b"event:") and event[:96].partition(b"\n")[0].rstrip().endswith(b".delta"):
            self._waiting.append(event)
            self._size += len(event)
            if self._size > MOST:
                self.settle()
            return
        self.parse(event)

    def parse(self, event: bytes) -> object:
        """Take an event at once; answers its payload."""
        data = data_of(event)
        payload = peek(data) if data else None
        if isinstance(payload, dict):
            self.take(payload)
        elif data == b"[DONE]":
            self.settle()
            self.answer.done = self.answer.done or bool(self.heard.parts)
        return payload

    def settle(self) -> None:
        """Read what was kept."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        for event in waiting:
            payload = peek(data_of(event) or b"0")
            if isinstance(payload, dict):
                self.take(payload)

    def take(self, payload: Mapping[str, object]) -> None:
        """One event's payload, or that of a whole response."""
        kind = payload.get("type")
        index = index_of(payload.get("output_index"))
        number = payload.get("sequence_number")
        if type(number) is int:
            self.number = number + 1
        if not isinstance(kind, str):
            kind = ""
        if kind in TEXTS or kind in INPUTS:
            self._delta(payload, kind, index)
        elif kind == "response.output_item.added":
            self.settle()
            if isinstance(item := payload.get("item"), dict):
                self.heard.begin(item, self._free(item, index))
        elif kind == "response.output_item.done":
            if isinstance(item := payload.get("item"), dict):
                self._done(item, index)
        elif kind == "error" or (payload.get("error") and "output" not in payload and "response" not in payload):
            self.answer.failed = True
        elif isinstance(response := payload.get("response"), dict):
            self._response(response, ends=kind in ENDS)
        elif payload.get("object") == "response" or isinstance(payload.get("output"), list):
            self._response(payload, ends=True)
        elif kind.endswith(".delta") and isinstance(delta := payload.get("delta"), str):
            part = self.heard.find(index, _id(payload))  # thoughts, code of the provider's own tools
            self.heard.produced += len(delta)
            if part is not None:
                part.produced += len(delta)

    def _free(self, item: Fields, index: int | None) -> int | None:
        """The index under which a new item goes; one that is taken already tells nothing."""
        known = self.heard.by_index.get(index) if index is not None else None
        item_id = str(item.get("id") or "")
        return index if known is None or known.id == item_id else len(self.heard.parts)

    def _delta(self, payload: Mapping[str, object], kind: str, index: int | None) -> None:
        delta = payload.get("delta")
        text = delta if isinstance(delta, str) else text_of(delta)
        part = self.heard.find(index, _id(payload))
        if kind in TEXTS:
            if part is None or part.kind in CALLS:
                part = self.heard.begin({"type": "message", "id": _id(payload)}, index)
            self.heard.speak(part, text)
        elif part is not None:
            part.inputs.append(text)
            part.produced += len(text)
            self.heard.produced += len(text)

    def _done(self, item: Fields, index: int | None) -> None:
        """An item is whole. If it is the only one that was open, nobody needs its deltas."""
        open_ones = sum([not part.done for part in self.heard.parts])
        if open_ones > 1 or (not text_in(item) and not _size(item)):
            self.settle()
        self._waiting, self._size = [], 0
        self.heard.end(item, index)

    def _response(self, response: Mapping[str, object], *, ends: bool) -> None:
        answer, heard = self.answer, self.heard
        answer.id = answer.id or _text(response.get("id"))
        answer.model = _text(response.get("model")) or answer.model
        if not ends:
            self.base = self.base or {**response}
            return
        self.settle()
        answer.usage = merge(answer.usage, usage_of(response.get("usage")))
        output = response.get("output")
        items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
        self._rest(items)
        status = _text(response.get("status"))
        details = response.get("incomplete_details")
        reason = _text(details.get("reason")) if isinstance(details, dict) else ""
        heard.finish = reason or status or "completed"
        answer.failed = answer.failed or status in ("failed", "cancelled") or bool(response.get("error"))
        answer.done = True
        if status in UNDER_WAY and not heard.chars:
            heard.chars = 1  # its answer is fetched later: it is none that came out empty

    def _rest(self, items: Sequence[Fields]) -> None:
        """What the end of a response has that did not come before."""
        heard = self.heard
        known = {str(part.id) for part in heard.parts if part.done and part.id}
        fresh = [item for item in items if str(item.get("id") or "") not in known]
        if len(items) <= len([part for part in heard.parts if part.done]):
            return
        for item in fresh if known else items[len(heard.items) :]:
            heard.end(item, None if not heard.parts else len(heard.parts))


def _again(part: Part, item: Fields) -> bool:
    """Whether an item that is there is said once more."""
    return bool(part.id) and part.id == item.get("id") and part.item.get("call_id") == item.get("call_id")


def _size(item: Fields) -> int:
    """Characters that a model has produced of an item that is no message."""
    said = [item.get(key) for key in ("arguments", "input", "code", "action", "operation") if item.get(key)]
    listed = [item.get(key) for key in ("summary", "content") if isinstance(item.get(key), list)]
    parts = [part.get("text") for parts in listed for part in cast("list[object]", parts) if isinstance(part, dict)]
    return sum([len(text_of(one)) for one in said]) + sum([len(one) for one in parts if isinstance(one, str)])


def _id(payload: Mapping[str, object]) -> str:
    return _text(payload.get("item_id"))


def _text(value: object) -> str:
    return mend(value) if isinstance(value, str) else ""
