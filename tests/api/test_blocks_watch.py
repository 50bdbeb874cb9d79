"""Answers made of blocks, watched and edited: golden streams, every cut, whole answers, wild ones."""

from __future__ import annotations

import functools
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from guardproxy.api import messages
from guardproxy.core.model import Call, Usage
from tests.api.blocks import (
    GOLDEN,
    ask,
    begun,
    blocks,
    called,
    ended,
    event,
    events_of,
    play,
    said,
    text,
    thought,
    use,
    view,
    wild,
)
from tests.api.cases import CUT, FUZZ

STREAMS = sorted(path for path in (GOLDEN / "streams").glob("*.sse") if path.name.count(".") == 1)
OPTIONS = messages.Options(halt_repeats=10, mend_finish=True)


@functools.cache
def expected(path: Path, *, drop: bool) -> bytes:
    edited = path.with_suffix(".drop.sse")
    return (edited if drop and edited.exists() else path).read_bytes()


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.verify)])
@pytest.mark.parametrize("drop", [False, True], ids=["", "drop"])
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_golden_cut_at_every_byte(path: Path, drop: bool, step: int) -> None:
    """Every byte in `verify`; in between at places of which each event has some."""
    raw, seen = path.read_bytes(), json.loads(path.with_suffix(".view.json").read_text("utf-8"))
    out = expected(path, drop=drop)
    for at in range(0, len(raw), step):
        got, watcher = play([part for part in (raw[:at], raw[at:]) if part], drop=drop)
        assert got == out, at
        assert view(watcher) == seen, at
        assert watcher.touched == (out != raw)


@pytest.mark.parametrize("drop", [False, True], ids=["", "drop"])
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_golden_byte_by_byte(path: Path, drop: bool) -> None:
    raw = path.read_bytes()
    got, watcher = play([raw[at : at + 1] for at in range(len(raw))], drop=drop)
    assert got == expected(path, drop=drop)
    assert view(watcher) == json.loads(path.with_suffix(".view.json").read_text("utf-8"))


def test_golden_files_are_there() -> None:
    assert len(STREAMS) >= 17
    assert sum(path.with_suffix(".drop.sse").exists() for path in STREAMS) >= 9


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_untouched_chunks_are_the_very_objects(path: Path) -> None:
    raw = path.read_bytes()
    chunks = [raw[at : at + 7] for at in range(0, len(raw), 7)]
    watcher = messages.watch(ask(stream=True))
    assert all(watcher.feed(chunk) is chunk for chunk in chunks)
    assert watcher.finish() == b""


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_the_end_is_seen_at_once(path: Path) -> None:
    """Also where the last event comes in pieces; a stream without it has no end that we could tell."""
    raw = path.read_bytes()
    for size in (1, 5, 40, 4096):
        watcher = messages.watch(ask(stream=True))
        ends = []
        for at in range(0, len(raw), size):
            watcher.feed(raw[at : at + size])
            ends.append(watcher.ended)
        assert ends[-1] == (b"message_stop" in raw)
        assert sum(ends) <= (32 + size) // size + 2 or not ends[-1]


WHOLE: dict[str, tuple[Any, Any]] = {
    # the content, stop reason; then what is seen: calls, text
    "text": ([text("Hi.")], ((), "Hi.")),
    "thoughts are no words": ([{"type": "thinking", "thinking": "x", "signature": "s"}, text("Hi.")], ((), "Hi.")),
    "calls": (
        [text("a"), use("1", path="a"), use("2", "list")],
        ((Call("read", '{"path":"a"}', "1"), Call("list", "{}", "2")), "a"),
    ),
    "what cites is one text": ([text("It is "), text("so", citations=[{}]), text(".")], ((), "It is so.")),
    "what stands apart is two": ([text("a"), use("1", "f"), text("b")], ((Call("f", "{}", "1"),), "a\n\nb")),
    "what the provider ran is no call": (
        [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, text("b")],
        ((), "b"),
    ),
    "arguments as text": ([{"type": "tool_use", "id": "1", "name": "f", "input": "{}"}], ((Call("f", "{}", "1"),), "")),
    "junk": ([None, 3, {"type": 5}, {"type": "text"}, text("x")], ((), "x")),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_answers(name: str) -> None:
    content, (calls, words) = WHOLE[name]
    usage = {"input_tokens": 3, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 2, "output_tokens": 4}
    raw = json.dumps({"id": "m", "type": "message", "content": content, "stop_reason": "x", "usage": usage}).encode()
    out, watcher = play([raw[:9], raw[9:]], stream=False)
    assert (out, watcher.touched) == (raw, False)
    assert (watcher.calls, watcher.text, watcher.complete) == (calls, words, True)
    assert watcher.usage == Usage(12, 4, 7, 2)
    assert watcher.call_count == len(calls)


def test_calls_are_taken_out_of_a_whole_answer() -> None:
    answer = {"id": "m", "content": [text("a"), use("1"), {"type": "x"}], "stop_reason": "tool_use", "z": 1.10}
    out, watcher = play([json.dumps(answer).encode()], drop=True, stream=False)
    assert json.loads(out) == {**answer, "content": [text("a"), {"type": "x"}], "stop_reason": "end_turn"}
    assert (watcher.touched, watcher.own_text) == (True, False)
    out, watcher = play([json.dumps({**answer, "content": [use("1")]}).encode()], drop=True, stream=False)
    assert json.loads(out)["content"] == [text(CUT)]
    assert watcher.own_text
    error = b'{"type":"error","error":{"type":"api_error","message":"x"}}'
    assert play([error], drop=True, stream=False)[0] == error
    assert play([error], stream=False)[1].failed


REPEATED = "I will look into the file again. "


def test_a_stream_that_repeats_itself_is_halted() -> None:
    pieces = [event("content_block_delta", index=0, delta={"type": "text_delta", "text": REPEATED})] * 30
    first = [begun(), event("content_block_start", index=0, content_block=text(""))]
    out, watcher = play([*first, *pieces, ended()], options=OPTIONS)
    assert watcher.halted >= 10
    found = events_of(out)
    assert [one["type"] for one in found[-4:]] == [
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert found[-4]["delta"]["text"].startswith("\n\n[guardproxy]")
    assert found[-2]["delta"]["stop_reason"] == "max_tokens"
    assert b": guardproxy action=cut rule=repeated_text\n\n" in out
    assert watcher.ended
    calls, watcher = play([*first, *pieces[:5], called(1, "a"), *pieces], options=OPTIONS)
    assert (calls, watcher.halted) == (b"".join([*first, *pieces[:5], called(1, "a"), *pieces]), 0)


def test_a_reason_that_promises_calls_is_mended() -> None:
    raw = begun() + said(0, "x") + ended("tool_use")
    out, watcher = play([raw], options=OPTIONS)
    assert out == raw.replace(b"tool_use", b"end_turn").replace(b'": "', b'":"').replace(b", ", b",") or watcher.touched
    assert events_of(out)[-2]["delta"]["stop_reason"] == "end_turn"
    whole = json.dumps({"type": "message", "content": [text("x")], "stop_reason": "tool_use"}).encode()
    assert json.loads(play([whole], stream=False, options=OPTIONS)[0])["stop_reason"] == "end_turn"
    honest = begun() + called(0, "x") + ended("tool_use")
    assert play([honest], options=OPTIONS)[0] == honest


def test_what_a_client_has_when_a_person_ends_the_turn() -> None:
    """The block that is open is closed, and ours has the next number."""
    raw = begun() + thought(0, "hm") + said(1, "Hel", "lo")
    cut = raw.rpartition(b"event: content_block_stop")[0]
    for sent in (raw, cut):
        out, watcher = play([sent])
        joint = watcher.joint()
        assert (joint.role, joint.text, joint.blocks, joint.open) == (True, "Hello", 2, sent is cut)
        end = messages.closing(ask(stream=True), joint, "[guardproxy] over", reply_id="r", created=1)
        found = events_of(out + end)
        assert [one["index"] for one in found if one["type"] == "content_block_stop"] == [0, 1, 2]
        assert [one["type"] for one in found].count("message_start") == 1


def streams_of(found: list[Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in found)


SEEN = messages.Gate(lambda _: True, text=True, firm=False)
FUZZED = settings(max_examples=100 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
GOLDENS = [path.read_bytes() for path in STREAMS]
places = st.lists(st.tuples(st.integers(0, 2500), st.binary(max_size=3), st.integers(0, 40)), max_size=4)


def broken(raw: bytes, faults: list[tuple[int, bytes, int]]) -> bytes:
    """The bytes with others in the place of some."""
    for at, new, gone in faults:
        raw = raw[: at % len(raw)] + new + raw[at % len(raw) + gone :] or b"x"
    return raw


@pytest.mark.parametrize("more", [b"", b'"', b"\\\\", b'\\"', b"x", b'","text":"y'])
def test_the_shortcut_reads_the_same(more: bytes) -> None:
    """Also where a string holds what looks like the end of one, and where an event holds more than the others."""
    plain = b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a b"}}\n\n'
    odd = plain.replace(b"a b", b"c" + more)
    raw = begun() + event("content_block_start", index=0, content_block=text("")) + plain * 3 + odd + plain * 2
    _, watcher = play([raw])
    read = messages.watch(ask(stream=True), gate=messages.Gate(lambda _: False))
    read.feed(raw)
    assert watcher.text == read.text
    assert watcher.text.count("a b") == 5


def test_of_a_key_that_comes_twice_the_last_counts() -> None:
    """As JSON's readers have it; such an event is no pattern."""
    events = [
        b'data: {"type":"content_block_delta","index":0,"delta":{"text":"%d","type":"text_delta","text":"b"}}\n\n'
        % number
        for number in range(5)
    ]
    _, watcher = play([begun(), event("content_block_start", index=0, content_block=text("")), *events])
    assert watcher.text == "bbbbb"


def cut(raw: bytes, ends: list[int]) -> list[bytes]:
    return [raw[a:b] for a, b in pairwise(sorted({0, *[at % (len(raw) + 1) for at in ends], len(raw)}))]


@settings(FUZZED, max_examples=400 * FUZZ)
@given(st.integers(0, len(GOLDENS) - 1), places, st.lists(st.integers(0, 2500), max_size=3))
def test_broken_streams_pass(number: int, faults: list[tuple[int, bytes, int]], ends: list[int]) -> None:
    """Never an exception, and what goes out is what came in."""
    raw = broken(GOLDENS[number], faults)
    chunks = cut(raw, ends)
    out, watcher = play(chunks)
    assert out == raw
    gated = messages.watch(ask(stream=True), gate=messages.Gate(lambda _: True, firm=False))
    assert b"".join([*map(gated.feed, chunks), gated.finish(), gated.release()]) == raw or b":" in raw
    assert watcher.seen() == gated.seen(), "the shortcut reads the same"


@FUZZED
@given(st.lists(wild, max_size=5), st.lists(st.integers(0, 400), max_size=4))
def test_wild_events_pass(found: list[Any], ends: list[int]) -> None:
    raw = streams_of(found)
    out, watcher = play(cut(raw, ends))
    assert out == raw
    view(watcher), watcher.seen(), watcher.raw_message(), watcher.raw_calls(), watcher.joint()


@FUZZED
@given(st.lists(wild, max_size=5))
def test_wild_events_edited(found: list[Any]) -> None:
    raw = streams_of(found)
    out, watcher = play([raw], drop=True)
    assert watcher.touched == (out != raw)
    gate = messages.Gate(lambda _: True)
    for one in (SEEN, gate):
        gated = messages.watch(ask(stream=True), gate=one, options=OPTIONS)
        held = gated.feed(raw) + gated.finish()
        assert held + gated.release() == raw or gated.halted or gated.touched
        gated.joint(), gated.raw_message(), gated.raw_calls()
    joined = messages.watch(ask(stream=True), gate=gate, joint=messages.Joint(text="t", blocks=2))
    joined.feed(raw) + joined.finish() + joined.release(frozenset({1}))
    joined.joint()


@FUZZED
@given(st.one_of(wild, st.fixed_dictionaries({"content": st.lists(blocks, max_size=4)})), st.binary(max_size=200))
def test_wild_bodies(found: Any, garbage: bytes) -> None:
    for raw in (json.dumps(found).encode(), garbage):
        out, watcher = play([raw], stream=False)
        assert out == raw
        view(watcher), watcher.raw_message(), watcher.raw_calls(), watcher.joint()
        play([raw], drop=True, stream=False)
        gated = messages.watch(ask(), content_type="application/json", gate=SEEN)
        held = gated.feed(raw) + gated.finish()
        assert held + gated.release() == raw
