"""No spelling of a call passes a gate unjudged, whoever reads it; and where nothing is forbidden, no byte changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from guardproxy.api import chat
from tests.api.cases import FUZZ, ask, delta
from tests.api.gates import cut
from tests.api.lenient import names

DENIED = frozenset(("delete", "drop"))
BASE = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "p"}
pick = st.sampled_from
calls = st.lists(
    st.fixed_dictionaries(
        {
            "name": pick(["read", "search", "delete", "drop"]),
            "choice": pick([0, 0, 1, 7, None]),
            "index": pick(["own", "own", 0, None]),
            "id": st.booleans(),
            "name_in": pick(["one", "one", "pieces", "repeated", "late"]),
            "holder": pick(["function", "function", "custom", "flat", "both", "older", "older too"]),
            "box": pick(["list", "list", "object", "keyed"]),
            "where": pick(["delta", "delta", "message", "beside"]),
            "ends": st.booleans(),
        }
    ),
    max_size=4,
)
frames = st.lists(
    st.tuples(
        pick(["\n\n", "\n\n", "\r\n\r\n", "\r\r", "\n"]),
        pick(
            [
                "data: ",
                "data:",
                "event: x\ndata: ",
                ": hi\ndata: ",
                "\ufeffdata: ",
                "data: \ufeff",
                " data: ",
                "DATA: ",
                "",
            ]
        ),
        pick(["", "", "nan", "digits", "latin", "twice", "garbage", "lines", "capitals", "half"]),
    ),
    min_size=1,
    max_size=6,
)


def pieces(call: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """The entries of one call."""
    name, index = call["name"], number if call["index"] == "own" else call["index"]
    arguments = json.dumps({"n": number})
    parts: list[tuple[str, str]] = {
        "one": [(name, ""), ("", arguments[:4]), ("", arguments[4:])],
        "pieces": [(name[:2], ""), (name[2:], ""), ("", arguments)],
        "repeated": [(name, arguments[:4]), (name, arguments[4:])],
        "late": [("", ""), (name, arguments)],
    }[call["name_in"]]
    made = []
    for text, argument in parts:
        inner = {"name": text} if text else {}
        entry: dict[str, Any] = {} if index is None else {"index": index}
        if call["id"]:
            entry |= {"id": f"c{number}", "type": "function"}
        if call["holder"] == "flat":
            entry |= {**inner, "arguments": argument}
        elif call["holder"] == "custom":
            entry["custom"] = {**inner, "input": argument}
        elif call["holder"] == "both":
            entry |= {"function": {"name": "read", "arguments": argument}, "custom": {**inner, "input": ""}}
        else:
            entry["function"] = {**inner, "arguments": argument}
        made.append(entry)
    return made


def said(call: dict[str, Any], number: int, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """What a delta or message says of these entries."""
    if call["holder"] == "older":
        return {"function_call": entries[0]["function"]}
    box: Any = entries
    if call["box"] == "object" and len(entries) == 1:
        box = entries[0]
    elif call["box"] == "keyed":
        box = {str(number + at): entry for at, entry in enumerate(entries)}
    older = {"function_call": entries[0]["function"]} if call["holder"] == "older too" else {}
    if older:
        box = [{"index": 9, "id": "x", "function": {"name": "read", "arguments": "{}"}}]
    return {"tool_calls": box, **older}


def chunks(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The payloads of a stream."""
    made: list[dict[str, Any]] = [delta(role="assistant", content="so")]
    for number, call in enumerate(found):
        for entry in pieces(call, number):
            words = said(call, number, [entry])
            place = {
                "delta": {"delta": words},
                "message": {"message": words},
                "beside": {"delta": {}, "message": words},
            }
            choice = {**place[call["where"]], "finish_reason": "tool_calls" if call["ends"] else None}
            if call["choice"] is not None:
                choice["index"] = call["choice"]
            made.append({**BASE, "choices": [choice]})
    return [*made, delta("tool_calls")]


def framed(payload: Any, frame: tuple[str, str, str]) -> bytes:
    """An event in an odd spelling."""
    end, begin, how = frame
    text = json.dumps(payload)
    if how in ("nan", "digits"):
        text = text[:-1] + ', "x": ' + ("NaN" if how == "nan" else "1" * 5000) + "}"
    elif how == "twice":
        text = text[:-1] + ', "choices": []}'
    elif how == "garbage":
        text += " x"
    elif how == "capitals":
        text = text.replace('"tool_calls"', '"Tool_Calls"')
    elif how == "lines" and begin:
        text = text.replace(', "', ',\ndata: "')
    elif how == "half":
        text = text.replace("_", "\\u005f")
    raw = (begin + text + end).encode()
    return raw.replace(b'"so"', b'"s\xe9"').replace(b"delete", b"del\xffete") if how == "latin" else raw


def judged(raw: bytes, parts: list[bytes], *, stream: bool, forbidden: bool) -> tuple[bytes, chat.Watcher]:
    """What the agent gets where these tools are denied, and the others are not looked at."""
    gate = chat.Gate(lambda name: forbidden and name in DENIED)
    kind = "text/event-stream" if stream else "application/json"
    watcher = chat.watch(ask(stream=stream), gate=gate, content_type=kind)
    out = b"".join([watcher.feed(part) for part in parts]) + watcher.finish()
    found = watcher.calls
    keep = frozenset(at for at, call in enumerate(found) if not (forbidden and call.name in DENIED))
    return out + (watcher.release(keep if len(keep) < len(found) else None) if watcher.holding else b""), watcher


def check_stream(found: list[dict[str, Any]], how: list[tuple[str, str, str]], sizes: list[int]) -> None:
    events = [framed(payload, how[at % len(how)]) for at, payload in enumerate(chunks(found))]
    raw = b"".join(events) + b"data: [DONE]\n\n"
    parts = cut(raw, sizes)
    out, _ = judged(raw, parts, stream=True, forbidden=True)
    assert not names(out, stream=True) & DENIED
    plain = all(
        begin and kind in ("", "nan", "digits", "lines") and "\ufeff" not in begin[1:-1] for _, begin, kind in how
    )
    if plain and all(end != "\n" for end, _, _ in how):
        out, watcher = judged(raw, parts, stream=True, forbidden=False)
        if not watcher.unread and not any(call["holder"] == "older too" for call in found):
            assert out == raw


def check_whole(found: list[dict[str, Any]], how: str) -> None:
    choices = []
    for number, call in enumerate(found):
        entries = pieces({**call, "name_in": "repeated"}, number)[:1]
        choice = {"message": {"role": "assistant", **said(call, number, entries)}, "finish_reason": "stop"}
        choices.append(choice if call["choice"] is None else {**choice, "index": call["choice"]})
    raw = framed({**BASE, "choices": choices or [{"message": {"content": "so"}}]}, ("", "", how))
    for forbidden in (True, False):
        out, watcher = judged(raw, [raw], stream=False, forbidden=forbidden)
        if forbidden:
            assert not names(out, stream=False) & DENIED
        elif how in ("", "nan", "digits"):
            assert out == raw
        assert bool(watcher.unread) == (how == "garbage")


KINDS = pick(["", "", "nan", "digits", "latin", "twice", "garbage", "capitals", "half"])


PLAIN = ("\n\n", "data: ", "")


def call(name: str, name_in: str = "one", **others: Any) -> dict[str, Any]:
    """One of `calls`."""
    usual = {"choice": 0, "index": "own", "id": False, "holder": "function", "box": "list", "where": "delta"}
    return {"name": name, "name_in": name_in, **usual, "ends": False, **others}


IN_PIECES = [call("delete", "pieces"), call("delete", "pieces", where="message")]
BARE = [PLAIN, PLAIN, ("\n\n", "", ""), PLAIN]
TWICE = [PLAIN, PLAIN, ("\n\n", "data: ", "twice"), PLAIN]


@pytest.mark.parametrize(
    ("found", "how"),
    [
        pytest.param(IN_PIECES, BARE, id="an event left out"),
        pytest.param(IN_PIECES, TWICE, id="an event read as empty"),
        pytest.param([call("de"), IN_PIECES[1]], [PLAIN], id="a call of that name"),
        pytest.param([call("de"), {**IN_PIECES[1], "where": "beside"}], [PLAIN], id="beside a delta"),
        pytest.param([call("de"), call("lete"), IN_PIECES[1]], [PLAIN], id="calls of both names"),
        pytest.param([call("de", index=3), call("delete", "pieces", holder="older")], [PLAIN], id="of the older kind"),
        pytest.param(
            [call("de", index=3), call("delete", "pieces", holder="older", where="message")],
            [PLAIN],
            id="older, as a message",
        ),
        pytest.param(
            [
                call("read", holder="older"),
                call("de"),
                call("lete", index=None),
                {**IN_PIECES[1], "index": 0},
            ],
            [PLAIN],
            id="after one that has no number",
        ),
        pytest.param([call("de", holder="older"), IN_PIECES[1]], [PLAIN], id="after an older one"),
    ],
)
def test_what_seems_said_before_may_begin_another_call(
    found: list[dict[str, Any]], how: list[tuple[str, str, str]]
) -> None:
    check_stream(found, how, [])


@pytest.mark.parametrize("chunks", [[["delete", "read"]], [["de"], ["lete", ""]]], ids=["two calls", "pieces"])
def test_of_two_older_calls_in_one_chunk_neither_passes(chunks: list[list[str]]) -> None:
    older = [
        [{"function_call": {"name": name, "arguments": "{}" * (name == "read")}} for name in one] for one in chunks
    ]
    payloads = [{**BASE, "choices": [{"index": 0, "delta": said} for said in one]} for one in older]
    raw = b"".join([framed(one, PLAIN) for one in [*payloads, delta("function_call")]]) + b"data: [DONE]\n\n"
    out, _ = judged(raw, [raw], stream=True, forbidden=True)
    assert not names(out, stream=True) & DENIED
    assert judged(raw, [raw], stream=True, forbidden=False)[0] == raw


@pytest.mark.parametrize("beside", [True, False])
def test_a_message_that_says_all_calls_again_changes_no_byte(beside: bool) -> None:
    entries = [{"index": at, "function": {"name": "read", "arguments": f'{{"n": {at}}}'}} for at in range(2)]
    message = {"message": {"role": "assistant", "content": None, "tool_calls": entries}}
    last = {"index": 0, **({"delta": {}} if beside else {}), **message, "finish_reason": "tool_calls"}
    payloads = [*[delta(tool_calls=[one]) for one in entries], {**BASE, "choices": [last]}]
    raw = b"".join([framed(one, PLAIN) for one in payloads]) + b"data: [DONE]\n\n"
    out, watcher = judged(raw, [raw], stream=True, forbidden=True)
    assert out == raw
    assert len(watcher.calls) == 2


@example(IN_PIECES, BARE, [], "")
@example(IN_PIECES, TWICE, [], "")
@settings(max_examples=120 * FUZZ, deadline=None)
@given(calls, frames, st.lists(st.integers(1, 200), max_size=6), KINDS)
def test_no_spelling_passes_unjudged(
    found: list[dict[str, Any]], how: list[tuple[str, str, str]], sizes: list[int], kind: str
) -> None:
    check_stream(found, how, sizes)
    check_whole(found, kind)


@pytest.mark.verify
@settings(max_examples=2000 * FUZZ, deadline=None)
@given(calls, frames, st.lists(st.integers(1, 200), max_size=6), KINDS)
def test_no_spelling_passes_unjudged_at_length(
    found: list[dict[str, Any]], how: list[tuple[str, str, str]], sizes: list[int], kind: str
) -> None:
    check_stream(found, how, sizes)
    check_whole(found, kind)
