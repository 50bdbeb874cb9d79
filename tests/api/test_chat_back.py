"""What is put back into a request, and results with another text: nothing else moves by a byte."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.api import _splice, chat
from guardproxy.core.edit import AppendText, Edit, ForbidTools, PutBack, ReplaceText, SpliceUsage
from guardproxy.core.model import Call
from tests.api.cases import FUZZ, NOTE, ask, request, values
from tests.api.test_chat_write import layouts

USER = {"role": "user", "content": "hi"}


def call(call_id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def said(*calls: dict[str, Any], content: Any = None, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {}), **more}


def result(call_id: str, content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def raw(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode()


def written(messages: list[Any], *edits: Edit, **layout: Any) -> list[Any]:
    """The messages that leave; their bytes, as far as they came in, are unchanged."""
    text = json.dumps(request(messages=messages, stream=True), **layout).encode()
    found = json.loads(chat.write(chat.read(text, {}), edits))
    assert {**found, "messages": 0} == {**request(messages=0, stream=True)}
    listed: list[Any] = found["messages"]
    return listed


A, B, X, Y = call("a"), call("b"), call("x"), call("y")
PLACES: list[tuple[str, list[Any], PutBack, list[Any]]] = [
    (
        "the one in the middle",
        [USER, said(A, B), result("a"), result("b")],
        PutBack(1, calls=((1, raw(X)),), after=(raw(result("x", "no")),)),
        [USER, said(A, X, B), result("x", "no"), result("a"), result("b")],
    ),
    (
        "the first and the last",
        [USER, said(A), result("a")],
        PutBack(1, calls=((2, raw(Y)), (0, raw(X))), after=(raw(result("x")), raw(result("y")))),
        [USER, said(X, A, Y), result("x"), result("y"), result("a")],
    ),
    (
        "two side by side, in front",
        [USER, said(A), result("a")],
        PutBack(1, calls=((0, raw(X)), (1, raw(Y)))),
        [USER, said(X, Y, A), result("a")],
    ),
    (
        "a place beyond the last",
        [USER, said(A), result("a")],
        PutBack(1, calls=((7, raw(X)),)),
        [USER, said(A, X), result("a")],
    ),
    ("no calls yet", [USER, said(content="t")], PutBack(1, calls=((0, raw(X)),)), [USER, said(X, content="t")]),
    (
        "calls null",
        [USER, {"role": "assistant", "content": "", "tool_calls": None}],
        PutBack(1, calls=((0, raw(X)),)),
        [USER, {"role": "assistant", "content": "", "tool_calls": [X]}],
    ),
    (
        "ids that tell nothing: results in the order of calls",
        [USER, said(call(""), call("")), result("", "1"), result("", "2")],
        PutBack(1, calls=((1, raw(call(""))),), after=(raw(result("", "no")),)),
        [USER, said(call(""), call(""), call("")), result("", "1"), result("", "no"), result("", "2")],
    ),
    (
        "one id for all",
        [USER, said(A, A), result("a", "1"), result("a", "2"), USER],
        PutBack(1, calls=((0, raw(A)), (3, raw(A))), after=(raw(result("a", "no")), raw(result("a", "nor")))),
        [USER, said(A, A, A, A), result("a", "no"), result("a", "1"), result("a", "2"), result("a", "nor"), USER],
    ),
    (
        "one id for all, between others",
        [USER, said(A, A, A), result("a", "1"), result("a", "2"), result("a", "3")],
        PutBack(1, calls=((1, raw(A)), (3, raw(A))), after=(raw(result("a", "no")), raw(result("a", "nor")))),
        [USER, said(A, A, A, A, A), *[result("a", text) for text in ("1", "no", "2", "nor", "3")]],
    ),
    (
        "a round before",
        [USER, said(A), result("a")],
        PutBack(1, before=(raw(said(X, content="one")), raw(result("x", "no")))),
        [USER, said(X, content="one"), result("x", "no"), said(A), result("a")],
    ),
    (
        "before and the same words after",
        [USER, said(content='one "é" 🙂\n\ntwo')],
        PutBack(1, before=(raw(said(X)),), said='one "é" 🙂'),
        [USER, said(X), said(content="two")],
    ),
    (
        "only those words, beside calls",
        [USER, said(A, content="one"), result("a")],
        PutBack(1, said="one"),
        [USER, said(A), result("a")],
    ),
    ("only those words", [USER, said(content="one")], PutBack(1, said="one"), [USER, said(content="one")]),
    (
        "words that the client trimmed",
        [USER, said(content="one\n\ntwo")],
        PutBack(1, said="\n one"),
        [USER, said(content="two")],
    ),
    (
        "words in parts",
        [USER, said(content=[{"type": "text", "text": "one\n\ntwo", "x": 1}])],
        PutBack(1, said="one"),
        [USER, said(content=[{"type": "text", "text": "two", "x": 1}])],
    ),
    ("other words", [USER, said(content="two")], PutBack(1, said="one"), [USER, said(content="two")]),
    (
        "at the end",
        [USER],
        PutBack(1, before=(raw(said(X)), raw(result("x", "no"))), after=(raw(USER),)),
        [USER, said(X), result("x", "no"), USER],
    ),
    ("beyond the end", [USER], PutBack(5, before=(raw(said(X)),)), [USER]),
]


@pytest.mark.parametrize(
    ("messages", "edit", "expected"), [case[1:] for case in PLACES], ids=[one[0] for one in PLACES]
)
@pytest.mark.parametrize("layout", [{}, {"indent": 2}, {"ensure_ascii": False, "separators": (",", ":")}])
def test_put_back(messages: list[Any], edit: PutBack, expected: list[Any], layout: dict[str, Any]) -> None:
    assert written(messages, edit, **layout) == expected


def test_several_at_several_places() -> None:
    messages = [USER, said(A), result("a"), said(B), result("b")]
    edits = [
        PutBack(5, before=(raw(said(Y)), raw(result("y", "no")))),
        PutBack(1, before=(raw(said(X)), raw(result("x", "no")))),
        AppendText(4, NOTE),
        PutBack(3, calls=((1, raw(call("z"))),), after=(raw(result("z", "no")),)),
        PutBack(5, before=(raw(said(call("w"))), raw(result("w", "no")))),
        PutBack(1, before=(raw(said(call("v"))), raw(result("v", "no")))),
    ]
    assert written(messages, *edits) == [
        USER,
        said(X),
        result("x", "no"),
        said(call("v")),
        result("v", "no"),
        said(A),
        result("a"),
        said(B, call("z")),
        result("z", "no"),
        result("b", "ok" + NOTE),
        said(Y),
        result("y", "no"),
        said(call("w")),
        result("w", "no"),
    ]


IMAGE = {"type": "image_url", "image_url": {"url": "data:x"}}
TEXTS: list[tuple[Any, Any]] = [
    ("old", "new!"),
    ("", "new!"),
    (None, "new!"),
    ([], [{"type": "text", "text": "new"}]),
    ([{"type": "text", "text": "old"}], [{"type": "text", "text": "new"}]),
    ([{"type": "text", "text": "1"}, {"type": "text", "text": "2"}], [{"type": "text", "text": "new"}]),
    ([IMAGE, {"type": "text", "text": "1"}], [IMAGE, {"type": "text", "text": "new"}]),
    ([IMAGE], [{"type": "text", "text": "new"}, IMAGE]),
    (["bare", IMAGE], ["new", IMAGE]),
    (
        [{"type": "text", "text": "1"}, {"type": "text", "text": "2", "cache_control": {"type": "ephemeral"}}],
        [{"type": "text", "text": "new", "cache_control": {"type": "ephemeral"}}],
    ),
    (
        [{"text": "1", "x": 1}, {"text": "2", "x": 2}],
        [{"text": "new", "x": 1}, {"text": "…", "x": 2}],
    ),
]


@pytest.mark.parametrize(("content", "expected"), TEXTS)
@pytest.mark.parametrize("layout", [{}, {"indent": 1}])
def test_replace_text(content: Any, expected: Any, layout: dict[str, Any]) -> None:
    note = {"type": "text", "text": "!"}
    expected = [*expected, note] if isinstance(expected, list) else expected
    edits = [AppendText(2, "!"), ReplaceText(2, "new")]
    assert written([USER, said(A), result("a", content), USER], *edits, **layout) == [
        USER,
        said(A),
        result("a", expected),
        USER,
    ]


def test_replace_text_where_there_is_none() -> None:
    assert written([USER, {"role": "tool"}], ReplaceText(1, "new")) == [USER, {"role": "tool", "content": "new"}]
    assert written([USER, result("a", {"x": 1})], ReplaceText(1, "new")) == [USER, result("a", {"x": 1})]


# -- properties -------------------------------------------------------------------------------------------------------

texts = st.text(max_size=12)
contents = st.one_of(st.none(), texts, st.lists(st.builds(lambda t: {"type": "text", "text": t}, texts), max_size=2))


@st.composite
def histories(draw: Any) -> list[dict[str, Any]]:
    """Rounds of calls and results, with fields that we do not know."""
    found: list[dict[str, Any]] = [USER]
    extra = st.dictionaries(st.sampled_from(["x", "reasoning_content", "cache_control"]), values, max_size=1)
    for number in range(draw(st.integers(1, 4))):
        calls = [call(f"c{number}{at}", "f", json.dumps({"q": draw(texts)})) for at in range(draw(st.integers(0, 3)))]
        found.append({**said(*calls, content=draw(contents)), **draw(extra)})
        found += [{**result(one["id"], draw(contents)), **draw(extra)} for one in calls]
        if draw(st.booleans()):
            found.append({"role": "user", "content": draw(contents)})
    return found


@st.composite
def editing(draw: Any) -> tuple[list[dict[str, Any]], list[Edit]]:
    """A history and edits of it."""
    messages = draw(histories())
    edits: list[Edit] = []
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            edits += [ReplaceText(index, draw(texts))] if draw(st.booleans()) else []
            edits += [AppendText(index, draw(texts))] if draw(st.booleans()) else []
        if message["role"] == "assistant" and draw(st.booleans()):
            places = draw(st.lists(st.integers(0, 4), unique=True, max_size=2)) if message.get("tool_calls") else []
            calls = tuple((place, raw(call(f"p{index}{place}"))) for place in places)
            after = tuple(raw(result(f"p{index}{place}", "no")) for place in places)
            before = (raw(said(call(f"q{index}"))), raw(result(f"q{index}", "no"))) if draw(st.booleans()) else ()
            words = message["content"] if isinstance(message["content"], str) else ""
            cut = words[: draw(st.integers(0, len(words)))] if before else ""
            edits.append(PutBack(index, before, calls, after, cut))
    if draw(st.booleans()):
        edits.append(PutBack(len(messages), (raw(said(call("e"))), raw(result("e", "no")))))
    return messages, draw(st.permutations(edits))


def edited(messages: list[dict[str, Any]], edits: list[Edit]) -> list[Any]:
    """The same edits on the parsed messages."""
    found: list[list[Any]] = [[copy.deepcopy(message)] for message in messages] + [[]]
    for edit in [one for one in edits if isinstance(one, ReplaceText)]:
        (message,) = found[edit.index]
        parts = isinstance(message["content"], list)
        message["content"] = [{"type": "text", "text": edit.text}] if parts else edit.text
    for edit in [one for one in edits if isinstance(one, AppendText)]:
        (message,) = found[edit.index]
        old = message["content"]
        message["content"] = (
            [*old, {"type": "text", "text": edit.text}] if isinstance(old, list) else (old or "") + edit.text
        )
    for edit in [one for one in edits if isinstance(one, PutBack)]:
        if edit.index == len(messages):
            found[-1] += [json.loads(one) for one in (*edit.before, *edit.after)]
            continue
        (message,) = found[edit.index]
        for place, one in sorted(edit.calls):
            message["tool_calls"].insert(place, json.loads(one))
        if edit.said:
            rest = message["content"][len(edit.said) :].removeprefix("\n\n")
            message["content"] = rest or (None if message.get("tool_calls") else message["content"])
        found[edit.index] = [*map(json.loads, edit.before), message, *map(json.loads, edit.after)]
    return [message for group in found for message in group]


def assert_untouched_bytes_are_there(text: bytes, out: bytes, edits: list[Edit]) -> None:
    """What stands in front of the messages, every message without an edit, and what stands behind, in order."""
    mask = _splice.mask(text)
    at, after = _splice.members(mask, 0)["messages"]
    spans = list(_splice.items(mask, at))
    touched = {getattr(edit, "index", -1) for edit in edits}
    pieces = [
        text[: spans[0][0]],
        *[text[slice(*span)] for n, span in enumerate(spans) if n not in touched],
        text[after:],
    ]
    assert out.startswith(pieces[0])
    assert out.endswith(pieces[-1])
    done = 0
    for piece in pieces:
        done = out.index(piece, done) + len(piece)


@settings(max_examples=150 * FUZZ, deadline=None)
@given(editing(), layouts)
def test_all_edits_are_those_of_the_parsed_messages(found: tuple[Any, list[Edit]], layout: dict[str, Any]) -> None:
    messages, edits = found
    text = json.dumps(request(messages=messages, x=2**64 - 1), **layout).encode()
    out = chat.write(chat.read(text, {}), edits)
    parsed = json.loads(out)
    assert parsed == request(messages=edited(messages, edits), x=2**64 - 1)
    assert_untouched_bytes_are_there(text, out, edits)


@settings(max_examples=80 * FUZZ, deadline=None)
@given(editing(), histories(), layouts)
def test_the_prefix_of_a_growing_history_stays(
    found: tuple[Any, list[Edit]], more: list[Any], layout: dict[str, Any]
) -> None:
    messages, edits = found
    first = [edit for edit in edits if not (isinstance(edit, PutBack) and edit.index == len(messages))]
    longer = [*messages, *more[1:]]
    plain = json.dumps(messages, **layout).encode()
    shared = len(plain.rstrip(b"]\n")) if plain.endswith(b"]") else 0
    assert json.dumps(longer, **layout).encode()[:shared] == plain[:shared]
    outs = []
    for listed in (messages, longer):
        body = b'{"model":"m","messages":' + json.dumps(listed, **layout).encode() + b"}"
        outs.append(chat.write(chat.read(body, {}), first))
    kept = len(outs[0]) - (len(plain) - shared) - len(b"}")
    assert kept > 0
    assert outs[0][:kept] == outs[1][:kept]


def test_with_the_other_edits() -> None:
    asked = ask(
        stream=True, messages=[USER, said(A), result("a")], tools=[{"type": "function", "function": {"name": "f"}}]
    )
    edits = [ForbidTools(), SpliceUsage(), PutBack(3, (raw(said(X)), raw(result("x", "no")))), AppendText(2, "!")]
    again = chat.read(chat.write(asked, edits), {})
    assert (again.tool_choice, again.wants_usage, again.count) == ("none", True, 5)
    assert [one.text for one in again.tail] == ["hi", "", "ok!", "", "no"]
    assert again.tail[3].calls == (Call("f", "{}", "x"),)


@settings(max_examples=60 * FUZZ, deadline=None)
@given(histories(), histories(), layouts, st.data())
def test_the_request_that_asked_again_is_the_beginning_of_the_next(
    messages: list[Any], more: list[Any], layout: dict[str, Any], data: Any
) -> None:
    """A round refused at the end of one request stands at the same bytes in the next, which has an answer behind it."""
    count = len(messages)
    refused = (raw(said(call("x"), content=data.draw(texts))), raw(result("x", "no")))
    earlier = [PutBack(1, (raw(said(Y)), raw(result("y", "no"))))] if data.draw(st.booleans()) else []
    outs = []
    for listed in (messages, [*messages, *more[1:]]):
        body = json.dumps(request(messages=listed), **layout).encode()
        outs.append(chat.write(chat.read(body, {}), [*earlier, PutBack(count, refused)]))
    end = outs[0].index(refused[1]) + len(refused[1])
    assert outs[0][:end] == outs[1][:end]


def test_what_stands_behind_one_message_and_in_front_of_the_next() -> None:
    messages = [said(A), said(B), result("b")]
    edits = [
        PutBack(1, before=(raw(result("a", "late")),)),
        PutBack(0, before=(raw(USER),), calls=((1, raw(X)),), after=(raw(result("x", "no")),)),
    ]
    assert written(messages, *edits) == [USER, said(A, X), result("x", "no"), result("a", "late"), said(B), result("b")]


OURS, LINE = said(content="[guardproxy] It waits."), "[guardproxy] Here it waited."
ROUND = (raw(said(A)), raw(result("a", "no")))
BETWEEN = said(content=LINE)
STANDING: list[tuple[str, list[Any], list[PutBack], list[Any]]] = [
    ("the user goes on", [USER, OURS, USER], [PutBack(1, instead=LINE)], [USER, BETWEEN, USER]),
    ("nothing behind it", [USER, OURS], [PutBack(1, instead=LINE)], [USER]),
    (
        "the assistant goes on",
        [USER, OURS, said(A), result("a")],
        [PutBack(1, instead=LINE)],
        [USER, said(A), result("a")],
    ),
    (
        "two of them",
        [USER, OURS, OURS, USER],
        [PutBack(1, instead=LINE), PutBack(2, instead=LINE)],
        [USER, BETWEEN, USER],
    ),
    (
        "two of them at the end",
        [USER, OURS, OURS],
        [PutBack(1, instead=LINE), PutBack(2, before=ROUND, instead=LINE)],
        [USER, said(A), result("a", "no")],
    ),
    (
        "a decision in front of it",
        [USER, OURS, USER],
        [PutBack(1, instead=LINE), PutBack(1, before=ROUND)],
        [USER, said(A), result("a", "no"), BETWEEN, USER],
    ),
    (
        "a decision in front of it, nothing behind",
        [USER, OURS],
        [PutBack(1, instead=LINE), PutBack(1, before=ROUND)],
        [USER, said(A), result("a", "no")],
    ),
    (
        "rounds behind it that ask again",
        [USER, OURS],
        [PutBack(1, instead=LINE), PutBack(2, before=ROUND)],
        [USER, said(A), result("a", "no")],
    ),
    (
        "text in parts",
        [USER, said(content=[{"type": "text", "text": "It waits."}]), USER],
        [PutBack(1, instead=LINE)],
        [USER, said(content=[{"type": "text", "text": LINE}]), USER],
    ),
    (
        "what it had in common with rounds goes with it",
        [USER, OURS, USER],
        [PutBack(1, said="x", instead=LINE)],
        [USER, BETWEEN, USER],
    ),
]


@pytest.mark.parametrize("layout", [{}, {"indent": 1}, {"separators": (",", ":"), "ensure_ascii": False}])
@pytest.mark.parametrize(
    ("messages", "edits", "expected"), [one[1:] for one in STANDING], ids=[one[0] for one in STANDING]
)
def test_what_stands_in_the_place_of_our_words(
    messages: list[Any], edits: list[PutBack], expected: list[Any], layout: dict[str, Any]
) -> None:
    assert written(messages, *edits, **layout) == expected
