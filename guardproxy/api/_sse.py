"""Server-sent events without IO: bytes in, whole events out, each with every byte it came with.

Lines may end in LF, CR LF or CR, and a chunk may end anywhere, also inside a character or between CR and LF. Only new
bytes are searched, so an event of any size costs its length once.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from guardproxy.api._json import peek

MAX_EVENT = 32 * 1024 * 1024
"""An event longer than this is handed out in pieces (gateways with frame limits of 64 KB to 1 MB broke streams)."""

_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_Find = Callable[[int], int]
_LOOK_BACK = 3  # the longest blank line is \r\n\r\n: all but its last byte may be in the chunk before


class Decoder:
    """Feed it chunks; it gives the events that are complete, in their own bytes. Joined, they are the input."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._carriage_returns = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that `chunk` completes."""
        if b"\r" in chunk:
            self._carriage_returns = True
        if self._carriage_returns:
            return self._split(chunk, self._find_any)
        if not self._pending and chunk.endswith(b"\n\n") and b"\n\n\n" not in chunk:
            return [part + b"\n\n" for part in chunk[:-2].split(b"\n\n")]
        return self._split(chunk, self._find_plain)

    def rest(self) -> bytes:
        """What is left at the end of the stream: an event without its blank line, or nothing."""
        rest = bytes(self._pending)
        self._pending.clear()
        return rest

    def _split(self, chunk: bytes, find: _Find) -> list[bytes]:
        pending = self._pending
        look_from = max(0, len(pending) - _LOOK_BACK)
        pending += chunk
        events: list[bytes] = []
        start = 0
        while (end := find(look_from)) >= 0:
            events.append(bytes(pending[start:end]))
            start = look_from = end
        if start:
            del pending[:start]
        if len(pending) > MAX_EVENT:
            events.append(self.rest())
        return events

    def _find_plain(self, start: int) -> int:
        at = self._pending.find(b"\n\n", start)
        return at + 2 if at >= 0 else -1

    def _find_any(self, start: int) -> int:
        match = _BLANK_LINE.search(self._pending, start)
        if match is None:
            return -1
        half = match.end() == len(self._pending) and match.group() in (b"\r\n\r", b"\n\r")
        return -1 if half else match.end()  # the LF of that CR is still to come


def events_in(raw: bytes) -> list[bytes]:
    """The events of bytes that hold whole ones."""
    decoder = Decoder()
    return [event for event in (*decoder.feed(raw), decoder.rest()) if event] if raw else []


def data_of(event: bytes) -> bytes:
    """The joined data lines of an event, without surrounding white space; empty for comments and the like."""
    body = event.strip()
    if b"\n" not in body and b"\r" not in body:
        return body[5:].strip() if body.startswith(b"data:") else b""
    return b"\n".join(line[5:].removeprefix(b" ") for line in body.splitlines() if line.startswith(b"data:")).strip()


def payload_of(event: bytes) -> dict[str, object]:
    """The JSON object of an event; empty where there is none."""
    found = peek(data_of(event) or b"0")
    return found if isinstance(found, dict) else {}


def with_data(event: bytes, data: bytes) -> bytes:
    """The event with one data line holding `data` in the place of all its own; other lines stay.

    What `data_of` takes for a data line is one here: a blank in front of it must not let the old one stand.
    """
    lines: list[bytes] = []
    put = False
    for line in event.splitlines(keepends=True):
        if not line.lstrip().startswith(b"data:"):
            lines.append(line)
        elif not put:
            put = True
            lines.append(b"data: " + data + line[len(line.rstrip(b"\r\n")) :])
    return b"".join(lines)


_END = re.compile(
    rb"(?:\A|(?<=[\r\n]))(?:data: ?\[DONE\]"
    rb'|(?:event: ?|data: ?\{"type": ?")(?:message_stop|response\.(?:completed|incomplete|failed))\b)'
)
"""The event with which a stream ends, on every surface: clients read no further. No line of it begins in a text."""


def end_at(events: bytes) -> int:
    """Where in these whole events the last one of a stream begins; behind them if it is not there."""
    found = _END.search(events)
    return found.start() if found else len(events)


def comment(action: str, rule: str) -> bytes:
    """The comment that says in a stream what was decided after its headers had left."""
    words = f": guardproxy action={action} rule={rule}"
    return " ".join(words.split()).encode() + b"\n\n"
