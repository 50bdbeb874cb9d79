"""An assistant message that was kept back, as JSON: its calls, and what of it is handed on."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from guardproxy.api._blocks import assistant
from guardproxy.api._blocks_answer import calls_of, given, raw
from guardproxy.api._json import dumps, peek
from guardproxy.api._messages import neutral
from guardproxy.core.model import Call, Message

Fields = dict[str, object]


def read_message(message: bytes) -> Message:
    """The message in neutral form. What is no message is an empty one."""
    return neutral(assistant(_parsed(message).get("content")))


def calls_in_message(message: bytes) -> tuple[bytes, ...]:
    """Its calls, in the form that `results` takes."""
    return raw(calls_of(_blocks(_parsed(message))))


def read_calls(raws: Sequence[bytes]) -> tuple[Call, ...]:
    """Calls, in the form that `results` takes, in neutral form."""
    return neutral(assistant([_parsed(raw) for raw in raws])).calls


def keep_calls(message: bytes, positions: Collection[int]) -> bytes:
    """The message with the calls at these positions alone."""
    parsed = _parsed(message)
    blocks = _blocks(parsed)
    gone = [call for position, call in enumerate(calls_of(blocks)) if position not in positions]
    if not gone:
        return message
    return dumps({**parsed, "content": [block for block in blocks if not any(block is one for one in gone)]})


def with_arguments(message: bytes, position: int, arguments: str) -> bytes:
    """The message with other arguments for one of its calls; the same object where they are equal already."""
    parsed = _parsed(message)
    calls = calls_of(_blocks(parsed))
    wanted = given(arguments)
    if not 0 <= position < len(calls) or calls[position].get("input") == wanted:
        return message
    calls[position]["input"] = wanted
    return dumps(parsed)


def sound(message: bytes) -> bytes:
    """A message or a call whose arguments are JSON objects: here they never were anything else."""
    return message


def _parsed(message: bytes) -> Fields:
    found = peek(message)
    return found if isinstance(found, dict) else {"role": "assistant", "content": ""}


def _blocks(message: Fields) -> list[Fields]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
