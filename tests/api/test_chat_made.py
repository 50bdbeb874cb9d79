"""What the proxy says itself in the form of a chat answer or of its messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guardproxy.api import chat
from guardproxy.core.model import Call
from tests.api.cases import ask
from tests.api.gates import Client, calling, gated, tc
from tests.api.test_chat_gate import LEGACY

USAGE = {"stream_options": {"include_usage": True}}


def test_results_and_feedback() -> None:
    _, watcher = gated(calling([tc(0, "a", "f", "{}"), tc(1, None, "g", "{}")]))
    assert [json.loads(one) for one in chat.results(watcher.raw_calls(), ["no", "neither"])] == [
        {"role": "tool", "tool_call_id": "a", "content": "no"},
        {"role": "tool", "tool_call_id": "", "content": "neither"},
    ]
    _, watcher = gated(LEGACY)
    assert json.loads(chat.results(watcher.raw_calls(), ["no"])[0]) == {
        "role": "function",
        "name": "f",
        "content": "no",
    }
    assert json.loads(chat.feedback("more")) == {"role": "user", "content": "more"}
    assert chat.keep_alive().startswith(b":")
    assert chat.keep_alive().endswith(b"\n\n")
    with pytest.raises(ValueError, match="shorter"):
        chat.results((b"{}",), [])


@pytest.mark.parametrize("text", ["", "one"])
@pytest.mark.parametrize("usage", [True, False])
def test_closing_ends_what_was_begun(text: str, usage: bool) -> None:
    asked = ask(stream=True, **(USAGE if usage else {}))
    raw = calling([tc(0, "a", "f", "{}")], text=text, prompt_tokens=1, completion_tokens=1)
    out, watcher = gated(raw)
    client = Client(out + chat.closing(asked, watcher.joint(), "the end", reply_id="x", created=9))
    assert client.text == ("one\n\nthe end" if text else "the end")
    assert (client.roles, client.finishes, client.dones, client.calls) == (["assistant"], ["stop"], 1, [])
    assert client.ids == {("r", "p", None), ("r", "p", 9)}
    assert client.usages == ([{"prompt_tokens": 1, "completion_tokens": 1}] if usage else [])


def test_closing_before_anything_was_said() -> None:
    client = Client(chat.closing(ask(stream=True, **USAGE), None, "the end", reply_id="x", created=9))
    assert (client.text, client.roles, client.ids) == ("the end", ["assistant"], {("x", "m", 9)})
    assert client.usages == [{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}]


def test_closing_of_a_whole_answer() -> None:
    joint = chat.Joint({"id": "r", "created": 1, "model": "p"}, text="one", usage={"prompt_tokens": 3})
    found = json.loads(chat.closing(ask(), joint, "the end", reply_id="x", created=9))
    assert found == {
        "id": "r",
        "created": 1,
        "model": "p",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "one\n\nthe end", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 3},
    }


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"content": "so", "tool_calls": [{**tc(None, "a", "f", "{}"), "type": "function", "x": 1}]}, "tool_calls"),
        ({"content": None, "reasoning_content": "hm", "tool_calls": [tc(None, "a", "f", "{}")] * 2}, "tool_calls"),
        ({"content": None, "function_call": {"name": "f", "arguments": "{}"}}, "function_call"),
        ({"content": "only text"}, "stop"),
    ],
)
def test_a_stored_message_is_an_answer_again(message: dict[str, Any], reason: str) -> None:
    stored = {"role": "assistant", **message}
    raw = json.dumps(stored).encode()
    kind, body = chat.replay_message(ask(), raw, reply_id="x", created=9)
    found = json.loads(body)
    assert (kind, found["id"], found["created"], found["model"]) == ("application/json", "x", 9, "m")
    assert found["choices"] == [{"index": 0, "message": stored, "logprobs": None, "finish_reason": reason}]
    kind, body = chat.replay_message(ask(stream=True), raw, reply_id="x", created=9)
    watcher = chat.watch(ask(stream=True), gate=chat.Gate(lambda _: True))
    watcher.feed(body)
    assert (kind, watcher.complete, watcher.finish_reason) == ("text/event-stream", True, reason)
    again = json.loads(watcher.raw_message())
    for call in stored.get("tool_calls", []):
        call.setdefault("type", "function")
    assert again == stored
    assert (Client(body).roles, Client(body).dones) == (["assistant"], 1)


def test_a_stored_message_that_is_none() -> None:
    _, body = chat.replay_message(ask(), b"{", reply_id="x", created=9)
    assert json.loads(body)["choices"][0]["message"] == {"role": "assistant", "content": ""}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"x":1}', None),
        (" {} ", None),
        ("", {}),
        ("  ", {}),
        ('{"x":', {"invalid_arguments": '{"x":'}),
        ("[1]", {"invalid_arguments": "[1]"}),
        ("3", {"invalid_arguments": "3"}),
        ('{"q":"a\x01"}', {"invalid_arguments": '{"q":"a\x01"}'}),
        ('{"q":NaN}', {"invalid_arguments": '{"q":NaN}'}),
    ],
)
def test_arguments_of_a_history_are_objects(arguments: str, expected: Any) -> None:
    _, watcher = gated(calling([tc(0, "a", "f", arguments), tc(1, "b", "g", "{}")], text="so"))
    message, call = watcher.raw_message(), watcher.raw_calls()[0]
    legacy = json.dumps({"name": "f", "arguments": arguments}).encode()
    if expected is None:
        assert [chat.sound(raw) for raw in (message, call, legacy)] == [message, call, legacy]
        return
    changed = json.loads(message)
    changed["tool_calls"][0]["function"]["arguments"] = found = json.dumps(expected, separators=(",", ":"))
    assert json.loads(chat.sound(message)) == changed
    assert json.loads(chat.sound(call)) == changed["tool_calls"][0]
    assert json.loads(chat.sound(legacy)) == {"name": "f", "arguments": found}


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b'{"role":"user","content":"x"}', b'{"id":"a","custom":{"input":"("}}']
)
def test_what_has_no_arguments_stays(raw: bytes) -> None:
    assert chat.sound(raw) is raw


SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}


SERVERS = {
    "tools": [
        {"type": "namespace", "name": "mcp__one", "tools": [{"type": "function", "name": "f"}]},
        {"type": "namespace", "name": "mcp__two", "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}]},
    ]
}


@pytest.mark.parametrize(
    ("fields", "name", "expected"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]}, "f", SCHEMA),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]}, "g", None),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "f", {}),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": None}}]}, "f", {}),
        ({"tools": [{"function": {"name": "f", "parameters": SCHEMA}}]}, "f", SCHEMA),
        ({"functions": [{"name": "f", "parameters": SCHEMA}]}, "f", SCHEMA),
        ({"tools": [{"type": "custom", "custom": {"name": "f", "format": {}}}]}, "f", None),
        ({"tools": [{"type": "web_search"}, None, 3]}, "f", None),
        (
            {"tools": [{"type": "namespace", "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}]}]},
            "f",
            SCHEMA,
        ),
        (SERVERS, "mcp__one__f", {}),
        (SERVERS, "mcp__two__f", SCHEMA),
        (SERVERS, "mcp__two__mcp__two__f", None),
        (SERVERS, "f", None),
        ({}, "f", None),
    ],
)
def test_schema(fields: dict[str, Any], name: str, expected: Any) -> None:
    assert chat.schema(ask(**fields), name) == expected


def test_conversation_has_all_messages() -> None:
    messages = [{"role": "user", "content": f"m{number}"} for number in range(300)]
    asked = ask(messages=messages)
    whole = chat.conversation(asked)
    assert len(asked.tail) < 300
    assert ([one.text for one in whole.tail], whole.tail_start) == ([f"m{number}" for number in range(300)], 0)


def test_custom_calls_of_a_client() -> None:
    call = {"id": "a", "type": "custom", "function": None, "custom": {"name": "sh", "input": "ls"}}
    asked = ask(messages=[{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]}])
    assert [(one.name, one.arguments, one.id) for one in asked.tail[-1].calls] == [("sh", "ls", "a")]


def test_a_call_with_other_arguments_in_the_place_of_the_one_held() -> None:
    before, watcher = gated(calling([tc(0, "a", "f", "{}")], text="one", prompt_tokens=1, completion_tokens=1))
    message = json.loads(watcher.raw_message())
    message["tool_calls"][0]["function"]["arguments"] = '{"x":1}'
    raw, joint = json.dumps(message).encode(), watcher.joint()
    _, body = chat.replay_message(ask(stream=True, **USAGE), raw, reply_id="x", created=9, joint=joint)
    client = Client(before + body)
    assert (client.text, client.roles, client.finishes, client.dones) == ("one", ["assistant"], ["tool_calls"], 1)
    assert client.calls == [Call("f", '{"x":1}', "a")]
    assert client.usages == [{"prompt_tokens": 1, "completion_tokens": 1}]
    earlier = chat.Joint({"id": "r"}, text="zero\n\none", usage={"prompt_tokens": 2})
    found = json.loads(chat.replay_message(ask(), raw, reply_id="x", created=9, joint=earlier)[1])
    assert found["choices"][0]["message"] == {**message, "content": "zero\n\none"}
    assert (found["id"], found["usage"]) == ("r", {"prompt_tokens": 2})
