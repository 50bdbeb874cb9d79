"""A shortcut for streams of blocks: events that differ from a parsed one in one string only, as in `_template`."""

from __future__ import annotations

import re

import orjson

from guardproxy.api._blocks_answer import PIECES, Fields, Reader
from guardproxy.api._json import peek
from guardproxy.api._splice import mask
from guardproxy.api._sse import data_of
from guardproxy.api._template import LESSONS, WORTH

_PROBE = "guardproxy-probe"
_SITES = {key: re.compile(rb'"%b":\s*"' % key.encode()) for key in ("text", "thinking", "partial_json")}


class Skimmer:
    """Reads the events of one stream that nobody edits."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._prefix = self._suffix = b""
        self._first = self._last = 0
        self._index: object = None
        self._key = ""
        self._hits = 0
        self._lessons = LESSONS

    def read(self, event: bytes) -> None:
        """Take one event."""
        if self._prefix and event.startswith(self._prefix) and event.endswith(self._suffix):
            try:  # with both its quotes; where the ends overlap there are not two, and it is no string
                text = orjson.loads(event[self._first : self._last])
            except orjson.JSONDecodeError:
                text = None
            if isinstance(text, str):
                self._hits += 1
                self._reader.blocks.add_piece(self._index, self._key, text)
                return
        payload = self._reader.read(event)
        if self._lessons > 0 and payload.get("type") == "content_block_delta":
            self._learn(event, payload)

    def _learn(self, event: bytes, payload: Fields) -> None:
        """Take an event as the pattern of those that follow, if it holds nothing but its string."""
        delta, data = payload.get("delta"), data_of(event)
        if payload.keys() != {"type", "index", "delta"} or not isinstance(delta, dict) or data not in event:
            return
        key = PIECES.get(str(delta.get("type")), "")
        if key not in _SITES or delta.keys() != {"type", key} or not isinstance(delta[key], str):
            return
        self._lessons += (self._hits >= WORTH) - 1
        site = _SITES[key].search(data)
        if site is None:
            return
        start = site.end()
        prefix, suffix = data[:start], data[mask(data).index(b'"', start) :]
        if peek(prefix + _PROBE.encode() + suffix) != {**payload, "delta": {**delta, key: _PROBE}}:
            return
        before, _, after = event.partition(data)
        self._prefix, self._suffix = before + prefix, suffix + after
        self._first, self._last = len(self._prefix) - 1, 1 - len(self._suffix)
        self._index, self._key, self._hits = payload.get("index"), key, 0
