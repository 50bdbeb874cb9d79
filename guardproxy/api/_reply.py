"""Answers of our own in the chat format: one completion object, or the chunks of a stream.

The model is echoed, ids and times are given by the caller (this room has no clock), usage is zero: no model ran.
"""

from __future__ import annotations

from guardproxy.api._json import dumps
from guardproxy.core.model import Ask

JSON = "application/json"
SSE = "text/event-stream"
DONE = b"data: [DONE]\n\n"
NO_USAGE = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
MOST_CHOICES = 128
"""The API's own bound on `n`."""

Finish = tuple[str, str, str]  # tool, argument, call id


def reply(ask: Ask, text: str, *, reply_id: str, created: int, finish: Finish | None = None) -> tuple[str, bytes]:
    """(content type, body) of a well-formed answer; `finish` makes it a call of that tool with `text` as argument."""
    base = {"id": reply_id, "created": created, "model": ask.model}
    if ask.stream:
        return SSE, _stream(ask, base, text, finish)
    message: dict[str, object] = {"role": "assistant", "content": None if finish else text, "refusal": None}
    if finish:
        message["tool_calls"] = [_tool_call(finish, text)]
    reason = "tool_calls" if finish else "stop"
    choices = [
        {"index": index, "message": message, "logprobs": None, "finish_reason": reason} for index in _indices(ask)
    ]
    return JSON, dumps({**base, "object": "chat.completion", "choices": choices, "usage": NO_USAGE})


def event(payload: object) -> bytes:
    """One server-sent event holding JSON."""
    return b"data: " + dumps(payload) + b"\n\n"


def _indices(ask: Ask) -> range:
    return range(min(max(ask.choices, 1), MOST_CHOICES))


def _stream(ask: Ask, base: dict[str, object], text: str, finish: Finish | None) -> bytes:
    said: dict[str, object] = {"content": text}
    if finish:
        said = {"tool_calls": [{"index": 0, **_tool_call(finish, text)}]}
    opening: dict[str, object] = {"role": "assistant", "content": None if finish else ""}
    reason = "tool_calls" if finish else "stop"
    steps: tuple[tuple[dict[str, object], str | None], ...] = ((opening, None), (said, None), ({}, reason))
    base = {**base, "object": "chat.completion.chunk"}
    events = [
        event({**base, "choices": [{"index": index, "delta": delta, "logprobs": None, "finish_reason": end}]})
        for index in _indices(ask)
        for delta, end in steps
    ]
    if ask.wants_usage:
        events.append(event({**base, "choices": [], "usage": NO_USAGE}))
    return b"".join((*events, DONE))


def _tool_call(finish: Finish, text: str) -> dict[str, object]:
    tool, argument, call_id = finish
    arguments = dumps({argument: text}).decode()
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}
