"""What readers of all kinds may find in a provider's JSON, where calls in it are to be judged: one reading, or none.

Clients differ in what they forgive: a BOM, bytes that are no UTF-8, numbers without end, a key said twice or in capital
letters. What is read here is read by all of them alike, or is marked as what they may differ in. Never raises.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

LONGEST = 18
"""Digits of a number that is read as an integer; longer ones matter to nobody here."""

CALLS = frozenset(("tool_calls", "function_call"))
_TOP = frozenset("id object created model choices usage system_fingerprint service_tier provider obfuscation".split())
_CHOICE = frozenset("index delta finish_reason native_finish_reason logprobs".split())
_SAID = frozenset("role content tool_calls refusal reasoning_content reasoning".split())
_ENTRY = frozenset("index id type function".split())
_INNER = frozenset(("name", "arguments", "input"))
_KEYS: Mapping[str, frozenset[str]] = {
    "top": frozenset(("choices",)),
    "choice": frozenset(("delta", "message")),
    "said": CALLS,
    "call": frozenset(("function", "custom", *_INNER)),
    "inner": _INNER,
    "": frozenset(),
}
"""By place: the keys that lead to a call."""
_BELOW = {"choices": "choice", "delta": "said", "message": "said", "tool_calls": "call", "function_call": "inner"}
_BELOW |= {"function": "inner", "custom": "inner"}
_OPAQUE = frozenset(("arguments", "input"))


class Reading(NamedTuple):
    """`value`: None where nobody can tell. `sole`: whoever can read it reads this, as far as calls are concerned."""

    value: Any
    sole: bool = True


NOTHING = Reading(None)


def may_call(data: bytes) -> bool:
    """Whether there may be a call in it: no key of one can be written without these bytes."""
    return b"_call" in data or b"\\u00" in data or b"_call" in data.lower()


def ordinary(payload: Mapping[str, object], data: bytes) -> bool:
    """Whether a chunk has calls where they belong, and nothing else that has to be looked at: most do, this is quick.

    `data`: its JSON. Its one mark of a call is that of the list that it has; of other keys only those are there that
    every provider sends.
    """
    entries = payload.get("choices")
    if not isinstance(entries, list) or len(entries) != 1 or not payload.keys() <= _TOP:
        return False
    delta = entries[0].get("delta") if isinstance(entries[0], dict) and entries[0].keys() <= _CHOICE else None
    calls = delta.get("tool_calls") if isinstance(delta, dict) and delta.keys() <= _SAID else None
    if not isinstance(calls, list) or b"\\u00" in data or data.lower().count(b"_call") != 1:
        return False
    inner = [call.get("function") for call in calls if isinstance(call, dict) and call.keys() <= _ENTRY]
    told = len(inner) == len(calls) and all(isinstance(one, dict) and one.keys() <= _INNER for one in inner)
    return told and _dumped(payload) == data


def read(data: bytes) -> Reading:
    """The reading of a chunk's or completion's JSON."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return _lenient(data)
    if not may_call(data) or _dumped(value) == data:  # written anew it is the same: no key is said twice
        return _without_strays(Reading(value)) if may_call(data) else Reading(value)
    return _lenient(data)


def _lenient(data: bytes) -> Reading:
    text = data.decode("utf-8-sig", "replace")
    twice = False

    def paired(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal twice
        found = dict(pairs)
        twice = twice or len(found) != len(pairs)
        return found

    try:
        value = json.loads(text, strict=False, parse_int=_number, object_pairs_hook=paired)
    except (ValueError, RecursionError):
        return NOTHING
    if not may_call(data):
        return Reading(value)
    broken = "�" in text and not _is_utf8(data)
    return _without_strays(Reading(value, not (twice or broken)))


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) <= LONGEST else float(digits)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _dumped(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        return b""


def _without_strays(reading: Reading) -> Reading:
    """Without calls where no call belongs, and without keys that only some readers take for those of a call."""
    try:
        value = _kept(reading.value, "top")
    except RecursionError:
        return NOTHING
    return reading if value is reading.value else Reading(value, sole=False)


def _kept(value: object, place: str) -> object:
    """The value itself where there is nothing to take out."""
    if isinstance(value, list):
        items = [_kept(item, place) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    if place in ("choice", "call", "top") and not value.keys() & _KEYS[place]:
        inside = place if place != "top" else ""  # numbered by its keys, in the place of a list
    else:
        inside = ""
    found = {
        key: item if place in ("call", "inner") and key in _OPAQUE else _kept(item, _below(key, place) or inside)
        for key, item in value.items()
        if not _is_stray(key, item, place)
    }
    same = len(found) == len(value) and all(found[key] is item for key, item in value.items())
    return value if same else found


def _below(key: str, place: str) -> str:
    return _BELOW.get(key, "") if key in _KEYS[place] else ""


def _is_stray(key: str, item: object, place: str) -> bool:
    """Whether it is a call at no place of one, or in a form or a spelling of its key that only few would read."""
    folded = key.casefold()
    if folded in _KEYS[place]:
        return folded != key or (key in CALLS and isinstance(item, str) and bool(item))
    return folded in CALLS and bool(item)
