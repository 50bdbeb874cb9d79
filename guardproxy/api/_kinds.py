"""What an event of a stream is, and what a chunk says beside its choices. Never raises."""

from __future__ import annotations

from collections.abc import Iterable

from guardproxy.api._gate import META
from guardproxy.api._gated import Kind
from guardproxy.api._gathered import CALLS, Fields, choices, has_calls, said
from guardproxy.api._json import peek
from guardproxy.api._sse import data_of, payload_of
from guardproxy.api._usage import usage_of

_SILENT = frozenset(("role", *CALLS))
_VISIBLE = frozenset(("content", "refusal"))


def kind(event: bytes) -> Kind:
    """What an event is for a gate."""
    data = data_of(event)
    if not data:
        return Kind.FREE
    entries = choices(peek(data))
    if any(has_calls(said(entry)) for entry in entries):
        return Kind.CALL
    if not entries or any(entry.get("finish_reason") for entry in entries):
        return Kind.END
    keys = [{key for key, value in said(entry).items() if value} - _SILENT for entry in entries]
    if any(found & _VISIBLE for found in keys):
        return Kind.TEXT
    return Kind.FREE if any(keys) else Kind.END


def speaks(event: bytes) -> bool:
    """Whether it has visible text, whatever else it has."""
    return any(value and key in _VISIBLE for entry in choices(payload_of(event)) for key, value in said(entry).items())


def ends(event: bytes) -> bool:
    """Whether calls must stand before it: it is an end, or holds one."""
    return kind(event) is Kind.END or any(entry.get("finish_reason") for entry in choices(payload_of(event)))


def base_in(events: Iterable[bytes]) -> Fields:
    """What all chunks of the answer have in common. A first one may be without it (Azure's, of its filters)."""
    base: Fields = {}
    for event in events:
        payload = payload_of(event)
        if payload.get("id"):
            return {key: payload[key] for key in META if payload.get(key) is not None}
        if not payload.get("error"):
            base = {key: payload[key] for key in META if payload.get(key)} | base
    return base


def blocks_in(events: Iterable[bytes]) -> int:
    """The number after the last of the numbered blocks of reasoning (OpenRouter's)."""
    entries = [entry for event in events if b"reasoning_details" in event for entry in choices(payload_of(event))]
    numbers = [number for entry in entries for _, number in blocks(said(entry))]
    return max(numbers, default=-1) + 1


def blocks(delta: Fields) -> list[tuple[Fields, int]]:
    """Its numbered blocks of reasoning and their numbers: clients put those of one number together."""
    found = delta.get("reasoning_details")
    listed = found if isinstance(found, list) else []
    numbered = [(block, block.get("index")) for block in listed if isinstance(block, dict)]
    return [(block, number) for block, number in numbered if type(number) is int]


def role_in(events: Iterable[bytes]) -> bool:
    """Whether the role was said."""
    spoken = [event for event in events if b'"role"' in event]
    return any(said(entry).get("role") for event in spoken for entry in choices(payload_of(event)))


def usage_in(payload: object) -> Fields:
    """The usage of a chunk or completion, wherever providers put it; empty without."""
    if not isinstance(payload, dict):
        return {}
    groq = payload.get("x_groq")
    places = [payload.get("usage"), groq.get("usage") if isinstance(groq, dict) else None]
    places += [entry.get("usage") for entry in choices(payload)]
    return next((found for found in places if isinstance(found, dict) and usage_of(found) is not None), {})


def newest_usage(events: Iterable[bytes]) -> Fields:
    """The last usage of a stream: where there are several they are running totals."""
    found: Fields = {}
    for event in events:
        if b'"usage"' in event:
            found = usage_in(payload_of(event)) or found
    return found
