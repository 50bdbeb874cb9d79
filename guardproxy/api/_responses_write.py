"""Edits of a Responses request, as byte splices: whatever is not edited leaves as the very bytes that came in.

A request that goes on with an answer of ours, or with one of which we kept something back, is told so too: the id that
the provider knows, and what it must be given in front of the new items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from guardproxy.api import _splice
from guardproxy.api._json import dumps
from guardproxy.api._responses_back import Items, flat, items_in
from guardproxy.api._responses_items import RESULTS, History, kind_of
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
        front = self._body.before.front
        if self._body.get("conversation"):
            if any(put.again for put in changes.puts):
                return [*found, self._set("input", b"[" + b",".join(map(flat, _last_told(changes.puts))) + b"]")]
            front = (*told_in([raw for put in changes.puts for raw in (*put.before, *put.after)]), *front)
            changes.puts = []
        return found + (self._input(changes, front) if changes or front else [])

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

    def _input(self, changes: _Changes, front: Sequence[bytes]) -> list[Splice]:
        span = self._top.get("input")
        if span is None or self._text[span[0]] != ord("["):
            return self._from_text(span, changes, front)
        spans = list(_splice.items(self._text, span[0]))
        inside = Items(self._raw, self._text, spans, span[0] + 1, self._history)
        found = [inside.in_front(0, front)] if front else []
        for at in sorted(changes.texts.keys() | changes.replaced.keys()):
            found += inside.change(at, changes.replaced.get(at), changes.texts.get(at, []))
        for put in sorted(changes.puts, key=lambda put: put.index):
            found += inside.put_back(put)
        found += inside.without(found)  # last: what stands in front of an item that is left out goes before it
        return [one for one in found if one[0] != one[1] or one[2]]

    def _from_text(self, span: Span | None, changes: _Changes, before: Sequence[bytes]) -> list[Splice]:
        """Where the input is a text, or there is none: it becomes a list only where something stands beside it."""
        texts = "".join(changes.texts.get(0, []))
        front = [*before]
        was = self._history.before
        front += [raw for put in changes.puts if put.index < was for raw in put.before]
        behind = [raw for put in changes.puts if put.index >= was for raw in (*put.before, *put.after)]
        if span is None or self._text[span[0] : span[1]] == b"null":
            listed = b"[" + b",".join([flat(one) for one in (*front, *behind)]) + b"]"
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
            opening = b"[" + b"".join([flat(one) + b"," for one in front]) + b'{"role":"user","content":'
            closing = b"}" + b"".join([b"," + flat(one) for one in behind]) + b"]"
            new = [(start, start, opening), *new, (end, end, closing)]
        return new


def told_in(raws: Sequence[bytes]) -> tuple[bytes, ...]:
    """What a model is told of its calls, and of its answers, without these: who holds the conversation has them."""
    return tuple([raw for raw in raws if _is_told(raw)])


def _last_told(puts: Sequence[PutBack]) -> tuple[bytes, ...]:
    """What it is told of its last answer."""
    rounds = [raw for put in puts if put.again for raw in put.before]
    newest = max((at for at, raw in enumerate(rounds) if not _is_told(raw)), default=-1)
    return tuple(rounds[newest + 1 :])


def _is_told(raw: bytes) -> bool:
    return all(kind_of(item) in RESULTS or item.get("role") == "user" for item in items_in(raw))
