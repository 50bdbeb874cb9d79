"""Answers watched and edited: golden streams, every cut, whole completions, garbage."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.api import _template, chat
from guardproxy.core.edit import DropCalls
from guardproxy.core.model import Call, Usage
from tests.api.cases import CUT, FUZZ, GOLDEN, ask, delta, objects, play, sse, values, view
from tests.as_written import as_written
from tests.cheap import cheap

STREAMS = sorted(path for path in (GOLDEN / "streams").glob("*.sse") if path.name.count(".") == 1)
WAYS: list[tuple[str, dict[str, bool]]] = [("", {}), ("drop", {"drop": True}), ("strip", {"strip": True})]


@functools.cache
def expected(path: Path, way: str) -> bytes:
    edited = path.with_suffix(f".{way}.sse")
    return (edited if way and edited.exists() else path).read_bytes()


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
@pytest.mark.parametrize(("way", "options"), WAYS)
def test_golden_cut_at_every_byte(path: Path, way: str, options: dict[str, bool]) -> None:
    raw = path.read_bytes()
    seen = json.loads(path.with_suffix(".view.json").read_text())
    for at in range(0, len(raw), 1 if len(raw) < 2000 else 3):
        out, watcher = play([part for part in (raw[:at], raw[at:]) if part], **options)
        assert out == expected(path, way), at
        assert view(watcher) == seen, at
        assert watcher.touched == (way == "drop" and expected(path, way) != raw)


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
@pytest.mark.parametrize(("way", "options"), WAYS)
def test_golden_byte_by_byte(path: Path, way: str, options: dict[str, bool]) -> None:
    raw = path.read_bytes()
    out, watcher = play([raw[at : at + 1] for at in range(len(raw))], **options)
    assert out == expected(path, way)
    assert view(watcher) == json.loads(path.with_suffix(".view.json").read_text())


def test_golden_files_are_there() -> None:
    assert len(STREAMS) >= 15
    assert sum(path.with_suffix(".drop.sse").exists() for path in STREAMS) >= 7


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_untouched_chunks_are_the_very_objects(path: Path) -> None:
    raw = path.read_bytes()
    chunks = [raw[at : at + 7] for at in range(0, len(raw), 7)]
    watcher = chat.watch(ask(stream=True))
    assert all(watcher.feed(chunk) is chunk for chunk in chunks)
    assert watcher.finish() == b""
    events = [event + b"\n\n" for event in raw.split(b"\n\n") if event]
    stripping = chat.watch(ask(stream=True), strip_usage=True)
    passed = [stripping.feed(event) is event for event in events]
    if (
        not path.with_suffix(".strip.sse").exists()
        and raw.endswith(b"\n\n")
        and b"\n\n\n" not in raw
        and b"\r" not in raw
    ):
        assert all(passed)


def test_events_are_not_held_back() -> None:
    """A whole event leaves with the chunk that completes it, in every way that a stream can take."""
    event = sse(delta(content="x"))[: -len(b"data: [DONE]\n\n")]
    for options in ({}, {"strip_usage": True}, {"drop": DropCalls(CUT)}):
        watcher = chat.watch(ask(stream=True), **options)
        assert watcher.feed(event) is event
        assert watcher.feed(event[:9]) in (b"", event[:9])
        assert watcher.feed(event[9:]).endswith(event[9:])


def test_view_while_it_runs() -> None:
    watcher = chat.watch(ask(stream=True))
    assert (watcher.first_token, watcher.complete, watcher.ended) == (False, False, False)
    watcher.feed(sse(delta(role="assistant", content=""))[:-14])
    assert not watcher.first_token
    watcher.feed(sse(delta(reasoning_content="hm"))[:-14])
    assert (watcher.first_token, watcher.text, watcher.text_chars, watcher.produced_chars) == (True, "", 0, 2)
    watcher.feed(sse(delta(content="abc"), delta("stop"))[:-14])
    assert (watcher.text, watcher.text_chars, watcher.produced_chars) == ("abc", 3, 5)
    assert (watcher.complete, watcher.ended) == (True, False)  # the usage is still to come
    watcher.feed(b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\ndata: [DO')
    assert (watcher.ended, watcher.usage) == (False, Usage(1, 2))
    watcher.feed(b"NE]\n\n")
    assert watcher.ended


@pytest.mark.parametrize(
    ("usage", "found"),
    [
        ({"usage": {"prompt_tokens": 9, "completion_tokens": 4}}, Usage(9, 4)),
        ({"usage": {"prompt_tokens": 0, "completion_tokens": 0}}, Usage(0, 0)),
        (
            {"usage": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}}},
            Usage(9, 4, 5),
        ),
        ({"usage": {"prompt_tokens": 9, "completion_tokens": None, "prompt_cache_hit_tokens": 3}}, Usage(9, 0, 3)),
        (
            {
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 4,
                    "completion_tokens_details": {"reasoning_tokens": 2},
                    "cache_creation_input_tokens": 6,
                }
            },
            Usage(9, 4, 0, 6, 2),
        ),
        ({"x_groq": {"usage": {"prompt_tokens": 2, "completion_tokens": 1}}}, Usage(2, 1)),
        ({"choices": [{"index": 0, "delta": {}, "usage": {"prompt_tokens": 2, "completion_tokens": 1}}]}, Usage(2, 1)),
        ({"usage": None}, None),
        ({"usage": {}}, None),
        ({"usage": {"prompt_tokens": "9", "completion_tokens": -1}}, None),
        ({"usage": {"prompt_tokens": 1e300, "completion_tokens": True}}, None),
        ({"usage": [1]}, None),
    ],
)
def test_usage_on_any_chunk(usage: dict[str, Any], found: Usage | None) -> None:
    running = (
        {"usage": {"prompt_tokens": 1, "completion_tokens": 1}} if found and min(found.input, found.output) > 1 else {}
    )
    raw = sse({**delta(content="x"), **running}, {**delta(), **usage}, delta("stop"))
    assert play([raw])[1].usage == found


COMPLETION = {
    "id": "r",
    "object": "chat.completion",
    "created": 1,
    "model": "p",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop", "x": 2**63}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}
TOOL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}


def completion(finish: Any = "tool_calls", **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {**COMPLETION, "choices": [choice]}


WHOLE: list[tuple[dict[str, Any], tuple[Call, ...], str, Any, str]] = [
    (completion("stop", content="hi"), (), "hi", "hi", "stop"),
    (completion("length", content="hi"), (), "hi", "hi", "length"),
    (completion(content=None, tool_calls=[TOOL]), (Call("f", '{"x":1}', "c"),), "", CUT, "stop"),
    (completion(content="so", tool_calls=[TOOL]), (Call("f", '{"x":1}', "c"),), "so", "so", "stop"),
    (completion("stop", content="", tool_calls=[TOOL, TOOL]), (Call("f", '{"x":1}', "c"),) * 2, "", CUT, "stop"),
    (
        completion("function_call", content=None, function_call={"name": "f", "arguments": {}}),
        (Call("f", "{}"),),
        "",
        CUT,
        "stop",
    ),
    (completion(content=None, tool_calls=[]), (), "", CUT, "stop"),
    (completion(content="said", tool_calls=[]), (), "said", "said", "stop"),
    (
        completion("stop", content=[{"type": "text", "text": "parts"}]),
        (),
        "parts",
        [{"type": "text", "text": "parts"}],
        "stop",
    ),
    (completion("stop", content=None, refusal="no"), (), "no", None, "stop"),
    ({**COMPLETION, "choices": [{"index": 0, "message": None, "finish_reason": None}]}, (), "", CUT, "stop"),
]


@pytest.mark.parametrize(("payload", "calls", "text", "content", "finish"), WHOLE)
@pytest.mark.parametrize("size", [5, 10_000])
def test_whole_completion(
    payload: dict[str, Any], calls: tuple[Call, ...], text: str, content: Any, finish: str, size: int
) -> None:
    raw = json.dumps(payload, indent=1).encode()
    chunks = [raw[at : at + size] for at in range(0, len(raw), size)]
    passing = chat.watch(ask(), content_type="application/json; charset=utf-8")
    assert all(passing.feed(chunk) is chunk for chunk in chunks)
    assert (passing.finish(), passing.calls, passing.text, passing.usage) == (b"", calls, text, Usage(3, 2))
    assert passing.complete == bool(payload["choices"][0]["finish_reason"])

    out, watcher = play(chunks, drop=True, content_type="application/json")
    (choice,) = json.loads(out)["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (content, finish)
    assert not choice["message"].get("tool_calls")
    assert not choice["message"].get("function_call")
    assert (watcher.calls, watcher.text) == (calls, text)
    assert watcher.touched == (out != raw)
    assert watcher.own_text == (content == CUT)
    kept = {key: value for key, value in payload.items() if key != "choices"}
    assert {key: value for key, value in json.loads(out).items() if key != "choices"} == kept


UNREADABLE = [
    b"",
    b"{",
    b"<html>",
    b"[]",
    b"null",
    b'{"error":{"message":"x"}}',
    b'{"choices":null}',
    b'{"choices":[1]}',
    b'{"choices":[]}',
    b'{"error":1,"choices":[{"message":{"tool_calls":[{}]}}]}',
]


@pytest.mark.parametrize("raw", UNREADABLE)
def test_whole_garbage_passes(raw: bytes) -> None:
    out, watcher = play([raw], drop=True, content_type="application/json")
    assert (out, watcher.touched, watcher.complete) == (raw, False, False)


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_an_error_answer_is_never_edited(kind: str) -> None:
    raw = (
        json.dumps(completion(content=None, tool_calls=[TOOL])).encode() if "json" in kind else sse(delta(content="x"))
    )
    out, watcher = play([raw], drop=True, strip=True, status=500, content_type=kind)
    assert (out, watcher.touched, watcher.complete) == (raw, False, False)


def test_several_choices_are_watched_and_never_edited() -> None:
    raw = sse(
        delta(index=1, content="b"),
        delta(index=0, tool_calls=[{"index": 0, **TOOL}]),
        delta(index=1, content="c"),
        delta("tool_calls", index=0),
        delta("stop", index=1),
    )
    out, watcher = play([raw], drop=True, n=2)
    assert (out, watcher.touched) == (raw, False)
    assert watcher.answers == (("", (Call("f", '{"x":1}', "c"),)), ("bc", ()))
    assert (watcher.calls, watcher.text) == ((Call("f", '{"x":1}', "c"),), "")
    whole = json.dumps(completion(content=None, tool_calls=[TOOL])).encode()
    assert play([whole], drop=True, n=2, content_type="application/json")[0] == whole


def test_a_stream_asked_for_and_answered_whole() -> None:
    raw = json.dumps(completion(content=None, tool_calls=[TOOL])).encode()
    watcher = chat.watch(ask(stream=True), content_type="application/json")
    assert watcher.feed(raw) is raw
    assert watcher.calls == (Call("f", '{"x":1}', "c"),)
    assert chat.watch(ask(stream=True), content_type="").feed(b"data: x\n\n") == b"data: x\n\n"


def test_text_is_bounded_and_counted() -> None:
    raw = sse(*[delta(content="y" * 100_000)] * 5, delta("stop"))
    _, watcher = play([raw])
    assert (len(watcher.text), watcher.text_chars) == (256 * 1024, 500_000)


def test_61_a_line_of_ten_megabytes() -> None:
    raw = sse(
        delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f", "arguments": "x" * 3_000_000}}]),
        delta("stop"),
    )
    with cheap(2.0):
        for way in ({}, {"drop": True}, {"strip": True}):
            _, watcher = play([raw[at : at + 4096] for at in range(0, len(raw), 4096)], **way)
            assert len(watcher.calls[0].arguments) == 3_000_000


chunks = st.lists(
    st.one_of(
        st.builds(
            delta,
            st.sampled_from([None, "stop", "tool_calls", ""]),
            st.integers(0, 1),
            content=values,
            tool_calls=values,
        ),
        st.builds(delta, content=st.text(max_size=6)),
        st.builds(
            lambda text, name: delta(
                tool_calls=[{"index": 0, "id": name, "function": {"name": name, "arguments": text}}]
            ),
            st.text(alphabet='{}"x:\\', max_size=4),
            st.sampled_from(["", "f"]),
        ),
        objects,
        values,
    ).map(lambda payload: b"data: " + orjson.dumps(payload) + b"\n\n")
    | st.sampled_from(
        [b": c\n\n", b"data: [DONE]\n\n", b"data: {\n\n", b"data: NaN\n\n", b"\xff\n\n", b'data: "\\ud800"\n\n']
    ),
    max_size=8,
)


def looked_at(watcher: chat.Watcher) -> tuple[Any, ...]:
    found = (watcher.calls, watcher.answers, watcher.text, watcher.text_chars, watcher.produced_chars, watcher.usage)
    return (
        *found,
        watcher.response_model,
        watcher.response_id,
        watcher.finish_reason,
        watcher.complete,
        watcher.first_token,
    )


@settings(max_examples=300 * FUZZ, deadline=None)
@given(chunks, st.integers(1, 40))
def test_never_raises_whatever_comes(events: list[bytes], size: int) -> None:
    raw = b"".join(events)
    parts = [raw[at : at + size] for at in range(0, len(raw), size)]
    out, watcher = play(parts)
    assert out == raw
    seen = looked_at(watcher)
    for text in (*(text for call in watcher.calls for text in call), watcher.text, watcher.response_id):
        text.encode()
    stripped, other = play(parts, strip=True)
    assert len(stripped) <= len(raw)
    assert looked_at(other) == seen
    cut, dropping = play(parts, drop=True)
    assert looked_at(dropping) == seen
    _, again = play([cut])
    assert (
        b"[DONE]" not in cut or not [call for call in again.calls if call.name] or watcher.failed or not watcher.calls
    )


@settings(max_examples=200 * FUZZ, deadline=None)
@given(
    st.lists(
        st.builds(
            lambda text, kind, id, extra: {  # noqa: A006
                "id": "r",
                "choices": [
                    {
                        "index": 0,
                        "delta": {"content": text}
                        if kind
                        else {"tool_calls": [{"index": 0, **id, "function": {"arguments": text}}]},
                        **extra,
                    }
                ],
            },
            st.text(alphabet='ab{}":\\\n世🙂', max_size=5),
            st.booleans(),
            st.sampled_from([{}, {}, {"id": "c"}, {"id": "d"}]),
            st.sampled_from([{}, {}, {}, {"finish_reason": None}, {"logprobs": {"content": "x"}}]),
        ),
        max_size=14,
    ),
    st.booleans(),
)
def test_the_shortcut_reads_the_same(payloads: list[dict[str, Any]], ascii_only: bool) -> None:
    raw = b"".join(b"data: " + json.dumps(payload, ensure_ascii=ascii_only).encode() + b"\n\n" for payload in payloads)
    quick = play([raw])[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_template, "LESSONS", 0)
        slow = play([raw])[1]
    assert looked_at(quick) == looked_at(slow)


def test_the_shortcut_is_proven_before_it_is_taken() -> None:
    """The one `"content":"` in sight is not the delta's: its key is written with an escape."""
    event = 'data: {"choices":[{"index":0,"delta":{"cont\\u0065nt":"a"},"logprobs":{"content":"%s"}}]}\n\n'
    _, watcher = play([(event % token).encode() for token in "xyz"])
    assert watcher.text == "aaa"


@as_written
def test_the_shortcut_is_taken() -> None:
    parsed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_template, "peek", lambda data: parsed.append(data) or orjson.loads(data))
        raw = sse(*[delta(content=f'w{number} "q"') for number in range(50)])
        _, watcher = play([raw])
    assert watcher.text == "".join(f'w{number} "q"' for number in range(50))
    assert len(parsed) == 2  # the first chunk, and the probe
