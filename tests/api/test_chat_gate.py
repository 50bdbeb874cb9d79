"""The gate of a stream: what flows, what is held, what is released, and how attempts are joined."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import openai
import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.api import chat
from guardproxy.api._json import peek
from guardproxy.api._sse import data_of
from guardproxy.core.edit import DropCalls
from guardproxy.core.model import Call
from tests.api.cases import CUT, FUZZ, GOLDEN, ask, delta, sse
from tests.api.gates import Client, calling, cut, events, gated, payloads, tc
from tests.api.test_calls import CASES
from tests.api.test_chat_watch import chunks as wild

STREAMS = sorted(path for path in (GOLDEN / "streams").glob("*.sse") if path.name.count(".") == 1)
ALL: Any = lambda _: True  # noqa: E731
NONE: Any = lambda _: False  # noqa: E731
F: Any = lambda name: name == "f"  # noqa: E731


def spoken(event: bytes) -> str:
    """The text of an event that holds nothing else that has to wait."""
    found = ""
    for payload in payloads(event):
        for choice in payload.get("choices") or []:
            said = choice.get("delta") or choice.get("message") or {} if isinstance(choice, dict) else {}
            if said.get("tool_calls") or said.get("function_call") or choice.get("finish_reason"):
                return ""
            found += said.get("content") if isinstance(said.get("content"), str) else ""
    return found


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
@pytest.mark.parametrize("wants", [ALL, NONE], ids=["all", "none"])
def test_golden_released_as_it_came_cut_at_every_byte(path: Path, wants: Any) -> None:
    raw = path.read_bytes()
    plain = json.loads(path.with_suffix(".view.json").read_text())
    for at in range(0, len(raw), 1 if len(raw) < 2000 else 7):
        firm = at % 2 == 0
        before, watcher = gated([part for part in (raw[:at], raw[at:]) if part], wants, firm=firm)
        held = watcher.holding
        out = before + watcher.release()
        assert out == (legible(raw) if firm else raw), at
        assert held == (wants is ALL and bool(plain["calls"]))
        assert not watcher.touched
        assert [list(call) for call in watcher.calls] == plain["calls"]


HOLDS: list[tuple[str, list[Any], Any, int]] = [
    ("a wanted call", [[tc(0, "a", "f", "")], [tc(0, a="{}")]], F, 1),
    ("nobody wants it", [[tc(0, "a", "g", "")], [tc(0, a="{}")]], F, 99),
    ("the second is wanted", [[tc(0, "a", "g", "{}")], [tc(1, "b", "f", "{}")], [tc(2, "c", "g", "{}")]], F, 2),
    ("both in one chunk", [[tc(0, "a", "g", "{}"), tc(1, "b", "f", "{}")]], F, 1),
    ("a late name", [[tc(0, "a")], [tc(0, n="f")], [tc(0, a="{}")]], F, 1),
    ("a late name that nobody wants", [[tc(0, "a")], [tc(0, n="g")], [tc(0, a="{}")]], F, 99),
    (
        "a name in pieces",
        [[tc(0, "a", "read_", "")], [tc(0, n="file")], [tc(0, a="{}")]],
        lambda n: n == "read_file",
        1,
    ),
    ("pieces that nobody wants", [[tc(0, "a", "f", "")], [tc(0, n="oo")], [tc(0, a="{}")]], lambda n: n == "x", 99),
    ("arguments without a name", [[tc(0, "a", a="{}")]], F, 1),
    ("a name without arguments", [[tc(0, "a", "g")]], F, 99),
    ("all zero", [[tc(0, "a", "g", "{}")], [tc(0, "b", "f", "{}")]], F, 2),
]


@pytest.mark.parametrize(("chunks", "wants", "first"), [case[1:] for case in HOLDS], ids=[case[0] for case in HOLDS])
def test_what_is_held(chunks: list[Any], wants: Any, first: int) -> None:
    """`first`: which of the chunks with calls is the first that is not in the client's hands at the end."""
    raw = calling(*chunks, text="so")
    out, watcher = gated(raw, wants)
    passed = len([event for event in events(out) if b'"tool_calls": [' in event])
    assert passed == (len(chunks) if first > len(chunks) else first - 1)
    assert watcher.holding == (first <= len(chunks))
    assert raw.startswith(out)
    assert out + watcher.release() == raw


def test_text_flows_while_calls_are_held() -> None:
    raw = [
        sse(delta(tool_calls=[tc(0, "a", "f", "{}")]))[:-14],
        sse(delta(content="still"))[:-14],
        b": ping\n\n",
        sse(delta(reasoning_content="hm"))[:-14],
        sse(delta(tool_calls=[tc(1, "b", "g", "{}")]))[:-14],
        sse(delta("tool_calls")),
    ]
    watcher = chat.watch(ask(stream=True), gate=chat.Gate(F))
    assert [watcher.feed(part) == part for part in raw] == [False, True, True, True, False, False]
    assert watcher.ended
    assert watcher.release() == raw[0] + raw[4] + raw[5]


def test_untouched_events_are_the_very_objects() -> None:
    parts = events(calling([tc(0, "a", "g", "{}")], [tc(0, a=" ")], text="x"))
    watcher = chat.watch(ask(stream=True), gate=chat.Gate(NONE))
    assert all(watcher.feed(part) is part for part in parts)


def test_the_text_of_a_final_answer_is_held_where_that_is_wanted() -> None:
    final = sse(delta(role="assistant", content=""), delta(reasoning="hm"), delta(content="done"), delta("stop"))
    out, watcher = gated(final, NONE, text=True)
    assert ("hm" in out.decode(), "done" in out.decode(), watcher.holding) == (True, False, True)
    assert watcher.joint().text == ""
    assert sorted(events(out + watcher.release())) == sorted(events(final))
    with_calls = calling([tc(0, "a", "g", "{}")], text="let me see")
    out, watcher = gated(with_calls, NONE, text=True)
    assert (out, watcher.holding) == (with_calls, False)
    out, watcher = gated(with_calls, ALL, text=True, calls=False)
    assert (out, watcher.holding) == (with_calls, False)
    out, watcher = gated(with_calls, ALL, text=True)
    assert ("let me see" in out.decode(), watcher.holding) == (True, True)
    client = Client(out + watcher.release(frozenset()))
    assert (client.text, client.calls, client.finishes) == ("let me see", [], ["stop"])


def test_an_answer_with_several_choices_or_an_error_is_never_held() -> None:
    raw = calling([tc(0, "a", "f", "{}")])
    for options in ({"n": 2}, {}):
        watcher = chat.watch(ask(stream=True, **options), gate=chat.Gate(ALL), status=200 if options else 500)
        assert watcher.feed(raw) is raw
        assert (watcher.holding, watcher.release()) == (False, b"")


KEPT: list[tuple[str, list[Any], Any, list[int]]] = [
    ("none of one", [[tc(0, "a", "f", "{}")]], ALL, []),
    ("the first", [[tc(0, "a", "f", "{}")], [tc(1, "b", "f", '{"x"')], [tc(1, a=":1}")]], ALL, [0]),
    ("the last", [[tc(0, "a", "f", "{}")], [tc(1, "b", "f", '{"x"')], [tc(1, a=":1}")]], ALL, [1]),
    ("outer ones", [[tc(n, f"c{n}", "f", "{}") for n in range(4)]], ALL, [0, 3]),
    ("behind one that passed", [[tc(0, "a", "g", "{}")], [tc(1, "b", "f", "{}")], [tc(2, "c", "h", "{}")]], F, [0, 2]),
    ("the rest of one that passed", [[tc(0, "a", "g", "{")], [tc(1, "b", "f", "{}")], [tc(0, a="}")]], F, [0]),
    ("indices in reverse", [[tc(1, "b", "g", "{}")], [tc(0, "a", "f", "{}")]], ALL, [1]),
]


@pytest.mark.parametrize(("chunks", "wants", "keep"), [case[1:] for case in KEPT], ids=[case[0] for case in KEPT])
@pytest.mark.parametrize("text", ["", "so"])
def test_only_some_calls_are_given(chunks: list[Any], wants: Any, keep: list[int], text: str) -> None:
    out, watcher = gated(calling(*chunks, text=text, prompt_tokens=3, completion_tokens=2), wants)
    calls = watcher.calls
    out += watcher.release(frozenset(keep))
    client = Client(out)
    assert client.calls == [calls[place] for place in keep]
    assert (client.text, client.roles, client.dones) == (text, ["assistant"], 1)
    assert client.finishes == ["tool_calls" if keep else "stop"]
    assert client.usages == [{"prompt_tokens": 3, "completion_tokens": 2}]
    assert watcher.touched
    assert watcher.joint().calls == len(keep)


@pytest.mark.parametrize(("chunks", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@pytest.mark.parametrize("parity", [0, 1])
def test_oddities_kept_or_taken_out(chunks: list[Any], expected: list[Any], parity: int) -> None:
    """Every oddity of the loop log: those that are kept arrive as the API has it, the others do not."""
    out, watcher = gated(calling(*chunks))
    keep = frozenset(place for place in range(len(expected)) if place % 2 == parity)
    if len(keep) == len(expected):
        assert out + watcher.release(keep) == calling(*chunks)
        return
    after = chat.watch(ask(stream=True))
    after.feed(out + watcher.release(keep))
    assert [list(call) for call in after.calls] == [list(call) for place, call in enumerate(expected) if place in keep]
    assert after.finish_reason == ("tool_calls" if keep else "stop")


@pytest.mark.parametrize(("chunks", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_raw_calls_say_the_same(chunks: list[Any], expected: list[Any]) -> None:
    _, watcher = gated(calling(*chunks))
    found = [json.loads(raw) for raw in watcher.raw_calls()]
    message = json.loads(watcher.raw_message())
    assert message["tool_calls"] == found
    inner = [one.get("function") or one["custom"] for one in found]
    assert [
        (one["name"], one.get("arguments", one.get("input")), raw["id"]) for one, raw in zip(inner, found, strict=True)
    ] == [tuple(call) for call in expected]
    assert not any("index" in one for one in found)


LEGACY = sse(
    delta(role="assistant", content=None, function_call={"name": "f", "arguments": '{"x"'}),
    delta(function_call={"arguments": ":1}"}),
    delta("function_call"),
)


def test_the_older_kind_of_call() -> None:
    out, watcher = gated(LEGACY)
    assert (out, watcher.holding) == (b"", True)
    assert watcher.raw_calls() == (b'{"name":"f","arguments":"{\\"x\\":1}"}',)
    assert json.loads(watcher.raw_message())["function_call"] == {"name": "f", "arguments": '{"x":1}'}
    assert watcher.release() == LEGACY
    _, watcher = gated(LEGACY)
    client = Client(watcher.release(frozenset()))
    assert (client.finishes, client.roles, client.calls) == (["stop"], ["assistant"], [])
    _, first = gated(calling([tc(0, "a", "f", "{}")]))
    watcher = chat.watch(ask(stream=True), joint=first.joint())
    out = watcher.feed(LEGACY)
    assert [choice["delta"] for one in payloads(out) for choice in one["choices"]] == [
        {"function_call": {"name": "f", "arguments": '{"x":1}'}},
        {},
    ]
    assert gated(LEGACY, NONE)[0] == LEGACY


def test_fields_of_the_message_and_its_calls_are_kept() -> None:
    raw = sse(
        delta(role="assistant", content=None, reasoning_content="I "),
        delta(reasoning_content="think", reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "I "}]),
        delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "think"}]),
        delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "signature": "s1"}]),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "index": 1, "data": "zz"}]),
        delta(tool_calls=[{**tc(0, "a", "f", ""), "type": "function", "extra_content": {"google": {"sig": "x"}}}]),
        delta(tool_calls=[tc(0, a="{}")], refusal=None, audio=None),
        delta("tool_calls"),
    )
    _, watcher = gated(raw)
    assert json.loads(watcher.raw_message()) == {
        "role": "assistant",
        "content": None,
        "reasoning_content": "I think",
        "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "I think", "signature": "s1"},
            {"type": "reasoning.encrypted", "index": 1, "data": "zz"},
        ],
        "tool_calls": [
            {
                "id": "a",
                "type": "function",
                "function": {"name": "f", "arguments": "{}"},
                "extra_content": {"google": {"sig": "x"}},
            }
        ],
    }


def test_a_character_split_over_chunks_and_a_pair_over_events() -> None:
    raw = calling([tc(0, "a", "f", '{"x":"世')], [tc(0, a='🙂"}')])
    raw = raw.replace(b"\\ud83d\\ude42", "🙂".encode())
    out, watcher = gated([raw[at : at + 1] for at in range(len(raw))])
    assert out + watcher.release() == raw
    assert watcher.calls == (Call("f", '{"x":"世🙂"}', "a"),)
    halves = sse(delta(content="\ud83d"), delta(content="\ude42"), delta(tool_calls=[tc(0, "a", "f", "{}")]))
    assert json.loads(gated(halves)[1].raw_message())["content"] == "🙂"


def test_a_stream_without_an_end_gets_one_when_it_is_written_anew() -> None:
    unfinished = calling([tc(0, "a", "f", "{}"), tc(1, "b", "f", "{}")], finish=None)
    out, watcher = gated(unfinished)
    assert Client(out + watcher.release(frozenset([0]))).finishes == ["tool_calls"]
    undone = calling([tc(0, "a", "f", "{}"), tc(1, "b", "f", "{}")])[: -len(b"data: [DONE]\n\n")]
    out, watcher = gated(undone)
    assert Client(out + watcher.release(frozenset([1]))).dones == 1
    broken = calling([tc(0, "a", "f", "{}"), tc(1, "b", "f", "{}")], finish=None)[: -len(b"data: [DONE]\n\n")]
    out, watcher = gated(broken)
    client = Client(out + watcher.release(frozenset([1])))
    assert (client.finishes, client.dones) == ([], 0)


def test_with_the_usage_chunk_stripped() -> None:
    raw = calling([tc(0, "a", "f", "{}")], prompt_tokens=1, completion_tokens=1)
    stripped = calling([tc(0, "a", "f", "{}")])
    out, watcher = gated(raw, strip_usage=True)
    assert out + watcher.release() == stripped
    assert watcher.joint().usage == {"prompt_tokens": 1, "completion_tokens": 1}


def test_with_a_halted_stream() -> None:
    raw = sse(*[delta(content="Let me check the file again. ")] * 40)
    options = chat.Options(halt_repeats=10)
    out, watcher = gated(raw, options=options)
    assert (watcher.halted, Client(out).finishes, Client(out).dones) == (10, ["length"], 1)
    out, watcher = gated(raw, text=True, options=options)
    assert (b"Let me" in out, watcher.holding) == (False, True)
    assert Client(watcher.release()).finishes == ["length"]


def test_with_a_mended_finish_reason() -> None:
    raw = sse(delta(role="assistant", content="x"), delta("tool_calls"))
    out, _ = gated(raw, options=chat.Options(mend_finish=True))
    assert Client(out).finishes == ["stop"]


def sizes(raw: bytes) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, max(2, len(raw) // 3)), max_size=8)


@settings(max_examples=300 * FUZZ, deadline=None)
@given(wild, st.data(), st.sampled_from([ALL, NONE, F]), st.booleans())
def test_whatever_comes_is_given_whole_and_text_at_once(found: list[bytes], data: Any, wants: Any, text: bool) -> None:
    raw = b"".join(found)
    parts = cut(raw, data.draw(sizes(raw)))
    firm = data.draw(st.booleans())
    watcher = chat.watch(ask(stream=True), gate=chat.Gate(wants, text=text, firm=firm))
    out = b""
    fed = b""
    for part in parts:
        out += watcher.feed(part)
        fed += part
        if not text and not firm:
            complete = [event for event in events(fed) if event.endswith(b"\n\n")]
            assert_text_passed(complete, out)
    out += watcher.finish()
    kept = watcher.calls
    watcher.raw_message(), watcher.raw_calls(), watcher.joint()
    total = out + watcher.release() + watcher.finish()
    if not firm:
        assert sorted(events(total)) == sorted(events(raw))
    if not firm and not any(spoken_safely(event) for event in events(raw)):
        assert total == raw
    assert watcher.calls == kept


def legible(raw: bytes) -> bytes:
    """A stream without the events that nobody can read."""
    found = [(event, data_of(event)) for event in events(raw)]
    return b"".join(event for event, data in found if b"{" not in data or isinstance(peek(data), dict))


def spoken_safely(event: bytes) -> bool:
    """Whether an event may overtake those that are held."""
    return (
        event.startswith(b":") or b"content" in event or b"reason" in event or b"\xff" in event or b"data" not in event
    )


def assert_text_passed(complete: list[bytes], out: bytes) -> None:
    """All text is given that no held text stands before."""
    given_ = events(out)
    waits = False
    for event in complete:
        if is_text(event):
            assert waits or event in given_
        waits = waits or (b"content" in event and event not in given_)


def is_text(event: bytes) -> bool:
    try:
        return bool(spoken(event))
    except (ValueError, AttributeError, TypeError):
        return False


@st.composite
def streams(draw: Any) -> tuple[bytes, list[Call]]:
    """A stream with calls of any of the forms that providers have, and the calls in it."""
    count = draw(st.integers(0, 4))
    form = draw(
        st.sampled_from(["plain", "no index", "all zero", "repeated", "one id", "no id", "object", "one chunk"])
    )
    calls, chunks = [], []
    for number in range(count):
        name = draw(st.sampled_from(["f", "g", "h"]))
        arguments = json.dumps({"k": draw(st.text(max_size=6)), "n": number}, ensure_ascii=draw(st.booleans()))
        call_id = {"one id": "Z", "no id": ""}.get(form, f"c{number}")
        at = None if form == "no index" else 0 if form == "all zero" else number
        calls.append(Call(name, arguments, call_id))
        half = draw(st.integers(0, len(arguments)))
        again = {"id": call_id, "n": name} if form == "repeated" else {}
        if form in ("object", "one chunk"):
            whole = json.loads(arguments) if form == "object" else arguments
            calls[-1] = Call(
                name,
                json.dumps(whole, separators=(",", ":"), ensure_ascii=False) if form == "object" else whole,
                call_id,
            )
            chunks.append([tc(at, call_id, name, whole)])
        else:
            chunks.append([tc(at, call_id or None, name, "")])
            chunks += [[tc(at, a=part, **again)] for part in (arguments[:half], arguments[half:]) if part]
    if form == "one chunk":
        chunks = [[entry for chunk in chunks for entry in chunk]] if chunks else []
    text = draw(st.sampled_from(["", "so", "世界 🙂"]))
    usage = {"prompt_tokens": draw(st.integers(0, 9)), "completion_tokens": 2} if draw(st.booleans()) else {}
    finish = draw(st.sampled_from(["tool_calls", "stop"])) if calls else "stop"
    return calling(*chunks, text=text, finish=finish, **usage), calls


@settings(max_examples=300 * FUZZ, deadline=None)
@given(streams(), st.data(), st.sampled_from([ALL, F]))
def test_exactly_those_kept_arrive(stream: tuple[bytes, list[Call]], data: Any, wants: Any) -> None:
    raw, calls = stream
    out, watcher = gated(cut(raw, data.draw(sizes(raw))), wants)
    assert list(watcher.calls) == calls
    passed = chat.watch(ask(stream=True))
    passed.feed(out)
    early = len(passed.calls)
    keep = frozenset(range(early)) | data.draw(st.frozensets(st.integers(0, 4)))
    total = out + watcher.release(keep) + watcher.finish()
    after = chat.watch(ask(stream=True))
    after.feed(total)
    assert list(after.calls) == [call for place, call in enumerate(calls) if place in keep]
    assert (after.text, after.usage) == (watcher.text, watcher.usage)
    client = Client(total) if not early and len(after.calls) < len(calls) else None
    if client is not None:
        assert client.calls == list(after.calls)
        assert (len(client.roles), len(client.finishes), client.dones) == (1, 1, 1)
        assert after.calls or client.finishes == ["stop"]


@settings(max_examples=100 * FUZZ, deadline=None)
@given(st.lists(streams(), min_size=2, max_size=3), st.data(), st.booleans())
def test_attempts_make_one_stream(attempts: list[tuple[bytes, list[Call]]], data: Any, judged: bool) -> None:
    joint = None
    total, texts, usages = b"", [], []
    for number, (raw, _) in enumerate(attempts):
        last = number == len(attempts) - 1
        gate = chat.Gate(ALL) if judged or not last else None
        if joint is None:
            gate = chat.Gate(ALL)
        named = raw.replace(b'"id": "r"', b'"id": "r%d", "created": %d' % (number, number))
        watcher = chat.watch(ask(stream=True), gate=gate, joint=joint)
        out = b"".join([watcher.feed(part) for part in cut(named, data.draw(sizes(named)))]) + watcher.finish()
        if not last and not watcher.calls:
            return  # nothing was refused: it is the answer
        total += out
        texts += [watcher.text] if watcher.text else []
        usages += [watcher.usage] if watcher.usage else []
        joint = watcher.joint()
        if last:
            total += watcher.release()
    client = Client(total)
    assert client.calls == attempts[-1][1]
    assert (client.roles, client.dones, len(client.finishes)) == (["assistant"], 1, 1)
    assert client.ids == {("r0", "p", 0)}
    assert client.text == "\n\n".join(texts)
    if client.usages:
        assert client.usages[-1]["prompt_tokens"] == sum(usage.input for usage in usages)


def test_an_attempt_whose_calls_are_dropped() -> None:
    first = gated(calling([tc(0, "a", "f", "{}")], text="one"))
    joint = first[1].joint()
    watcher = chat.watch(ask(stream=True), joint=joint, drop=DropCalls(CUT))
    total = first[0] + watcher.feed(calling([tc(0, "b", "f", "{}")])) + watcher.finish()
    client = Client(total)
    assert (client.text, client.finishes, client.calls, client.dones) == (f"one\n\n{CUT}", ["stop"], [], 1)
    assert (watcher.own_text, watcher.calls) == (True, (Call("f", "{}", "b"),))
    assert watcher.joint().calls == 0


def test_a_call_that_passed_need_not_be_named_among_those_kept() -> None:
    raw = calling([tc(0, "a", "g", "{}")], [tc(1, "b", "f", "{}")])
    out, watcher = gated(raw, F)
    assert out + watcher.release(frozenset([1])) == raw
    assert watcher.joint().calls == 2


@pytest.mark.parametrize("finish", ["length", "stop", "tool_calls", "tool_use"])
def test_without_calls_the_finish_reason_is_stop(finish: str) -> None:
    out, watcher = gated(calling([tc(0, "a", "f", "{}")], finish=finish))
    assert Client(out + watcher.release(frozenset())).finishes == ["stop"]
    out, watcher = gated(calling([tc(0, "a", "f", "{}"), tc(1, "b", "f", "{}")], finish=finish))
    assert Client(out + watcher.release(frozenset([1]))).finishes == [finish]


def test_numbered_blocks_of_reasoning_stay_apart() -> None:
    """Clients put blocks of one number together; two thoughts with one signature would be refused by the provider."""

    def attempt(number: int, *calls: Any) -> bytes:
        blocks = [
            {"type": "reasoning.text", "index": 0, "text": f"t{number}"},
            {"type": "reasoning.encrypted", "index": 1},
        ]
        said = [delta(reasoning_details=[block]) for block in (*blocks, {"index": 0, "signature": f"s{number}"})]
        return sse(delta(role="assistant"), *said, *[delta(tool_calls=[call]) for call in calls], delta("stop"))

    _, first = gated(attempt(1, tc(0, "a", "f", "{}")))
    _, second = gated(attempt(2, tc(0, "b", "f", "{}")), joint=first.joint())
    third = chat.watch(ask(stream=True), joint=second.joint())
    found = [
        block["index"]
        for one in payloads(third.feed(attempt(3)))
        for choice in one["choices"]
        for block in choice["delta"].get("reasoning_details", [])
    ]
    assert found == [4, 5, 4]


def test_the_first_chunk_of_azure_has_no_id() -> None:
    filters = {"id": "", "object": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": [{"x": 1}]}
    raw = sse(filters)[:-14] + calling([tc(0, "a", "f", "{}"), tc(1, "b", "g", "{}")])
    out, watcher = gated(raw)
    client = Client(out + watcher.release(frozenset([1])))
    assert client.ids == {("", "", 0), ("r", "p", None)}
    joint = watcher.joint()
    assert joint.base == {"id": "r", "model": "p"}
    again = chat.watch(ask(stream=True), joint=joint)
    assert Client(again.feed(raw)).ids == {("r", "p", 0), ("r", "p", None)}


def test_indices_of_calls_that_passed_are_not_used_again() -> None:
    """Some providers number their text as a block, too, and their calls from 1 on."""
    out, watcher = gated(calling([tc(1, "a", "g", "{}")], [tc(2, "b", "f", "{}")], [tc(3, "c", "g", "{}")]), F)
    client = Client(out + watcher.release(frozenset([0, 2])))
    assert {index: call[2] for index, call in client.by_index.items()} == {1: "a", 2: "c"}


def test_a_real_client_makes_one_message_of_joined_attempts() -> None:
    """OpenAI's SDK, which is strict about indices, roles and ends."""
    total, joint = b"", None
    for number, keep in enumerate([None, None, frozenset([1])]):
        calls = [{**tc(at, f"c{number}{at}", "f", '{"n":1}'), "type": "function"} for at in range(2)]
        raw = calling(calls[:1], calls[1:], text=f"t{number}", prompt_tokens=3, completion_tokens=2, total_tokens=5)
        raw = raw.replace(b'"id": "r"', b'"created": 5, "object": "chat.completion.chunk", "id": "r%d"' % number)
        watcher = chat.watch(ask(stream=True), gate=chat.Gate(ALL), joint=joint)
        total += watcher.feed(raw) + watcher.finish()
        total += watcher.release(keep) if keep else b""
        joint = watcher.joint()

    class Provider(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(total)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Provider) as server:
        Thread(target=server.handle_request).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        with (
            openai.OpenAI(api_key="x", base_url=url, max_retries=0) as client,
            client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "hi"}]) as stream,
        ):
            found = stream.until_done().get_final_completion()
    (choice,) = found.choices
    assert (found.id, choice.message.content, choice.finish_reason) == ("r0", "t0\n\nt1\n\nt2", "tool_calls")
    assert [(call.id, call.function.arguments) for call in choice.message.tool_calls or []] == [("c21", '{"n":1}')]
    assert found.usage is not None
    assert found.usage.total_tokens == 15


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_golden_without_its_calls(path: Path) -> None:
    out, watcher = gated(path.read_bytes())
    seen = watcher.seen()
    after = chat.watch(ask(stream=True))
    after.feed(out + watcher.release(frozenset()) + watcher.finish())
    after.finish()
    assert (after.calls, after.text, after.usage) == ((), seen.text, seen.usage)
    assert after.complete == seen.complete
    if seen.calls and seen.complete:
        assert after.finish_reason == "stop"


@settings(max_examples=200 * FUZZ, deadline=None)
@given(wild, wild, st.data(), st.booleans(), st.booleans())
def test_whatever_comes_can_be_taken_out_and_joined(
    one: list[bytes], two: list[bytes], data: Any, text: bool, drop: bool
) -> None:
    raw = b"".join(one)
    out, watcher = gated(cut(raw, data.draw(sizes(raw))), text=text)
    seen = watcher.seen()
    joint = watcher.joint()
    after = chat.watch(ask(stream=True))
    after.feed(out + watcher.release(frozenset()) + watcher.finish())
    after.finish()
    plain = chat.watch(ask(stream=True))
    plain.feed(raw), plain.finish()
    if len(plain.answers) < 2:  # else it is not the one that was asked for
        assert not after.calls
        assert (after.text, after.complete) == (seen.text, seen.complete)
    edits = DropCalls(CUT) if drop else None
    later = chat.watch(ask(stream=True), gate=chat.Gate(ALL, text=text), joint=joint, drop=edits)
    total = b"".join([later.feed(part) for part in two]) + later.finish() + later.release()
    count = sum(event.strip() == b"data: [DONE]" for event in events(total))
    assert count <= 1
    again = chat.watch(ask(stream=True))
    again.feed(total)
    again.finish()
    plain = chat.watch(ask(stream=True))
    plain.feed(b"".join(two)), plain.finish()
    if not drop and len(plain.answers) < 2:
        assert list(again.calls) == list(later.calls)
