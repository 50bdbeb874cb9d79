"""Where the messages of a body stand in its bytes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import orjson

HEAD_MOST = 16
"""Messages in front among which the first one of the user is looked for."""

_BRACE = ord("{")
_ENDS = b" \t\r\n]"
_BETWEEN = b" \t\r\n,"
_USUAL = (b",", b", ")
"""What clients write between messages: then where they stand is a matter of their lengths."""

Spans = list[tuple[int, int]]


def spans_of(body: bytes, at: int, messages: Sequence[msgspec.Raw]) -> Spans:
    """Where the messages stand that follow each other from `at` on. ValueError if they do not, or one is no object."""
    for between in _USUAL:
        listed = between.join(messages)
        end = at + len(listed)
        if body.startswith(listed, at) and body[end] in _ENDS:
            return _evenly(body, at, messages, len(between))
    return _spelled(body, at, messages)


def _evenly(body: bytes, at: int, messages: Sequence[msgspec.Raw], between: int) -> Spans:
    spans = []
    for raw in messages:
        if body[at] != _BRACE:
            raise _no_object()
        end = at + len(memoryview(raw))
        spans.append((at, end))
        at = end + between
    return spans


def _spelled(body: bytes, at: int, messages: Sequence[msgspec.Raw]) -> Spans:
    spans = []
    for raw in messages:
        while body[at] in _BETWEEN:
            at += 1
        view = memoryview(raw)
        if body[at] != _BRACE or not body.startswith(view, at):
            raise _no_object()
        end = at + len(view)
        spans.append((at, end))
        at = end
    return spans


def _no_object() -> ValueError:
    return ValueError("a message is no object")


def head_of(body: bytes, spans: Spans) -> tuple[tuple[int, int], ...]:
    """The messages up to the first one of the user; () if there is none in front."""
    for number, (start, end) in enumerate(spans[:HEAD_MOST]):
        if orjson.loads(body[start:end]).get("role") == "user":
            return tuple(spans[: number + 1])
    return ()
