"""Edits of a chat request, as byte splices: whatever is not edited leaves as the very bytes that came in."""

from __future__ import annotations

import re
from collections.abc import Sequence

from guardproxy.api import _splice
from guardproxy.api._chat_back import append_to, put_back, replace_in
from guardproxy.api._json import loads
from guardproxy.api._splice import Span, Splice
from guardproxy.core.edit import AppendText, Edit, ForbidTools, LimitOutput, PutBack, ReplaceText, SpliceUsage
from guardproxy.core.model import Ask

_ASK_USAGE = b'{"include_usage":true}'

_OUTPUT = ("max_completion_tokens", "max_tokens")
"""How a request bounds its output; the first is OpenAI's newer name."""

_REASONING = re.compile(r"(?i)(?:.*/)?(?:o\d|gpt-[5-9])")
"""Models of OpenAI's that take the newer name only. Elsewhere the older one is known, and some know no other."""


def write(ask: Ask, edits: Sequence[Edit]) -> bytes:
    """The body to send. Without edits it is `ask.body` itself; edits that are none of a request's are passed over."""
    if not edits or not ask.body:
        return ask.body
    request = _Request(ask)
    splices: list[Splice] = []
    for edit in edits:
        if isinstance(edit, ForbidTools):
            splices += request.forbid()
        elif isinstance(edit, LimitOutput):
            splices += request.limit_output(edit.tokens, ask.model)
        elif isinstance(edit, SpliceUsage) and ask.stream and not ask.wants_usage:
            splices += request.ask_usage()
    if changes := _Changes(edits):
        splices += request.messages(changes)
    return _splice.apply(ask.body, splices) if splices else ask.body


class _Request:
    """The body under edit. A key that is absent is put in front without a search through the whole text."""

    def __init__(self, ask: Ask) -> None:
        self._raw = ask.body
        self._at = _splice.root(ask.body)
        parsed = ask.parsed or loads(ask.body)
        self._parsed = parsed if isinstance(parsed, dict) else {}
        self._text = b""
        self._top: dict[str, Span] = {}

    def _span(self, key: str) -> Span:
        """Where the value of a key of the body stands; the key must be there."""
        if not self._text:
            self._text = _splice.mask(self._raw)
            self._top = _splice.members(self._text, self._at)
        return self._top[key]

    def forbid(self) -> list[Splice]:
        if self._parsed.get("tools"):
            return [self._set("tool_choice")]
        if self._parsed.get("functions"):
            return [self._set("function_call")]
        return []  # providers refuse a tool_choice without tools

    def _set(self, key: str) -> Splice:
        if key in self._parsed:
            return *self._span(key), b'"none"'
        return _splice.insert_member(self._raw, self._at, b'"%b":"none"' % key.encode())

    def limit_output(self, tokens: int, model: str) -> list[Splice]:
        number = b"%d" % tokens
        given = [name for name in _OUTPUT if name in self._parsed]
        if given:
            return [(*self._span(name), number) for name in given]
        name = _OUTPUT[0] if _REASONING.match(model) else _OUTPUT[1]
        return [_splice.insert_member(self._raw, self._at, b'"%b":%b' % (name.encode(), number))]

    def ask_usage(self) -> list[Splice]:
        options = self._parsed.get("stream_options")
        if "stream_options" not in self._parsed:
            return [_splice.insert_member(self._raw, self._at, b'"stream_options":' + _ASK_USAGE)]
        if options is None:
            return [(*self._span("stream_options"), _ASK_USAGE)]
        start, _ = self._span("stream_options")
        if isinstance(options, dict) and "include_usage" in options:
            return [(*_splice.members(self._text, start)["include_usage"], b"true")]
        return [_splice.insert_member(self._raw, start, b'"include_usage":true')]

    def messages(self, changes: _Changes) -> list[Splice]:
        """What changes in the messages."""
        first, _ = self._span("messages")
        last = changes.last
        spans: list[Span] = []
        for span in _splice.items(self._text, first):
            spans.append(span)
            if len(spans) > last and not changes.puts:
                break
        splices: list[Splice] = []
        for index, (start, _) in enumerate(spans):
            texts = changes.texts.get(index, [])
            if index in changes.replaced:
                splices += replace_in(self._raw, self._text, start, changes.replaced[index], texts)
            elif texts:
                splices += append_to(self._text, start, texts)
        return splices + put_back(self._raw, self._text, spans, changes.puts)


class _Changes:
    """The edits of messages, by the index of their message."""

    def __init__(self, edits: Sequence[Edit]) -> None:
        self.texts: dict[int, list[str]] = {}
        self.replaced: dict[int, str] = {}
        self.puts: list[PutBack] = []
        for edit in edits:
            if isinstance(edit, AppendText):
                self.texts.setdefault(edit.index, []).append(edit.text)
            elif isinstance(edit, ReplaceText):
                self.replaced[edit.index] = edit.text
            elif isinstance(edit, PutBack):
                self.puts.append(edit)

    def __bool__(self) -> bool:
        return bool(self.texts or self.replaced or self.puts)

    @property
    def last(self) -> int:
        return max((*self.texts, *self.replaced), default=-1)
