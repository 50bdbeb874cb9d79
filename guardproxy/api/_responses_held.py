"""An answer that was kept back, as a list of items: its calls, what of it is handed on, and what a person changed."""

from __future__ import annotations

from collections.abc import Sequence, Set as AbstractSet
from itertools import takewhile

from guardproxy.api import _splice
from guardproxy.api._json import dumps, peek
from guardproxy.api._messages import neutral
from guardproxy.api._responses_back import refer
from guardproxy.api._responses_items import THOUGHT, Fields, call_of, is_call, kind_of, said
from guardproxy.api._responses_made import items_of
from guardproxy.core.model import Ask, Call, Message

_FIELDS = {
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "computer_call": "action",
}


def read_message(raw: bytes) -> Message:
    """The answer in neutral form. What is none is an empty one."""
    return neutral(said(items_of(raw)))


def calls_in_message(raw: bytes) -> tuple[bytes, ...]:
    """Its calls, in the form that `results` takes."""
    return tuple([dumps(item) for item in items_of(raw) if is_call(item)])


def read_calls(raws: Sequence[bytes]) -> tuple[Call, ...]:
    """Calls, in the form that `results` takes, in neutral form."""
    return neutral(said([item for raw in raws for item in items_of(raw)])).calls


def keep_calls(raw: bytes, positions: AbstractSet[int]) -> bytes:
    """The answer with the calls at these positions alone, and without thoughts of which only other calls came."""
    items, kept, at = items_of(raw), list[Fields](), -1
    for number, item in enumerate(items):
        at += is_call(item)
        if is_call(item):
            bare = at not in positions
        else:
            bare = kind_of(item) == THOUGHT and _led_nowhere(items[number + 1 :], at + 1, positions)
        if not bare:
            kept.append(item)
    return raw if len(kept) == len(items) else dumps(kept)


def _led_nowhere(behind: Sequence[Fields], at: int, positions: AbstractSet[int]) -> bool:
    """Whether all that came of a thought is calls that are left out; `at`: the position of the first of them."""
    came = list(takewhile(lambda item: kind_of(item) != THOUGHT, behind))
    return bool(came) and all(map(is_call, came)) and positions.isdisjoint(range(at, at + len(came)))


def placed(raw: bytes, position: int, call: bytes) -> bytes:
    """A call of the answer as it is kept to be put back: behind a reference to the item that it stood behind.

    Thoughts and calls take turns in an answer, and thoughts must not lose what came of them.
    """
    items = items_of(raw)
    places = [number for number, item in enumerate(items) if is_call(item)]
    if position >= len(places):
        return call
    at = places[position]
    before = str(items[at - 1].get("id") or "") if at else ""
    return refer(before, call) if before or not at else call


def with_arguments(raw: bytes, position: int, arguments: str) -> bytes:
    """The answer with other arguments for one of its calls; the same object where they are equal already."""
    items = items_of(raw)
    calls = [item for item in items if is_call(item)]
    if not 0 <= position < len(calls):
        return raw
    call = calls[position]
    made = call_of(call)["function"]
    if isinstance(made, dict) and made.get("arguments") == arguments:
        return raw
    kind, value = kind_of(call), peek(arguments)
    if kind == "custom_tool_call":
        told = value.get("input") if isinstance(value, dict) and value.keys() == {"input"} else None
        call["input"] = told if isinstance(told, str) else arguments
    elif kind in _FIELDS:
        call[_FIELDS[kind]] = value
    else:
        call["arguments"] = arguments
    return dumps(items)


def raw_messages(ask: Ask) -> bytes:
    """The items of a request as the bytes that came in."""
    text = _splice.mask(ask.body)
    span = _splice.members(text, _splice.root(ask.body)).get("input")
    return _splice.part(ask.body, span) if span is not None else b"[]"
