"""Answers of our own made of blocks, whole and as events; every one is read back by the tests' own client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guardproxy.api import messages
from guardproxy.api.messages import Joint
from tests.api.blocks import ask, begun, called, events_of, play, said, text, thought, use
from tests.surfaces import messages as client

WAYS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
BASE = {"id": "msg_1", "model": "p"}
SPOKEN = Joint(BASE, role=True, text="I look.", blocks=1, streamed=True, usage={"input_tokens": 3, "output_tokens": 4})


@WAYS
def test_a_reply(stream: bool) -> None:
    kind, made = messages.reply(ask(stream=stream), "Hi 世.", reply_id="r", created=1)
    assert kind == ("text/event-stream" if stream else "application/json")
    message, reason, usage = client.answer(made, stream=stream)
    assert (message["content"], reason) == ("Hi 世.", "stop")
    assert usage == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    assert messages.watch(ask(stream=stream)).feed(made) is made
    _, seen = play([made], stream=stream)
    assert (seen.text, seen.complete, seen.response_id, seen.response_model) == ("Hi 世.", True, "r", "m")


@WAYS
def test_a_reply_that_is_the_call_of_a_finishing_tool(stream: bool) -> None:
    finish = ("final_answer", "answer", "abc123DEF")
    _, made = messages.reply(ask(stream=stream), "Hi.", reply_id="r", created=1, finish=finish)
    message, reason, _ = client.answer(made, stream=stream)
    assert reason == "tool_calls"
    assert message["blocks"] == [use("abc123DEF", "final_answer", answer="Hi.")]


def test_the_end_of_a_stream_in_our_words() -> None:
    end = messages.closing(ask(stream=True), SPOKEN, "Over.", reply_id="r", created=1)
    message, reason, usage = client.answer(begun() + said(0, "I look.") + end, stream=True)
    assert (message["content"], reason) == ("I look.\n\nOver.", "stop")
    assert usage == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


@WAYS
@pytest.mark.parametrize("joint", [None, Joint(), Joint(BASE, text="I look.")], ids=["nothing", "empty", "words"])
def test_the_end_of_an_answer_of_which_nothing_was_given(stream: bool, joint: Joint | None) -> None:
    """Also where a client that asked for a stream has a provider that answered in one piece."""
    made = messages.closing(ask(stream=stream), joint, "Over.", reply_id="r", created=1)
    message, reason, _ = client.answer(made, stream=stream)
    assert message["content"] == ("I look.\n\nOver." if joint and joint.text else "Over.")
    assert reason == "stop"
    assert (b"msg_1" in made) == bool(joint and joint.base)


STORED: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "hm", "signature": "sig"},
    {"type": "redacted_thinking", "data": "x"},
    text("I look."),
    use("1", path="a"),
]
STORED_RAW = json.dumps({"role": "assistant", "content": STORED}).encode()


@WAYS
def test_a_stored_answer(stream: bool) -> None:
    _, made = messages.replay_message(ask(stream=stream), STORED_RAW, reply_id="r", created=1)
    message, reason, _ = client.answer(made, stream=stream)
    assert (message["blocks"], reason) == (STORED, "tool_calls")


def test_the_rest_of_a_stored_answer() -> None:
    """What flowed of it is not said again; of a whole one nothing flowed."""
    flowed = begun() + thought(0, "hm") + said(1, "I look.")
    _, watcher = play([flowed + called(2, "1")], gate=messages.Gate(lambda _: True))
    joint = watcher.joint()
    _, made = messages.replay_message(ask(stream=True), STORED_RAW, reply_id="r", created=1, joint=joint)
    message, reason, _ = client.answer(flowed + made, stream=True)
    assert message["blocks"] == [STORED[0], STORED[2], STORED[3]]
    assert reason == "tool_calls"
    whole = Joint(BASE, text="Before.\n\nI look.")
    _, made = messages.replay_message(ask(), STORED_RAW, reply_id="r", created=1, joint=whole)
    message, _, _ = client.answer(made, stream=False)
    assert message["blocks"] == [STORED[0], STORED[1], text("Before.\n\nI look."), STORED[3]]


@WAYS
@pytest.mark.parametrize("stored", [b"junk", b'{"content":"Hi."}', b'{"content":[3]}'])
def test_stored_answers_that_are_odd(stored: bytes, stream: bool) -> None:
    _, made = messages.replay_message(ask(stream=stream), stored, reply_id="r", created=1)
    message, _, _ = client.answer(made, stream=stream)
    assert message["content"] == ("Hi." if b"Hi" in stored else None)


def test_a_sign_of_life() -> None:
    assert events_of(messages.keep_alive()) == [{"type": "ping"}]
