"""Our look at an answer: in each encoding, edited or not, judged or not; and what becomes the turn's outcome of it."""

from __future__ import annotations

import gzip
import zlib
from types import SimpleNamespace
from typing import Any

import pytest

from guardproxy.api import chat
from guardproxy.api.chat import OFF, Gate
from guardproxy.core.edit import DropCalls, SpliceUsage
from guardproxy.core.model import Decision, Rung
from guardproxy.errors import UpstreamError
from guardproxy.http.look import SHOWN, Look, left, not_json, read, take_over
from guardproxy.http.outcome import Outcome
from tests.api.cases import ask
from tests.live import Said

CALLS = Said("So:", calls=[("f", "{}", "call_000000001")])
GATE = Gate(lambda _tool: True)
KINDS = {"whole": "application/json", "stream": "text/event-stream"}


def turn(stream: bool = True, *edits: Any, **changes: Any) -> Any:
    """As much of a turn as a look needs."""
    proxy = SimpleNamespace(limits=SimpleNamespace(max_expanded=1 << 20))
    made = SimpleNamespace(
        surface=chat,
        proxy=proxy,
        chosen=SimpleNamespace(options=OFF),
        ask=ask(stream=stream, tools=[{"type": "function", "function": {"name": "f"}}]),
        edits=edits,
        language="en",
        seen=SimpleNamespace(panic=False),
        outcome=Outcome(upstream_status=200, sent=True),
        decision=Decision("pass"),
        settled=False,
    )
    made.__dict__.update(changes)
    return made


def answer(kind: str, encoding: str = "", status: int = 200) -> Any:
    headers = {"content-encoding": encoding}
    return SimpleNamespace(status=status, content_type=KINDS[kind], header=lambda name: headers.get(name, ""))


def body(said: Said, kind: str) -> bytes:
    return said.body() if kind == "whole" else b"".join(said.chunks(usage=True))


PACK = {"": bytes, "gzip": gzip.compress, "deflate": zlib.compress, "identity": bytes}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoding", PACK)
def test_what_nobody_judges_passes_as_it_came(encoding: str, kind: str) -> None:
    raw = PACK[encoding](body(CALLS, kind))
    look = Look(turn(), answer(kind, encoding))
    out = look.feed(raw[:50]) + look.feed(raw[50:]) + look.finish()

    assert out == raw
    assert look.seen
    assert (look.encoded, look.decoded, look.blind) == (encoding in ("gzip", "deflate"), False, False)
    assert [call.name for call in look.watcher.calls] == ["f"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoding", PACK)
def test_what_is_judged_is_decoded(encoding: str, kind: str) -> None:
    """Held as it was, released as it was, without its encoding."""
    plain = body(CALLS, kind)
    raw = PACK[encoding](plain)
    look = Look(turn(), answer(kind, encoding), gate=GATE)
    given = look.feed(raw[:50]) + look.feed(raw[50:]) + look.finish()

    assert look.watcher.holding
    assert b'"f"' not in given
    assert given + look.watcher.release() == plain
    assert not look.encoded
    assert look.decoded is (encoding in ("gzip", "deflate"))


@pytest.mark.parametrize("gate", [None, GATE])
def test_an_encoding_that_nobody_knows(gate: Gate | None) -> None:
    look = Look(turn(), answer("stream", "zork"), gate=gate)

    assert look.feed(b"\1\2") + look.finish() == b"\1\2"
    assert (look.blind, look.encoded, look.decoded, look.seen) == (True, True, False, False)


def test_an_encoding_that_breaks() -> None:
    """Where it passes, the client sees it itself; where it is judged, nothing more comes and it is not complete."""
    raw = gzip.compress(body(CALLS, "stream"))
    broken = raw[:40] + b"\0" * 40
    passed, judged = Look(turn(), answer("stream", "gzip")), Look(turn(), answer("stream", "gzip"), gate=GATE)

    assert passed.feed(broken) == broken
    assert judged.feed(broken + raw) == b""
    assert (judged.blind, judged.encoded, judged.seen) == (True, False, False)


@pytest.mark.parametrize("status", [200, 404])
def test_edits_are_for_good_answers_that_can_be_read(status: int) -> None:
    drop = DropCalls("words")
    plain = Look(turn(True, drop, SpliceUsage()), answer("stream", status=status))
    packed = Look(turn(True, drop, SpliceUsage()), answer("stream", "gzip", status))

    assert plain.drop == packed.drop == (drop if status == 200 else None)
    assert packed.decoded is (status == 200), "calls that are taken out cannot be handed on in an encoding"
    assert Look(turn(True, drop), answer("stream", "zork")).drop is None


def test_a_usage_that_we_asked_for_is_taken_out() -> None:
    look = Look(turn(True, SpliceUsage()), answer("stream"))
    out = b"".join([look.feed(chunk) for chunk in Said("Hi").chunks(usage=True)])

    assert b'"usage"' not in out
    assert look.watcher.usage is not None


@pytest.mark.parametrize(
    ("encoding", "gate", "data", "readable"),
    [
        ("", None, b'{"a": 1}', True),
        ("", None, b"<html>", False),
        ("", None, b"", False),
        ("", None, b"[" * 100_000, False),
        ("gzip", None, b"<html>", True),  # the client's business
        ("gzip", None, gzip.compress(b"<html>"), False),
        ("gzip", None, gzip.compress(b'{"a": 1}')[:-12], False),
        ("gzip", None, b"", False),
        ("gzip", GATE, gzip.compress(b"<html>"), False),
        ("gzip", GATE, gzip.compress(b'{"a": 1}'), True),
        ("gzip", GATE, b"no gzip", False),
    ],
    ids=range(11),
)
def test_readable_json(encoding: str, gate: Gate | None, data: bytes, readable: bool) -> None:
    look = Look(turn(stream=False), answer("whole", encoding), gate=gate)
    look.feed(data)
    look.finish()

    assert look.readable_json(data) is readable


def looked(said: Said, *edits: Any, kind: str = "stream", most: int | None = None) -> tuple[Any, Look]:
    made = turn(kind == "stream", *edits)
    look = Look(made, answer(kind))
    look.feed(body(said, kind)[:most])
    look.finish()
    return made, look


def test_the_outcome_is_what_was_seen() -> None:
    made, look = looked(CALLS)
    take_over(made, look, dropped=False)

    done = made.outcome
    assert (done.outcome, done.answer, done.call_count, done.text, done.error_type) == (
        "answered",
        "calls",
        1,
        "So:",
        "",
    )
    take_over(made, look, dropped=True)
    assert (done.answer, done.calls, len(done.dropped)) == ("text", (), 1)


def test_the_outcome_of_an_answer_that_nobody_could_read() -> None:
    made = turn()
    look = Look(made, answer("stream", "zork"))
    look.feed(b"\1")
    take_over(made, look, dropped=False)

    assert (made.outcome.outcome, made.outcome.answer, made.outcome.blind) == ("answered", "calls", True)


def test_the_provider_s_own_error() -> None:
    made, look = looked(Said(raw=b'data: {"error": {"message": "overloaded"}}\n\n'))
    take_over(made, look, dropped=False)

    assert (made.outcome.outcome, made.outcome.error_type) == ("failed", "upstream_error")
    assert read(made, look, dropped=False)
    assert look.seen


@pytest.mark.parametrize(("settled", "outcome"), [(False, "abandoned"), (True, "answered")])
def test_who_leaves_pays_once(settled: bool, outcome: str) -> None:
    made, look = looked(Said("This is it."), most=-30)
    made.settled, made.outcome.outcome = settled, "answered"
    left(made, look)

    assert made.outcome.outcome == outcome
    assert bool(made.outcome.produced_chars) is not settled


@pytest.mark.parametrize(
    ("before", "action"),
    [(Decision("pass"), "cut"), (Decision("observe", Rung.OBSERVE), "cut"), (Decision("nudge", Rung.NUDGE), "nudge")],
)
def test_an_answer_that_was_cut_short(before: Decision, action: str) -> None:
    """What was said on the request's side goes before it; the run itself is not ended."""
    made, look = looked(Said("Hi"))
    made.decision = before
    look.watcher = SimpleNamespace(halted=5, hosted=(), raw_calls=tuple, seen=look.watcher.seen)
    take_over(made, look, dropped=False)

    assert made.decision.action == action
    assert made.decision.rung == before.rung


@pytest.mark.parametrize(("status", "expected"), [(200, 502), (404, 404), (503, 503)])
def test_what_is_no_json_is_shown_in_short(status: int, expected: int) -> None:
    made = turn()
    made.proxy.upstream = SimpleNamespace(base="http://p")
    sent = answer("whole", status=status)
    error = not_json(made, sent, Look(made, sent), b"<html>\n <b>gateway</b> \xff" + b"x" * 5000)

    assert isinstance(error, UpstreamError)
    assert (error.status, error.code) == (expected, "upstream_not_json")
    assert "http://p" in error.message
    assert "<html> <b>gateway</b>" in error.message
    assert len(error.message) < SHOWN + 200
