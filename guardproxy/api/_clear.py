"""Answers made clear before they are judged: beside each event as it came stands what is read in it.

What may be read in two ways is handed on as it was read; what nobody can tell may hold a call, and is left out.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

import orjson

from guardproxy.api._answer import Answer
from guardproxy.api._gathered import Fields, choices, has_calls, said
from guardproxy.api._json import BOM, dumps, peek
from guardproxy.api._normal import Stream, completion
from guardproxy.api._reading import may_call, ordinary, read
from guardproxy.api._sse import data_of
from guardproxy.core.model import Call

DONE = b"[DONE]"
"""What ends a stream in place of an event's JSON."""

_HEAD = b"data: {"
_BLANK = (b"\n\n", b"\n\r\n", b"\r\r", b"\r\n\n", b"\n\r", b"\r\n\r")
_DATA = re.compile(rb"[ \t]*data:", re.IGNORECASE)


class Piece(NamedTuple):
    """An event, or what some clients take for one.

    `plain`: as it is read; `raw`: its bytes, which go on where nothing is refused. `calls`: it has some; `odd`: in a
    spelling that is not the usual one. `told`: all entries of calls in `raw`, where `plain` has not all of them.
    """

    plain: bytes
    raw: bytes
    calls: bool = False
    odd: bool = False
    told: tuple[Fields, ...] | None = None


class Clear:
    """The events of one stream. `firm`: bytes may change; else only our view does. `unread`: events left out."""

    def __init__(self, answer: Answer, *, firm: bool) -> None:
        self._answer = answer
        self._firm = firm
        self._stream = Stream()
        self.unread = 0

    def pieces(self, event: bytes) -> list[Piece]:
        """What is in an event."""
        if event.startswith(_HEAD) and event.endswith(b"\n\n") and event.find(b"\n") == len(event) - 2:
            data = event[6:-2]
            try:
                payload = orjson.loads(data)
            except orjson.JSONDecodeError:
                return self._lines(event)
            if not may_call(data) or ordinary(payload, data):
                return self._chunk(event, event, payload, sole=True)
            value, sole = read(data)
            return self._chunk(event, event, value, sole=sole)
        return self._lines(event)

    def other(self, calls: tuple[Call, ...]) -> str:
        """The tool of a call that some clients would read, and that is none of these."""
        return self._stream.other(calls)

    def _lines(self, event: bytes) -> list[Piece]:
        """An event that is more than one line of data, or less."""
        lines = event.splitlines(keepends=True)
        bare = [line.removeprefix(BOM) if not at else line for at, line in enumerate(lines)]
        found = [at for at, line in enumerate(bare) if _DATA.match(line)]
        kept = [line for at, line in enumerate(lines) if at in found or not _may_hold(line)]
        if self._firm and len(kept) != len(lines):  # lines without meaning, but for who takes them for data
            self.unread += 1
            rest = b"".join(kept)
            return self._lines(rest) if rest.strip() else []
        if not found:
            return [Piece(event, event)]
        texts = [bare[at].partition(b":")[2].rstrip(b"\r\n").removeprefix(b" ") for at in found]
        if len(found) == 1:
            return self._data(event, texts[0].strip())
        value, _ = read(b"\n".join(texts))
        alone = [text for text in texts if _may_hold(text) and isinstance(read(text).value, dict)]
        if isinstance(value, dict) and (not alone or self._firm):
            return self._data(event, b"\n".join(texts), sole=not alone)
        if not alone:
            return self._data(event, b"\n".join(texts).strip())
        starts = [0, *found[1:], len(lines)]
        parts = [b"".join(lines[start:end]) for start, end in pairwise(starts)]
        return [one for part, text in zip(parts, texts, strict=True) for one in self._data(part, text.strip())]

    def _data(self, event: bytes, data: bytes, *, sole: bool = True) -> list[Piece]:
        """An event, or one of several in one, with this data."""
        if not data or data == DONE:
            usual = not data or (data_of(event) == data and event.endswith(_BLANK))
            return [Piece(event if usual else b"data: [DONE]\n\n", event)]
        value, clear = read(data)
        if not isinstance(value, dict):
            if not self._firm or not _may_hold(data):
                return [Piece(event, event)]
            self.unread += 1
            return []
        same = data_of(event) == data and event.endswith(_BLANK) and peek(data) is not None
        return self._chunk(event if same else b"data: " + dumps(value) + b"\n\n", event, value, sole=sole and clear)

    def _chunk(self, plain: bytes, raw: bytes, payload: object, *, sole: bool) -> list[Piece]:
        if not isinstance(payload, dict):
            return self._data(raw, data_of(raw))
        chunks = self._stream.chunk(payload, self._answer.first)
        if sole and chunks[0] is payload:
            return [Piece(plain, raw, may_call(raw) and _calls(payload))]
        made = [b"data: " + dumps(chunk) + b"\n\n" for chunk in chunks]
        if not sole and self._firm:
            return [Piece(one, one, _calls(chunk), odd=True) for one, chunk in zip(made, chunks, strict=True)]
        told = (self._stream.told if self._firm else ()) or None
        before = None if told is None else ()
        found = [Piece(one, b"", _calls(chunk), True, before) for one, chunk in zip(made, chunks, strict=True)]
        return [*found[:-1], found[-1]._replace(raw=raw, told=told)]


def _may_hold(data: bytes) -> bool:
    """Whether a call may be in what cannot be read, in any notation."""
    return b"{" in data or may_call(data)


def _calls(chunk: Fields) -> bool:
    return any(has_calls(said(entry)) for entry in choices(chunk))


def whole(raw: bytes, *, firm: bool) -> tuple[bytes, bytes] | None:
    """A completion as it is read, and the bytes that go on where nothing is refused; None where nobody can tell."""
    value, sole = read(raw)
    if not isinstance(value, dict):
        return None if firm and _may_hold(raw) else (raw, raw)
    found = completion(value)
    if sole and found is value and peek(raw) is not None:
        return raw, raw
    plain = dumps(found)
    return plain, raw if sole or not firm else plain
