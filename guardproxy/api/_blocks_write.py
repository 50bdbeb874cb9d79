"""Edits of a request whose content is blocks, as byte splices: whatever is not edited leaves as the bytes that came in.

Indices are those of the messages spread out (`_blocks`).
"""

from __future__ import annotations

from collections.abc import Sequence

from guardproxy.api import _splice
from guardproxy.api._blocks import SPREAD, SYSTEM, Place, Spread
from guardproxy.api._blocks_back import put_back
from guardproxy.api._chat_back import append_to, replace_in
from guardproxy.api._json import peek
from guardproxy.api._splice import Span, Splice
from guardproxy.core.edit import AppendText, Edit, ForbidTools, LimitOutput, PutBack, ReplaceText
from guardproxy.core.model import Ask

_NO_CALLS = b'{"type":"none"}'
_NO_THOUGHTS = b'{"type":"disabled"}'

LEAST_THOUGHT = 1024
"""Tokens below which the API refuses a budget of thoughts."""


def write(ask: Ask, edits: Sequence[Edit]) -> bytes:
    """The body to send. Without edits it is `ask.body` itself; edits that are none of a request's are passed over."""
    if not edits or not ask.body:
        return ask.body
    request = _Request(ask)
    splices: list[Splice] = []
    if any(isinstance(edit, ForbidTools) for edit in edits):
        splices += request.forbid()
    for edit in edits:
        if isinstance(edit, LimitOutput):
            splices += request.limit_output(edit.tokens)
    splices += request.messages(edits)
    return _splice.apply(ask.body, splices) if splices else ask.body


class _Request:
    """The body under edit. A key that is absent is put in front without a search through the whole text."""

    def __init__(self, ask: Ask) -> None:
        self._raw = ask.body
        self._at = _splice.root(ask.body)
        self._parsed = ask.parsed
        self._text = b""
        self._top: dict[str, Span] = {}

    def _span(self, key: str) -> Span:
        """Where the value of a key of the body stands; the key must be there."""
        if not self._text:
            self._text = _splice.mask(self._raw)
            self._top = _splice.members(self._text, self._at)
        return self._top[key]

    def forbid(self) -> list[Splice]:
        """No calls, where there are tools: providers refuse a choice without any."""
        if not self._parsed.get("tools"):
            return []
        if "tool_choice" in self._parsed:
            return [(*self._span("tool_choice"), _NO_CALLS)]
        return [_splice.insert_member(self._raw, self._at, b'"tool_choice":' + _NO_CALLS)]

    def limit_output(self, tokens: int) -> list[Splice]:
        """At most so many tokens; the budget of thoughts is part of them, and must be smaller."""
        number = b"%d" % tokens
        if "max_tokens" in self._parsed:
            splices = [(*self._span("max_tokens"), number)]
        else:
            splices = [_splice.insert_member(self._raw, self._at, b'"max_tokens":' + number)]
        self._span("messages")
        start, end = self._top.get("thinking", (0, 0))
        if not end or self._text[start] != ord("{"):
            return splices
        budget = _splice.members(self._text, start).get("budget_tokens")
        given = peek(_splice.part(self._raw, budget)) if budget is not None else None
        if budget is None or not isinstance(given, int | float) or given < tokens:
            return splices
        if tokens > LEAST_THOUGHT:
            return [*splices, (*budget, b"%d" % (tokens - 1))]
        return [*splices, (start, end, _NO_THOUGHTS)]

    def messages(self, edits: Sequence[Edit]) -> list[Splice]:
        """What changes in the messages."""
        texts: dict[int, list[str]] = {}
        replaced = {edit.index: edit.text for edit in edits if isinstance(edit, ReplaceText)}
        for edit in edits:
            if isinstance(edit, AppendText):
                texts.setdefault(edit.index, []).append(edit.text)
        puts = [edit for edit in edits if isinstance(edit, PutBack)]
        if not (texts or replaced or puts):
            return []
        found = self._parsed.get(SPREAD)
        places = found if isinstance(found, Spread) else Spread(self._parsed)
        first, _ = self._span("messages")
        spans = list(_splice.items(self._text, first))
        splices: list[Splice] = []
        for index in sorted({*texts, *replaced}):
            at = self._where(places.place(index), spans) if 0 <= index < len(places) else None
            if at is None:
                continue
            if index in replaced and not places.place(index).served:
                splices += replace_in(self._raw, self._text, at, replaced[index], texts.get(index, []))
            elif index in texts:
                splices += append_to(self._text, at, texts[index])
        if not puts:
            return splices
        wheres = [(edit, _message(places, edit.index, len(spans))) for edit in puts]
        return splices + put_back(self._raw, self._text, spans, [(edit, at) for edit, at in wheres if at is not None])

    def _where(self, place: Place, spans: Sequence[Span]) -> int | None:
        """Where the object stands that holds a message's content: the message, or the block of a result.

        What the provider itself has found is not ours to add to: the message that follows is.
        """
        message = place.message + place.served
        if place.message == SYSTEM or message >= len(spans):
            return None
        start, _ = spans[message]
        if place.served:
            return start
        if place.part is None:
            return start
        content, _ = _splice.members(self._text, start)["content"]
        return list(_splice.items(self._text, content))[place.part][0]


def _message(places: Spread, index: int, count: int) -> int | None:
    """The message of the request at an index of ours."""
    if index == len(places):
        return count
    return max(0, places.place(index).message) if index < len(places) else None
