"""/v1/chat/completions: the surface in whose terms scenarios are written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from guardproxy.api._messages import neutral as _neutral
from guardproxy.core.model import Message

if TYPE_CHECKING:
    from tests.live import Said

Json = dict[str, Any]

NAME = "chat"
PATH = "/v1/chat/completions"
MESSAGES = "messages"
ASKS_USAGE = True
CASES: Mapping[str, str] = {}
PART = b"text"
FORBID = rb'"tool_choice": ?"none"'


def request(chat: Json) -> Json:
    """As it is."""
    return chat


def messages(body: Json) -> list[Json]:
    """As they are."""
    found: list[Json] = body["messages"]
    return found


def whole(said: Said) -> bytes:
    """The whole answer."""
    return said.body()


def events(said: Said, *, usage: bool) -> list[bytes]:
    """The streamed answer."""
    return said.chunks(usage=usage)


def neutral(message: Json) -> Message:
    """A message as the proxy sees it."""
    return _neutral(message)


def unsaid(_call: tuple[str, Any, Any]) -> str:
    """Everything can be said."""
    return ""


def answer(body: bytes, *, stream: bool) -> tuple[Json, str, Json | None]:
    """Message, finish reason and usage, put together where it streams."""
    if stream:
        return _joined(body)
    parsed = json.loads(body)
    choice = parsed["choices"][0]
    return choice["message"], choice["finish_reason"], parsed.get("usage")


def _joined(raw: bytes) -> tuple[Json, str, Json | None]:
    events = [line[6:] for line in raw.decode().split("\n") if line.startswith("data: ")]
    assert events[-1] == "[DONE]", raw
    assert not raw.decode().partition("data: [DONE]")[2].strip(), raw  # no word, not even a comment, behind the end
    assert events.count("[DONE]") == 1, raw
    chunks = [json.loads(event) for event in events[:-1]]
    assert len({chunk["id"] for chunk in chunks}) == 1, raw
    choices = [choice for chunk in chunks for choice in chunk["choices"] or ()]
    assert sum(choice["delta"].get("role") is not None for choice in choices) == 1, raw
    finish = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    assert len(finish) == 1, raw
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    found: dict[int, Json] = {}
    for choice in choices:
        for piece in choice["delta"].get("tool_calls") or ():
            new: Json = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            one = found.setdefault(piece["index"], new)
            one["id"] += piece.get("id") or ""
            one["function"]["name"] += piece["function"].get("name") or ""
            one["function"]["arguments"] += piece["function"].get("arguments") or ""
    assert sorted(found) == list(range(len(found))), raw
    assert (finish == ["tool_calls"]) == bool(found), raw
    usage = next((chunk["usage"] for chunk in chunks if chunk.get("usage")), None)
    message: Json = {"role": "assistant", "content": text or None}
    made = {**message, "tool_calls": [found[at] for at in sorted(found)]} if found else message
    return made, finish[0], usage
