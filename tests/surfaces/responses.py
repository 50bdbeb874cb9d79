"""/v1/responses (OpenAI), after its public reference."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any
from zlib import crc32

from guardproxy.core.model import Message

if TYPE_CHECKING:
    from tests.live import Said

Json = dict[str, Any]

NAME = "responses"
PATH = "/v1/responses"
MESSAGES = "input"
ASKS_USAGE = False
FORBID = rb'"tool_choice": ?"none"'
CASES = {
    "the notice is lost: the run waits all the same": "two messages of the assistant in a row are one here",
}
PART = b"input_text"

OWN = ("model", "messages", "tools", "tool_choice", "stream_options", "n", "max_tokens")
SYSTEM = ("system", "developer")
FINISHES = {"length": "max_output_tokens", "content_filter": "content_filter"}
CALLS = ("function_call",)

_numbers = count(1)


def request(chat: Json) -> Json:
    """The same conversation as items; a system prompt alone in front stands beside them."""
    listed = list(chat["messages"])
    body: Json = {"model": chat["model"]}
    lead = 0
    while lead < len(listed) and listed[lead]["role"] in SYSTEM:
        lead += 1
    if lead == 1 and listed[0]["role"] == "system" and isinstance(listed[0]["content"], str):
        body["instructions"] = listed.pop(0)["content"]
    if "max_tokens" in chat:
        body["max_output_tokens"] = chat["max_tokens"]
    body["input"] = [item for message in listed for item in _items(message)]
    if "tools" in chat:
        body["tools"] = [{"type": "function", "strict": False, **tool["function"]} for tool in chat["tools"]]
    if "tool_choice" in chat:
        choice = chat["tool_choice"]
        named = {"type": "function", "name": choice["function"]["name"]} if isinstance(choice, dict) else choice
        body["tool_choice"] = named
    return {**body, **{key: value for key, value in chat.items() if key not in OWN}}


def _items(message: Json) -> list[Json]:
    role, content = message["role"], message.get("content")
    if role == "tool":
        return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": _content(content)}]
    if role != "assistant":
        return [{"role": role, "content": _content(content)}]
    if "items" in message:
        return list(message["items"])
    made: list[Json] = []
    calls = message.get("tool_calls") or ()
    if content or not calls:
        made.append(_message(content or ""))
    return [*made, *[_call(call["function"], call["id"]) for call in calls]]


def _message(text: str) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": f"msg_{crc32(text.encode()):x}", "role": "assistant", "status": "completed"} | {
        "content": content
    }


def _call(function: Json, call_id: str) -> Json:
    named = {"name": function["name"], "arguments": function["arguments"]}
    return {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, **named, "status": "completed"}


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [_part(part) for part in content]


def _part(part: Json) -> Json:
    if part["type"] == "text":
        return {"type": "input_text", "text": part["text"]}
    return {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}


def messages(body: Json) -> list[Json]:
    """The messages of a request: items of the assistant's that follow each other are one."""
    found: list[Json] = [{"role": "system", "content": body["instructions"]}] if "instructions" in body else []
    listed = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
    said: list[Json] = []
    for item in listed:
        if item.get("type") in (*CALLS, "reasoning") or item.get("role") == "assistant":
            ours = str(item.get("id")).startswith(("msg_resp_guardproxy", "msg_guardproxy"))
            if said and str(item.get("id")).startswith("msg_resp_guardproxy"):  # an answer of its own
                found.append(_chat(said))
                said = []
            said.append(item)
            if ours:  # its answer ends there
                found.append(_chat(said))
                said = []
            continue
        if said:
            found.append(_chat(said))
            said = []
        if item.get("type") == "function_call_output":
            found.append({"role": "tool", "tool_call_id": item["call_id"], "content": _plain(item["output"])})
        else:
            found.append({"role": item["role"], "content": _plain(item["content"])})
    return [*found, _chat(said)] if said else found


def _plain(content: Any) -> Any:
    """Parts of text as chat has them."""
    if not isinstance(content, list):
        return content
    return [{**part, "type": "text"} if part["type"] == "input_text" else part for part in content]


def _chat(items: Sequence[Json]) -> Json:
    texts = [part["text"] for item in items if item.get("role") == "assistant" for part in _parts(item)]
    message: Json = {"role": "assistant", "content": "\n\n".join(text for text in texts if text) or None}
    calls = [
        {
            "id": item["call_id"],
            "type": "function",
            "function": {"name": item["name"], "arguments": item["arguments"]},
        }
        for item in items
        if item["type"] in CALLS
    ]
    return {**message, "tool_calls": calls} if calls else message


def _parts(item: Json) -> list[Json]:
    content = item["content"]
    return [{"text": content}] if isinstance(content, str) else content


def sound(body: Json) -> bool:
    """Whether each call has its result, each result its call in front of it, and no item stands there twice."""
    made: list[str] = []
    answered: list[str] = []
    listed = body["input"] if isinstance(body["input"], list) else []
    for item in listed:
        if item.get("type") in CALLS:
            made.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            answered.append(item["call_id"])
            if item["call_id"] not in made:
                return False
    known = [item["id"] for item in listed if item.get("id")]
    return sorted(made) == sorted(answered) and len(set(known)) == len(known)


def whole(said: Said) -> bytes:
    """The whole answer."""
    if isinstance(said.raw, bytes):
        return said.raw
    return json.dumps(_response(said, "completed", _output(said))).encode()


def _response(said: Said, status: str, output: Sequence[Json]) -> Json:
    done = status != "in_progress"
    why = FINISHES.get(said.finish, "")
    return {
        "id": f"resp_{said.number}",
        "object": "response",
        "created_at": 1,
        "status": "incomplete" if done and why else status,
        "error": None,
        "incomplete_details": {"reason": why} if done and why else None,
        "model": "mock-1",
        "output": output if done else [],
        "usage": _usage(said.usage) if done and said.usage is not None else None,
    }


def _output(said: Said) -> list[Json]:
    items = [] if not said.text and not said.calls else _items({**said.message(), "content": said.text})
    number = next(_numbers)
    for item in items:
        if item["type"] == "message":  # each answer has its own
            item["id"] = f"{item['id']}{number:04}"
    return items


def _usage(usage: Mapping[str, Any]) -> Json:
    taken, given = usage["prompt_tokens"], usage["completion_tokens"]
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    inside = {"input_tokens_details": {"cached_tokens": cached}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {"input_tokens": taken, "output_tokens": given, "total_tokens": taken + given, **inside}


def events(said: Said, *, usage: bool) -> list[bytes]:
    """The streamed answer, an event a chunk."""
    if said.raw is not None:
        return [said.raw] if isinstance(said.raw, bytes) else list(said.raw)
    output = _output(said)
    begun = _response(said, "in_progress", ())
    made: list[Json] = [{"type": f"response.{kind}", "response": begun} for kind in ("created", "in_progress")]
    for index, item in enumerate(output):
        at = {"item_id": item["id"], "output_index": index}
        made.append({"type": "response.output_item.added", "output_index": index, "item": _begun(item)})
        if item["type"] == "message":
            part, place = item["content"][0], {**at, "content_index": 0}
            half = len(part["text"]) // 2
            made.append({"type": "response.content_part.added", **place, "part": {**part, "text": ""}})
            text: Json = {"type": "response.output_text.delta", **place, "logprobs": []}
            made += [{**text, "delta": piece} for piece in (part["text"][:half], part["text"][half:])]
            made.append({"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []})
            made.append({"type": "response.content_part.done", **place, "part": part})
        else:
            call: Json = {"type": "response.function_call_arguments.delta", **at}
            made += [{**call, "delta": piece} for piece in (item["arguments"][:3], item["arguments"][3:])]
            made.append({"type": "response.function_call_arguments.done", **at, "arguments": item["arguments"]})
        made.append({"type": "response.output_item.done", "output_index": index, "item": item})
    last = _response(said, "completed", output)
    made.append({"type": f"response.{last['status']}", "response": last})
    return [_event({**one, "sequence_number": number}) for number, one in enumerate(made)]


def _begun(item: Json) -> Json:
    return {**item, "status": "in_progress", **({"content": []} if item["type"] == "message" else {"arguments": ""})}


def _event(payload: Json) -> bytes:
    return f"event: {payload['type']}\ndata: {json.dumps(payload)}\n\n".encode()


def neutral(message: Json) -> Message:
    """A message as the proxy sees it."""
    from guardproxy.api import responses

    return responses.ask_of(_items(message)).tail[-1]


def unsaid(call: tuple[str, Any, Any]) -> str:
    """Why a call cannot be made here."""
    return "a call has an id" if call[2] == "" else ""


def answer(body: bytes, *, stream: bool) -> tuple[Json, str, Json | None]:
    """Message, finish reason and usage, put together where it streams. `items` are what a client would send again."""
    found = _joined(body) if stream else json.loads(body)
    assert found["object"] == "response", body
    assert found["status"] in ("completed", "incomplete"), body
    said = _chat(found["output"])
    usage = found.get("usage")
    made = None
    if usage:
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
        made = {"prompt_tokens": usage["input_tokens"], "completion_tokens": usage["output_tokens"]}
        made["total_tokens"] = usage["total_tokens"]
    finish = "tool_calls" if said.get("tool_calls") else "stop"
    return {**said, "items": found["output"]}, "length" if found["status"] == "incomplete" else finish, made


def _joined(raw: bytes) -> Json:
    """The response of a stream, built from its events, with what must hold of every one."""
    found: list[Json] = []
    for event in raw.decode().split("\n\n"):
        lines = [line for line in event.split("\n") if line and not line.startswith(":")]
        if lines:
            assert [line.partition(":")[0] for line in lines] == ["event", "data"], event
            found.append(json.loads(lines[1].removeprefix("data: ")))
            assert found[-1]["type"] == lines[0].removeprefix("event: "), event
    assert [event["sequence_number"] for event in found] == list(range(len(found))), raw
    kinds = [event["type"].removeprefix("response.") for event in found]
    assert kinds[:2] == ["created", "in_progress"], raw
    assert kinds[-1] in ("completed", "incomplete"), raw
    assert not raw.decode().rpartition(f"event: response.{kinds[-1]}")[2].partition("\n\n")[2], (
        raw
    )  # no comment behind it
    assert [kinds.count(kind) for kind in ("created", "in_progress", kinds[-1])] == [1, 1, 1], raw
    output: list[Json] = []
    opened: set[int] = set()
    pieces: dict[int, str] = {}
    for event in found[2:-1]:
        at, kind = event["output_index"], event["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert at == len(output), raw
            output.append(event["item"])
            opened.add(at)
            pieces[at] = ""
            continue
        assert at in opened, raw
        assert event.get("item_id", output[at]["id"]) == output[at]["id"], raw
        if kind.endswith(".delta"):
            pieces[at] += event["delta"]
        elif kind in ("output_text.done", "function_call_arguments.done"):
            assert pieces[at] == event.get("text", event.get("arguments")), raw
        elif kind == "output_item.done":
            assert event["item"]["id"] == output[at]["id"], raw
            output[at] = event["item"]
            opened.discard(at)
    last: Json = found[-1]["response"]
    assert not opened, raw
    assert last["id"] == found[0]["response"]["id"], raw
    assert last["output"] == output, raw
    return last
