"""What became of a turn, and what it costs when the provider does not say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from guardproxy.core.budget import Need
from guardproxy.core.edit import Reject
from guardproxy.core.model import Call, Message, Usage
from guardproxy.errors import GuardError, StoreError, UpstreamError
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
    produced_chars: int = 0
    call_count: int = 0
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


LOST: dict[str, tuple[GuardError, tuple[bool, ...]]] = {
    # the error, and whether its attempt may be billed: after no answer, after the head of one, after an error's head
    "in time": (UpstreamError("no", code="upstream_timeout", status=504), (True, True, False)),
    "broken": (UpstreamError("no", code="upstream_broken"), (True, True, False)),
    "not connected": (UpstreamError.before("no", code="upstream_timeout", status=504), (False, False, False)),
    "nobody there": (UpstreamError.before("no", code="upstream_unreachable"), (False, False, False)),
    "no JSON": (UpstreamError("no", code="upstream_not_json"), (False, False, False)),
    "ours": (StoreError("no"), (False, False, False)),
}


@pytest.mark.parametrize("name", LOST)
def test_what_may_be_billed(name: str) -> None:
    """Bytes have left for the provider, and nothing says that it did not do what it was asked."""
    error, expected = LOST[name]
    for status, lost in zip((0, 200, 503), expected, strict=True):
        done = Outcome(sent=True, upstream_status=status)
        done.fail(error)
        assert done.lost is lost
        done.pass_over(None, error.code)
        assert done.lost is False
        assert done.earlier[0].used(NEED) == (about(0) if lost else Usage())


FREE = Usage()
LEFT = {"outcome": "abandoned"}
FAILED = {"outcome": "failed"}
QUEUED = {"outcome": "answered", "finish_reason": "queued"}


def about(output: int) -> Usage:
    return Usage(100, output, estimated=True)


USED: dict[str, tuple[dict[str, Any], Usage]] = {
    "the provider says": ({"usage": SAID, "produced_chars": 400, "outcome": "answered"}, SAID),
    "it says so of a failure": ({"usage": SAID, **FAILED}, SAID),
    "it says nothing was used, of nothing": ({"usage": FREE, "outcome": "answered"}, FREE),
    "it says nothing was used, of something": (
        {"usage": FREE, "produced_chars": 400, "outcome": "answered"},
        about(101),
    ),
    "it does not say": ({"text_chars": 4, "produced_chars": 400, "outcome": "answered"}, about(101)),
    "dropped calls count": ({"dropped": (CALL,), "produced_chars": 8, "outcome": "answered"}, about(3)),
    "failed before an answer": (FAILED, FREE),
    "left in the middle of a stream": ({"produced_chars": 8, **LEFT}, about(3)),
    "left, and it thinks unseen": ({"produced_chars": 8, "thought": True, **LEFT}, about(NEED.output_tokens)),
    "left, but it had said": ({"usage": SAID, "thought": True, **LEFT}, SAID),
    "a whole one failed before an answer": ({"whole": True, **FAILED}, FREE),
    "failed in the middle": ({"produced_chars": 8, **FAILED}, about(3)),
    "failed in the middle, unread": ({"blind": True, **FAILED}, about(4096)),
    "no answer came": ({"lost": True, **FAILED}, about(0)),
    "no whole answer came": ({"lost": True, "whole": True, **FAILED}, about(4096)),
    "an error was answered": ({"upstream_status": 500, **FAILED}, FREE),
    "a stream left before an answer": (LEFT, about(0)),
    "a stream left in the middle": ({"produced_chars": 8, **LEFT}, about(3)),
    "a stream left in the middle, unread": ({"blind": True, "produced_chars": 8, **LEFT}, about(4096)),
    "a whole answer left": ({"whole": True, **LEFT}, about(4096)),
    "a whole answer left, longer than held": ({"whole": True, "produced_chars": 40_000, **LEFT}, about(10_001)),
    "an error left": ({"whole": True, "upstream_status": 500, **LEFT}, FREE),
    "queued": ({"whole": True, **QUEUED}, about(4096)),
    "queued, with usage of nothing": ({"usage": FREE, **QUEUED}, about(4096)),
    "in progress, as a stream that has ended": ({**QUEUED, "finish_reason": "in_progress"}, about(4096)),
    "in progress, but the provider says": ({"usage": SAID, **QUEUED}, SAID),
    "in progress in the background, with usage so far": ({"background": True, "usage": SAID, **QUEUED}, about(4096)),
    "queued, with more allowed than was held": ({"most": 9000, **QUEUED}, about(9000)),
    "at once, with more allowed than was held": ({"most": 9000, "outcome": "answered"}, about(0)),
    "queued, and refused": ({"upstream_status": 429, "whole": True, **QUEUED, **FAILED}, FREE),
    "a stream of the background left": ({"background": True, "produced_chars": 8, **LEFT}, about(4096)),
    "one left, longer than held": ({"background": True, "produced_chars": 40_000, **LEFT}, about(10_001)),
    "one broken": ({"background": True, "produced_chars": 8, "lost": True, **FAILED}, about(4096)),
    "one stopped in the middle": ({"background": True, "partial": True, "outcome": "answered"}, about(4096)),
    "one that failed": ({"background": True, "produced_chars": 8, **FAILED}, about(3)),
    "one to its end": ({"background": True, "produced_chars": 400, "outcome": "answered"}, about(101)),
    "answered, unread": ({"blind": True, "outcome": "answered"}, about(4096)),
    "never sent": ({"sent": False, "whole": True, **LEFT}, FREE),
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


EARLIER: dict[str, tuple[list[tuple[Seen | None, str]], dict[str, Any], Usage]] = {
    # attempts before the last with their errors, what is known of the last, what is charged for all
    "both told": ([(Seen(usage=SAID), "")], {"sent": True, "usage": SAID, "outcome": "answered"}, Usage(14, 6)),
    "the first did not tell": (
        [(Seen(produced_chars=8), "")], {"sent": True, "usage": SAID, "outcome": "answered"},
        Usage(107, 6, estimated=True)),
    "neither told": (
        [(Seen(produced_chars=8), "")], {"sent": True, "produced_chars": 400, "outcome": "answered"},
        Usage(200, 104, estimated=True)),
    "the last was never sent": ([(Seen(usage=SAID), ""), (Seen(usage=SAID), "")], {"outcome": "answered"},
        Usage(14, 6)),
    "one failed before it brought anything": (
        [(Seen(usage=SAID), ""), (None, "500")], {"outcome": "answered"}, SAID),
    "one failed, seen and empty": ([(Seen(usage=SAID), ""), (Seen(), "upstream_broken")], {}, SAID),
    "one failed in the middle": (
        [(Seen(usage=SAID), ""), (Seen(produced_chars=8, complete=False), "upstream_broken")], {},
        Usage(107, 6, estimated=True)),
    "one failed and told what it cost": ([(Seen(usage=SAID), ""), (Seen(usage=SAID), "upstream_error")], {},
        Usage(14, 6)),
    "the first was to be fetched later": (
        [(Seen(finish_reason="queued"), "")], {"sent": True, "usage": SAID, "outcome": "answered"},
        Usage(107, 4099, estimated=True)),
    "the client left a whole second answer": (
        [(Seen(usage=SAID), "")], {"sent": True, "whole": True, **LEFT}, Usage(107, 4099, estimated=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", EARLIER)
def test_all_attempts_are_charged(name: str) -> None:
    before, last, expected = EARLIER[name]
    done = Outcome()
    for seen, error in before:
        done.sent = True
        done.pass_over(seen, error)
    for field, value in last.items():
        setattr(done, field, value)

    assert done.total(NEED) == expected


def test_the_next_attempt_begins_with_nothing() -> None:
    done = Outcome(reason="reask", upstream_status=200, upstream_started_ns=5, sent=True)
    done.first_chunk()
    seen = Seen(calls=(CALL,), text="Hi", text_chars=2, produced_chars=9, call_count=1, usage=SAID)
    done.read(seen, dropped=False)
    begun = done.first_chunk_ns
    done.pass_over(seen)

    (one,) = done.earlier
    assert (one.reason, one.usage, one.calls, one.status, one.started_ns) == ("reask", SAID, (CALL,), 200, 5)
    assert (one.first_chunk_ns, one.finish_reason, one.error_type) == (begun, "stop", "")
    assert one.ended_ns >= begun
    assert (done.calls, done.call_count, done.text, done.text_chars, done.produced_chars) == ((), 0, "", 0, 0)
    assert (done.usage, done.first_chunk_ns, done.sent) == (None, 0, False)


def test_released_calls_are_those_of_the_turn() -> None:
    done = Outcome()
    done.released(Message("assistant", "So:", (CALL,)))

    assert (done.outcome, done.answer, done.status, done.calls, done.call_count) == (
        "answered",
        "calls",
        200,
        (CALL,),
        1,
    )
    assert done.text == "So:"
    assert done.usage_or_estimate(NEED) == Usage()


@pytest.mark.parametrize(("answer", "calls"), [("text", 2), ("empty", 0), ("calls", 0)])
def test_calls_that_are_written(answer: str, calls: int) -> None:
    done = Outcome(answer=answer)
    done.wrote((CALL, CALL))

    assert (done.call_count, len(done.written)) == (calls, calls)
    assert done.answer == ("calls" if calls else answer)


SO_FAR = [
    # what the provider had said, characters seen, whether that was all of it: what is charged
    (Usage(input=90, output=1), 4000, False, (90, 1000, True)),  # at the beginning, as Anthropic does
    (Usage(input=90, output=2000, cached=5), 4000, False, (90, 2000, False)),  # a running total
    (Usage(input=90, output=1), 4000, True, (90, 1, False)),
    (None, 4000, False, (100, 1000, True)),
]


@pytest.mark.parametrize("before", [False, True], ids=["the last attempt", "one before it"])
@pytest.mark.parametrize(("usage", "chars", "complete", "charged"), SO_FAR)
def test_an_answer_that_ended_in_the_middle_is_charged_for_what_was_seen_of_it(
    usage: Usage | None, chars: int, complete: bool, charged: tuple[int, int, bool], before: bool
) -> None:
    done, seen = Outcome(), Seen(text="x", text_chars=chars, produced_chars=chars, usage=usage, complete=complete)
    done.sent = True
    if before:
        done.pass_over(seen)
        used = done.earlier[0].used(NEED)
    else:
        done.read(seen, dropped=False)
        done.outcome = "abandoned"
        used = done.usage_or_estimate(NEED)
    assert (used.input, abs(used.output - charged[1]) < 40, used.estimated) == (charged[0], True, charged[2])
    assert used.cached == (usage.cached if usage else 0)
