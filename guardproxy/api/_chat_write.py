"""Edits of a chat request, as byte splices: whatever is not edited leaves as the very bytes that came in."""

from __future__ import annotations

from collections.abc import Sequence

from guardproxy.api import _splice
from guardproxy.api._json import dumps, loads
from guardproxy.api._splice import Span, Splice
from guardproxy.core.edit import AppendText, Edit, ForbidTools, SpliceUsage
from guardproxy.core.model import Ask

_ASK_USAGE = b'{"include_usage":true}'


def write(ask: Ask, edits: Sequence[Edit]) -> bytes:
    """The body to send. Without edits it is `ask.body` itself; edits that are none of a request's are passed over."""
    if not edits or not ask.body:
        return ask.body
    request = _Request(ask)
    splices: list[Splice] = []
    texts: dict[int, list[str]] = {}
    for edit in edits:
        if isinstance(edit, AppendText):
            texts.setdefault(edit.index, []).append(edit.text)
        elif isinstance(edit, ForbidTools):
            splices += request.forbid()
        elif isinstance(edit, SpliceUsage) and ask.may_splice_usage:
            splices += request.ask_usage()
    if texts:
        splices += request.append(texts)
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

    def append(self, texts: dict[int, list[str]]) -> list[Splice]:
        splices: list[Splice] = []
        last = max(texts)
        first, _ = self._span("messages")
        for index, (start, _) in enumerate(_splice.items(self._text, first)):
            if index in texts:
                splices += _append_to(self._text, start, texts[index])
            if index >= last:
                break
        return splices


def _append_to(text: bytes, at: int, texts: list[str]) -> list[Splice]:
    span = _splice.members(text, at).get("content")
    if span is None:
        return [_splice.insert_member(text, at, b'"content":' + dumps("".join(texts)))]
    start, end = span
    if text[start] == ord('"'):
        return [(end - 1, end - 1, dumps("".join(texts))[1:-1])]
    if text[start] == ord("["):
        parts = b",".join(dumps({"type": "text", "text": text}) for text in texts)
        return [_splice.append_item(text, start, parts)]
    if text[start:end] == b"null":
        return [(start, end, dumps("".join(texts)))]
    return []  # an object or a number: no provider's form of a text, so not ours to change
