"""Events of the Responses API that the proxy writes: those of an item, and those around an answer.

Every event has its type twice, as the API has it, and a `sequence_number`; responses of ours echo what was asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from guardproxy.api._json import dumps
from guardproxy.api._responses_items import Fields, kind_of
from guardproxy.core.model import Ask

NO_USAGE: Mapping[str, object] = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}
"""No model ran."""

_ECHOED: Fields = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""Fields of a response that repeat the request's, and what stands there where it has none."""


def event(payload: Mapping[str, object]) -> bytes:
    """One server-sent event."""
    return b"event: %b\ndata: %b\n\n" % (str(payload.get("type", "")).encode("utf-8", "replace"), dumps(payload))


def response_of(ask: Ask, reply_id: str, created: int) -> Fields:
    """A response of ours that has only begun."""
    echoed = {key: ask.parsed.get(key, value) for key, value in _ECHOED.items()}
    conversation = ask.parsed.get("conversation")
    if isinstance(conversation, str):
        conversation = {"id": conversation}
    return {
        "id": reply_id,
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": ask.model,
        "output": [],
        "usage": None,
        **echoed,
        **({"conversation": conversation} if conversation else {}),
    }


def message_of(text: str, item_id: str) -> Fields:
    """A message of the assistant's."""
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    return {"id": item_id, "type": "message", "status": "completed", "role": "assistant", "content": content}


def begin(response: Mapping[str, object]) -> list[Fields]:
    """How an answer begins."""
    begun: Fields = {**response, "status": "in_progress", "output": [], "usage": None}
    return [{"type": f"response.{kind}", "response": begun} for kind in ("created", "in_progress")]


def item_events(item: Fields, index: int) -> Iterator[Fields]:
    """All events of an item that is there."""
    empty: Fields = {**item, "status": "in_progress"}
    kind = kind_of(item)
    if kind == "message":
        empty["content"] = []
    elif kind in ("function_call", "custom_tool_call"):
        empty["input" if kind == "custom_tool_call" else "arguments"] = ""
    yield {"type": "response.output_item.added", "output_index": index, "item": empty}
    yield from _inside(item, index)
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _inside(item: Fields, index: int) -> Iterator[Fields]:
    at: Fields = {"item_id": item.get("id", ""), "output_index": index}
    kind = kind_of(item)
    if kind == "message":
        content = item.get("content")
        for number, part in enumerate(content if isinstance(content, list) else ()):
            if isinstance(part, dict):
                yield {"type": "response.content_part.added", **at, "content_index": number, "part": _emptied(part)}
                yield from part_events(part, {**at, "content_index": number}, said=0)
    elif kind == "function_call":
        arguments, name = item.get("arguments", ""), item.get("name", "")
        yield {"type": "response.function_call_arguments.delta", **at, "delta": arguments}
        yield {"type": "response.function_call_arguments.done", **at, "arguments": arguments, "name": name}
    elif kind == "custom_tool_call":
        text = item.get("input", "")
        yield {"type": "response.custom_tool_call_input.delta", **at, "delta": text}
        yield {"type": "response.custom_tool_call_input.done", **at, "input": text}


def part_events(part: Fields, at: Fields, *, said: int) -> Iterator[Fields]:
    """What comes of a part of a message after its first `said` characters."""
    for field, name in (("text", "output_text"), ("refusal", "refusal")):
        text = part.get(field)
        if not isinstance(text, str):
            continue
        more: Fields = {"logprobs": []} if field == "text" else {}
        if text[said:]:
            yield {"type": f"response.{name}.delta", **at, "delta": text[said:], **more}
        yield {"type": f"response.{name}.done", **at, field: text, **more}
        break
    yield {"type": "response.content_part.done", **at, "part": part}


def _emptied(part: Fields) -> Fields:
    return {**part, **{key: "" for key in ("text", "refusal") if key in part}}


def end(response: Mapping[str, object], output: Sequence[Fields], usage: Mapping[str, object]) -> Fields:
    """How an answer ends."""
    done: Fields = {**response, "status": "completed", "output": [*output], "usage": usage or NO_USAGE}
    return {"type": "response.completed", "response": done}


def numbered(payloads: Sequence[Fields], first: int) -> bytes:
    """The events, numbered from `first` on."""
    return b"".join(
        event({"type": one["type"], "sequence_number": first + at, **one}) for at, one in enumerate(payloads)
    )
