"""What a response holds, read event by event or whole. Never raises, whatever the provider sends.

Deltas are kept unread until somebody asks: the item that they belong to comes whole at its end. Where it does not, or
the stream is cut short, they are read after all. Items are known by `output_index` and id, whichever can be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from guardproxy.api._answer import Answer
from guardproxy.api._calls import index_of
from guardproxy.api._json import mend, peek, text_of
from guardproxy.api._responses_heard import Heard, Part, size_of
from guardproxy.api._responses_items import CALLS, Fields, kind_of, text_in
from guardproxy.api._sse import data_of
from guardproxy.api._usage import merge, usage_of

MOST = 4 * 1024 * 1024
"""Bytes of deltas that are kept unread."""

ENDS = frozenset(("response.completed", "response.incomplete", "response.failed"))
"""Events after which nothing comes."""

ITEMS = frozenset(("response.output_item.added", "response.output_item.done"))
"""Events that bring an item."""

TEXTS = frozenset(("response.output_text.delta", "response.refusal.delta"))
"""Events that bring visible text."""

INPUTS = frozenset(("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"))
"""Events that bring a call's arguments."""

OF_CALLS = INPUTS | {"response.function_call_arguments.done", "response.custom_tool_call_input.done"}
"""Events that are about a call, whatever they name."""

UNDER_WAY = frozenset(("queued", "in_progress"))
"""Statuses of a response that is made in the background."""


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
        self._newest: Part | None = None  # of the event that brought an item last

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
                self._newest = self.heard.begin(item, self._free(item, index))
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

    def about(self, payload: Fields) -> Part | None:
        """The item that an event is about, which was the last to be taken; None where it is about none, or several."""
        kind = kind_of(payload)
        if isinstance(payload.get("item"), dict):
            return self._newest if kind in ITEMS else None
        index, item_id = index_of(payload.get("output_index")), _id(payload)
        called = kind in OF_CALLS
        if index is None and not item_id and not called:
            return None
        found = self.heard.find(index, item_id)
        if called and (found is None or found.done):  # ids and numbers that do not tell items apart
            return next((part for part in reversed(self.heard.parts) if part.kind in CALLS and not part.done), found)
        return found

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
        if open_ones > 1 or (not text_in(item) and not size_of(item)):
            self.settle()
        self._waiting, self._size = [], 0
        self._newest = self.heard.end(item, index)

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


def _id(payload: Mapping[str, object]) -> str:
    return _text(payload.get("item_id"))


def _text(value: object) -> str:
    return mend(value) if isinstance(value, str) else ""
