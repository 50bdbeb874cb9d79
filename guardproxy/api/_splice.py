"""Finds the bytes of a JSON value inside a larger text, and replaces bytes there. All other bytes stay as they are.

Searching is done on a `mask` of the text, equally long, in which no string holds a quote: a string ends at the next
one. Only for text that `_json.loads` has read before; on anything else it raises ValueError or IndexError. Positions
are byte offsets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from guardproxy.api._json import BOM, peek

_SPACE = re.compile(rb"[ \t\n\r]*")
_SCALAR = re.compile(rb"[^,\]} \t\n\r]+")
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"[^"]*+")*+[\[\]{}]')
_OPENING = frozenset(b"{[")
_QUOTE, _COMMA = b'",'

Span = tuple[int, int]
Splice = tuple[int, int, bytes]  # from, to, what stands there instead


def apply(raw: bytes, splices: list[Splice]) -> bytes:
    """`raw` with every splice made; those at one position keep their order.

    They must not overlap. What lies inside another one is left out: a body that nobody can read would be worse.
    """
    parts: list[bytes] = []
    done = 0
    for start, end, new in sorted(splices, key=lambda splice: splice[0]):
        if start < done:
            continue
        parts += (raw[done:start], new)
        done = end
    return b"".join((*parts, raw[done:]))


def part(raw: bytes, span: Span) -> bytes:
    """The bytes of a span. (`raw[slice(*span)]` is an error once compiled.)"""
    start, end = span
    return raw[start:end]


def mask(raw: bytes) -> bytes:
    """The text with its escaped backslashes and quotes blanked out, byte for byte as long."""
    return raw.replace(rb"\\", b"__").replace(rb"\"", b"__")  # a run of backslashes is made of pairs from its start on


def root(text: bytes) -> int:
    """Where the outermost value starts."""
    return skip(text, len(BOM) if text.startswith(BOM) else 0)


def skip(text: bytes, at: int) -> int:
    """The first position from `at` on that is not white space."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def value_end(text: bytes, at: int) -> int:
    """Position after the value that starts at `at` of a mask."""
    first = text[at]
    if first == _QUOTE:
        return text.index(b'"', at + 1) + 1
    if first in _OPENING:
        return _container_end(text, at)
    match = _SCALAR.match(text, at)
    if match is None:
        raise ValueError(f"no value at byte {at}")
    return match.end()


def _container_end(text: bytes, at: int) -> int:
    depth = 0
    while True:
        match = _TO_BRACKET.match(text, at)
        if match is None:
            raise ValueError("the text ends inside a value")
        at = match.end()
        depth += 1 if text[at - 1] in _OPENING else -1
        if not depth:
            return at


def members(text: bytes, at: int) -> dict[str, Span]:
    """Key to span of value, of the object at `at` of a mask. Of a repeated key the last counts, as parsers have it."""
    return dict(pairs(text, at))


def pairs(text: bytes, at: int) -> Iterator[tuple[str, Span]]:
    """All keys of the object at `at` of a mask, repeated ones too, with the spans of their values."""
    at = skip(text, at + 1)
    while text[at] == _QUOTE:
        end = text.index(b'"', at + 1) + 1
        key = peek(text[at:end])  # a masked key is none that anybody looks for
        start = skip(text, skip(text, end) + 1)
        end = value_end(text, start)
        yield str(key), (start, end)
        at = _next(text, end)


def items(text: bytes, at: int) -> Iterator[Span]:
    """The spans of the items of the array at `at` of a mask, one after another."""
    at = skip(text, at + 1)
    while text[at] != ord("]"):
        end = value_end(text, at)
        yield at, end
        at = _next(text, end)


def _next(text: bytes, end: int) -> int:
    at = skip(text, end)
    return skip(text, at + 1) if text[at] == _COMMA else at


def insert_member(text: bytes, at: int, member: bytes) -> Splice:
    """Puts `member` (key, colon, value) in front of the members of the object at `at`."""
    empty = text[skip(text, at + 1)] == ord("}")
    return at + 1, at + 1, member if empty else member + b","


def append_item(text: bytes, at: int, item: bytes) -> Splice:
    """Puts `item` behind the last item of the array at `at` of a mask."""
    _, last = max(items(text, at), default=(at, at + 1))
    return last, last, item if last == at + 1 else b"," + item
