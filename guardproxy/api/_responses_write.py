"""Edits of a Responses request, as byte splices: whatever is not edited leaves as the very bytes that came in.

A request that goes on with an answer of ours, or with one of which we kept something back, is told so too: the id that
the provider knows, and what it must be given in front of the new items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from guardproxy.api import _splice
from guardproxy.api._json import dumps, peek
from guardproxy.api._responses_items import CALLS, RESULTS, Fields, History, Place, kind_of, text_in
from guardproxy.api._splice import Span, Splice
from guardproxy.core.edit import AppendText, Edit, ForbidTools, LimitOutput, PutBack, ReplaceText
from guardproxy.core.model import Ask


@dataclass(frozen=True, slots=True)
class Before:
    """What a request goes on with that the provider does not know as the client names it.

    `upstream`: the id that it knows in the place of `previous_response_id`, "" = none; None = as the client says.
    `front`: items that must stand in front of the new ones.
    """

    upstream: str | None = None
    front: tuple[bytes, ...] = ()

    def __bool__(self) -> bool:
        return self.upstream is not None or bool(self.front)


class Body(dict[str, object]):
    """A request's fields, with its conversation as messages."""

    history: History
    before: Before = Before()


def write(ask: Ask, edits: Sequence[Edit]) -> bytes:
    """The body to send. Without edits it is `ask.body` itself; edits that are none of a request's are passed over."""
    body = ask.parsed
    if not isinstance(body, Body) or not ask.body or not (edits or body.before):
        return ask.body
    splices = _Request(ask.body, body).splices(edits)
    return _splice.apply(ask.body, splices) if splices else ask.body


@dataclass(slots=True)
class _Changes:
    """What is to be done to the items, by their index."""

    texts: dict[int, list[str]] = field(default_factory=dict)
    replaced: dict[int, str] = field(default_factory=dict)
    puts: list[PutBack] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.texts or self.replaced or self.puts)


class _Request:
    """The body under edit."""

    def __init__(self, raw: bytes, body: Body) -> None:
        self._raw = raw
        self._body = body
        self._history = body.history
        self._text = _splice.mask(raw)
        self._at = _splice.root(raw)
        self._top = _splice.members(self._text, self._at)

    def splices(self, edits: Sequence[Edit]) -> list[Splice]:
        found: list[Splice] = []
        changes = _Changes()
        for edit in edits:
            if isinstance(edit, ForbidTools):
                found += self._forbid()
            elif isinstance(edit, LimitOutput):
                found.append(self._set("max_output_tokens", b"%d" % edit.tokens))
            elif isinstance(edit, PutBack):
                changes.puts.append(edit)
            elif isinstance(edit, AppendText | ReplaceText):
                place = self._history.place(edit.index)
                if place is None or place.start < 0:
                    continue  # it stands in no item of this request
                if isinstance(edit, AppendText):
                    changes.texts.setdefault(place.end - 1, []).append(edit.text)
                else:
                    changes.replaced[place.end - 1] = edit.text
        found += self._upstream()
        return found + (self._input(changes) if changes or self._body.before.front else [])

    def _forbid(self) -> list[Splice]:
        if not self._body.get("tools"):
            return []  # providers refuse a tool_choice without tools
        return [self._set("tool_choice", b'"none"')]

    def _set(self, key: str, value: bytes) -> Splice:
        span = self._top.get(key)
        if span is None:
            return _splice.insert_member(self._text, self._at, b'"%b":%b' % (key.encode(), value))
        return *span, value

    def _upstream(self) -> list[Splice]:
        upstream, span = self._body.before.upstream, self._top.get("previous_response_id")
        if upstream is None or span is None:
            return []
        return [(*span, dumps(upstream) if upstream else b"null")]

    def _input(self, changes: _Changes) -> list[Splice]:
        span = self._top.get("input")
        front = self._body.before.front
        if span is None or self._text[span[0]] != ord("["):
            return self._from_text(span, changes)
        spans = list(_splice.items(self._text, span[0]))
        inside = _Items(self._raw, self._text, spans, span[0] + 1, self._history)
        found = [inside.in_front(0, front)] if front else []
        for at in sorted(changes.texts.keys() | changes.replaced.keys()):
            found += inside.change(at, changes.replaced.get(at), changes.texts.get(at, []))
        for put in sorted(changes.puts, key=lambda put: put.index):
            found += inside.put_back(put)
        return [one for one in found if one[0] != one[1] or one[2]]

    def _from_text(self, span: Span | None, changes: _Changes) -> list[Splice]:
        """Where the input is a text, or there is none: it becomes a list only where something stands beside it."""
        texts = "".join(changes.texts.get(0, []))
        front = [*self._body.before.front]
        behind = [raw for put in changes.puts for raw in (*put.before, *put.after)]
        if span is None or self._text[span[0] : span[1]] == b"null":
            listed = b"[" + b",".join([_flat(one) for one in (*front, *behind)]) + b"]"
            if listed == b"[]":
                return []
            if span is None:
                return [_splice.insert_member(self._text, self._at, b'"input":' + listed)]
            return [(*span, listed)]
        start, end = span
        if self._text[start] != ord('"'):
            return []
        added = dumps(texts)[1:-1]
        new: list[Splice] = [(end - 1, end - 1, added)] if added else []
        if 0 in changes.replaced:
            new = [(start, end, dumps(changes.replaced[0] + texts))]
        if front or behind:
            opening = b"[" + b"".join([_flat(one) + b"," for one in front]) + b'{"role":"user","content":'
            closing = b"}" + b"".join([b"," + _flat(one) for one in behind]) + b"]"
            new = [(start, start, opening), *new, (end, end, closing)]
        return new


class _Items:
    """The items of a request under edit. `opens`: where their list begins."""

    def __init__(self, raw: bytes, text: bytes, spans: Sequence[Span], opens: int, history: History) -> None:
        self._raw = raw
        self._text = text
        self._spans = spans
        self._opens = opens
        self._history = history

    def in_front(self, at: int, items: Sequence[bytes]) -> Splice:
        """Items in front of the one at `at`, or behind the last; without space, so that what is sent stays the same."""
        flat = [one for one in map(_flat, items) if one]
        if at and self._spans:
            place = self._spans[min(at, len(self._spans)) - 1][1]
            return place, place, b"".join([b"," + one for one in flat])
        if self._spans:
            place = self._spans[0][0]
            return place, place, b"".join([one + b"," for one in flat])
        return self._opens, self._opens, b",".join(flat)

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
            others = [self._raw[slice(*one)] for one in _splice.items(self._text, span[0]) if not self._is_text(one)]
            return [(*span, b"[" + b",".join([dumps({"type": part, "text": new}), *others, *parts]) + b"]")]
        if not texts:
            return []
        told = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": said.lstrip("\n")}]}
        return [(end, end, b"," + dumps(told))]

    def _is_text(self, span: Span) -> bool:
        part = peek(self._raw[slice(*span)])
        return isinstance(part, dict) and isinstance(part.get("text"), str)

    def put_back(self, put: PutBack) -> list[Splice]:
        """What the client never saw, at its place; what the provider keeps by itself is left out."""
        history = self._history
        if put.index < history.before:  # the provider has that answer: it lacks only what its calls were told
            return []
        if put.index >= len(history):
            return [self.in_front(len(self._spans), (*put.before, *put.after))]
        place = history.place(put.index)
        if place is None or place.start < 0:
            return []
        found = [self.in_front(place.start, put.before)] if put.before else []
        found += self._twice(place, put.before)
        if put.calls:
            found += self._calls(place, put.calls)
        if put.after:
            found += self._results(place, put)
        return found

    def _twice(self, place: Place, before: Sequence[bytes]) -> list[Splice]:
        """Take out the client's copies of items that are put back: it was given some of them, but no calls."""
        given = [item for raw in before for item in _items_in(raw) if kind_of(item) not in CALLS]
        found: list[Splice] = []
        for at in range(place.start, place.end):
            item = self._history.items[at]
            if given and any(_is_same(item, other) for other in given):
                start, end = self._spans[at]
                if at + 1 < len(self._spans):
                    found.append((start, self._spans[at + 1][0], b""))
                else:
                    found.append((self._spans[at - 1][1] if at else start, end, b""))
        return found

    def _calls(self, place: Place, calls: Sequence[tuple[int, bytes]]) -> list[Splice]:
        """The calls at their places among those of the message."""
        own = [at for at in range(place.start, place.end) if kind_of(self._history.items[at]) in CALLS]
        found: list[Splice] = []
        for number, (where, raw) in enumerate(sorted(calls, key=lambda call: call[0])):
            seen = where - number  # of the message's own calls, those that stand before it
            if seen < len(own):
                start = self._spans[own[max(0, seen)]][0]
                found.append((start, start, _flat(raw) + b","))
            else:
                end = self._spans[place.end - 1][1]
                found.append((end, end, b"," + _flat(raw)))
        return found

    def _results(self, place: Place, put: PutBack) -> list[Splice]:
        """The results: right behind the message, or, where ids do not tell calls apart, in the order of the calls."""
        end = self._spans[place.end - 1][1]
        items = self._history.items
        ids = [item.get("call_id") for item in items[place.start : place.end] if kind_of(item) in CALLS]
        ids += [item.get("call_id") for _, raw in put.calls for item in _items_in(raw)]
        if len(put.after) != len(put.calls) or (all(ids) and len(set(map(str, ids))) == len(ids)):
            return [(end, end, b"".join([b"," + _flat(one) for one in put.after]))]
        found: list[Splice] = []
        pairs = sorted(zip(put.calls, put.after, strict=True), key=lambda pair: pair[0][0])
        for number, ((where, _), result) in enumerate(pairs):
            behind = place.end - 1
            wanted = where - number
            while wanted > 0 and behind + 1 < len(items) and kind_of(items[behind + 1]) in RESULTS:
                behind, wanted = behind + 1, wanted - 1
            at = self._spans[behind][1]
            found.append((at, at, b"," + _flat(result)))
        return found


def _items_in(raw: bytes) -> list[Fields]:
    found = peek(raw)
    return [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict)]


def _flat(raw: bytes) -> bytes:
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
