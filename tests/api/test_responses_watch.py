"""Responses watched and edited: golden streams, every cut, whole responses, garbage."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.api import responses
from guardproxy.api._chat_halt import Options
from guardproxy.api._gate import Gate
from guardproxy.core.model import Call, Usage
from tests.api.cases import CUT, FUZZ
from tests.api.responses_cases import STREAMS, ask, cut, items, kinds, objects, payloads, play, values, view
from tests.cheap import cheap


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
@pytest.mark.parametrize("way", ["", "drop"])
def test_golden_cut_at_every_byte(path: Path, way: str) -> None:
    raw = path.read_bytes()
    edited = path.with_suffix(".drop.sse")
    expected = (edited if way and edited.exists() else path).read_bytes()
    seen = json.loads(path.with_suffix(".view.json").read_text())
    for at in range(0, len(raw), 1 if FUZZ > 1 else 37):
        out, watcher = play([part for part in (raw[:at], raw[at:]) if part], drop=bool(way))
        assert out == expected, at
        assert view(watcher) == seen, at
        assert watcher.touched == (expected != raw)
    out, watcher = play(cut(raw, 1), drop=bool(way))
    assert (out, view(watcher)) == (expected, seen)


def test_golden_files_are_there() -> None:
    assert len(STREAMS) >= 25
    assert sum(path.with_suffix(".drop.sse").exists() for path in STREAMS) >= 12


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_an_edited_stream_is_well_formed(path: Path) -> None:
    """Numbers without a gap, items in their order, the response at the end has what was given."""
    edited = path.with_suffix(".drop.sse")
    if not edited.exists():
        pytest.skip("there is nothing to take out of it")
    events = [one for one in payloads(edited.read_bytes()) if one["type"].startswith(("response.", "error"))]
    if "sequence_number" in events[0]:
        assert [one["sequence_number"] for one in events] == list(range(len(events)))
    done = [one["item"] for one in events if one["type"] == "response.output_item.done"]
    indices = [one["output_index"] for one in events if one["type"] == "response.output_item.added"]
    assert indices == list(range(len(indices)))
    output = events[-1]["response"]["output"]
    assert output == done or not done or path.stem in ("end_alone", "deltas_alone")
    assert not any("call_id" in item for item in output)
    texts = [part["text"] for item in output if item["type"] == "message" for part in item["content"] if "text" in part]
    assert any(texts) or path.stem == "refusal"


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_untouched_chunks_are_the_very_objects(path: Path) -> None:
    chunks = cut(path.read_bytes(), 7)
    watcher = responses.watch(ask(stream=True))
    assert all(watcher.feed(chunk) is chunk for chunk in chunks)
    assert watcher.finish() == b""


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
@pytest.mark.parametrize("text", [False, True])
def test_released_as_it_came(path: Path, text: bool) -> None:
    """Behind a gate: what is held and released with nothing taken out are the provider's bytes, however cut."""
    raw = path.read_bytes()
    for size in (1, 9, 200, len(raw)):
        for wanted in (True, False):
            watcher = responses.watch(ask(stream=True), gate=Gate(lambda _, wanted=wanted: wanted, text=text))
            out = b"".join([watcher.feed(chunk) for chunk in cut(raw, size)]) + watcher.finish()
            if not text and not watcher.calls:
                assert not watcher.holding
            if wanted and watcher.calls and not watcher.failed:
                assert watcher.holding
                assert watcher.calls[0].id not in out.decode()
            assert out + watcher.release() == raw
            assert watcher.release() == b""
            assert not watcher.touched
            assert view(watcher) == json.loads(path.with_suffix(".view.json").read_text())


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_released_without_a_call(path: Path) -> None:
    raw = path.read_bytes()
    count = len(json.loads(path.with_suffix(".view.json").read_text())["calls"])
    for gone in range(count):
        watcher = responses.watch(ask(stream=True), gate=Gate(lambda _: True))
        out = b"".join([watcher.feed(chunk) for chunk in cut(raw, 64)]) + watcher.finish()
        out += watcher.release(frozenset(range(count)) - {gone})
        _, again = play([out])
        kept = [call for at, call in enumerate(watcher.calls) if at != gone]
        assert list(again.calls) == kept
        assert (again.text, again.usage) == (watcher.text, watcher.usage)
        events = [one for one in payloads(out) if one["type"].startswith("response.")]
        if "sequence_number" in events[0]:
            assert [one["sequence_number"] for one in events] == list(range(len(events)))


ODD: list[tuple[bytes, bytes | None]] = [
    (b'data: {"type":"response.output_item.done","item":{"type":"function_call"\n\n', b""),
    (b'Data: {"type":"function_call"}\n\n', b""),
    (b"data: not JSON\n\n", None),
    (b": {function_call}\n\n", b""),
    (
        b'data: {"type":"message","type":"function_call","item":{"a":1}}\n\n',
        b'data: {"type":"function_call","item":{"a":1}}\n\n',
    ),
    (b'data: {"type":"response.output_text.delta","delta":"x","delta":"y"}\n\n', None),
]


@pytest.mark.parametrize(("event", "given"), ODD)
def test_what_may_be_read_in_two_ways_where_calls_are_judged(event: bytes, given: bytes | None) -> None:
    """Left out where nobody can tell, written as it is read where clients differ; not where nothing is enforced."""
    end = (STREAMS[0].parent / "empty.sse").read_bytes()
    watcher = responses.watch(ask(stream=True), gate=Gate(lambda _: True))
    out = watcher.feed(event + end) + watcher.finish() + watcher.release()
    assert out == (event if given is None else given) + end
    assert watcher.unread == (given == b"")
    other = responses.watch(ask(stream=True), gate=Gate(lambda _: True, firm=False))
    assert other.feed(event + end) + other.finish() + other.release() == event + end


def test_a_whole_response_that_may_be_read_in_two_ways() -> None:
    raw = json.dumps(whole(CALL)).encode()
    for sent, unread in ((raw[:-1] + b',"output":[]}', 0), (raw[:-1], 1)):
        watcher = responses.watch(ask(), content_type="application/json", gate=Gate(lambda _: True))
        watcher.feed(sent)
        out = watcher.finish() + watcher.release()
        assert watcher.unread == unread
        assert unread or json.loads(out)["output"] == []
        assert unread or out.count(b'"output"') == 1


def test_events_are_not_held_back() -> None:
    event = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"x"}\n\n'
    for options in ({}, {"drop": True}):
        watcher = responses.watch(ask(stream=True), **({"drop": None} if not options else {}))
        assert watcher.feed(event) is event


def test_view_while_it_runs() -> None:
    raw = (STREAMS[0].parent / "text_and_call.sse").read_bytes()
    watcher = responses.watch(ask(stream=True))
    at = raw.index(b"event: response.reasoning_summary_text.done")
    watcher.feed(raw[:at])
    assert (watcher.text, watcher.produced_chars, watcher.first_token, watcher.ended) == ("", 13, True, False)
    end = raw.index(b"event: response.output_text.done")
    watcher.feed(raw[at:end])
    assert (watcher.text, watcher.produced_chars, watcher.complete) == ("I look.", 20, False)
    last = raw.index(b"event: response.completed")
    watcher.feed(raw[end:last])
    assert (watcher.calls, watcher.ended) == ((Call("f", '{"x":1}', "call_1"),), False)
    watcher.feed(raw[last:-1])
    assert (watcher.ended, watcher.usage) == (False, None)
    watcher.feed(raw[-1:])
    assert (watcher.ended, watcher.complete, watcher.usage) == (True, True, Usage(30, 12, 20, reasoning=7))


def whole(*output: Any, **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    return {"id": "r", "object": "response", "status": "completed", "output": output, "usage": usage, **more}


SAID = {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
CALL = {"id": "fc", "type": "function_call", "call_id": "c", "name": "f", "arguments": '{"x":1}'}
THOUGHT = {"id": "rs", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
F = Call("f", '{"x":1}', "c")

WHOLE: list[tuple[dict[str, Any], tuple[Call, ...], str, list[str], str]] = [
    (whole(SAID), (), "hi", ["m"], "completed"),
    (whole(THOUGHT, SAID), (), "hi", ["rs", "m"], "completed"),
    (whole(CALL), (F,), "", ["msg_guardproxy_r"], "completed"),
    (whole(THOUGHT, SAID, CALL), (F,), "hi", ["rs", "m"], "completed"),
    (whole(CALL, CALL), (F, F), "", ["msg_guardproxy_r"], "completed"),
    (whole(SAID, {**SAID, "id": "n"}), (), "hi\n\nhi", ["m", "n"], "completed"),
    (whole({**CALL, "arguments": {"x": 1}}), (F,), "", ["msg_guardproxy_r"], "completed"),
    (
        whole(SAID, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        (),
        "hi",
        ["m"],
        "max_output_tokens",
    ),
    (whole(), (), "", ["msg_guardproxy_r"], "completed"),
    (whole(1, None, {}, {"type": 5}), (), "", ["msg_guardproxy_r"], "completed"),
]


@pytest.mark.parametrize(("payload", "calls", "text", "ids", "finish"), WHOLE)
@pytest.mark.parametrize("size", [5, 10_000])
def test_whole_response(
    payload: dict[str, Any], calls: tuple[Call, ...], text: str, ids: list[str], finish: str, size: int
) -> None:
    raw = json.dumps(payload, indent=1).encode()
    chunks = cut(raw, size)
    passing = responses.watch(ask(), content_type="application/json; charset=utf-8")
    assert all(passing.feed(chunk) is chunk for chunk in chunks)
    assert (passing.finish(), passing.calls, passing.text, passing.usage) == (b"", calls, text, Usage(3, 2))
    assert (passing.complete, passing.finish_reason) == (True, finish)

    out, watcher = play(chunks, drop=True, content_type="application/json")
    assert (watcher.calls, watcher.text) == (calls, text)
    assert watcher.touched == (out != raw)
    assert watcher.own_text == (CUT in out.decode())
    assert [item["id"] for item in json.loads(out)["output"] if isinstance(item, dict) and "id" in item] == ids


@pytest.mark.parametrize("gone", [None, 0, 1])
def test_a_whole_response_behind_a_gate(gone: int | None) -> None:
    other = {**CALL, "call_id": "d", "id": "gc", "name": "g"}
    raw = json.dumps(whole(SAID, CALL, other)).encode()
    watcher = responses.watch(ask(), content_type="application/json", gate=Gate(lambda name: name == "g"))
    assert watcher.feed(raw) + watcher.finish() == b""
    assert watcher.holding
    out = watcher.release(None if gone is None else frozenset({0, 1}) - {gone})
    names = [item.get("name") for item in json.loads(out)["output"]]
    assert names == [name for at, name in ((-1, None), (0, "f"), (1, "g")) if at != gone]
    assert (out == raw) == (gone is None)


UNREADABLE = [
    b"",
    b"{",
    b"<html>",
    b"[]",
    b"null",
    b'{"error":{"message":"x"}}',
    b'{"error":{"message":"x"},"object":"response","status":"failed","output":[]}',
    b'{"output":1}',
]


@pytest.mark.parametrize("raw", UNREADABLE)
def test_whole_garbage_passes(raw: bytes) -> None:
    out, watcher = play([raw], drop=True, content_type="application/json")
    assert (out, watcher.touched, watcher.complete) == (raw, False, False)


def test_what_is_made_in_the_background_is_no_empty_answer() -> None:
    raw = json.dumps(whole(status="queued", background=True, usage=None)).encode()
    _, watcher = play([raw], content_type="application/json")
    assert (watcher.complete, watcher.finish_reason, bool(watcher.seen().text_chars)) == (True, "queued", True)


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_an_error_answer_is_never_edited(kind: str) -> None:
    raw = json.dumps(whole(CALL)).encode()
    raw = raw if "json" in kind else b"data: " + raw + b"\n\n"
    out, watcher = play([raw], drop=True, status=500, content_type=kind)
    assert (out, watcher.touched, watcher.complete) == (raw, False, False)


def test_a_stream_that_says_the_same_again_is_halted() -> None:
    parts = ["I will now look at the file. "] * 12
    begun = payloads((STREAMS[0].parent / "text.sse").read_bytes())[:4]
    made = [{**begun[3], "type": "response.output_text.delta", "delta": text} for text in parts]
    events = [
        f"event: {one['type']}\ndata: {json.dumps({**one, 'sequence_number': n})}\n\n".encode()
        for n, one in enumerate([*begun, *made])
    ]
    watcher = responses.watch(ask(stream=True), options=Options(halt_repeats=5))
    out = b"".join([watcher.feed(event) for event in events])
    assert watcher.halted == 5
    assert watcher.ended
    found = payloads(out)
    assert [one["sequence_number"] for one in found] == list(range(len(found)))
    assert found[-1]["type"] == "response.completed"
    items = found[-1]["response"]["output"]
    assert [item["status"] for item in items] == ["completed", "completed"]
    assert items[0]["content"][0]["text"] == "".join(parts[:5])
    assert b"guardproxy action=cut rule=repeated_text" in out


ENDINGS = [
    *[f"event: response.{end}\ndata: {json.dumps({'type': f'response.{end}', 'response': {'id': 'resp_1'}})}" for end in
      ("completed", "incomplete", "failed")],
    "data: [DONE]",
]  # fmt: skip


@pytest.mark.parametrize("end", ENDINGS)
def test_an_end_is_seen_with_its_last_byte_in_whichever_pieces_it_comes(end: str) -> None:
    """A stream that nobody edits is read in batches; what may be its end is looked for in each piece."""
    begun, raw = (STREAMS[0].parent / "text.sse").read_bytes().split(b"event: response.completed")[0], end.encode()
    for at in range(len(raw)):
        watcher = responses.watch(ask(stream=True))
        for part in (begun, raw[:at], raw[at:]):
            watcher.feed(part)
            assert not watcher.ended
        watcher.feed(b"\n\n")
        assert watcher.ended


def test_61_a_line_of_ten_megabytes() -> None:
    text = "x" * 3_000_000
    delta = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": text}
    added = {"type": "response.output_item.added", "output_index": 0, "item": {**CALL, "arguments": ""}}
    raw = b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in (added, delta))
    with cheap(2.0):
        for way in ({}, {"drop": True}):
            _, watcher = play(cut(raw, 4096), **way)
            assert len(watcher.calls[0].arguments) == 3_000_000


events = st.fixed_dictionaries(
    {"type": kinds},
    optional={
        "output_index": st.sampled_from([0, 0, 1, 2, -1, "0", None, 10**9]),
        "item_id": st.sampled_from(["a", "b", "", None]),
        "item": items | values,
        "delta": st.text(max_size=5) | values,
        "sequence_number": st.integers(-1, 5) | values,
        "response": st.fixed_dictionaries({}, optional={"output": st.lists(items | values, max_size=3)}) | objects,
        "content_index": values,
    },
)
chunks = st.lists(
    st.one_of(
        st.tuples(events | objects | values, st.booleans()).map(
            lambda one: (
                (
                    b"event: " + str(one[0].get("type") if isinstance(one[0], dict) else "").encode() + b"\n"
                    if one[1]
                    else b""
                )
                + b"data: "
                + orjson.dumps(one[0])
                + b"\n\n"
            )
        ),
        st.sampled_from([b": c\n\n", b"data: [DONE]\n\n", b"data: {\n\n", b"data: NaN\n\n", b"\xff\n\n"]),
    ),
    max_size=8,
)


def spoilt(raw: bytes, seed: int) -> bytes:
    """A golden stream with some of its bytes, or of its events, lost, doubled, moved or changed."""
    chance = random.Random(seed)  # a test's
    events = raw.split(b"\n\n")
    for _ in range(chance.randint(1, 3)):
        at, other = chance.randrange(len(events)), chance.randrange(len(events))
        match chance.randrange(5):
            case 0:
                events[at] = b""
            case 1:
                events.insert(at, events[other])
            case 2:
                events[at], events[other] = events[other], events[at]
            case 3:
                one, cut_at = events[at], chance.randint(0, len(events[at]))
                events[at] = one[:cut_at] + one[cut_at + chance.randint(1, 9) :]
            case _:
                events[at] = events[at].replace(*chance.choice(SWAPS))
    return b"\n\n".join(events)


SWAPS = [
    (b'"output_index":0', b'"output_index":null'),
    (b'"output_index":1', b'"output_index":0'),
    (b'"item_id"', b'"item_ix"'),
    (b'"delta":"', b'"delta":["'),
    (b'"item":{', b'"item":[],"x":{'),
    (b'"type":"response', b'"type":["response"],"y":"'),
    (b'"response":{', b'"response":[{'),
    (b'"output":[', b'"output":{},"z":['),
    (b'"arguments":"', b'"arguments":{},"z":"'),
    (b'"call_id":"', b'"call_id":7,"z":"'),
    (b"completed", b"in_progress"),
    (b"event: ", b"event:"),
]


@settings(max_examples=300 * FUZZ, deadline=None)
@given(st.sampled_from(STREAMS), st.integers(0, 2**32))
def test_never_raises_whatever_comes(path: Path, seed: int) -> None:
    raw = spoilt(path.read_bytes(), seed)
    out, watcher = play(cut(raw, 1 + seed % 997))
    assert out == raw
    json.dumps(view(watcher)).encode()


@settings(max_examples=100 * FUZZ, deadline=None)
@given(st.sampled_from(STREAMS), st.integers(0, 2**32))
def test_spoilt_streams_behind_a_gate(path: Path, seed: int) -> None:
    raw = spoilt(path.read_bytes(), seed)
    gated = responses.watch(ask(stream=True), gate=Gate(lambda _: True, text=bool(seed % 2), firm=False))
    given_ = b"".join([gated.feed(part) for part in cut(raw, 1 + seed % 997)]) + gated.finish()
    assert given_ + gated.release() == raw
    _, dropping = play([raw], drop=True)
    dropping.joint()


@settings(max_examples=40 * FUZZ, deadline=None)
@given(chunks, st.integers(1, 60))
def test_edits_never_raise(sent: list[bytes], size: int) -> None:
    raw = b"".join(sent)
    _, watcher = play(cut(raw, size))
    assert view(play([raw])[1]) == view(watcher)
    orjson.loads(watcher.raw_message())
    watcher.joint()
    _, dropping = play(cut(raw, size), drop=True)
    dropping.joint()
    gated = responses.watch(ask(stream=True), gate=Gate(lambda _: True, text=True, firm=False))
    given = b"".join([gated.feed(chunk) for chunk in cut(raw, size)]) + gated.finish()
    assert given + gated.release() == raw
    gated = responses.watch(ask(stream=True), gate=Gate(lambda _: True))
    given = b"".join([gated.feed(chunk) for chunk in cut(raw, size)]) + gated.finish()
    responses.closing(ask(stream=True), gated.joint(), "end", reply_id="r", created=1)
    gated.release(frozenset())
    second = responses.watch(ask(stream=True), joint=gated.joint())
    for chunk in cut(raw, size):
        second.feed(chunk)
    second.finish()


@settings(max_examples=100 * FUZZ, deadline=None)
@given(objects | events, st.booleans())
def test_never_raises_whatever_comes_whole(payload: dict[str, Any], drop: bool) -> None:
    raw = orjson.dumps(payload)
    out, watcher = play([raw], drop=drop, content_type="application/json")
    assert drop or out == raw
    view(watcher)
    orjson.loads(watcher.raw_message())
    gated = responses.watch(ask(), content_type="application/json", gate=Gate(lambda _: True, text=True))
    gated.feed(raw)
    gated.finish()
    gated.release(frozenset())
    gated.joint()
