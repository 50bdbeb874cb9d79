"""The gate of a completion in one piece, and attempts joined to one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guardproxy.api import chat
from guardproxy.core.edit import DropCalls
from tests.api.cases import CUT, ask
from tests.api.gates import Client, calling, gated, tc

JSON = "application/json"


def body(content: Any = None, calls: Any = (), *, finish: str = "tool_calls", number: int = 0, **more: Any) -> bytes:
    """A completion with calls of these (id, name)."""
    entries = [{**tc(None, call_id, name, "{}"), "type": "function"} for call_id, name in calls]
    message = {"role": "assistant", "content": content, **({"tool_calls": entries} if entries else {}), **more}
    choices = [{"index": 0, "message": message, "finish_reason": finish if entries else "stop", "big": 2**63}]
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "details": {"cached_tokens": 1}}
    head = {"id": f"r{number}", "object": "chat.completion", "created": number, "model": "p", "x": {"y": None}}
    return json.dumps({**head, "choices": choices, "usage": usage}, indent=1).encode()


def watched(raw: bytes, **options: Any) -> tuple[bytes, chat.Watcher]:
    """What passes, and the watcher."""
    watcher = chat.watch(ask(), content_type=JSON, **options)
    out = b"".join([watcher.feed(raw[at : at + 50]) for at in range(0, len(raw), 50)])
    assert out == b""
    return watcher.finish(), watcher


@pytest.mark.parametrize(
    ("gate", "holds"),
    [
        (chat.Gate(lambda _: True), True),
        (chat.Gate(lambda name: name == "g"), True),
        (chat.Gate(lambda _: False), False),
        (chat.Gate(lambda _: True, calls=False), False),
        (chat.Gate(lambda _: False, text=True), False),
    ],
)
def test_held_where_a_call_is_wanted(gate: chat.Gate, holds: bool) -> None:
    raw = body("so", [("a", "f"), ("b", "g")])
    out, watcher = watched(raw, gate=gate)
    assert (out, watcher.holding) == ((b"", True) if holds else (raw, False))
    assert out + watcher.release() == raw
    assert (watcher.release(), watcher.holding, watcher.touched) == (b"", False, False)


def test_a_final_text_is_held_where_that_is_wanted() -> None:
    raw = body("done")
    assert watched(raw, gate=chat.Gate(lambda _: True))[0] == raw
    out, watcher = watched(raw, gate=chat.Gate(lambda _: False, text=True))
    assert (out, watcher.holding, watcher.joint().text) == (b"", True, "")
    assert watcher.release() == raw
    assert watcher.joint().text == "done"


@pytest.mark.parametrize("keep", [(), (0,), (1,), (0, 2), (0, 1, 2)])
def test_only_some_calls(keep: tuple[int, ...]) -> None:
    raw = body(None, [("a", "f"), ("b", "g"), ("c", "h")], function_call={"name": "f", "arguments": "{}"})
    _, watcher = watched(raw, gate=chat.Gate(lambda _: True))
    out = watcher.release(frozenset(keep))
    if len(keep) == 3:
        assert out == raw
        return
    expected = json.loads(raw)
    (choice,) = expected["choices"]
    del choice["message"]["function_call"]
    choice["message"]["tool_calls"] = [choice["message"]["tool_calls"][place] for place in keep]
    if not keep:
        del choice["message"]["tool_calls"]
        choice |= {"finish_reason": "stop"}
        choice["message"]["content"] = ""
    assert json.loads(out) == expected
    assert (watcher.touched, watcher.joint().calls) == (True, len(keep))


def test_the_older_kind_of_call() -> None:
    raw = body("x", function_call={"name": "f", "arguments": {"x": 1}})
    _, watcher = watched(raw, gate=chat.Gate(lambda _: True))
    assert watcher.raw_calls() == (b'{"name":"f","arguments":"{\\"x\\":1}"}',)
    message = json.loads(watcher.release(frozenset()))["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "x"}


def test_attempts_are_one_completion() -> None:
    _, first = watched(body("one", [("a", "f")], number=1), gate=chat.Gate(lambda _: True))
    _, second = watched(body("two", [("b", "f")], number=2), gate=chat.Gate(lambda _: True), joint=first.joint())
    _, third = watched(body(None, [("c", "f")], number=3), gate=chat.Gate(lambda _: True), joint=second.joint())
    found = json.loads(third.release())
    (choice,) = found["choices"]
    assert (found["id"], found["created"], found["model"]) == ("r1", 1, "p")
    assert (choice["message"]["content"], choice["big"]) == ("one\n\ntwo", 2**63)
    assert [call["id"] for call in choice["message"]["tool_calls"]] == ["c"]
    assert found["usage"] == {"prompt_tokens": 9, "completion_tokens": 6, "details": {"cached_tokens": 3}}
    out, last = watched(body("three", number=4), joint=second.joint())
    assert json.loads(out)["choices"][0]["message"]["content"] == "one\n\ntwo\n\nthree"
    assert last.touched
    parts, _ = watched(body([{"type": "text", "text": "p"}], number=4), joint=first.joint())
    assert json.loads(parts)["choices"][0]["message"]["content"] == [
        {"type": "text", "text": "one\n\n"},
        {"type": "text", "text": "p"},
    ]


def test_an_attempt_whose_calls_are_dropped() -> None:
    _, first = watched(body("one", [("a", "f")], number=1), gate=chat.Gate(lambda _: True))
    out, watcher = watched(body(None, [("b", "f")], number=2), joint=first.joint(), drop=DropCalls(CUT))
    (choice,) = json.loads(out)["choices"]
    assert choice["message"] == {"role": "assistant", "content": f"one\n\n{CUT}"}
    assert (choice["finish_reason"], watcher.own_text, watcher.holding) == ("stop", True, False)


def test_an_attempt_answered_whole_after_one_that_was_streamed() -> None:
    before, first = gated(calling([tc(0, "a", "f", "{}")], text="one", prompt_tokens=1, completion_tokens=1))
    for calls in ([("b", "g")], []):
        watcher = chat.watch(
            ask(stream=True, stream_options={"include_usage": True}), content_type=JSON, joint=first.joint()
        )
        out = watcher.feed(body("two", calls, number=2, reasoning_content="hm")) + watcher.finish()
        client = Client(before + out)
        assert (client.text, client.roles, client.dones) == ("one\n\ntwo", ["assistant"], 1)
        assert client.calls == list(watcher.calls)
        assert client.finishes == ["tool_calls" if calls else "stop"]
        assert client.ids == {("r", "p", None)}
        assert [usage["prompt_tokens"] for usage in client.usages] == [4]
        assert b'"reasoning_content":"hm"' in out


def test_the_message_as_a_request_carries_it() -> None:
    raw = body(None, [("a", "f")], refusal=None, reasoning_content="hm", extra={"n": 2**63, "o": [1]})
    _, watcher = watched(raw, gate=chat.Gate(lambda _: True))
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert json.loads(watcher.raw_message()) == {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "extra": {"n": 2**63, "o": [1]},
        "tool_calls": [call],
    }
    plain = chat.watch(ask(), content_type=JSON)
    plain.feed(raw)
    assert json.loads(plain.raw_message()) == {"role": "assistant", "content": None, "tool_calls": [call]}
    assert (plain.holding, plain.release(), plain.joint().calls) == (False, b"", 1)
    assert json.loads(plain.raw_calls()[0]) == call


GARBAGE = [b"", b"{", b"[]", b"null", b'{"error":{"message":"x"}}', b'{"choices":null}', b'{"choices":[1]}', b'{"a":1}']


@pytest.mark.parametrize("raw", [*GARBAGE, b'{"error":1,"choices":[{"message":{"tool_calls":[{}]}}]}'])
@pytest.mark.parametrize("text", [False, True])
def test_garbage_passes(raw: bytes, text: bool) -> None:
    for joint in (None, chat.Joint({"id": "r"}, text="x")):
        out, watcher = watched(raw, gate=chat.Gate(lambda _: True, text=text, firm=False), joint=joint)
        assert (out, watcher.unread, len(watcher.raw_calls())) == (
            b"" if watcher.holding else raw,
            0,
            len(watcher.calls),
        )
        assert watcher.holding == bool(watcher.calls)
        assert out + watcher.release() == raw
        assert json.loads(watcher.raw_message())["role"] == "assistant"
        watcher.joint()
