"""What became of a turn, and what it costs when the provider does not say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from guardproxy.core.budget import Need
from guardproxy.core.model import Call, Reject, Usage
from guardproxy.errors import UpstreamError
from guardproxy.http.outcome import Outcome

CALL = Call("look", '{"a": 1}', "i")
NEED = Need(input_tokens=100, output_tokens=4096, cost_microusd=9)
SAID = Usage(input=7, output=3)


@dataclass
class Seen:
    """What a watcher saw."""

    calls: tuple[Call, ...] = ()
    text: str = ""
    text_chars: int = 0
    usage: Usage | None = None
    response_model: str = "m"
    response_id: str = "r"
    finish_reason: str = "stop"
    complete: bool = True


READ: dict[str, tuple[dict[str, Any], bool, tuple[str, str]]] = {
    # what was seen, whether its calls were taken out: outcome and answer
    "a text": ({"text": "Hi", "text_chars": 2}, False, ("answered", "text")),
    "calls": ({"calls": (CALL,)}, False, ("answered", "calls")),
    "calls with text": ({"calls": (CALL,), "text": "Hi", "text_chars": 2}, False, ("answered", "calls")),
    "nothing": ({}, False, ("answered", "empty")),
    "half": ({"text": "H", "text_chars": 1, "complete": False}, False, ("failed", "text")),
    "finalized: a text": ({"text": "Hi", "text_chars": 2}, True, ("answered", "text")),
    "finalized: calls beside text": ({"calls": (CALL,), "text": "Hi", "text_chars": 2}, True, ("answered", "text")),
    "finalized: calls alone": ({"calls": (CALL,)}, True, ("answered", "own")),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_read(name: str) -> None:
    seen, dropped, expected = READ[name]
    done = Outcome()
    done.read(Seen(**seen), dropped=dropped)

    assert (done.outcome, done.answer) == expected
    taken = seen.get("calls", ())
    assert (done.calls, done.dropped) == (((), taken) if dropped else (taken, ()))
    assert (done.response_model, done.response_id, done.finish_reason) == ("m", "r", "stop")


def test_ends_of_our_own() -> None:
    cases = [
        (lambda done: done.own("words"), ("answered", "own", 200, "")),
        (lambda done: done.reject(Reject(400, "session_cut", "no")), ("failed", "", 0, "session_cut")),
        (lambda done: done.fail(UpstreamError("no", code="upstream_timeout")), ("failed", "", 0, "upstream_timeout")),
        (lambda done: None, ("abandoned", "", 0, "")),
    ]
    for act, expected in cases:
        done = Outcome()
        act(done)
        assert (done.outcome, done.answer, done.status, done.error_type) == expected
        assert done.usage_or_estimate(NEED) == Usage(), "nothing was sent: nothing is paid"


USED: dict[str, tuple[dict[str, Any], Usage]] = {
    "the provider says": ({"usage": SAID, "text_chars": 400, "outcome": "answered"}, SAID),
    "it says so of a failure": ({"usage": SAID, "outcome": "failed"}, SAID),
    "it does not say": ({"text_chars": 400, "outcome": "answered"}, Usage(100, 101, estimated=True)),
    "calls count": ({"calls": (CALL,), "outcome": "answered"}, Usage(100, 4, estimated=True)),
    "failed before an answer": ({"outcome": "failed"}, Usage()),
    "failed in the middle": ({"outcome": "failed", "text_chars": 8}, Usage(100, 3, estimated=True)),
    "left before an answer": ({"outcome": "abandoned"}, Usage(100, 0, estimated=True)),
    "never sent": ({"outcome": "abandoned", "sent": False}, Usage()),
}


@pytest.mark.parametrize("name", USED)
def test_usage_or_estimate(name: str) -> None:
    fields, expected = USED[name]

    assert Outcome(**{"sent": True, **fields}).usage_or_estimate(NEED) == expected


def test_the_first_chunk_is_noted_once() -> None:
    done = Outcome()
    done.first_chunk()
    first = done.first_chunk_ns
    done.first_chunk()

    assert first > 0
    assert done.first_chunk_ns == first
