"""An assistant message that was kept back, as JSON: its calls, what of it is handed on, and the answer made of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from guardproxy.api import _splice
from guardproxy.api._gathered import CALLS, Fields
from guardproxy.api._json import dumps, peek
from guardproxy.api._messages import neutral
from guardproxy.core.model import Ask, Call, Message


def read_message(raw: bytes) -> Message:
    """The message in neutral form. What is no message is an empty one."""
    return neutral(_parsed(raw))


def calls_in_message(raw: bytes) -> tuple[bytes, ...]:
    """Its calls, in the form that `results` takes."""
    return tuple([dumps(call) for call in _calls(_parsed(raw))])


def read_calls(raws: Sequence[bytes]) -> tuple[Call, ...]:
    """Calls, in the form that `results` takes, in neutral form."""
    return neutral({"role": "assistant", "tool_calls": [_parsed(raw) for raw in raws]}).calls


def keep_calls(raw: bytes, positions: Collection[int]) -> bytes:
    """The message with the calls at these positions alone."""
    message = _parsed(raw)
    calls = _calls(message)
    kept = [call for position, call in enumerate(calls) if position in positions]
    if len(kept) == len(calls):
        return raw
    rest = {key: value for key, value in message.items() if key not in CALLS}
    return dumps({**rest, "tool_calls": kept} if kept else rest)


def placed(raw: bytes, position: int, call: bytes) -> bytes:
    """A call of the answer as it is kept to be put back: its place among the calls says where, here."""
    return call


def with_arguments(raw: bytes, position: int, arguments: str) -> bytes:
    """The message with other arguments for one of its calls; the same object where they are equal already."""
    message = _parsed(raw)
    calls = _calls(message)
    if not 0 <= position < len(calls):
        return raw
    call = calls[position]
    inner: Fields = next((part for key in ("function", "custom") if isinstance(part := call.get(key), dict)), call)
    field = "input" if "input" in inner and "arguments" not in inner else "arguments"
    if inner.get(field) == arguments:
        return raw
    inner[field] = arguments
    return dumps(message)


def raw_messages(ask: Ask) -> bytes:
    """The messages of a request as the bytes that came in."""
    text = _splice.mask(ask.body)
    start, end = _splice.members(text, _splice.root(ask.body))["messages"]
    return ask.body[start:end]


def _parsed(raw: bytes) -> Fields:
    found = peek(raw)
    return found if isinstance(found, dict) else {"role": "assistant", "content": ""}


def _calls(message: Fields) -> list[Fields]:
    entries = message.get("tool_calls")
    if isinstance(entries, list) and entries:
        return [entry for entry in entries if isinstance(entry, dict)]
    legacy = message.get("function_call")
    return [legacy] if isinstance(legacy, dict) else []
