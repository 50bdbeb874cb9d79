"""What providers really send (loop log, sections 7 to 9), all of it on every surface: no byte changes, our view holds.

One answer is told in all of them: a text, two calls, usage of 9 and 4 tokens. An oddity is a change to its events, or
to their bytes.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from guardproxy import api
from guardproxy.core.model import Usage

Json = dict[str, Any]
Events = list[Json]

TEXT = "Zwei Aufrufe: 二つ 👍."
CALLS = (("f", '{"x": 1}', "id-a"), ("g", '{"path": "/tmp/é"}', "id-b"))
USAGE = Usage(9, 4)
HALVES = (TEXT[:15], TEXT[15:])


def chat() -> Events:
    deltas: list[Json] = [{"role": "assistant", "content": ""}, *({"content": part} for part in HALVES)]
    for index, (name, arguments, call_id) in enumerate(CALLS):
        head = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        parts = ({"index": index, "function": {"arguments": part}} for part in (arguments[:4], arguments[4:]))
        deltas += [{"tool_calls": [one]} for one in (head, *parts)]
    events: Events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    events.append({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}})
    return [{"id": "r-1", "object": "chat.completion.chunk", "model": "m-1", **event} for event in events]


def responses() -> Events:
    def item(at: int) -> Json:
        name, arguments, call_id = CALLS[at]
        return {"type": "function_call", "id": f"fc-{at}", "call_id": call_id, "name": name, "arguments": arguments}

    part = {"type": "output_text", "text": TEXT, "annotations": []}
    said: Json = {"type": "message", "id": "msg", "role": "assistant", "content": [part]}
    base: Json = {"id": "r-1", "object": "response", "model": "m-1", "output": [], "usage": None}
    events: Events = [{"type": f"response.{kind}", "response": base} for kind in ("created", "in_progress")]
    at: Json = {"output_index": 0, "item_id": "msg", "content_index": 0}
    events.append({"type": "response.output_item.added", "output_index": 0, "item": {**said, "content": []}})
    events += [{"type": "response.output_text.delta", **at, "delta": half} for half in HALVES]
    events.append({"type": "response.output_item.done", "output_index": 0, "item": said})
    for number, (_, arguments, _) in enumerate(CALLS):
        at, made = {"output_index": number + 1, "item_id": f"fc-{number}"}, item(number)
        place = {"output_index": number + 1}
        events.append({"type": "response.output_item.added", **place, "item": {**made, "arguments": ""}})
        kind = "response.function_call_arguments"
        events += [{"type": f"{kind}.delta", **at, "delta": half} for half in (arguments[:4], arguments[4:])]
        events.append({"type": f"{kind}.done", **at, "arguments": arguments})
        events.append({"type": "response.output_item.done", **place, "item": made})
    usage = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
    last = {**base, "status": "completed", "output": [said, item(0), item(1)], "usage": usage}
    events.append({"type": "response.completed", "response": last})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def messages() -> Events:
    begun: Json = {"id": "r-1", "type": "message", "role": "assistant", "model": "m-1", "content": []}
    events: Events = [{"type": "message_start", "message": {**begun, "usage": {"input_tokens": 9, "output_tokens": 1}}}]
    events.append({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    for half in HALVES:
        events.append({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": half}})
    events.append({"type": "content_block_stop", "index": 0})
    for index, (name, arguments, call_id) in enumerate(CALLS, 1):
        block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        for half in (arguments[:4], arguments[4:]):
            delta = {"type": "input_json_delta", "partial_json": half}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": "tool_use", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 4}})
    return [*events, {"type": "message_stop"}]


MADE: dict[str, Callable[[], Events]] = {"chat": chat, "responses": responses, "messages": messages}
ASKS: Json = {
    "chat": {"messages": [{"role": "user", "content": "hi"}]},
    "responses": {"input": "hi"},
    "messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 99},
}


def told(name: str, events: Events) -> bytes:
    """The events as their surface writes them."""
    lines = [
        (b"" if name == "chat" else b"event: %s\n" % str(one.get("type")).encode())
        + b"data: "
        + json.dumps(one, ensure_ascii=False).encode()
        + b"\n\n"
        for one in events
    ]
    return b"".join([*lines, *([b"data: [DONE]\n\n"] if name == "chat" else [])])


def anywhere(value: Any, change: Callable[[Json], None]) -> None:
    """Change every object in it."""
    for one in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
        anywhere(one, change)
    if isinstance(value, dict):
        change(value)


INDEX = {"chat": "index", "responses": "output_index", "messages": "index"}


def calls_of(events: Events, name: str) -> list[Json]:
    """The objects of a stream that have the number of a call."""
    found: list[Json] = []
    key = INDEX[name]
    anywhere(events, lambda one: found.append(one) if key in one and "finish_reason" not in one else None)
    return found


def without_index(events: Events, name: str) -> None:
    for one in calls_of(events, name):
        del one[INDEX[name]]


def always_zero(events: Events, name: str) -> None:
    for one in calls_of(events, name):
        one[INDEX[name]] = 0


def index_as_text(events: Events, name: str) -> None:
    for one in calls_of(events, name):
        one[INDEX[name]] = str(one[INDEX[name]])


def _ids(events: Events, made: Callable[[str], str | None]) -> None:
    def change(one: Json) -> None:
        for key in ("id", "call_id", "item_id"):
            if key in one and one[key] not in ("r-1", "msg"):
                one[key] = made(str(one[key]))

    anywhere(events, change)


def empty_ids(events: Events, _name: str) -> None:
    _ids(events, lambda _id: "")


def null_ids(events: Events, _name: str) -> None:
    _ids(events, lambda _id: None)


def constant_ids(events: Events, _name: str) -> None:
    _ids(events, lambda _id: "ZsSt")


def late_ids(events: Events, name: str) -> None:
    """The id of a call comes behind its name, with the arguments; Anthropic's protocol has no second place for it."""
    if name == "chat":
        for at, event in enumerate(events):
            for choice in event["choices"]:
                for call in choice["delta"].get("tool_calls") or ():
                    if "type" in call:
                        following = events[at + 1]["choices"][0]["delta"]["tool_calls"][0]
                        following["id"] = call.pop("id")
    elif name == "responses":
        for event in events:
            if event["type"] == "response.output_item.added" and "call_id" in event["item"]:
                del event["item"]["call_id"], event["item"]["id"]


def repeated_names(events: Events, name: str) -> None:
    """Id and name stand in every chunk."""
    known: Json = {}
    for event in events:
        if name == "chat":
            for choice in event["choices"]:
                for call in choice["delta"].get("tool_calls") or ():
                    first = known.setdefault(call["index"], call)
                    call["id"], call["function"]["name"] = first["id"], first["function"]["name"]
        elif name == "responses":
            if "item" in event and event["item"].get("name"):
                known[event["output_index"]] = event["item"]
            elif item := known.get(event.get("output_index")):
                event |= {"name": item["name"], "call_id": item["call_id"]}
        elif event.get("content_block", {}).get("name"):
            known[event["index"]] = event["content_block"]
        elif block := known.get(event.get("index")):
            event["content_block"] = block
            if "delta" in event:
                event["delta"] |= {"id": block["id"], "name": block["name"]}


def arguments_as_objects(events: Events, name: str) -> None:
    """In one piece, and not as a text."""
    whole = {call_id: json.loads(arguments) for _, arguments, call_id in CALLS}
    if name == "chat":
        for event in events:
            for choice in event["choices"]:
                for call in choice["delta"].get("tool_calls") or ():
                    call["function"]["arguments"] = whole[call["id"]] if "id" in call else ""
    elif name == "responses":
        events[:] = [one for one in events if "arguments" not in one["type"]]

        def change(one: Json) -> None:
            if one.get("type") == "function_call" and one["arguments"]:
                one["arguments"] = whole[one["call_id"]]

        anywhere(events, change)
    else:
        events[:] = [one for one in events if (one.get("delta") or {}).get("type") != "input_json_delta"]
        for event in events:
            block = event.get("content_block", {})
            if block.get("type") == "tool_use":
                block["input"] = whole[block["id"]]


def nothing_inside(events: Events, name: str) -> None:
    """Chunks with an empty list, or null, where choices, items or blocks belong: first, in the middle, last."""
    if name == "chat":
        odd: Events = [
            {"choices": [], "prompt_filter_results": [{}]},
            {"choices": None},
            {"choices": [{"delta": None}]},
        ]
    elif name == "responses":
        odd = [
            {"type": "response.output_item.added", "item": None},
            {"type": None},
            {"type": "response.x", "output": None},
        ]
    else:
        odd = [{"type": "content_block_delta", "delta": None}, {"type": "ping"}, {"type": "message_delta"}, {}]
    events[:] = [*odd, *events[:3], *odd, *events[3:], *odd]


def usage_on_any(events: Events, name: str) -> None:
    """Running totals on several chunks; none where it belongs, or zeros at first."""
    if name == "chat":
        for number, event in enumerate(events[:-1]):
            event["usage"] = {"prompt_tokens": 9, "completion_tokens": min(4, number)}
        del events[-1]["usage"]
    elif name == "responses":
        events[1]["response"] = {**events[1]["response"], "usage": {"input_tokens": 9, "output_tokens": 0}}
    else:
        events[0]["message"]["usage"] = {"input_tokens": 0, "output_tokens": 0}
        events[-2]["usage"] = {"input_tokens": 9, "output_tokens": 4}


def finish_lies(events: Events, name: str) -> None:
    """It says that it has stopped, or nothing, though there are calls."""
    if name == "chat":
        events[-2]["choices"][0]["finish_reason"] = "stop"
    elif name == "responses":
        events[-1]["response"]["status"] = "incomplete"
    else:
        events[-2]["delta"]["stop_reason"] = "end_turn"


def a_megabyte(events: Events, name: str) -> None:
    """A data line of one, in front of all the rest."""
    kind = {} if name == "chat" else {"type": "response.x" if name == "responses" else "ping"}
    events.insert(1, {**kind, "choices": [], "padding": "x" * (1 << 20)})


def plain(_events: Events, _name: str) -> None:
    """As it should be."""


ODD: list[Callable[[Events, str], None]] = [
    plain,
    without_index,
    always_zero,
    index_as_text,
    empty_ids,
    null_ids,
    constant_ids,
    late_ids,
    repeated_names,
    arguments_as_objects,
    nothing_inside,
    usage_on_any,
    finish_lies,
    a_megabyte,
]

FRAMED: dict[str, Callable[[bytes], bytes]] = {
    "as it is": lambda raw: raw,
    "CR LF": lambda raw: raw.replace(b"\n", b"\r\n"),
    "CR": lambda raw: raw.replace(b"\n", b"\r"),
    "no space": lambda raw: raw.replace(b"data: ", b"data:"),
    "comments": lambda raw: b": hi\n\n" + raw.replace(b"\n\n", b"\n\n: keep-alive\n\n"),
    "a comment inside": lambda raw: raw.replace(b"data: ", b": OPENROUTER PROCESSING\ndata: "),
    "ids and retries": lambda raw: raw.replace(b"data: ", b"id: 7\nretry: 10\ndata: "),
    "no event lines": lambda raw: b"".join(part for part in raw.splitlines(keepends=True) if part[:6] != b"event:"),
    "trailing garbage": lambda raw: raw + b"\n\n\x00 garbage {",
    "a BOM": lambda raw: b"\xef\xbb\xbf\n\n" + raw,
    "escaped": lambda raw: raw.replace("二".encode(), b"\\u4e8c").replace("👍".encode(), b"\\ud83d\\udc4d"),
}


def seen(name: str, chunks: list[bytes]) -> tuple[bytes, Any]:
    surface = api.SURFACES[name]
    ask = surface.read(json.dumps({"model": "m", "stream": True, **ASKS[name]}).encode(), {})
    watcher = surface.watch(ask)
    return b"".join([watcher.feed(chunk) for chunk in chunks]) + watcher.finish(), watcher


def right(name: str, watcher: Any, odd: str) -> None:
    found = watcher.seen()
    assert found.text == TEXT
    expected = [("", "")] * 2 if odd in ("empty_ids", "null_ids") else [("ZsSt", "ZsSt")] * 2
    ids = expected if odd in ("empty_ids", "null_ids", "constant_ids") else [(one[2], one[2]) for one in CALLS]
    assert [(call.name, json.loads(call.arguments)) for call in found.calls] == [
        (called, json.loads(arguments)) for called, arguments, _ in CALLS
    ]
    assert [call.id for call in found.calls] == [one for one, _ in ids]
    assert found.usage == USAGE
    assert (found.response_id, found.response_model) == ("r-1", "m-1")
    assert (found.complete, found.failed, watcher.ended) == (True, False, True)


def cuts(raw: bytes) -> list[list[bytes]]:
    """Whole, every byte alone, and in two at some places: at every one golden files are cut."""
    singles = [[raw[at : at + 1] for at in range(len(raw))]] if len(raw) < 20_000 else []
    step = 1 + len(raw) // (20 if singles else 4)
    return [[raw], *singles, *[[raw[:at], raw[at:]] for at in range(1, len(raw), step)]]


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd.__name__)
def test_odd_events(name: str, odd: Callable[[Events, str], None]) -> None:
    events = copy.deepcopy(MADE[name]())
    odd(events, name)
    raw = told(name, events)
    assert odd in (plain, late_ids) or raw != told(name, MADE[name]())
    for chunks in cuts(raw):
        out, watcher = seen(name, chunks)
        assert out == raw
        right(name, watcher, odd.__name__)


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("framing", FRAMED)
def test_odd_framing(name: str, framing: str) -> None:
    raw = FRAMED[framing](told(name, MADE[name]()))
    for chunks in cuts(raw):
        out, watcher = seen(name, chunks)
        assert out == raw
        right(name, watcher, framing)
