"""Calls of a stream of blocks held until they are judged; attempts that are one answer to the client."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from guardproxy.api import messages
from guardproxy.api.messages import Gate, Joint
from guardproxy.core.edit import DropCalls
from tests.api.blocks import ask, begun, called, ended, event, events_of, play, result, said, text, thought, use, user
from tests.api.cases import CUT

EVERY = Gate(lambda _: True)
NONE = Gate(lambda _: False)
READ = Gate(lambda name: name == "read")
FINAL = Gate(lambda name: name == "final_answer", text=True)
PING = event("ping")

HELD: dict[str, tuple[Gate, list[bytes], bytes]] = {
    # the gate, the events, what the client has before anything is judged
    "calls wait, with all that comes after": (
        EVERY,
        [begun(), said(0, "Hi."), called(1, "a"), PING, said(2, "more"), ended("tool_use")],
        begun() + said(0, "Hi."),
    ),
    "nobody wants them": (
        NONE,
        [begun(), called(0, "a"), ended("tool_use")],
        begun() + called(0, "a") + ended("tool_use"),
    ),
    "those in front of the first that is wanted pass": (
        READ,
        [begun(), called(0, "a", "list", "{}"), called(1, "b"), called(2, "c", "list", "{}"), ended("tool_use")],
        begun() + called(0, "a", "list", "{}"),
    ),
    "a call without a name waits": (READ, [begun(), called(0, "a", ""), ended("tool_use")], begun()),
    "comments wait for nothing": (EVERY, [begun(), called(0, "a"), b": keep-alive\n\n"], begun() + b": keep-alive\n\n"),
    "what the provider ran is its own": (
        EVERY,
        [begun(), event("content_block_start", index=0, content_block={"type": "server_tool_use", "id": "s"})],
        begun() + event("content_block_start", index=0, content_block={"type": "server_tool_use", "id": "s"}),
    ),
    "a final answer waits, thoughts do not": (
        FINAL,
        [begun(), thought(0, "hm"), said(1, "Done."), ended()],
        begun() + thought(0, "hm"),
    ),
    "an empty answer waits": (FINAL, [begun(), ended()], begun()),
    "words in front of a call are none": (
        FINAL,
        [begun(), said(0, "I look."), called(1, "a"), ended("tool_use")],
        begun() + said(0, "I look.") + called(1, "a") + ended("tool_use"),
    ),
    "a final tool waits": (
        FINAL,
        [begun(), said(0, "So."), called(1, "a", "final_answer"), ended("tool_use")],
        begun() + said(0, "So."),
    ),
}


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("name", HELD)
def test_what_is_held_is_given_as_it_came(name: str, size: int) -> None:
    gate, sent, before = HELD[name]
    raw = b"".join(sent)
    watcher = messages.watch(ask(stream=True), gate=gate)
    out = b"".join([watcher.feed(raw[at : at + size]) for at in range(0, len(raw), size)]) + watcher.finish()
    assert out == before
    comment = b": keep-alive\n\n"
    assert watcher.holding == (len(before.replace(comment, b"")) < len(raw.replace(comment, b"")))
    assert out + watcher.release() == (raw if comment not in raw else before + called(0, "a"))
    assert not watcher.touched
    assert watcher.release() == b""


def gated(raw: bytes, keep: set[int], *, stream: bool = True, **options: Any) -> tuple[bytes, messages.Watcher]:
    """What the client has in the end, with only the calls at these positions."""
    kind = "text/event-stream" if stream else "application/json"
    watcher = messages.watch(ask(stream=stream), content_type=kind, gate=EVERY, **options)
    out = watcher.feed(raw) + watcher.finish()
    return out + watcher.release(frozenset(keep)), watcher


THREE = begun() + said(0, "Hi.") + called(1, "a") + called(2, "b") + said(3, "x") + called(4, "c") + ended("tool_use")


@pytest.mark.parametrize("keep", [set(), {0}, {1}, {0, 2}, {2}])
def test_only_some_calls_are_given(keep: set[int]) -> None:
    out, watcher = gated(THREE, keep)
    found = events_of(out)
    started = [one["content_block"].get("id", "") for one in found if one["type"] == "content_block_start"]
    assert started == ["", *["ab"[at] for at in (0, 1) if at in keep], "", *(["c"] if 2 in keep else [])]
    numbers = [one["index"] for one in found if one["type"] == "content_block_stop"]
    assert numbers == list(range(len(started)))
    assert found[-2]["delta"]["stop_reason"] == ("tool_use" if keep else "end_turn")
    assert watcher.touched
    assert [call.id for call in watcher.calls] == ["a", "b", "c"]


def test_an_answer_as_the_message_of_a_request() -> None:
    raw = begun() + thought(0, "hm") + said(1, "I ", "look.") + called(2, "a") + said(3, " ") + ended("tool_use")
    _, watcher = gated(raw, {0})
    signed = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    call = use("a", path="a")
    assert json.loads(watcher.raw_message()) == {"role": "assistant", "content": [signed, text("I look."), call]}
    assert [json.loads(one) for one in watcher.raw_calls()] == [call]
    whole = {"type": "message", "content": [signed, text("I look."), call], "stop_reason": "tool_use"}
    _, watcher = gated(json.dumps(whole).encode(), {0}, stream=False)
    assert json.loads(watcher.raw_message()) == {"role": "assistant", "content": whole["content"]}
    assert json.loads(play([begun() + ended()])[1].raw_message())["content"] == [text("…")]


@pytest.mark.parametrize(
    ("pieces", "given"),
    [
        (("{",), {"invalid_arguments": "{"}),
        (("[1]",), {"invalid_arguments": "[1]"}),
        (("", " "), {}),
        (('{"a"', ":1}"), {"a": 1}),
    ],
)
def test_arguments_of_a_message_are_objects(pieces: tuple[str, ...], given: dict[str, Any]) -> None:
    _, watcher = play([begun() + called(0, "a", "f", *pieces) + ended("tool_use")])
    (raw,) = watcher.raw_calls()
    assert json.loads(raw)["input"] == given
    assert messages.sound(raw) is raw


def attempts(first: bytes, second: bytes, keep: set[int] | None = None) -> tuple[bytes, Joint]:
    """Two attempts of one turn: of the first no call is given."""
    one = messages.watch(ask(stream=True), gate=EVERY)
    out = one.feed(first) + one.finish()
    joint = one.joint()
    two = messages.watch(ask(stream=True), gate=EVERY, joint=joint)
    out += two.feed(second) + two.finish()
    return out + two.release(None if keep is None else frozenset(keep)), two.joint()


def test_two_attempts_are_one_answer() -> None:
    first = (
        begun(cache_read_input_tokens=7)
        + thought(0, "hm")
        + said(1, "I look.")
        + called(2, "a")
        + ended("tool_use", 20)
    )
    second = begun().replace(b"msg_1", b"msg_2") + said(0, "So ", "be it.") + called(1, "b") + ended("tool_use", 30)
    out, joint = attempts(first, second)
    found = events_of(out)
    assert [one["type"] for one in found].count("message_start") == 1
    assert [one["index"] for one in found if one["type"] == "content_block_start"] == [0, 1, 2, 3]
    words = [one["delta"]["text"] for one in found if one.get("delta", {}).get("type") == "text_delta"]
    assert words == ["I look.", "\n\nSo ", "be it."]
    assert found[-2]["usage"] == {"input_tokens": 20, "cache_read_input_tokens": 7, "output_tokens": 50}
    assert b"msg_2" not in out
    assert (joint.text, joint.calls, joint.blocks, joint.base["id"]) == ("I look.\n\nSo be it.", 1, 4, "msg_1")


def test_thoughts_between_attempts_are_a_gap() -> None:
    out, _ = attempts(
        begun() + said(0, "a") + called(1, "x") + ended("tool_use"), begun() + thought(0, "t") + said(1, "b") + ended()
    )
    assert [one["delta"]["text"] for one in events_of(out) if one.get("delta", {}).get("type") == "text_delta"] == [
        "a",
        "b",
    ]


def test_a_second_attempt_without_its_calls() -> None:
    out, joint = attempts(
        begun() + called(0, "a") + ended("tool_use"), begun() + called(0, "b") + ended("tool_use"), set()
    )
    found = events_of(out)
    assert [one["type"] for one in found] == ["message_start", "message_delta", "message_stop"]
    assert found[1]["delta"]["stop_reason"] == "end_turn"
    assert joint.calls == 0


def test_a_stream_that_lacks_its_end_gets_one_where_it_is_written_anew() -> None:
    second = (
        begun() + said(0, "b") + event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2})
    )
    out, _ = attempts(begun() + called(0, "a") + ended("tool_use"), second)
    assert [one["type"] for one in events_of(out)][-2:] == ["message_delta", "message_stop"]


def test_calls_are_dropped_in_a_further_attempt() -> None:
    one = messages.watch(ask(stream=True), gate=EVERY)
    out = one.feed(begun() + said(0, "a") + called(1, "x") + ended("tool_use"))
    two = messages.watch(ask(stream=True), joint=one.joint(), drop=DropCalls(CUT))
    out += two.feed(begun() + called(0, "y") + ended("tool_use")) + two.finish()
    found = events_of(out)
    words = [one["delta"]["text"] for one in found if one.get("delta", {}).get("type") == "text_delta"]
    assert words == ["a", "\n\n" + CUT]
    assert found[-2]["delta"]["stop_reason"] == "end_turn"
    assert two.own_text


def test_whole_attempts_are_one_answer() -> None:
    first = {
        "id": "1",
        "model": "p",
        "type": "message",
        "content": [text("I look."), use("a")],
        "stop_reason": "tool_use",
    }
    first["usage"] = {"input_tokens": 3, "output_tokens": 4, "service_tier": "standard"}
    second = {**first, "id": "2", "content": [text("So."), use("b"), use("c")]}
    one = messages.watch(ask(), content_type="application/json", gate=EVERY)
    assert one.feed(json.dumps(first).encode()) + one.finish() == b""
    assert one.holding
    out, two = gated(json.dumps(second).encode(), {1}, stream=False, joint=one.joint())
    assert json.loads(out) == {
        **first,
        "content": [text("I look.\n\n"), text("So."), use("c")],
        "usage": {"input_tokens": 6, "output_tokens": 8, "service_tier": "standard"},
    }
    assert two.joint().text == "I look.\n\nSo."


def test_whole_answers_that_nobody_wants_pass_as_they_came() -> None:
    raw = b'{"id":"1", "content":[{"type":"tool_use","id":"a","name":"f","input":{}}],"stop_reason":"tool_use"}'
    for gate in (NONE, Gate(lambda _: True, calls=False)):
        watcher = messages.watch(ask(), content_type="application/json", gate=gate)
        assert watcher.feed(raw[:9]) + watcher.feed(raw[9:]) + watcher.finish() == raw
        assert not watcher.holding
    failed = b'{"type":"error","error":{"type":"x"}}'
    watcher = messages.watch(ask(), content_type="application/json", gate=EVERY)
    assert watcher.feed(failed) + watcher.finish() == failed


def test_an_error_answer_is_never_held() -> None:
    raw = called(0, "a")
    watcher = messages.watch(ask(stream=True), gate=EVERY, status=500)
    assert watcher.feed(raw) is raw
    assert not watcher.complete


def test_results_stand_in_one_message() -> None:
    calls = [json.dumps(use("a")).encode(), json.dumps(use("b")).encode()]
    (made,) = messages.results(calls, ["no", "never"])
    assert json.loads(made) == user(result("a", "no"), result("b", "never"))
    assert messages.results([], []) == ()
    assert json.loads(messages.feedback("wrong")) == user("wrong")


def test_every_call_waits_where_all_do() -> None:
    raw = begun() + called(0, "a") + ended("tool_use")
    watcher = messages.watch(ask(stream=True), gate=Gate(lambda _: False, every=True))
    assert watcher.feed(raw) == begun()
    whole = json.dumps({"type": "message", "content": [use("a")], "stop_reason": "tool_use"}).encode()
    watcher = messages.watch(ask(), content_type="application/json", gate=Gate(lambda _: False, every=True))
    assert watcher.feed(whole) + watcher.finish() == b""
    assert watcher.release() == whole


START = b'{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"%b","input":{}}}'
ODD = {
    # events that clients read in different ways, and the names of the calls that all of them read
    "a name said twice": (
        b"data: " + START.replace(b'"name":', b'"name":"safe","name":') % b"read" + b"\n\n",
        ["read"],
    ),
    "a key in capital letters": (
        b"data: " + START.replace(b'"name":', b'"NAME":"safe","name":') % b"read" + b"\n\n",
        ["read"],
    ),
    "letters that are written as codes": (
        b"data: " + START.replace(b"tool_use", b"\\u0074ool_use") % b"read" + b"\n\n",
        ["read"],
    ),
    "data in several lines": (
        b"event: content_block_start\ndata: " + (START % b"read").replace(b",", b",\ndata: ") + b"\n\n",
        ["read"],
    ),
    "two events in one": (
        b"data: " + START % b"read" + b"\ndata: " + (START % b"list").replace(b":0", b":1") + b"\n\n",
        ["read", "list"],
    ),
    "a kind that stands in the event's name alone": (
        b"event: content_block_start\ndata: "
        + START.replace(b'"type":"content_block_start",', b"") % b"read"
        + b"\n\n",
        ["read"],
    ),
    "calls that begin with the answer": (
        event("message_start", message={"id": "m", "content": [text("Hi."), use("a", "read")]}),
        ["read"],
    ),
    "what only some can read": (b"data: " + START.replace(b"{}", b"NaN") % b"read" + b"\n\n", ["read"]),
    "what nobody can read": (b"data: " + (START % b"read")[:-1] + b"\n\n", []),
    "lines without meaning": (b" data: " + START % b"read" + b"\n\n", []),
}


@pytest.mark.parametrize("name", ODD)
def test_no_call_passes_unjudged_in_an_odd_spelling(name: str) -> None:
    odd, names = ODD[name]
    watcher = messages.watch(ask(stream=True), gate=EVERY)
    assert b"read" not in watcher.feed(odd) + watcher.finish()
    assert [call.name for call in watcher.calls] == names
    assert watcher.unread == (not names)
    assert b"read" not in watcher.release(frozenset()), "no client gets it"
    kept = messages.watch(ask(stream=True), gate=EVERY)
    out = kept.feed(odd) + kept.release()
    assert [one["content_block"]["name"] for one in events_of(out) if "name" in one.get("content_block", {})] == names
    assert b"safe" not in out
    assert all(orjson.loads(line[6:]) for line in out.split(b"\n") if line.startswith(b"data: ")), "all can read it"


@pytest.mark.parametrize("name", ODD)
def test_what_is_only_observed_changes_no_byte(name: str) -> None:
    odd, _ = ODD[name]
    watcher = messages.watch(ask(stream=True), gate=Gate(lambda _: True, firm=False))
    assert watcher.feed(odd) + watcher.finish() + watcher.release() == odd
    assert not watcher.touched


def test_whole_answers_that_may_be_read_in_two_ways() -> None:
    raw = json.dumps({"type": "message", "content": [use("a", "read")], "stop_reason": "tool_use"}).encode()
    twice = raw.replace(b'"name":', b'"name": "safe", "name":')
    for sent, firm, out in ((raw, True, raw), (twice, False, twice)):
        watcher = messages.watch(ask(), content_type="application/json", gate=Gate(lambda _: True, firm=firm))
        assert watcher.feed(sent) + watcher.finish() + watcher.release() == out
    watcher = messages.watch(ask(), content_type="application/json", gate=EVERY)
    assert b"safe" not in watcher.feed(twice) + watcher.finish() + watcher.release()
    assert watcher.touched
    watcher = messages.watch(ask(), content_type="application/json", gate=EVERY)
    assert watcher.feed(raw[:-1]) + watcher.finish() + watcher.release() == b""
    assert watcher.unread == 1
