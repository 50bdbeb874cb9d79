"""The chat surface: what `read` takes and refuses, what it finds, and what `reply` and `error` say."""

from __future__ import annotations

import json
import time

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from guardproxy import api
from guardproxy.api import chat
from guardproxy.core.model import Call
from guardproxy.errors import BadAsk
from tests.api.cases import FUZZ, ask, body, objects, request, values

REFUSED = [
    (b"", "body", "valid JSON"),
    (b"{", "body", "valid JSON"),
    (b"\xff\xfe", "body", "valid JSON"),
    (b'{"model":"m","messages":[' + b"[" * 200_000, "body", "valid JSON"),
    (b"[1]", "body", "object"),
    (b'"x"', "body", "object"),
    (b'{"model":"m"}', "messages", "missing"),
    (b'{"model":"m","messages":null}', "messages", "missing"),
    (body(messages="hi"), "messages", "a list"),
    (body(messages={}), "messages", "a list"),
    (body(messages=[]), "messages", "at least one"),
    (body(messages=[{"role": "user"}, "x"]), "messages[1]", "an object"),
    (body(messages=[None]), "messages[0]", "an object"),
    (body(model=None), "model", "missing"),
    (body(model=""), "model", "missing"),
    (body(model=7), "model", "a string"),
    (body(stream="true"), "stream", "true or false"),
    (body(stream=1), "stream", "true or false"),
    (body(tools={"a": 1}), "tools", "a list"),
    (body(tools="x"), "tools", "a list"),
    (body(n="2"), "n", "an integer"),
    (body(n=1.5), "n", "an integer"),
    (body(n=True), "n", "an integer"),
    (body(max_tokens=[]), "max_tokens", "an integer"),
    (body(max_completion_tokens="many"), "max_completion_tokens", "an integer"),
]


@pytest.mark.parametrize(("raw", "param", "words"), REFUSED)
def test_refuses_in_clear_words(raw: bytes, param: str, words: str) -> None:
    with pytest.raises(BadAsk, match=words) as caught:
        chat.read(raw, {})
    assert (caught.value.param, caught.value.status) == (param, 400)
    shown = json.loads(chat.error(caught.value))["error"]
    assert (shown["param"], shown["type"]) == (param, "invalid_request_error")


TAKEN = [
    body(stream=None, tools=None, n=None, max_tokens=None, tool_choice=None),
    body(max_tokens=-1, n=1.0, unknown={"deep": [1]}),
    body(tools=["x", 1, None, {"type": "web_search"}, {"function": None}, {}]),
    body(messages=[{}, {"role": 5, "content": 5}, {"role": "ipython", "content": {"a": 1}}]),
    body(messages=[{"role": "assistant", "content": None, "tool_calls": "x", "function_call": "y"}]),
    body(messages=[{"role": "assistant", "tool_calls": [None, 1, {}, {"function": []}]}]),
    b'{"model":"m","messages":[{"role":"user","content":"\\ud83d lone"}],"temperature":NaN}',
    b'{"model":"m","messages":[{"role":"user","content":"raw\ttab\nnewline"}]}',
    b'\xef\xbb\xbf{"model":"m","messages":[{"role":"user","content":"bom"}],"seed":99999999999999999999999999}',
    b' \r\n{"model":"m","messages":[{"role":"user","content":"x"}],"temperature":1e999}',
]


@pytest.mark.parametrize("raw", TAKEN)
def test_takes_what_a_provider_may_take(raw: bytes) -> None:
    found = chat.read(raw, {})
    assert chat.write(found, ()) is raw
    for message in (*found.head, *found.tail):
        message.text.encode()


MESSAGES = [
    ({"role": "developer", "content": "be"}, ("system", "be")),
    (
        {"role": "user", "content": [{"type": "text", "text": "a"}, "b", {"type": "text", "text": "c"}]},
        ("user", "a\nb\nc"),
    ),
    ({"role": "assistant", "content": None}, ("assistant", "")),
    ({"role": "assistant"}, ("assistant", "")),
    ({"role": "assistant", "content": None, "refusal": "no"}, ("assistant", "no")),
    ({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}, ("assistant", "no")),
    ({"role": "tool", "content": "r", "tool_call_id": "c"}, ("tool", "r", (), "c")),
    ({"role": "tool", "content": "r", "tool_call_id": None, "is_error": True}, ("tool", "r", (), "", "", (), True)),
    ({"role": "function", "name": "f", "content": "r"}, ("tool", "r", (), "", "f")),
    (
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": '{"x": 1}'}}]},
        ("assistant", "", (Call("f", '{"x": 1}', "1"),)),
    ),
    (
        {"role": "assistant", "tool_calls": [{"id": None, "function": {"name": "f", "arguments": {"x": 1}}}]},
        ("assistant", "", (Call("f", '{"x":1}', ""),)),
    ),
    (
        {"role": "assistant", "tool_calls": [{"id": "9", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]},
        ("assistant", "", (Call("sh", "ls", "9"),)),
    ),
    (
        {"role": "assistant", "content": "", "tool_calls": [], "function_call": {"name": "f", "arguments": "{}"}},
        ("assistant", "", (Call("f", "{}", ""),)),
    ),
    ({"role": "assistant", "tool_calls": [{"id": "1", "function": {}}]}, ("assistant", "", (Call("", "", "1"),))),
]


@pytest.mark.parametrize(("message", "expected"), MESSAGES)
def test_messages_become_neutral(message: dict[str, object], expected: tuple[object, ...]) -> None:
    (found,) = ask(messages=[message]).tail
    assert tuple(found)[: len(expected)] == expected
    assert not any(tuple(found)[len(expected) :])


def test_media_are_told_apart_by_their_content() -> None:
    def image(data: str) -> dict[str, object]:
        return {
            "role": "tool",
            "content": [{"type": "text", "text": "shot"}, {"type": "image_url", "image_url": {"url": data}}],
        }

    one, same, other = ask(messages=[image("data:A"), image("data:A"), image("data:B")]).tail
    assert one.text == "shot"
    assert one.media == same.media != other.media
    assert len(one.media) == 1


def turns(count: int, calls: int = 1) -> list[dict[str, object]]:
    """A conversation of `count` rounds."""
    entries = [{"id": f"c{i}", "function": {"name": "f", "arguments": "{}"}} for i in range(calls)]
    results = [{"role": "tool", "tool_call_id": f"c{i}", "content": "r"} for i in range(calls)]
    return [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}] + [
        message for _ in range(count) for message in ({"role": "assistant", "tool_calls": entries}, *results)
    ]


@pytest.mark.parametrize(
    ("messages", "length"),
    [
        (turns(3), 8),
        (turns(60), 52),  # 26 rounds
        (turns(4, calls=20), 42),  # two rounds hold 40 calls
        (turns(1, calls=150), 151),  # never only the results of calls that are out of sight
        ([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}] * 100, 80),
    ],
)
def test_tail_is_the_window(messages: list[dict[str, object]], length: int) -> None:
    found = ask(messages=messages)
    assert len(found.tail) == length
    assert (found.count, found.tail_start) == (len(messages), len(messages) - length)
    assert chat.message(found, found.count - 1) == found.tail[-1]
    assert chat.message(found, 0) is not None
    assert chat.message(found, -1) is chat.message(found, found.count) is None


def test_head_is_the_leading_system_messages_and_the_first_user_message() -> None:
    system, developer, user = ({"role": role, "content": role} for role in ("system", "developer", "user"))
    greeting = {"role": "assistant", "content": "hello"}
    found = ask(messages=[system, developer, greeting, user, system, user])
    assert [message.text for message in found.head] == ["system", "developer", "user"]
    assert ask(messages=[greeting]).head == ()


def test_ask_of_is_read_without_bytes() -> None:
    fields = request(messages=turns(30), tools=[{"type": "function", "function": {"name": "f"}}])
    read = chat.read(json.dumps(fields).encode(), {})
    made = chat.ask_of(fields["messages"], model="m", tools=["f"])
    assert (made.head, made.tail, made.tail_start, made.count) == (read.head, read.tail, read.tail_start, read.count)
    assert (made.tools, made.model, made.body) == (read.tools, read.model, b"")


def test_a_short_tail_is_the_end_of_the_window_and_can_be_widened() -> None:
    raw = body(messages=turns(60))
    full, short = chat.read(raw, {}), chat.read(raw, {}, short=True)
    assert 0 < len(short.tail) < len(full.tail)
    assert short.tail == full.tail[-len(short.tail) :]
    assert short.tail_start == short.count - len(short.tail)
    assert chat.widen(short) == full


TOOLS = [
    ([{"type": "function", "function": {"name": "f"}}, {"name": "g"}], ("f", "g")),
    ([{"type": "web_search"}, {"type": "custom", "custom": {"name": "sh"}}], ("web_search", "sh")),
    (
        [{"type": "namespace", "name": "ns", "tools": [{"name": "a"}, {"function": {"name": "b"}}, 3]}],
        ("ns__a", "ns__b"),
    ),
    ([{"type": "namespace", "name": 3, "tools": [{"name": "a"}]}, {"tools": [{"name": "b"}]}], ("a", "b")),
    ([], ()),
]


@pytest.mark.parametrize(("tools", "names"), TOOLS)
def test_tool_names(tools: list[object], names: tuple[str, ...]) -> None:
    assert ask(tools=tools).tools == names


def finisher(name: str = "final_answer", required: object = ("answer",), **properties: object) -> dict[str, object]:
    shape = properties or {"answer": {"type": "string"}}
    parameters = {"type": "object", "properties": shape, "required": required}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


FINISHERS = [
    ("required", finisher(), ("final_answer", "answer")),
    ("required", finisher("submit"), ("submit", "answer")),
    ("auto", finisher(), None),
    (None, finisher(), None),
    ({"type": "function", "function": {"name": "final_answer"}}, finisher(), None),
    ("required", finisher("answer_it"), None),
    ("required", finisher(required=[]), None),
    ("required", finisher(required=None), None),
    ("required", finisher(answer={"type": "number"}), None),
    ("required", finisher(answer={"type": "string"}, extra={"type": "string"}), None),
    ("required", {"type": "function", "function": {"name": "finish", "parameters": "x"}}, None),
]


@pytest.mark.parametrize(("choice", "tool", "expected"), FINISHERS)
def test_finish_tool(choice: object, tool: dict[str, object], expected: tuple[str, str] | None) -> None:
    found = ask(tools=[{"type": "function", "function": {"name": "read"}}, tool], tool_choice=choice)
    assert found.finish_tool == expected


USAGE = [
    ({"stream": True}, (False, True)),
    ({"stream": True, "stream_options": None}, (False, True)),
    ({"stream": True, "stream_options": {}}, (False, True)),
    ({"stream": True, "stream_options": {"include_usage": True}}, (True, False)),
    ({"stream": True, "stream_options": {"include_usage": False}}, (False, False)),
    ({"stream": True, "stream_options": "x"}, (False, False)),
    ({"stream": False}, (False, False)),
    ({}, (False, False)),
]


@pytest.mark.parametrize(("fields", "expected"), USAGE)
def test_usage_wish(fields: dict[str, object], expected: tuple[bool, bool]) -> None:
    found = ask(**fields)
    assert (found.wants_usage, found.may_splice_usage) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 7}, 7),
        ({"max_tokens": 0}, None),
        ({"max_tokens": -1}, None),
        ({}, None),
    ],
)
def test_max_tokens(fields: dict[str, object], expected: int | None) -> None:
    assert ask(**fields).max_tokens == expected


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        (["fix the test"], "en"),
        (["请修复测试，然后运行一遍。"], "zh"),
        (["请修复 guardproxy/api/chat.py 里的 bug，并解释原因"], "zh"),
        (["Please explain the word 测试 in this file to me"], "en"),
        (["テストを修正してください"], "en"),
        (["테스트를 고쳐 주세요"], "en"),
        (["修复登录页面的错误", "ok", "go"], "zh"),
        ([""], "en"),
    ],
)
def test_language(texts: list[str], language: str) -> None:
    assert ask(messages=[{"role": "user", "content": text} for text in texts]).language == language


def test_reply_is_a_completion() -> None:
    kind, raw = chat.reply(ask(), 'said "it" 好', reply_id="chatcmpl-x", created=7)
    found = json.loads(raw)
    assert (kind, found["object"], found["id"], found["created"], found["model"]) == (
        "application/json",
        "chat.completion",
        "chatcmpl-x",
        7,
        "m",
    )
    (choice,) = found["choices"]
    assert choice["message"] == {"role": "assistant", "content": 'said "it" 好', "refusal": None}
    assert (choice["finish_reason"], found["usage"]["total_tokens"]) == ("stop", 0)


@pytest.mark.parametrize("wants", [True, False])
@pytest.mark.parametrize("finish", [None, ("final_answer", "answer", "abc123XYZ")])
def test_reply_is_a_stream(wants: bool, finish: tuple[str, str, str] | None) -> None:
    asked = ask(stream=True, stream_options={"include_usage": wants})
    kind, raw = chat.reply(asked, "line\n", reply_id="i", created=7, finish=finish)
    assert kind == "text/event-stream"
    watcher = chat.watch(asked)
    assert watcher.feed(raw) is raw
    calls = (Call("final_answer", '{"answer":"line\\n"}', "abc123XYZ"),) if finish else ()
    assert (watcher.calls, watcher.text) == (calls, "" if finish else "line\n")
    assert (watcher.finish_reason, watcher.complete) == ("tool_calls" if finish else "stop", True)
    assert (watcher.usage is not None) is wants
    assert raw.endswith(b"data: [DONE]\n\n")
    first = json.loads(raw.split(b"\n\n")[0][6:])
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert (first["object"], first["model"], first["created"]) == ("chat.completion.chunk", "m", 7)


def test_reply_calls_the_finishing_tool() -> None:
    _, raw = chat.reply(ask(), "all", reply_id="i", created=7, finish=("finish", "message", "abc123XYZ"))
    (choice,) = json.loads(raw)["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert (call["id"], call["function"]["name"]) == ("abc123XYZ", "finish")
    assert json.loads(call["function"]["arguments"]) == {"message": "all"}
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "tool_calls")


def test_reply_gives_every_choice_that_was_asked_for() -> None:
    _, raw = chat.reply(ask(n=3), "all", reply_id="i", created=7)
    assert [choice["index"] for choice in json.loads(raw)["choices"]] == [0, 1, 2]


def test_error_and_comment() -> None:
    err = BadAsk("too much", status=400, code="budget_exceeded", param="turns")
    assert json.loads(chat.error(err, {"limit": 5})) == {
        "error": {
            "message": "too much",
            "type": "invalid_request_error",
            "code": "budget_exceeded",
            "param": "turns",
            "limit": 5,
        }
    }
    assert chat.comment("cut", "cycle\ndata: x") == b": guardproxy action=cut rule=cycle data: x\n\n"


def test_surfaces_are_found() -> None:
    assert {"chat", "passthrough"} <= set(api.SURFACES)
    assert api.PATHS["/v1/chat/completions"] is chat


def test_read_cost_is_bounded() -> None:
    """Beside the parsing, `read` costs the window: ten times the history may not cost twice as much."""

    def cost(rounds: int) -> float:
        raw = body(messages=turns(rounds))
        best = []
        for function in (lambda: chat.read(raw, {}), lambda: orjson.loads(raw)):
            times = []
            for _ in range(60):
                start = time.process_time()
                function()
                times.append(time.process_time() - start)
            best.append(min(times))
        return best[0] - best[1]

    assert min(cost(400) for _ in range(3)) < 2 * max(cost(40) for _ in range(3)) + 100e-6


@settings(max_examples=300 * FUZZ, deadline=None)
@given(st.one_of(st.binary(max_size=60), objects.map(orjson.dumps), objects.map(lambda fields: body(**fields))))
def test_read_refuses_or_reads(raw: bytes) -> None:
    found, param = None, "body taken"
    try:
        found = chat.read(raw, {})
    except BadAsk as err:
        param = err.param or ""
    assert param
    assert found is None or found.body is raw


@settings(max_examples=300 * FUZZ, deadline=None)
@given(st.lists(objects, min_size=1, max_size=5), values, values)
def test_read_takes_any_messages(messages: list[dict[str, object]], tools: object, choice: object) -> None:
    found = ask(messages=messages, tools=tools if isinstance(tools, list) else [], tool_choice=choice)
    assert len(found.tail) == found.count == len(messages)
    for message in found.tail:
        assert message.role in {"system", "user", "assistant", "tool"}
        for call in message.calls:
            (call.name + call.arguments + call.id).encode()


@pytest.mark.parametrize(
    ("first", "later", "language"),
    [("请修复这个错误", "go on please now", "zh"), ("fix it", "请继续修复这个错误", "en"), ("", "请继续", "en")],
)
def test_the_first_language_stays(first: str, later: str, language: str) -> None:
    messages = [{"role": "user", "content": first}, {"role": "assistant", "content": "a"}]
    for number in range(1, 4):
        ask = chat.ask_of([*messages, *[{"role": "user", "content": later}] * number])
        assert chat.first_language(ask) == language
