"""Events of a response made clear before they are judged: what clients may read in two ways is written anew.

Clients forgive different things: a key said twice or in capital letters, a kind that stands in the event's name alone,
items that an answer has as it begins. What nobody can read may hold a call, and is left out. `_blocks_clear` is the
same for blocks, `_clear` for chat.
"""

from __future__ import annotations

import json

from guardproxy.api._json import dumps, peek
from guardproxy.api._reading import may_call
from guardproxy.api._responses_answer import ENDS, ITEMS
from guardproxy.api._responses_items import Fields, is_call
from guardproxy.api._sse import data_of, with_data

_KEYS = {
    "": frozenset(("type", "item", "response", "output", "output_index", "item_id")),
    "response": frozenset(("output",)),
    "item": frozenset("type id call_id name namespace arguments input action operation".split()),
}
"""By place: the keys that lead to a call."""


def clear(event: bytes) -> bytes:
    """An event as all clients read it; empty where it may hold a call and nobody can tell."""
    if not may_call(event):
        return event
    data = data_of(event)
    payload = peek(data) if data else None
    if not isinstance(payload, dict):
        return b"" if b"{" in event else event
    found = _read(payload, event)
    if found is None:
        return b""
    return with_data(event, dumps(found)) if found != payload or doubled(data) else event


def _read(payload: Fields, event: bytes) -> Fields | None:
    """What an event says; None where it brings a call in a way that nobody knows."""
    kept = _known(payload, "")
    kind = kept.get("type")
    if not isinstance(kind, str):
        kind = _named(event)
        if isinstance(kept.get("output"), list) and "response" not in kept:  # a whole answer, as an event
            return {"type": "response.completed", "response": answer(kept)}
        if kind:
            kept = {**kept, "type": kind}
    item, response = kept.get("item"), kept.get("response")
    if isinstance(item, dict):
        if is_call(item) and kind not in ITEMS:
            return None
        kept = {**kept, "item": _known(item, "item")}
    if isinstance(response, dict):
        response = answer(response)
        if kind not in ENDS and _calls(response):  # they are said again, each by itself, or never were
            response = {**response, "output": []}
        kept = {**kept, "response": response}
    return kept


def answer(response: Fields) -> Fields:
    """A whole answer without keys that only some readers take for those of a call."""
    kept = _known(response, "response")
    output = kept.get("output")
    if isinstance(output, list):
        kept["output"] = [_known(one, "item") if isinstance(one, dict) else one for one in output]
    return kept


def _calls(response: Fields) -> bool:
    output = response.get("output")
    return isinstance(output, list) and any(isinstance(one, dict) and is_call(one) for one in output)


def _known(fields: Fields, place: str) -> Fields:
    """Without keys that only some readers take for those of a call."""
    known = _KEYS[place]
    return {key: value for key, value in fields.items() if key in known or key.casefold() not in known}


def _named(event: bytes) -> str:
    """The name of an event, where it has one."""
    lines = [line[6:].strip() for line in event.splitlines() if line.startswith(b"event:")]
    return lines[-1].decode("utf-8", "replace") if lines else ""


def doubled(data: bytes) -> bool:
    """Whether an object of it has a key twice: clients differ in which of them they take."""
    found = []

    def pairs(listed: list[tuple[str, object]]) -> None:
        found.append(len({key for key, _ in listed}) < len(listed))

    try:
        json.loads(data, object_pairs_hook=pairs, strict=False)
    except (ValueError, RecursionError):
        return True  # one of those that forgive has read it
    return any(found)
