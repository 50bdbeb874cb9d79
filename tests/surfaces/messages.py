"""/v1/messages (Anthropic), after its public reference."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from guardproxy.api.messages import ask_of
from guardproxy.core.model import Message

if TYPE_CHECKING:
    from tests.live import Said

Json = dict[str, Any]

NAME = "messages"
PATH = "/v1/messages"
MESSAGES = "messages"
ASKS_USAGE = False
CASES: Mapping[str, str] = {}
PART = b"text"
FORBID = rb'"tool_choice": ?\{"type": ?"none"\}'

CHOICES = {"required": {"type": "any"}, "auto": {"type": "auto"}, "none": {"type": "none"}}
FINISHES = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "function_call": "tool_use"}
REASONS = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
OWN = ("model", "messages", "tools", "tool_choice", "stream_options", "n", "max_tokens")
SYSTEM = ("system", "developer")
_ids = count(1)  # Claude Code takes answers of one id for parts of one message


def request(chat: Json) -> Json:
    """The same conversation: system prompt beside the messages, results as blocks of the user's messages."""
    listed = list(chat["messages"])
    lead = 0
    while lead < len(listed) and listed[lead]["role"] in SYSTEM:
        lead += 1
    body: Json = {"model": chat["model"], "max_tokens": chat.get("max_tokens", 4096)}
    said = [message["content"] for message in listed[:lead]]
    if said:
        body["system"] = said[0] if len(said) == 1 else [{"type": "text", "text": text} for text in said]
    body["messages"] = _messages(listed[lead:])
    if "tools" in chat:
        body["tools"] = [_tool(tool["function"]) for tool in chat["tools"]]
    if "tool_choice" in chat:
        choice = chat["tool_choice"]
        named = {"type": "tool", "name": choice["function"]["name"]} if isinstance(choice, dict) else CHOICES[choice]
        body["tool_choice"] = named
    return {**body, **{key: value for key, value in chat.items() if key not in OWN}}


def _tool(function: Json) -> Json:
    return {"name": function["name"], "input_schema": function.get("parameters", {})}


def _messages(listed: Sequence[Json]) -> list[Json]:
    made: list[Json] = []
    results: list[Json] | None = None  # the blocks of the newest message, if results stand in it
    for message in listed:
        role, content = message["role"], message["content"]
        if role == "tool":
            if results is None:
                results = []
                made.append({"role": "user", "content": results})
            results.append(
                {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": _content(content)}
            )
        elif role == "user" and results is not None:
            found = _content(content)
            results += [{"type": "text", "text": found}] if isinstance(found, str) else found
            results = None
        elif role == "assistant":
            results = None
            made.append({"role": role, "content": message.get("blocks") or _said(message)})
        else:
            results = None
            made.append({"role": "system" if role in SYSTEM else "user", "content": _content(content)})
    return made


def _said(message: Json) -> str | list[Json]:
    calls, text = message.get("tool_calls") or (), message["content"]
    if text and not calls:
        return str(text)
    return [*([{"type": "text", "text": text}] if text else []), *map(_use, calls)]


def _use(call: Json) -> Json:
    function = call["function"]
    return {"type": "tool_use", "id": call["id"], "name": function["name"], "input": json.loads(function["arguments"])}


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [_block(part) for part in content]


def _block(part: Json) -> Json:
    if part["type"] == "text":
        return part
    kind, _, data = part["image_url"]["url"].removeprefix("data:").partition(";base64,")
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def messages(body: Json) -> list[Json]:
    """The messages of a request, each result as one of its own."""
    found: list[Json] = [{"role": "system", "content": body["system"]}] if "system" in body else []
    for message in body["messages"]:
        role, content = message["role"], message["content"]
        if role == "assistant":
            found.append(_chat(content))
            continue
        blocks = content if isinstance(content, list) else ()
        results = [block for block in blocks if block["type"] == "tool_result"]
        rest = [block for block in blocks if block["type"] != "tool_result"]
        for block in results:
            more = {"is_error": block["is_error"]} if "is_error" in block else {}
            one = {"role": "tool", "tool_call_id": block["tool_use_id"], "content": block.get("content", "")}
            found.append({**one, **more})
        if rest or not results:
            found.append({"role": role, "content": rest if isinstance(content, list) else content})
    return found


def _chat(content: str | list[Json]) -> Json:
    if isinstance(content, str):
        return {"role": "assistant", "content": content}
    message: Json = {"role": "assistant", "content": _words(content) or None}
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
        }
        for block in content
        if block["type"] == "tool_use"
    ]
    return {**message, "tool_calls": calls} if calls else message


def _words(content: Sequence[Json]) -> str:
    """Blocks of text side by side are one text."""
    parts: list[str] = []
    for before, block in zip([{"type": ""}, *content], content, strict=False):
        if block["type"] == "text":
            gap = "\n\n" if parts and before["type"] != "text" else ""
            parts.append(gap + block["text"])
    return "".join(parts)


def sound(body: Json) -> bool:
    """Whether user and assistant take turns, and each call has its result in front of the next message."""
    turns = [message for message in body["messages"] if message["role"] != "system"]
    waiting: list[str] = []
    before = ""
    for message in turns:
        blocks = message["content"] if isinstance(message["content"], list) else []
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        leading = [block["type"] == "tool_result" for block in blocks[: len(results)]]
        if message["role"] == before or sorted(results) != sorted(waiting) or not all(leading):
            return False
        before = message["role"]
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return not waiting


def whole(said: Said) -> bytes:
    """The whole answer."""
    if isinstance(said.raw, bytes):
        return said.raw
    made: Json = {
        "id": f"msg_{next(_ids)}",
        "type": "message",
        "role": "assistant",
        "model": "mock-1",
        "content": _blocks(said),
        "stop_reason": _finish(said),
        "stop_sequence": None,
    }
    if said.usage is not None:
        made["usage"] = _usage(said.usage)
    return json.dumps(made).encode()


def _blocks(said: Said) -> list[Json]:
    found = _said(said.message())
    return [{"type": "text", "text": found}] if isinstance(found, str) else found


def _finish(said: Said) -> str:
    finish = said.finish or ("tool_calls" if said.calls else "stop")
    return FINISHES.get(finish, finish)


def _usage(usage: Mapping[str, Any]) -> Json:
    details = usage.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens", 0)
    made = {"input_tokens": usage["prompt_tokens"] - cached, "output_tokens": usage["completion_tokens"]}
    return {**made, "cache_creation_input_tokens": 0, "cache_read_input_tokens": cached} if cached else made


def events(said: Said, *, usage: bool) -> list[bytes]:
    """The streamed answer, an event a chunk."""
    if said.raw is not None:
        return [said.raw] if isinstance(said.raw, bytes) else list(said.raw)
    counted = _usage(said.usage) if said.usage is not None else {}
    base = {"id": f"msg_{next(_ids)}", "type": "message", "role": "assistant", "model": "mock-1", "content": []}
    begun = {**base, "stop_reason": None, "stop_sequence": None, "usage": {**counted, "output_tokens": 1}}
    if not counted:
        del begun["usage"]
    made = [_event("message_start", message=begun)]
    for index, block in enumerate(_blocks(said)):
        made += _block_events(index, block)
        if not index:
            made.append(_event("ping"))
    ended: Json = {"delta": {"stop_reason": _finish(said), "stop_sequence": None}}
    if counted:
        ended["usage"] = {"output_tokens": counted["output_tokens"]}
    return [*made, _event("message_delta", **ended), _event("message_stop")]


def _block_events(index: int, block: Json) -> list[bytes]:
    if block["type"] == "text":
        empty, text = {"type": "text", "text": ""}, block["text"]
        half = len(text) // 2
        pieces = [{"type": "text_delta", "text": part} for part in (text[:half], text[half:])]
    else:
        empty, text = {**block, "input": {}}, json.dumps(block["input"])
        pieces = [{"type": "input_json_delta", "partial_json": part} for part in ("", text[:3], text[3:])]
    made = [_event("content_block_delta", index=index, delta=piece) for piece in pieces]
    begun = _event("content_block_start", index=index, content_block=empty)
    return [begun, *made, _event("content_block_stop", index=index)]


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def neutral(message: Json) -> Message:
    """A message as the proxy sees it."""
    return ask_of(_messages([message])).tail[-1]


def unsaid(call: tuple[str, Any, Any]) -> str:
    """Why a call cannot be made here: arguments are an object, each call has an id of its own."""
    _, arguments, call_id = call
    try:
        found = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return "arguments are an object, never a text that is none"
    if not isinstance(found, dict):
        return "arguments are an object"
    return "a call has an id" if call_id == "" else ""


def answer(body: bytes, *, stream: bool) -> tuple[Json, str, Json | None]:
    """Message, finish reason and usage, put together where it streams. `blocks` are what a client would send again."""
    found = _joined(body) if stream else json.loads(body)
    assert found["type"] == "message", body
    assert found["role"] == "assistant", body
    usage = found.get("usage")
    said = _chat(found["content"])
    called = any(block["type"] == "tool_use" for block in found["content"])
    assert (found["stop_reason"] == "tool_use") == called, body
    made = None
    if usage:
        taken = usage["input_tokens"] + usage.get("cache_read_input_tokens", 0)
        given = usage["output_tokens"]
        made = {"prompt_tokens": taken, "completion_tokens": given, "total_tokens": taken + given}
    return {**said, "blocks": found["content"]}, REASONS.get(found["stop_reason"], found["stop_reason"]), made


def _joined(raw: bytes) -> Json:
    """The message of a stream, with what must hold of every one."""
    found: list[Json] = []
    for event in raw.decode().split("\n\n"):
        lines = [line for line in event.split("\n") if line and not line.startswith(":")]
        if lines:
            assert [line.partition(":")[0] for line in lines] == ["event", "data"], event
            found.append(json.loads(lines[1].removeprefix("data: ")))
            assert found[-1]["type"] == lines[0].removeprefix("event: "), event
    assert not raw.decode().rpartition("event: message_stop")[2].partition("\n\n")[2], raw  # no comment behind it
    kinds = [event["type"] for event in found if event["type"] != "ping"]
    assert (kinds[0], *kinds[-2:]) == ("message_start", "message_delta", "message_stop"), raw
    assert [kinds.count(kind) for kind in ("message_start", "message_delta", "message_stop")] == [1, 1, 1], raw
    message: Json = found[0]["message"]
    opened: int | None = None
    for event in found[1:]:
        kind = event["type"]
        if kind == "content_block_start":
            assert opened is None, raw
            assert event["index"] == len(message["content"]), raw
            opened = event["index"]
            message["content"].append({**event["content_block"], "pieces": ""})
        elif kind.startswith("content_block"):
            assert event["index"] == opened, raw
            if kind == "content_block_stop":
                opened = None
                _close(message["content"][-1])
            else:
                _add(message["content"][-1], event["delta"])
        elif kind == "message_delta":
            assert opened is None, raw
            message |= event["delta"]
            message["usage"] = {**message.get("usage", {}), **event.get("usage", {})}
    return message


def _add(block: Json, delta: Json) -> None:
    if delta["type"] == "input_json_delta":
        block["pieces"] += delta["partial_json"]
    else:
        key = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}[delta["type"]]
        block[key] = block.get(key, "") + delta[key]


def _close(block: Json) -> None:
    pieces = block.pop("pieces")
    if block["type"] == "tool_use":
        block["input"] = json.loads(pieces or "{}")
