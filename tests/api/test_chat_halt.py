"""Options of chat answers: streams that are halted, finish reasons that are mended, and all that is left alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guardproxy.api import chat
from guardproxy.api._chat_halt import FEWEST
from guardproxy.core.edit import DropCalls
from tests.api.cases import CUT, ask, delta, sse

HALT = chat.Options(halt_repeats=10)
MEND = chat.Options(mend_finish=True)
LET = delta(content="Let me check the file. ")
LETS = sse(delta(role="assistant", content=""), *[LET] * 400, delta("stop"))
USAGE = {"id": "r", "model": "p", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 9}}
CALL = delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}])
CALLED = {"tool_calls": [{"id": "c", "function": {"name": "f"}}]}
PROMISE = {
    "id": "r",
    "choices": [{"index": 0, "message": {"content": None, "tool_calls": []}, "finish_reason": "tool_calls"}],
}


def play(raw: bytes, size: int, *, stream: bool = True, **how: Any) -> tuple[bytes, chat.Watcher]:
    watcher = chat.watch(ask(stream=stream, n=how.pop("n", 1)), content_type=how.pop("kind", ""), **how)
    out = b"".join([watcher.feed(raw[at : at + size]) for at in range(0, len(raw), size)])
    return out + watcher.finish(), watcher


def events(out: bytes) -> list[Any]:
    return [json.loads(one[6:]) for one in out.split(b"\n\n") if one.startswith(b"data: {")]


@pytest.mark.parametrize("size", [1, 50, 1000, 1 << 20])
@pytest.mark.parametrize("strip", [False, True])
@pytest.mark.parametrize(("language", "words"), [("en", "came 10 times"), ("zh", "出现了 10 次")])
def test_a_stream_is_halted_at_the_tenth(size: int, strip: bool, language: str, words: str) -> None:
    out, watcher = play(LETS, size, strip_usage=strip, options=HALT, language=language)
    *kept, note, end = events(out)

    begun = LETS[: LETS.index(b"Let me")].rpartition(b"data: ")[0] + 10 * (
        b"data: " + json.dumps(LET).encode() + b"\n\n"
    )
    assert out.startswith(begun)
    assert len(kept) == 11
    assert words in note["choices"][0]["delta"]["content"]
    assert note["choices"][0]["delta"]["content"].startswith("\n\n[guardproxy] ")
    assert (note["id"], note["model"]) == ("r", "p")
    assert end["choices"][0]["finish_reason"] == "length"
    assert out.endswith(b": guardproxy action=cut rule=repeated_text\n\ndata: [DONE]\n\n")
    assert (watcher.halted, watcher.ended, watcher.complete, watcher.finish_reason) == (10, True, True, "length")
    assert watcher.text == "Let me check the file. " * 10, "our words are not the model's"
    assert watcher.produced_chars == len(watcher.text)


LEFT_ALONE = {
    "off": (LETS, {"options": chat.OFF}),
    "nine times": (sse(*[LET] * 9, delta("stop")), {}),
    "after a call": (sse(CALL, *[LET] * 400, delta("tool_calls")), {}),
    "several choices": (LETS, {"n": 2}),
    "an error": (LETS, {"status": 500}),
    "whole": (json.dumps({"choices": [{"message": {"content": "Let me check. " * 400}}]}).encode(), {"stream": False}),
    "thoughts": (sse(*[delta(reasoning_content="Let me check the file. ")] * 400, delta("stop")), {}),
    "only mended": (LETS, {"options": MEND}),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_left_alone(name: str) -> None:
    raw, how = LEFT_ALONE[name]
    kind = "application/json" if how.get("stream") is False else "text/event-stream"
    out, watcher = play(raw, 100, **{"options": HALT, "kind": kind, **how})
    assert out == raw
    assert not watcher.halted
    assert not watcher.touched


def test_off_costs_nothing() -> None:
    """The same way as ever: the very chunks are handed on."""
    watcher = chat.watch(ask(stream=True), options=chat.OFF)
    chunk = LETS[:100]
    assert watcher.feed(chunk) is chunk


MENDED = {
    # a stream's payloads, and the finish reason that the client gets
    "no calls": ((delta(content=None), delta("tool_calls")), "stop"),
    "an empty list": ((delta(tool_calls=[]), delta("tool_calls"), USAGE), "stop"),
    "the older kind": ((delta(content="x"), delta("function_call")), "stop"),
    "with calls": ((CALL, delta("tool_calls")), "tool_calls"),
    "calls beside the reason": (
        ({**CALL, "choices": [{**CALL["choices"][0], "finish_reason": "tool_calls"}]},),
        "tool_calls",
    ),
    "length": ((delta(content="x"), delta("length")), "length"),
}


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("strip", [False, True])
@pytest.mark.parametrize("name", MENDED)
def test_a_promise_of_calls_is_mended(name: str, strip: bool, size: int) -> None:
    payloads, reason = MENDED[name]
    raw = sse(*payloads)
    out, watcher = play(raw, size, options=MEND, strip_usage=strip)
    plain, _ = play(raw, size, strip_usage=strip)

    found = [choice["finish_reason"] for one in events(out) for choice in one["choices"] if choice["finish_reason"]]
    assert found == [reason]
    wanted = events(plain)
    for one in wanted:
        for choice in one["choices"]:
            choice["finish_reason"] = choice["finish_reason"] and reason
    assert events(out) == wanted
    assert (out == plain) == (reason != "stop") == (not watcher.touched)


def test_without_a_blank_line_at_the_end() -> None:
    raw = sse(delta("tool_calls")).partition(b"data: [DONE]")[0].rstrip()
    for strip in (False, True):
        out, _ = play(raw, 10, options=MEND, strip_usage=strip)
        assert b'"stop"' in out


@pytest.mark.parametrize("finish", ["tool_calls", "function_call"])
def test_a_whole_answer_is_mended(finish: str) -> None:
    body = json.dumps({**PROMISE, "choices": [{**PROMISE["choices"][0], "finish_reason": finish}]}).encode()
    out, watcher = play(body, 30, stream=False, options=MEND, kind="application/json")

    assert json.loads(out) == {**PROMISE, "choices": [{**PROMISE["choices"][0], "finish_reason": "stop"}]}
    assert watcher.touched
    assert watcher.finish_reason == finish, "what the provider said"


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"choices": [{"message": CALLED, "finish_reason": "tool_calls"}]}),
        json.dumps({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}),
        '{"choices": 7}', "[]", "no JSON", "",
    ],
)  # fmt: skip
def test_a_whole_answer_is_left_alone(body: str) -> None:
    out, watcher = play(body.encode(), 30, stream=False, options=MEND, kind="application/json")
    assert out == body.encode()
    assert not watcher.touched


def test_beside_a_finalize() -> None:
    """Calls are taken out, and the text that takes their place is nobody's repetition."""
    both = chat.Options(halt_repeats=10, mend_finish=True)
    out, watcher = play(sse(CALL, delta("tool_calls")), 10, options=both, drop=DropCalls(CUT))
    plain, _ = play(sse(CALL, delta("tool_calls")), 10, drop=DropCalls(CUT))
    assert out == plain
    assert watcher.own_text


def test_the_fewest() -> None:
    assert not chat.OFF.used
    assert HALT.used
    assert MEND.used
    for few in range(1, FEWEST):
        with pytest.raises(ValueError, match="halt_repeats must be 0"):
            chat.Options(halt_repeats=few)
