"""The items of a response as they come: text, calls and thoughts of the one answer that it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from guardproxy.api._answer import MAX_TEXT, Choice
from guardproxy.api._calls import MAX_CALLS
from guardproxy.api._gate import GAP
from guardproxy.api._json import mend, text_of
from guardproxy.api._messages import calls_of
from guardproxy.api._responses_items import CALLS, HOSTED, Fields, call_of, kind_of, text_in
from guardproxy.core.model import Call

_SAID = ("name", "namespace", "arguments", "input", "action", "operation")
"""What a call says, in any of its kinds."""


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

    def _called(self) -> Fields:
        """A call as far as it has come. Of one that is whole not all pieces were read: its end says it all."""
        if self.inputs and not self.done and self.kind in ("function_call", "custom_tool_call"):
            field = "input" if self.kind == "custom_tool_call" else "arguments"
            return {**self.item, field: mend("".join(self.inputs))}
        return self.item

    def kept(self) -> Fields:
        """The item as a request has it; of a call that never came whole what there is."""
        item = self._called()
        return item if self.done else {key: value for key, value in item.items() if key != "status"}

    def made(self) -> Call:
        """The call that it is."""
        if self.call is not None:
            return self.call
        call = calls_of({"tool_calls": [call_of(self._called())]})[0]
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

    @property
    def kept(self) -> list[Fields]:
        """All items but those, other than calls, that have not come whole: for each of `built` there is one."""
        return [part.kept() for part in self.parts if part.done or part.kind in CALLS]

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
        begun = {key: value for key, value in part.item.items() if key != "status"}  # it is not in progress any more
        part.item = {**begun, **{key: value for key, value in item.items() if value is not None}}
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
        size = size_of(item) if part.kind in CALLS or part.kind in HOSTED or part.kind == "reasoning" else 0
        self.produced += max(0, size - part.produced)
        part.produced = max(size, part.produced)
        if part.inputs and not (item.get("arguments") or item.get("input")):
            field = "input" if part.kind == "custom_tool_call" else "arguments"
            part.item = {**item, field: mend("".join(part.inputs))}


def _again(part: Part, item: Fields) -> bool:
    """Whether an item that is there is said once more: not another call under ids that all of them have."""
    known = part.item
    if not part.id or part.id != item.get("id") or known.get("call_id") != item.get("call_id"):
        return False
    return part.kind not in CALLS or all(known.get(key) == item.get(key) for key in _SAID)


def size_of(item: Fields) -> int:
    """Characters that a model has produced of an item that is no message."""
    said = [item.get(key) for key in ("arguments", "input", "code", "action", "operation") if item.get(key)]
    listed = [item.get(key) for key in ("summary", "content") if isinstance(item.get(key), list)]
    parts = [part.get("text") for parts in listed for part in cast("list[object]", parts) if isinstance(part, dict)]
    return sum([len(text_of(one)) for one in said]) + sum([len(one) for one in parts if isinstance(one, str)])
