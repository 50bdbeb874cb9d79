"""Requests of /v1/messages: read, spread out, and edited as splices."""

from __future__ import annotations

import json
import timeit
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from guardproxy.api import SURFACES, Prefixes, chat, messages
from guardproxy.api._prefix import Messages
from guardproxy.core.edit import AppendText, ForbidTools, LimitOutput, PutBack, ReplaceText
from guardproxy.core.model import Ask, Call, Message
from guardproxy.errors import BadAsk, GuardError
from tests.api.blocks import ask, body, model, result, text, use, user
from tests.api.cases import FUZZ, NOTE, values

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
CACHED = {"cache_control": {"type": "ephemeral"}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
SEARCH = {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "x"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srv1",
    "content": [{"type": "web_search_result", "title": "X", "url": "https://x.example", "encrypted_content": "Eq"}],
}


def seen(**fields: Any) -> list[Message]:
    """All the messages of a request as they are spread out."""
    return list(messages.conversation(ask(**fields)).tail)


SPREAD: dict[str, tuple[dict[str, Any], list[Message]]] = {
    "a text": ({"messages": [user("hi")]}, [Message("user", "hi")]),
    "the system prompt as text": ({"system": "be brief"}, [Message("system", "be brief"), Message("user", "hi")]),
    "the system prompt as blocks": (
        {"system": [text("a", **CACHED), text("b")]},
        [Message("system", "a\nb"), Message("user", "hi")],
    ),
    "blocks": ({"messages": [user(text("a"), text("b"))]}, [Message("user", "a\nb")]),
    "a call and its result": (
        {"messages": [user("q"), model(text("a"), use("1", path="x")), user(result("1", "r"))]},
        [
            Message("user", "q"),
            Message("assistant", "a", (Call("read", '{"path":"x"}', "1"),)),
            Message("tool", "r", (), "1"),
        ],
    ),
    "results in the order in which they came, then words": (
        {"messages": [model(use("1"), use("2")), user(result("2", "b"), result("1", [text("a")]), text("and?"))]},
        [
            Message("assistant", "", (Call("read", "{}", "1"), Call("read", "{}", "2"))),
            Message("tool", "b", (), "2"),
            Message("tool", "a", (), "1"),
            Message("user", "and?"),
        ],
    ),
    "an error": (
        {"messages": [user(result("1", "no", is_error=True), result("2", "ok", is_error=False))]},
        [Message("tool", "no", (), "1", failed=True), Message("tool", "ok", (), "2", failed=False)],
    ),
    "no content": ({"messages": [user({"type": "tool_result", "tool_use_id": "1"})]}, [Message("tool", "", (), "1")]),
    "thoughts are the model's own": ({"messages": [model(THOUGHT, text("a"))]}, [Message("assistant", "a")]),
    "system in the middle": (
        {"messages": [user("a"), {"role": "system", "content": "reminder"}]},
        [Message("user", "a"), Message("system", "reminder")],
    ),
    "what the provider ran is a round of its own": (
        {"messages": [user("q"), model(text("I look."), SEARCH, FOUND, text("So."), use("1"))]},
        [
            Message("user", "q"),
            Message("assistant", "", (Call("web_search", '{"query":"x"}', "srv1"),)),
            Message(
                "tool", '[{"type":"web_search_result","title":"X","url":"https://x.example"}]', (), "srv1", failed=False
            ),
            Message("assistant", "I look.\n\nSo.", (Call("read", "{}", "1"),)),
        ],
    ),
    "what it could not do": (
        {
            "messages": [
                model(SEARCH, {**FOUND, "content": {"type": "web_search_tool_result_error", "error_code": "x"}})
            ]
        },
        [
            Message("assistant", "", (Call("web_search", '{"query":"x"}', "srv1"),)),
            Message("tool", '{"type":"web_search_tool_result_error","error_code":"x"}', (), "srv1", failed=True),
        ],
    ),
    "junk": (
        {
            "messages": [
                user(),
                model(),
                {"role": "user"},
                {"role": 5, "content": [None, 3, {"type": []}]},
                model({"type": "tool_use"}),
            ]
        },
        [
            Message("user"),
            Message("assistant"),
            Message("user"),
            Message("user"),
            Message("assistant", "", (Call("", "{}"),)),
        ],
    ),
}


SEARCHED = (Call("web_search", '{"query":"x"}', "srv1"),)
NOBODY = Message("assistant")


@pytest.mark.parametrize("name", SPREAD)
def test_messages_spread_out(name: str) -> None:
    fields, expected = SPREAD[name]
    found = seen(**fields)
    assert [one._replace(media=()) for one in found] == expected
    asked = ask(**fields)
    assert asked.count == len(expected)
    known = [one if one.calls[:1] != SEARCHED else next(iter(found[at + 2 :]), NOBODY) for at, one in enumerate(found)]
    assert [messages.message(asked, at) for at in range(len(expected))] == known, "an answer is known by its own words"
    assert messages.message(asked, len(expected)) is None


def test_pictures_are_told_apart_and_their_mark_for_the_cache_is_not() -> None:
    other = {**IMAGE, "source": {**IMAGE["source"], "data": "AAAA"}}
    one, again, two = (seen(messages=[user(result("1", [x]))])[0].media for x in (IMAGE, {**IMAGE, **CACHED}, other))
    assert one == again != two
    assert len(one) == 1
    assert seen(messages=[user(text("a"), IMAGE)])[0].media == one


def test_what_is_asked() -> None:
    tools = [
        {"name": "f", "input_schema": {"properties": {"n": {"default": 3}}}},
        {"type": "web_search_1", "name": "web"},
    ]
    asked = ask(
        tools=[*tools, {"type": "custom", "name": "answer", "input_schema": {}}],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        messages=[user("q"), model(use("1", "f"))],
        stream=True,
        max_tokens=7,
        metadata={"user_id": '{"session_id":"s-1234567890"}'},
    )
    assert (asked.surface, asked.model, asked.stream, asked.max_tokens, asked.choices) == ("messages", "m", True, 7, 1)
    assert (asked.tools, asked.tool_choice) == (("f", "web", "answer"), "required")
    assert asked.declared.session == "s-1234567890"
    assert asked.defaults == {"f": {"n": 3}}
    assert messages.schema(asked, "f") == tools[0]["input_schema"]
    assert messages.schema(asked, "answer") == {}
    assert messages.schema(asked, "none") is None
    assert not asked.may_splice_usage


def test_a_finishing_tool() -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    tools = [{"name": "final_answer", "input_schema": schema}]
    assert ask(tools=tools, tool_choice={"type": "any"}).finish_tool == ("final_answer", "answer")
    assert ask(tools=tools, tool_choice={"type": "auto"}).finish_tool is None


WRONG = {
    "no model": ({"model": None}, "model"),
    "a model that is none": ({"model": 3}, "model"),
    "no messages": ({"messages": None}, "messages"),
    "messages that are none": ({"messages": {}}, "messages"),
    "none at all": ({"messages": []}, "messages"),
    "a message that is none": ({"messages": [user("a"), 3]}, "messages[1]"),
    "a stream that is none": ({"stream": "yes"}, "stream"),
    "tools that are none": ({"tools": {"a": 1}}, "tools"),
    "a bound that is none": ({"max_tokens": "many"}, "max_tokens"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_requests(name: str) -> None:
    fields, param = WRONG[name]
    with pytest.raises(BadAsk) as caught:
        ask(**fields)
    assert caught.value.param == param
    told = json.loads(messages.error(caught.value, {"rule": "r"}))
    assert (told["type"], told["error"]["type"], told["error"]["rule"]) == ("error", "invalid_request_error", "r")
    event, data = messages.failure(caught.value).decode().strip().split("\n")
    assert event == "event: error"
    assert json.loads(data[6:])["type"] == "error"


def test_errors_have_the_kind_of_their_status() -> None:
    kinds = {
        status: json.loads(messages.error(GuardError("x", status=status)))["error"]["type"]
        for status in (401, 403, 404, 405, 409, 413, 429, 500, 502, 503, 504)
    }
    assert list(kinds.values()) == [
        "authentication_error",
        "permission_error",
        "not_found_error",
        "invalid_request_error",
        "invalid_request_error",
        "request_too_large",
        "rate_limit_error",
        "api_error",
        "api_error",
        "overloaded_error",
        "timeout_error",
    ]


@pytest.mark.parametrize("code", ["budget_exceeded", "session_cut", "session_paused", "unknown_price"])
def test_a_refusal_that_no_other_request_gets_round_is_no_invalid_request(code: str) -> None:
    """Claude Code tries an invalid request five times more, each time without another beta."""
    told = json.loads(messages.error(GuardError("x", status=400, code=code)))["error"]
    assert (told["type"], told["code"], told["details"]) == ("billing_error", code, {"error_code": code})


ROUND = [user("q"), model(text("a"), use("1"), use("2")), user(result("1", "r"), result("2", [text("s"), IMAGE]))]

EDITS: dict[str, tuple[list[Any], list[Any], list[Any]]] = {
    # the messages, the edits, the messages that are sent
    "a text behind a result that is a text": (
        ROUND,
        [AppendText(2, NOTE)],
        [*ROUND[:2], user(result("1", "r" + NOTE), ROUND[2]["content"][1])],
    ),
    "a text behind a result that is a list": (
        ROUND,
        [AppendText(3, NOTE)],
        [*ROUND[:2], user(ROUND[2]["content"][0], result("2", [text("s"), IMAGE, text(NOTE)]))],
    ),
    "the error stays": (
        [user(result("1", "r", is_error=True, **CACHED))],
        [AppendText(0, NOTE)],
        [user(result("1", "r" + NOTE, is_error=True, **CACHED))],
    ),
    "a text behind a result without any": (
        [user({"type": "tool_result", "tool_use_id": "1"})],
        [AppendText(0, NOTE)],
        [user({"content": NOTE, "type": "tool_result", "tool_use_id": "1"})],
    ),
    "a text behind what the user says": ([user("q")], [AppendText(0, NOTE)], [user("q" + NOTE)]),
    "a text behind what the user says in blocks": (
        [user(result("1", "r"), text("q"))],
        [AppendText(1, NOTE)],
        [user(result("1", "r"), text("q"), text(NOTE))],
    ),
    "another result, and a text behind it": (
        ROUND,
        [ReplaceText(3, "short"), AppendText(3, NOTE), ReplaceText(2, "R")],
        [*ROUND[:2], user(result("1", "R"), result("2", [text("short"), IMAGE, text(NOTE)]))],
    ),
    "nothing behind what the provider found": ([model(SEARCH, FOUND)], [AppendText(1, NOTE)], [model(SEARCH, FOUND)]),
    "but behind what comes after it": (
        [model(SEARCH, FOUND), user("q")],
        [AppendText(1, NOTE), ReplaceText(1, "short")],
        [model(SEARCH, FOUND), user("q" + NOTE)],
    ),
    "no place of that number": (ROUND, [AppendText(9, NOTE), ReplaceText(-1, "x")], ROUND),
}


@pytest.mark.parametrize("name", EDITS)
def test_edits(name: str) -> None:
    before, edits, after = EDITS[name]
    raw = body(messages=before, zz=[1.10, {"é": 9007199254740993}])
    out = messages.write(messages.read(raw, {}), edits)
    assert json.loads(out) == {**json.loads(raw), "messages": after}


def test_what_is_not_edited_leaves_as_the_very_bytes() -> None:
    raw = b' {"model" : "m", "system":[{"type":"text","text":"s"}],"n":1.10,"messages":[{"role":"user",'
    raw += rb'"content":[ {"content": "r\u00e9 \"q\" ", "is_error":false,"type":"tool_result" ,"tool_use_id":"1"}]}'
    raw += b' ] ,"x":9007199254740993}'
    asked = messages.read(raw, {})
    assert messages.write(asked, ()) is raw
    assert messages.write(asked, [ForbidTools()]) == raw
    assert messages.write(asked, [AppendText(1, "\n!")]) == raw.replace(rb"\"q\" ", rb"\"q\" \n!")


@pytest.mark.parametrize(
    ("fields", "spliced"),
    [
        ({"tools": [{"name": "f"}]}, (b"{", b'{"tool_choice":{"type":"none"},')),
        (
            {"tools": [{"name": "f"}], "tool_choice": {"type": "tool", "name": "f"}},
            (b'{"type": "tool", "name": "f"}', b'{"type":"none"}'),
        ),
        ({}, (b"{", b"{")),
        ({"tools": []}, (b"{", b"{")),
    ],
)
def test_calls_are_forbidden_and_the_tools_stay(fields: dict[str, Any], spliced: tuple[bytes, bytes]) -> None:
    raw = body(**fields)
    assert messages.write(messages.read(raw, {}), [ForbidTools()]) == raw.replace(*spliced, 1)


@pytest.mark.parametrize(
    ("given", "tokens", "kept"),
    [
        ({"max_tokens": 9000}, 2000, {"max_tokens": 2000}),
        ({"thinking": {"type": "adaptive"}}, 2000, {"thinking": {"type": "adaptive"}, "max_tokens": 2000}),
        (
            {"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 8000}},
            2000,
            {"max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 1999}},
        ),
        (
            {"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 1024}},
            2000,
            {"max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 1024}},
        ),
        (
            {"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 8000}},
            1000,
            {"max_tokens": 1000, "thinking": {"type": "disabled"}},
        ),
        ({"thinking": None}, 1000, {"max_tokens": 1000, "thinking": None}),
    ],
)
def test_less_output(given: dict[str, Any], tokens: int, kept: dict[str, Any]) -> None:
    """A budget of thoughts must be smaller than that of all, and at least 1024."""
    raw = json.dumps({"model": "m", "messages": [user("q")], **given}).encode()
    asked = messages.read(raw, {})
    out = json.loads(messages.write(asked, [LimitOutput(tokens), AppendText(0, "!")]))
    assert out == {"model": "m", "messages": [user("q!")], **kept}


def test_a_short_tail_and_the_whole_window() -> None:
    listed = [user("q")]
    for number in range(40):
        listed += [model(use(f"c{number}", path=str(number))), user(result(f"c{number}", "r"))]
    asked = messages.read(body(messages=listed), {}, short=True)
    assert asked.count == 81
    assert 2 <= len(asked.tail) < 12
    wide = messages.widen(asked)
    assert sum(len(one.calls) for one in wide.tail) == 26
    assert wide.tail_start + len(wide.tail) == 81
    assert len(messages.conversation(asked).tail) == 81


def test_long_results() -> None:
    listed = [
        user("q"),
        model(use("1")),
        user(result("1", "x" * 5000)),
        model(use("2")),
        user(result("2", [text("y")])),
    ]
    asked = messages.read(body(messages=[*listed, *[model("a"), user("b")] * 60]), {})
    assert [at for at, _ in messages.long_results(asked, 4000)] == [2]
    assert messages.first_language(asked) == "en"


ALIKE = {"end_at", "torn"}


def test_the_surface_has_what_chat_has() -> None:
    """Whoever serves a turn asks every surface for the same; but for what holds on all of them and is asked of none."""
    missing = [name for name in chat.__all__ if not hasattr(SURFACES["messages"], name) and name not in ALIKE]
    assert missing == []


def test_read_cost_is_bounded() -> None:
    """The walk through a long history costs little beside reading its JSON."""
    listed: list[Any] = [user("q")]
    for number in range(400):
        listed += [model(use(f"c{number}", path="x" * 60)), user(result(f"c{number}", "y" * 300))]
    raw = body(messages=listed)
    read = min(timeit.repeat(lambda: messages.read(raw, {}, short=True), number=3, repeat=5)) / 3
    plain = min(timeit.repeat(lambda: json.loads(raw), number=3, repeat=5)) / 3
    assert read < 5 * plain


def grown(number: int, size: int) -> list[Any]:
    """One more round of a run, of one of several kinds."""
    words, call = f"{number} " + "é x" * (size // 4), use(f"c{number}", path=str(number))
    kinds = (
        [model(text("a"), call), user(result(f"c{number}", words))],
        [
            model(call, use(f"d{number}")),
            user(result(f"d{number}", "b"), result(f"c{number}", [text(words)]), text("and")),
        ],
        [model(SEARCH, FOUND, text(words)), user("more")],
        [model(words), {"role": "system", "content": "reminder"}, user(text("a"), IMAGE)],
    )
    return kinds[number % len(kinds)]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 30_000), min_size=1, max_size=5),
    st.lists(st.integers(0, 5), min_size=2, max_size=6),
    st.booleans(),
    st.data(),
)
def test_a_body_read_from_where_it_goes_on_is_the_body_read_whole(
    sizes: list[int], steps: list[int], prompted: bool, data: st.DataObject
) -> None:
    prefixes, listed, number = Prefixes(7), [user("Do it.")], 0
    for step in steps:
        for _ in range(step):
            listed += grown(number, sizes[number % len(sizes)])
            number += 1
        fields: dict[str, Any] = {"messages": listed, "tools": [{"name": "read"}]}
        raw = body(**fields, **({"system": "s" * 900} if prompted else {}))
        short, whole = (messages.read(raw, {}, short=True, prefixes=known) for known in (prefixes, None))
        assert replace(short, parsed={}) == replace(whole, parsed={})
        at = data.draw(st.integers(0, whole.count - 1))
        assert messages.message(short, at) == messages.message(whole, at)
        edits = [
            AppendText(at, NOTE),
            PutBack(data.draw(st.integers(0, whole.count)), (b'{"role":"user"}',)),
            ForbidTools(),
        ]
        assert messages.write(short, edits) == messages.write(whole, edits)
        assert messages.widen(short).tail == messages.widen(whole).tail
        assert messages.long_results(short, 4000) == messages.long_results(whole, 4000)
        assert messages.conversation(short).tail == messages.conversation(whole).tail


def test_only_the_end_of_a_long_body_is_parsed() -> None:
    prefixes = Prefixes(7)
    listed = [user("q"), *[one for number in range(40) for one in grown(0, 5000 + number)]]
    assert messages.read(body(messages=listed), {}, short=True, prefixes=prefixes).count == 81
    asked = messages.read(body(messages=[*listed, *grown(0, 9)]), {}, short=True, prefixes=prefixes)
    parsed = asked.parsed["messages"]
    assert isinstance(parsed, Messages)
    assert parsed.reach[0] > 70
    assert messages.message(asked, 30) is not None
    assert parsed.reach[0] <= 30


def test_the_two_surfaces_share_no_places() -> None:
    """A beginning that is the same to both is spread out on one of them alone."""
    prefixes = Prefixes(7)
    one = {"role": "user", "content": [result(str(n), "x" * 3000) for n in range(30)]}
    raw = body(messages=[user("q"), one, one])
    assert chat.read(raw, {}, short=True, prefixes=prefixes).count == 3
    assert messages.read(raw, {}, short=True, prefixes=prefixes).count == 61
    assert messages.read(raw, {}, short=True, prefixes=prefixes).count == 61


@settings(max_examples=150 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system", 3]), "content": values})),
    values,
    values,
)
def test_wild_requests(listed: list[Any], system: Any, tools: Any) -> None:
    raw = body(messages=[*listed, user(result("1", "r"))], system=system, tools=tools)
    try:
        asked = messages.read(raw, {})
    except BadAsk:
        return
    assert messages.write(asked, ()) is raw
    out = messages.write(asked, [AppendText(asked.count - 1, NOTE), AppendText(0, NOTE), ForbidTools()])
    assert json.loads(out)["messages"][-1] == user(result("1", "r" + NOTE * (1 + (asked.count == 1))))
    back = PutBack(
        asked.count - 1, (json.dumps(model("x")).encode(),), ((0, b'{"type":"tool_use"}'),), (b'{"content":[1]}',), "x"
    )
    json.loads(messages.write(asked, [back]))
    checked: Ask = messages.conversation(asked)
    assert len(checked.tail) == asked.count
