"""Events of a stream of blocks made clear before they are judged: what clients may read in two ways is written anew.

Clients forgive different things: a key said twice or in capital letters, data in several lines, a kind that stands in
the event's name alone. What nobody can read may hold a call, and is left out. See `_clear` for chat.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import orjson

from guardproxy.api._blocks_made import block_events
from guardproxy.api._json import dumps, peek
from guardproxy.api._sse import Decoder

Fields = dict[str, object]

_FIELD = re.compile(rb"(event|data|id|retry)(?::|\Z)|:|\Z")
_ESCAPED = re.compile(rb"\\u00[2-7]")  # a letter that need not be written so
_KEYS = {
    "": frozenset(("type", "index", "content_block", "message")),
    "block": frozenset(("type", "id", "name", "input")),
    "answer": frozenset(("type", "content")),
}
_CALL = b"tool_use"


def may_call(data: bytes) -> bool:
    """Whether a call may begin in it: none can be written without these bytes."""
    return _CALL in data or _ESCAPED.search(data) is not None or _CALL in data.lower()


class Clear:
    """The events of one stream. `firm`: bytes may change. `unread`: events left out. `changed`: some bytes did."""

    def __init__(self, *, firm: bool) -> None:
        self._firm = firm
        self.unread = 0
        self.changed = False

    def events(self, event: bytes) -> list[bytes]:
        """What is handed on of an event before anybody judges it: itself, as a rule."""
        if not self._firm or _plain(event):
            return [event]
        found = self._read(event)
        self.changed = self.changed or found != [event]
        return found

    def _read(self, event: bytes) -> list[bytes]:
        lines = event.splitlines()
        data = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
        strange = any(not _FIELD.match(line) and b"{" in line for line in lines)
        if not data:
            return self._leave_out() if strange else [event]
        value = peek(b"\n".join(data))
        if isinstance(value, dict):
            name = next((line[6:].strip() for line in lines if line.startswith(b"event:")), b"")
            odd = strange or len(data) > 1 or not isinstance(value.get("type"), str)
            return list(_written(event, b"\n".join(data), value, name.decode("utf-8", "replace"), odd=odd))
        alone = [one for one in map(peek, data) if isinstance(one, dict)]
        if len(data) > 1 and len(alone) == len(data):
            return [made for one in alone for made in self._read(_event(one))]
        return self._leave_out() if strange or b"{" in event or may_call(event) else [event]

    def _leave_out(self) -> list[bytes]:
        self.unread += 1
        return []


def whole(raw: bytes, *, firm: bool) -> bytes | None:
    """A whole answer as it is read; None where nobody can tell what is in it."""
    value = peek(raw)
    if not firm:
        return raw
    if not isinstance(value, dict):
        return None if b"{" in raw else raw
    if not may_call(raw):
        return raw
    kept = _known(value)
    return raw if kept == value and _once(raw) else dumps(kept)


def _known(answer: Fields) -> Fields:
    """A whole answer without keys that only some readers take for those of a call."""
    kept = _without_strays(answer, "answer")
    content = kept.get("content")
    if isinstance(content, list):
        kept["content"] = [_without_strays(one, "block") if isinstance(one, dict) else one for one in content]
    return kept


def _plain(event: bytes) -> bool:
    """Whether it is of the form that all have, and no call can be in it that one client sees and another does not."""
    head, _, rest = event.partition(b"\n")
    if not (head.startswith(b"event: ") and rest.startswith(b"data: {") and rest.find(b"\n") == len(rest) - 2):
        return False
    data = rest[6:-2]
    try:
        payload = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    named = isinstance(payload.get("type"), str) and payload["type"] != "message_start"
    return named and not may_call(data) and rest.endswith(b"\n\n") and b"\r" not in event


def _written(event: bytes, data: bytes, value: Fields, name: str, *, odd: bool) -> Iterator[bytes]:
    """The event; or what it says, written so that all read the same."""
    kind = value.get("type") if isinstance(value.get("type"), str) else name
    kept = _without_strays(value, "")
    block, message = kept.get("content_block"), kept.get("message")
    if isinstance(block, dict):
        kept = {**kept, "content_block": _without_strays(block, "block")}
    if kind != "message_start" and isinstance(kept.get("content"), list):  # a whole answer, as an event
        yield from _spread(kept)
        return
    content = message.get("content") if isinstance(message, dict) and kind == "message_start" else None
    if content and isinstance(message, dict):  # blocks that begin with the answer itself
        yield _event({**kept, "type": kind, "message": {**message, "content": []}})
        yield from _blocks(content)
    elif odd or kept != value or not _once(data) or _refused(data):
        yield _event({**kept, "type": kind})
    else:
        yield event


def _spread(answer: Fields) -> Iterator[bytes]:
    """The events of a whole answer."""
    kept = _known(answer)
    yield _event({"type": "message_start", "message": {**kept, "type": "message", "content": []}})
    yield from _blocks(kept["content"])
    if reason := answer.get("stop_reason"):
        usage = {"usage": answer["usage"]} if "usage" in answer else {}
        yield _event({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, **usage})


def _blocks(content: object) -> list[bytes]:
    """The events of whole blocks."""
    blocks = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    return Decoder().feed(b"".join([block_events(number, one) for number, one in enumerate(blocks)]))


def _refused(data: bytes) -> bool:
    """Whether a reader that forgives nothing refuses it."""
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return True
    return False


def _without_strays(fields: Fields, place: str) -> Fields:
    """Without keys that only some readers take for those of a call."""
    known = _KEYS[place]
    return {key: value for key, value in fields.items() if key in known or key.casefold() not in known}


def _once(data: bytes) -> bool:
    """Whether no key is said twice in an object."""
    twice = False

    def paired(pairs: list[tuple[str, object]]) -> Fields:
        nonlocal twice
        found = dict(pairs)
        twice = twice or len(found) != len(pairs)
        return found

    try:
        json.loads(data, strict=False, object_pairs_hook=paired)
    except (ValueError, RecursionError):
        return False
    return not twice


def _event(value: Fields) -> bytes:
    name = value.get("type")
    head = (
        b"event: " + name.encode("utf-8", "replace") + b"\n" if isinstance(name, str) and name.isidentifier() else b""
    )
    return head + b"data: " + dumps(value) + b"\n\n"
