"""Every other /v1/ path: passed on as it is, counted, not read. Pure.

Only the usage of an answer is looked at, on a copy, so that what it cost is known, and the model that the request
names: a look at the beginning of it, whatever it is.
"""

from __future__ import annotations

import re

from guardproxy.api._error import error
from guardproxy.api._json import peek
from guardproxy.api._model import model_of, renamed
from guardproxy.api._sse import Decoder, data_of
from guardproxy.api._usage import merge, usage_of
from guardproxy.core.model import Usage

__all__ = ["PATHS", "PREFIX", "SURFACE", "Seen", "error", "model_of", "named", "renamed"]

SURFACE = "passthrough"
PREFIX = "/v1/"
PATHS: tuple[str, ...] = ()

MAX_READ = 1024 * 1024
"""A larger answer, or event of a stream, (files, audio, pictures) is looked at from its end for its usage."""

EDGE = 16 * 1024
"""Bytes of the end of a large one in which the usage is looked for."""

BEGINNING = 64 * 1024
"""Bytes of a request in which the model is looked for: forms may have it anywhere, JSON mostly has it in front."""

_JSON = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.){1,256}")')
_FORM = re.compile(rb'name=(?:"model"|model)(?=[;\s])[^\r\n]*\r?\n(?:[^\r\n]+\r?\n)*\r?\n([^\r\n]{1,256})\r?\n')
_USAGE = re.compile(rb'"usage"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})')


def named(beginning: bytes) -> str:
    """The model that a request names in its first bytes, JSON or a form; "" where none is seen. For its price alone."""
    if found := _JSON.search(beginning):
        value = peek(found[1])
        return value if isinstance(value, str) and value.isprintable() else ""
    if found := _FORM.search(beginning):
        return found[1].decode("utf-8", "replace").strip()
    return ""


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
    return usage_of(said), model if isinstance(model, str) and model.isprintable() else ""


def _ending(data: bytes) -> Usage | None:
    """Usage at the end of a long JSON text, behind what makes it long."""
    found = _USAGE.search(data, max(0, len(data) - EDGE))
    return usage_of(peek(found[1])) if found else None


class Seen:
    """A look at an answer on its way: `usage` and `model` once it is over. Of what is no JSON nothing is kept."""

    def __init__(self, content_type: str) -> None:
        kind = content_type.lower()
        self.usage: Usage | None = None
        self.model = ""
        self._decoder = Decoder() if "event-stream" in kind else None
        self.reads = self._decoder is not None or "json" in kind
        self._kept = bytearray()
        self._size = 0

    def feed(self, chunk: bytes) -> None:
        """One piece of it."""
        if self._decoder is not None:
            for event in self._decoder.feed(chunk):
                self._event(event)
        elif self.reads:
            self._size += len(chunk)
            self._kept += chunk
            if self._size > MAX_READ:
                del self._kept[:-EDGE]

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
