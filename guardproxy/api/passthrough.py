"""Every other /v1/ path: passed on as it is, counted, not read. Pure.

Only the usage of an answer is looked at, on a copy, so that what it cost is known, and the model that the request
names (`Named`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl

from guardproxy.api import _splice
from guardproxy.api._asked import names_more, one_model
from guardproxy.api._error import error
from guardproxy.api._json import BOM, peek
from guardproxy.api._model import model_of, renamed
from guardproxy.api._sse import Decoder, data_of
from guardproxy.api._usage import given_of, merge
from guardproxy.core.model import Usage
from guardproxy.core.tenant import masked

__all__ = ["PATHS", "PREFIX", "SURFACE", "Named", "Seen", "error", "model_of", "one_model", "renamed"]

SURFACE = "passthrough"
PREFIX = "/v1/"
PATHS: tuple[str, ...] = ()

MAX_READ = 1024 * 1024
"""A larger answer, or event of a stream, (files, audio, pictures) is looked at from its end for its usage."""

EDGE = 16 * 1024
"""Bytes of the end of a large one in which the usage is looked for."""

MOST = 16
"""Models that a request may name; one that names more names none."""

HEADERS = 8 * 1024
"""Bytes of the longest headers of a part of a form, and the model behind them."""

PARTS = 200
"""Parts of a form that are looked at, a third of a millisecond each at worst; one that has more names no model."""

DEEP = 3
"""Lists and objects in each other in which fallbacks are looked for: LiteLLM has a list of objects of lists."""

_LOOSE = re.compile(
    rb'(?i:"(?:m|\\u00[46]d)(?:o|\\u00[46]f)(?:d|\\u00[46]4)(?:e|\\u00[46]5)(?:l|\\u00[46]c)")'
    rb'[ \t\r\n]{0,64}:[ \t\r\n]{0,64}("(?:[^"\\]|\\.){1,256}")'
)
"""A key and its value, wherever they stand."""

_OVERLAP = 2048
"""Bytes of what came before that are looked at again: a key and its value may come in two pieces."""

_BOUNDARY = re.compile(r"""(?i:;\s*boundary\s*=\s*)(?:"([^"]{1,200})"|([^\s;"]{1,200}))""")
_PART = re.compile(rb"""(?i:name)\*?[ \t]{0,8}=[ \t]{0,8}(?:(?i:utf-8)'[^'\r\n]{0,8}')?"?model"?(?=[;\s])""")
_VALUE = re.compile(rb"[^\r\n]{1,256}(?=\r?\n)")
_USAGE = re.compile(rb'"usage"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})')


class Named:
    """A look at a request on its way: which models it names, for its price.

    A JSON body that is not too large is read, and only its own keys count (`model`, and what to fall back on). Of a
    larger one, and of what cannot be read, every key `model` counts, wherever it stands, and of a form every part whose
    headers name it: whoever names several pays for the dearest, so that none is named to hide another.
    """

    def __init__(self, content_type: str) -> None:
        kind = content_type.strip().lower()
        found = (
            [one or other for one, other in _BOUNDARY.findall(content_type)] if kind.startswith("multipart/") else []
        )
        self._mark = b"--" + found[0].encode("utf-8", "replace") if found else b""
        self._left = PARTS
        self._query = kind.startswith("application/x-www-form-urlencoded")
        self._kept = bytearray()
        self._loosely = False
        self._reads = len({*found}) <= 1  # which of two boundaries holds, each reader says otherwise
        self._found: dict[str, None] = {}

    def feed(self, chunk: bytes) -> None:
        """One piece of it."""
        if not self._reads:
            return
        self._kept += chunk
        if self._mark:
            self._parts()
        elif self._loosely or len(self._kept) > MAX_READ:
            self._loosely = True
            for name in _loose(self._kept):
                self._add(name)
            del self._kept[:-_OVERLAP]
        elif not self._query:
            begun = self._kept[:64].removeprefix(BOM).lstrip()
            self._reads = not begun or begun.startswith(b"{")  # what is no JSON has no such key

    def models(self) -> tuple[str, ...]:
        """What it names; nothing comes any more."""
        if self._reads and self._mark:
            self._parts(over=True)
        elif self._reads:
            body = bytes(self._kept)
            for name in _loose(body) if self._loosely else _fields(body) if self._query else _keys(body):
                self._add(name)
        self._kept.clear()
        return () if len(self._found) > MOST or not self._left else tuple(self._found)

    def _parts(self, *, over: bool = False) -> None:
        """Look at the headers of the parts that are there, and keep the end, in which one may begin."""
        kept, mark, at = bytes(self._kept), self._mark, 0
        while (start := kept.find(mark, at)) >= 0:
            at = start + len(mark)
            part = kept[at : at + HEADERS]
            if not over and len(part) < HEADERS and mark not in part:
                at = start  # there is more of it to come
                break
            self._left -= 1
            if not self._left:
                self._reads = False
                self._kept.clear()
                return
            blank = _blank(part)
            if blank and _PART.search(part, 0, blank) and (value := _VALUE.match(part, blank)):
                self._add(value[0].decode("utf-8", "replace"))
        else:
            at = max(at, len(kept) - len(mark))
        del self._kept[:at]

    def _add(self, name: str) -> None:
        if (name := masked(name.strip())) and name.isprintable() and len(self._found) <= MOST:
            self._found[name] = None


def _blank(part: bytes) -> int:
    """Where what follows the headers begins: behind the first empty line; 0 where there is none."""
    ends = [at + len(line) for line in (b"\n\r\n", b"\n\n") if (at := part.find(line)) >= 0]
    return min(ends, default=0)


def _keys(body: bytes) -> Iterator[str]:
    """The models that the keys of a JSON object name, however often and in whichever letters."""
    if peek(body.removeprefix(BOM)) is None:
        yield from _loose(body)
        return
    try:
        text = _splice.mask(body)
        for key, (start, end) in _splice.pairs(text, _splice.root(text)):
            if key.casefold() == "model" or names_more(key):
                yield from _texts(peek(body[start:end]))
    except (ValueError, IndexError):
        yield from _loose(body)


def _texts(value: object, deep: int = DEEP) -> Iterator[str]:
    """The texts in a value, each of which may be a model that a gateway falls back on."""
    if isinstance(value, str):
        yield value
    elif deep and isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one, deep - 1)


def _loose(body: bytes | bytearray) -> Iterator[str]:
    for found in _LOOSE.finditer(body):
        value = peek(bytes(found[1]))
        if isinstance(value, str):
            yield value


def _fields(body: bytes) -> list[str]:
    """The models that a form names, or JSON that comes under its name: there are readers who do not look at that."""
    try:
        pairs = parse_qsl(body.decode("utf-8", "replace"), max_num_fields=PARTS)
    except ValueError:
        return []
    return [*_loose(body), *(text for key, text in pairs if key.lower() == "model")]


def _stated(data: bytes) -> tuple[Usage | None, str]:
    """Usage and model that a JSON text states."""
    if len(data) > MAX_READ:
        return _ending(data), ""
    payload = peek(data)
    if not isinstance(payload, dict):
        return None, ""
    inner = payload.get("response")
    said = payload.get("usage") or (inner.get("usage") if isinstance(inner, dict) else None)
    model = payload.get("model")
    return given_of(said), model if isinstance(model, str) and model.isprintable() else ""


def _ending(data: bytes) -> Usage | None:
    """Usage at the end of a long JSON text, behind what makes it long."""
    found = _USAGE.search(data, max(0, len(data) - EDGE))
    return given_of(peek(found[1])) if found else None


class Seen:
    """A look at an answer on its way: `usage` and `model` once it is over. Of what is no JSON nothing is kept."""

    def __init__(self, content_type: str) -> None:
        kind = content_type.lower()
        self.usage: Usage | None = None
        self.model = ""
        self._decoder = Decoder() if "event-stream" in kind else None
        self._told = self._decoder is not None or "json" in kind
        self.reads = self._told or not kind.startswith(("audio/", "image/", "video/"))
        self._first = b""
        self._kept = bytearray()
        self._size = 0

    def feed(self, chunk: bytes) -> None:
        """One piece of it."""
        if not self._told:
            chunk = self._begun(chunk)
        if self._decoder is not None:
            for event in self._decoder.feed(chunk):
                self._event(event)
        elif self.reads:
            self._size += len(chunk)
            self._kept += chunk
            if self._size > MAX_READ:
                del self._kept[:-EDGE]

    def _begun(self, chunk: bytes) -> bytes:
        """What there is of an answer that has another name, once its beginning says that it is JSON or events."""
        begun = (self._first + chunk).lstrip() if self.reads else b""
        self._first = b""
        if begun.startswith(b"{"):
            self._told = True
        elif begun.startswith((b"data:", b"event:", b":")):
            self._told, self._decoder = True, Decoder()
        elif b"data:".startswith(begun) or b"event:".startswith(begun):
            self._first, begun = begun, b""
        else:
            self.reads, begun = False, b""
        return begun

    def over(self) -> None:
        """There is no more of it."""
        if self._decoder is not None:
            self._event(self._decoder.rest())
        elif self._size > MAX_READ:
            self.usage = _ending(bytes(self._kept))
        elif self._kept:
            self._take(bytes(self._kept))
        self._kept.clear()

    def _event(self, event: bytes) -> None:
        if b'"usage"' in event:
            self._take(data_of(event))

    def _take(self, data: bytes) -> None:
        found, model = _stated(data)
        self.usage, self.model = merge(self.usage, found), self.model or model
