"""Splices of the items of a Responses request: texts appended and replaced, calls, results and rounds put back.

Whatever is not edited stays as the very bytes that came in. Positions are those of a mask (`_splice`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from guardproxy.api import _splice
from guardproxy.api._json import dumps, peek
from guardproxy.api._responses_items import CALLS, RESULTS, THOUGHT, Fields, History, Place, kind_of, text_in
from guardproxy.api._splice import Span, Splice
from guardproxy.core.edit import PutBack

REFERENCE = "item_reference"
"""The kind of an item that only names another one."""


class Items:
    """The items of a request under edit. `opens`: where their list begins."""

    def __init__(self, raw: bytes, text: bytes, spans: Sequence[Span], opens: int, history: History) -> None:
        self._raw = raw
        self._text = text
        self._spans = spans
        self._opens = opens
        self._history = history
        self._gone: set[int] = set()
        self._filled = False  # something stands in a list that was empty

    def in_front(self, at: int, items: Sequence[bytes]) -> Splice:
        """Items in front of the one at `at`, or behind the last; without space, so that what is sent stays the same."""
        listed = [one for one in map(flat, items) if one]
        if at and self._spans:
            place = self._spans[min(at, len(self._spans)) - 1][1]
            return place, place, b"".join([b"," + one for one in listed])
        if self._spans:
            place = self._spans[0][0]
            return place, place, b"".join([one + b"," for one in listed])
        before, self._filled = b"," if self._filled and listed else b"", self._filled or bool(listed)
        return self._opens, self._opens, before + b",".join(listed)

    def change(self, at: int, new: str | None, texts: Sequence[str]) -> list[Splice]:
        """The item with another text, or with texts behind its own; behind the item where it can take none."""
        start, end = self._spans[at]
        item = self._history.items[at]
        field_name = "output" if kind_of(item) in RESULTS else "content"
        said = "".join(texts)
        span = _splice.members(self._text, start).get(field_name)
        part = "output_text" if item.get("role") == "assistant" else "input_text"
        if span is not None and self._text[span[0]] == ord('"'):
            return [(*span, dumps(new + said))] if new is not None else [(span[1] - 1, span[1] - 1, dumps(said)[1:-1])]
        listed = span is not None and self._text[span[0]] == ord("[") and kind_of(item) != "shell_call_output"
        if span is not None and listed:
            parts = [dumps({"type": part, "text": text}) for text in texts]
            if new is None:
                return [_splice.append_item(self._text, span[0], b",".join(parts))]
            others = [
                _splice.part(self._raw, one) for one in _splice.items(self._text, span[0]) if not self._is_text(one)
            ]
            return [(*span, b"[" + b",".join([dumps({"type": part, "text": new}), *others, *parts]) + b"]")]
        if not texts:
            return []
        told = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": said.lstrip("\n")}]}
        return [(end, end, b"," + dumps(told))]

    def _is_text(self, span: Span) -> bool:
        part = peek(_splice.part(self._raw, span))
        return isinstance(part, dict) and isinstance(part.get("text"), str)

    def put_back(self, put: PutBack) -> list[Splice]:
        """What the client never saw, at its place."""
        history = self._history
        if put.index < history.before:  # the provider has that answer
            return [self.in_front(0, put.before)] if put.before else []
        if put.index >= len(history):
            return [self.in_front(len(self._spans), (*put.before, *put.after))]
        place = history.place(put.index)
        if place is None or place.start < 0:
            return []
        found = [self.in_front(place.start, put.before)] if put.before else []
        gone = self._twice(place, put)
        if put.instead:
            kept = None if self._left_out(put.index) else self._carrier(place)
            found += self.change(kept, put.instead, ()) if kept is not None else []
            items = self._history.items
            called = any(kind_of(items[at]) in CALLS for at in range(place.start, place.end))
            alone = kept is None or not called  # thoughts stand in front of what came of them, or nowhere
            gone |= {at for at in range(place.start, place.end) if kind_of(items[at]) == "message" or alone}
            gone.discard(-1 if kept is None else kept)
        if put.calls:
            found += self._calls(place, put.calls, gone)
        if put.after:
            found += self._results(place, put)
        self._gone |= gone
        return found

    def _left_out(self, index: int) -> bool:
        """Whether a notice of ours is no turn of its own: nothing is behind it, or the assistant goes on."""
        behind = self._history.place(index + 1)
        return index > 0 and (behind is None or behind.kind == "said")

    def _carrier(self, place: Place) -> int | None:
        """The newest message of an answer."""
        listed = range(place.end - 1, place.start - 1, -1)
        return next((at for at in listed if kind_of(self._history.items[at]) == "message"), None)

    def _twice(self, place: Place, put: PutBack) -> set[int]:
        """The client's copies of items that are put back: it was given some of them, but no calls."""
        given = [item for raw in put.before for item in items_in(raw) if kind_of(item) not in CALLS]
        last = place.end - bool(put.calls or put.after)  # something may stand behind the last one
        items = self._history.items
        return {at for at in range(place.start, last) if given and any(_is_same(items[at], one) for one in given)}

    def without(self, others: Sequence[Splice]) -> list[Splice]:
        """The items that are left out, each with the comma in front of it; `others`: what else is done."""
        found = [(self._spans[at - 1][1], self._spans[at][1], b"") for at in sorted(self._gone) if at]
        end = 0
        while end in self._gone:
            end += 1
        if not end:
            return found
        if end == len(self._spans):
            return []  # nothing would be left
        first, last = self._spans[0][0], self._spans[end][0]
        found = [one for one in found if one[0] >= last]
        within = any(first < start < last for start, _, _ in others)
        return found if within else [(first, last, b""), *found]

    def _calls(self, place: Place, calls: Sequence[tuple[int, bytes]], gone: Collection[int]) -> list[Splice]:
        """The calls at their places among those of the message; `gone`: what of it was said by answers before."""
        begins = next((at for at in range(place.start, place.end) if at not in gone), place.start)
        own = [at for at in range(place.start, place.end) if kind_of(self._history.items[at]) in CALLS]
        found: list[Splice] = []
        taken: set[int] = set()
        known = {
            str(self._history.items[at].get("id") or ""): self._spans[at][1] for at in range(place.start, place.end)
        }
        known[""] = self._spans[begins - 1][1] if begins else 0  # in front of the answer itself
        for number, (where, kept) in enumerate(sorted(calls, key=lambda call: call[0])):
            behind, raw = _referred(kept)
            if behind in known:
                at = known[behind]
                known |= {str(item["id"]): at for item in items_in(raw) if item.get("id")}
                start = self._spans[0][0]
                found.append((at, at, b"," + flat(raw)) if at else (start, start, flat(raw) + b","))
                continue
            seen = where - number  # of the message's own calls, those that stand before it
            bare = self._bare(own[seen - 1] + 1 if 0 < seen <= len(own) else begins, place.end, taken)
            if bare is not None:
                taken.add(bare)
                found.append((self._spans[bare][1], self._spans[bare][1], b"," + flat(raw)))
            elif seen < len(own):
                start = self._spans[own[max(0, seen)]][0]
                found.append((start, start, flat(raw) + b","))
            else:
                end = self._spans[place.end - 1][1]
                found.append((end, end, b"," + flat(raw)))
        return found

    def _bare(self, start: int, end: int, taken: Collection[int]) -> int | None:
        """The first thought, before the next call, of which nothing came but what was taken out behind it."""
        items = self._history.items
        for at in range(start, end):
            if kind_of(items[at]) in CALLS:
                return None
            behind = kind_of(items[at + 1]) if at + 1 < end else ""
            if kind_of(items[at]) == THOUGHT and behind == THOUGHT and at not in taken:
                return at
        return None

    def _results(self, place: Place, put: PutBack) -> list[Splice]:
        """The results: right behind the message, or, where ids do not tell calls apart, in the order of the calls."""
        end = self._spans[place.end - 1][1]
        items = self._history.items
        ids = [item.get("call_id") for item in items[place.start : place.end] if kind_of(item) in CALLS]
        ids += [item.get("call_id") for _, raw in put.calls for item in items_in(_referred(raw)[1])]
        if len(put.after) != len(put.calls) or (all(ids) and len(set(map(str, ids))) == len(ids)):
            return [(end, end, b"".join([b"," + flat(one) for one in put.after]))]
        found: list[Splice] = []
        pairs = sorted(zip(put.calls, put.after, strict=True), key=lambda pair: pair[0][0])
        for number, ((where, _), result) in enumerate(pairs):
            behind = place.end - 1
            wanted = where - number
            while wanted > 0 and behind + 1 < len(items) and kind_of(items[behind + 1]) in RESULTS:
                behind, wanted = behind + 1, wanted - 1
            at = self._spans[behind][1]
            found.append((at, at, b"," + flat(result)))
        return found


def items_in(raw: bytes) -> list[Fields]:
    """The items of what is put back: one, or a list."""
    found = peek(raw)
    return [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict)]


def refer(item_id: str, call: bytes) -> bytes:
    """A call behind a reference to the item of that id, "" = it was the first; see `Items`."""
    return b"[" + dumps({"type": REFERENCE, "id": item_id}) + b"," + call + b"]"


def _referred(raw: bytes) -> tuple[str | None, bytes]:
    """The id that a call stands behind, if that is known, and the call."""
    first = items_in(raw)[:1]
    if raw[:1] != b"[" or not first or kind_of(first[0]) != REFERENCE:
        return None, raw
    return str(first[0].get("id")), raw[len(dumps(first[0])) + 2 : -1]


def flat(raw: bytes) -> bytes:
    """Items as they stand in a list: those of an answer are kept as a list of their own."""
    return raw[1:-1].strip() if raw[:1] == b"[" else raw


def _is_same(item: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether a client's item is one that is put back. Some clients leave ids out."""
    if kind_of(item) != kind_of(other):
        return False
    if item.get("id") and other.get("id"):
        return item["id"] == other["id"]
    if kind_of(item) == "message":
        return bool(text_in(item)) and text_in(item) == text_in(other)
    sealed = item.get("encrypted_content")
    return bool(sealed) and sealed == other.get("encrypted_content")
