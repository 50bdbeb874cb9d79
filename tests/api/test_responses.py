"""The Responses surface: what `read` takes and refuses, what it finds, and what `reply` and `error` say."""

from __future__ import annotations

import gc
import json
import time
from typing import Any

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from guardproxy import api
from guardproxy.api import chat, responses
from guardproxy.api._gate import Gate
from guardproxy.core.model import Call, Message
from guardproxy.errors import BadAsk
from tests.api.cases import FUZZ
from tests.api.responses_cases import GOLDEN, STREAMS, TOOLS, ask, body, cut, objects, payloads, play, values

REFUSED = [
    (b"", "body", "valid JSON"),
    (b"\xff\xfe", "body", "valid JSON"),
    (b'{"model":"m","input":[' + b"[" * 200_000, "body", "valid JSON"),
    (b"[1]", "body", "object"),
    (body(input=5), "input", "a string or a list"),
    (body(input={}), "input", "a string or a list"),
    (body(input=[{"role": "user"}, "x"]), r"input\[1\]", "an object"),
    (body(model=None), "model", "missing"),
    (body(model=7), "model", "a string"),
    (body(stream="true"), "stream", "true or false"),
    (body(tools={"a": 1}), "tools", "a list"),
    (body(max_output_tokens=1.5), "max_output_tokens", "an integer"),
]


@pytest.mark.parametrize(("raw", "param", "words"), REFUSED)
def test_refuses_in_clear_words(raw: bytes, param: str, words: str) -> None:
    with pytest.raises(BadAsk, match=words) as caught:
        responses.read(raw, {})
    assert caught.value.param.replace("[", r"\[").replace("]", r"\]") == param if "[" in param else True
    shown = json.loads(responses.error(caught.value))["error"]
    assert (shown["type"], caught.value.status) == ("invalid_request_error", 400)


TAKEN = [
    body(stream=None, tools=None, max_output_tokens=None, tool_choice=None),
    body(max_output_tokens=-1, unknown={"deep": [1]}),
    body(tools=["x", 1, None, {"type": "web_search"}, {"function": None}, {}]),
    body(input=[{}, {"role": 5, "content": 5}, {"type": [], "role": {}}, {"type": "new_thing"}]),
    body(input=[{"type": "function_call_output"}, {"type": "function_call", "arguments": {"a": 1}, "call_id": 5}]),
    json.dumps({"prompt": {"id": "pmpt_1"}}).encode(),
    json.dumps({"model": "m"}).encode(),
]


@pytest.mark.parametrize("raw", TAKEN)
def test_takes_what_a_provider_may_take(raw: bytes) -> None:
    found = responses.read(raw, {})
    assert responses.write(found, ()) is raw


USER = {"role": "user", "content": [{"type": "input_text", "text": "find it"}]}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"x":1}'}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "nothing"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}
LOOKED = {"type": "mcp_call", "id": "m_1", "name": "look", "arguments": "{}", "output": "found", "error": None}
F = Call("f", '{"x":1}', "c1")

READ: list[tuple[list[dict[str, Any]], list[Message]]] = [
    ([USER], [Message("user", "find it")]),
    (
        [USER, THOUGHT, SAID, CALL, RESULT],
        [
            Message("user", "find it"),
            Message("assistant", "I look.", (F,)),
            Message("tool", "nothing", call_id="c1"),
        ],
    ),
    (
        [USER, CALL, {**CALL, "call_id": "c2"}, {**RESULT, "call_id": "c2"}, RESULT],
        [
            Message("user", "find it"),
            Message("assistant", "", (F, F._replace(id="c2"))),
            Message("tool", "nothing", call_id="c2"),
            Message("tool", "nothing", call_id="c1"),
        ],
    ),
    (
        [USER, SEARCH, LOOKED, SAID, USER],
        [
            Message("user", "find it"),
            Message("assistant", "I look."),
            Message("user", "find it"),
        ],
    ),
    (
        [
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** a"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "ok"}]},
        ],
        [Message("assistant", "", (Call("patch", '{"input":"*** a"}', "c"),)), Message("tool", "ok", call_id="c")],
    ),
    (
        [
            {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
            {
                "type": "shell_call_output",
                "call_id": "c",
                "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
            },
        ],
        [
            Message("assistant", "", (Call("shell", '{"commands":["ls"]}', "c"),)),
            Message("tool", "a\n[exit code 0]", call_id="c"),
        ],
    ),
    ([{"role": "developer", "content": "be"}, THOUGHT], [Message("system", "be"), Message("assistant")]),
    (
        [
            {"type": "function_call", "call_id": f"c{at}", "name": "look", "namespace": space, "arguments": "{}"}
            for at, space in enumerate(("mcp__one", "mcp__two", "", None, 3, "mcp__three__"))
        ],
        [
            Message(
                "assistant",
                "",
                tuple(
                    Call(name, "{}", f"c{at}")
                    for at, name in enumerate(
                        ("mcp__one__look", "mcp__two__look", "look", "look", "look", "mcp__three__look")
                    )
                ),
            )
        ],
    ),
]


@pytest.mark.parametrize(("items", "messages"), READ)
def test_items_are_messages(items: list[dict[str, Any]], messages: list[Message]) -> None:
    found = ask(input=items)
    assert list(found.tail) == messages
    assert (found.count, found.tail_start) == (len(messages), 0)
    assert [responses.message(found, at) for at in range(len(messages))] == messages
    assert responses.message(found, len(messages)) is None
    assert responses.conversation(found).tail == responses.widen(found).tail == tuple(messages)


def test_what_the_provider_carries_out_are_calls_with_results() -> None:
    def pairs(name: str) -> list[tuple[str, str, str | None]]:
        _, watcher = play([(GOLDEN / "streams" / f"{name}.sse").read_bytes()])
        return [(call.name, call.arguments, told.text if told else None) for call, told in watcher.hosted]

    assert pairs("searches") == [
        ("web_search", '{"type":"search","query":"refund policy","sources":null}', None),
        ("file_search", '{"queries":["refund"]}', '[{"file_id":"f1","text":"30 days"}]'),
    ]
    assert pairs("hosted_and_call") == [
        ("mcp__s__lookup", '{"q":1}', "found"),
        ("code_interpreter", '{"code":"print(1)"}', '[{"type":"logs","logs":"1\\n"}]'),
    ]
    assert pairs("call") == []
    _, watcher = play([(GOLDEN / "streams" / "image.sse").read_bytes()])
    assert watcher.hosted[0][1] is not None
    assert len(watcher.hosted[0][1].media) == 1


def test_a_text_alone_and_instructions() -> None:
    found = ask(input="hi", instructions="be brief", tools=TOOLS, tool_choice="required", max_output_tokens=9)
    assert found.head == (Message("system", "be brief"), Message("user", "hi"))
    assert (found.tools, found.tool_choice, found.max_tokens, found.surface) == (("f",), "required", 9, "responses")
    assert responses.schema(found, "f") == TOOLS[0]["parameters"]
    assert responses.schema(found, "g") is None


def test_a_screenshot_is_media() -> None:
    shot = {"type": "computer_screenshot", "image_url": "data:image/png;base64,aGk="}
    items = [
        {"type": "computer_call", "call_id": "c", "action": {"type": "screenshot"}},
        {"type": "computer_call_output", "call_id": "c", "output": shot},
    ]
    assert len(ask(input=items).tail[1].media) == 1


def test_the_session_of_codex() -> None:
    headers = {"session-id": "s-1", "thread-id": "t-1", "user-agent": "codex_exec/0.171.0"}
    found = ask(headers).declared
    assert (found.session, found.thread, found.agent) == ("s-1", "t-1", "codex")


def test_a_finishing_tool() -> None:
    tool = {
        "type": "function",
        "name": "final_answer",
        "parameters": {"properties": {"answer": {"type": "string"}}, "required": ["answer"]},
    }
    found = ask(tools=[tool], tool_choice="required")
    assert found.finish_tool == ("final_answer", "answer")
    _, raw = responses.reply(
        found, "Done.", reply_id="resp_x", created=1, finish=("final_answer", "answer", "aB3dE6gH9")
    )
    (item,) = json.loads(raw)["output"]
    assert (item["type"], item["call_id"], json.loads(item["arguments"])) == (
        "function_call",
        "aB3dE6gH9",
        {"answer": "Done."},
    )


def test_long_results_before_the_tail() -> None:
    items = [USER, *[one for n in range(60) for one in ({**CALL, "call_id": f"c{n}"}, {**RESULT, "call_id": f"c{n}"})]]
    items[2] = {**RESULT, "call_id": "c0", "output": "x" * 5000}
    found = ask(input=items)
    assert found.tail_start > 2
    assert [at for at, _ in responses.long_results(found, 4000)] == [2]


REQUIRED = (
    "id object created_at status error incomplete_details instructions max_output_tokens model output "
    "parallel_tool_calls previous_response_id reasoning store temperature text tool_choice tools top_p truncation "
    "usage user metadata"
).split()
"""Fields of a response that the reference lists as always there."""


def test_a_reply_is_a_response() -> None:
    found = ask(instructions="be", metadata={"a": "b"}, previous_response_id="resp_0")
    kind, raw = responses.reply(found, "It ends here.", reply_id="resp_x", created=7)
    made = json.loads(raw)
    assert kind == "application/json"
    assert set(REQUIRED) <= made.keys()
    assert (made["id"], made["created_at"], made["status"], made["model"]) == ("resp_x", 7, "completed", "m")
    assert (made["instructions"], made["metadata"], made["previous_response_id"]) == ("be", {"a": "b"}, "resp_0")
    assert made["output"][0]["content"] == [
        {"type": "output_text", "text": "It ends here.", "annotations": [], "logprobs": []}
    ]
    assert made["usage"]["total_tokens"] == 0


SEQUENCE = [
    "created",
    "in_progress",
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
    "completed",
]


def test_a_reply_as_a_stream() -> None:
    kind, raw = responses.reply(ask(stream=True), "It ends here.", reply_id="resp_x", created=7)
    found = payloads(raw)
    assert kind == "text/event-stream"
    assert [one["type"] for one in found] == [f"response.{name}" for name in SEQUENCE]
    assert [one["sequence_number"] for one in found] == list(range(9))
    assert found[-1]["response"]["output"] == [found[-2]["item"]]
    out, watcher = play([raw])
    assert (out, watcher.text, watcher.complete) == (raw, "It ends here.", True)


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_closed_behind_what_was_given(path: Any) -> None:
    """A stream that is left at any event and ended in our words is one well-formed answer."""
    raw = path.read_bytes().replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events = [event + b"\n\n" for event in raw.split(b"\n\n") if event]
    for count in range(len(events)):
        if any(b'"type":"response.completed"' in event or b"incomplete" in event for event in events[:count]):
            break
        watcher = responses.watch(ask(stream=True))
        given_ = b"".join([watcher.feed(event) for event in events[:count]])
        out = given_ + responses.closing(ask(stream=True), watcher.joint(), "The end.", reply_id="resp_x", created=1)
        found = [one for one in payloads(out) if one["type"].startswith("response.")]
        if path.stem not in ("no_numbers", "always_zero"):
            assert [one["sequence_number"] for one in found] == list(range(len(found))), count
        assert [one["type"] for one in found].count("response.created") == 1
        last = found[-1]["response"]
        assert last["id"] == found[0]["response"]["id"]
        assert last["output"][-1]["content"][0]["text"] == "The end."
        done = [one["item"] for one in found if one["type"] == "response.output_item.done"]
        assert len(last["output"]) == len(done)
        added = {one["item"]["id"] for one in found if one["type"] == "response.output_item.added"}
        calls = {one["item"]["id"] for one in found if one.get("item", {}).get("call_id")}
        assert added - {item["id"] for item in done} <= calls, "only calls are left open"


def test_an_answer_that_goes_on_with_another() -> None:
    """The second attempt's events behind the first one's text: one id, counted on, all usage."""
    first = (GOLDEN / "streams" / "text_and_call.sse").read_bytes()
    second = (GOLDEN / "streams" / "parallel.sse").read_bytes().replace(b"resp_1", b"resp_2").replace(b"rs_1", b"rs_2")
    for size in (3, 500, 100_000):
        gate = Gate(lambda _: True)
        one = responses.watch(ask(stream=True), gate=gate)
        out = b"".join([one.feed(part) for part in cut(first, size)]) + one.finish()
        two = responses.watch(ask(stream=True), gate=gate, joint=one.joint())
        out += b"".join([two.feed(part) for part in cut(second, size)]) + two.finish() + two.release()
        found = payloads(out)
        assert [event["sequence_number"] for event in found] == list(range(len(found)))
        last = found[-1]["response"]
        assert (last["id"], last["usage"]["total_tokens"]) == ("resp_1", 84)
        assert [item["id"] for item in last["output"]] == ["rs_1", "msg_1", "rs_2", "fc_call_1", "fc_call_2"]
        added = [event for event in found if event["type"] == "response.output_item.added"]
        assert [event["output_index"] for event in added] == list(range(5))
        assert json.loads(two.raw_message())[0]["id"] == "rs_2"


def test_an_answer_of_one_piece_goes_on_with_another() -> None:
    first = {"id": "a", "created_at": 1, "output": [SAID, CALL], "usage": {"input_tokens": 1, "total_tokens": 3}}
    second = {"id": "b", "created_at": 2, "output": [{**SAID, "id": "n"}], "usage": {"input_tokens": 5, "x": 1}}
    one = responses.watch(ask(), content_type="application/json", gate=Gate(lambda _: True))
    one.feed(json.dumps(first).encode())
    one.finish()
    two = responses.watch(ask(), content_type="application/json", joint=one.joint())
    out = json.loads(two.feed(json.dumps(second).encode()) + two.finish())
    assert (out["id"], out["created_at"], out["usage"]) == ("a", 1, {"input_tokens": 6, "total_tokens": 3, "x": 1})
    assert out["output"] == [SAID, {**SAID, "id": "n"}]


def test_an_error_in_the_middle_of_a_stream() -> None:
    raw = (GOLDEN / "streams" / "half.sse").read_bytes()
    watcher = responses.watch(ask(stream=True))
    watcher.feed(raw)
    out = raw + responses.failure(BadAsk("It broke.", code="upstream_broken"), watcher.joint())
    last = payloads(out)[-1]
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert last["response"]["error"] == {"code": "upstream_broken", "message": "It broke."}
    assert last["sequence_number"] == len(payloads(raw))
    assert play([out])[1].failed


KINDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (CALL, {"type": "function_call_output", "call_id": "c1", "output": "no"}),
    ({"type": "custom_tool_call", "call_id": "c"}, {"type": "custom_tool_call_output", "call_id": "c", "output": "no"}),
    ({"type": "local_shell_call", "call_id": "c"}, {"type": "local_shell_call_output", "id": "c", "output": "no"}),
    (
        {"type": "apply_patch_call", "call_id": "c"},
        {"type": "apply_patch_call_output", "call_id": "c", "output": "no", "status": "failed"},
    ),
    (
        {"type": "shell_call", "call_id": "c"},
        {
            "type": "shell_call_output",
            "call_id": "c",
            "output": [{"stdout": "", "stderr": "no", "outcome": {"type": "exit", "exit_code": 1}}],
        },
    ),
]


@pytest.mark.parametrize(("call", "result"), KINDS)
def test_results_of_every_kind_of_call(call: dict[str, Any], result: dict[str, Any]) -> None:
    (raw,) = responses.results([json.dumps(call).encode()], ["no"])
    assert json.loads(raw) == result
    pair = ask(input=[call, result])
    assert "no" in pair.tail[1].text


def test_a_kept_answer() -> None:
    items = [THOUGHT, SAID, CALL, {**CALL, "call_id": "c2", "id": "fc_2"}]
    raw = json.dumps(items).encode()
    assert responses.read_message(raw) == Message("assistant", "I look.", (F, F._replace(id="c2")))
    assert [json.loads(one)["call_id"] for one in responses.calls_in_message(raw)] == ["c1", "c2"]
    assert json.loads(responses.keep_calls(raw, {1})) == [THOUGHT, SAID, items[3]]
    assert responses.keep_calls(raw, {0, 1}) is raw
    later = {**THOUGHT, "id": "rs_2"}
    two = json.dumps([*items[:3], later, items[3]]).encode()
    assert json.loads(responses.keep_calls(two, {0})) == items[:3], "nor thoughts of which nothing is left"
    assert json.loads(responses.keep_calls(two, {1})) == [THOUGHT, SAID, later, items[3]]
    assert responses.keep_calls(json.dumps([CALL, later]).encode(), {0}) == json.dumps([CALL, later]).encode()
    assert responses.with_arguments(raw, 0, '{"x":1}') is raw
    assert json.loads(responses.with_arguments(raw, 1, '{"x":2}'))[3]["arguments"] == '{"x":2}'
    custom = json.dumps([{"type": "custom_tool_call", "call_id": "c", "name": "p", "input": "a"}]).encode()
    assert json.loads(responses.with_arguments(custom, 0, '{"input":"b"}'))[0]["input"] == "b"
    shell = json.dumps([{"type": "local_shell_call", "call_id": "c", "action": {"command": ["rm"]}}]).encode()
    assert json.loads(responses.with_arguments(shell, 0, '{"command":["ls"]}'))[0]["action"] == {"command": ["ls"]}
    broken = json.dumps([{**CALL, "arguments": "{"}]).encode()
    assert json.loads(json.loads(responses.sound(broken))[0]["arguments"]) == {"invalid_arguments": "{"}
    assert responses.sound(raw) is raw


def test_read_cost_is_bounded() -> None:
    """A long history costs its parse and a look at each item, no more."""
    items = [USER]
    for n in range(2000):
        items += [{**CALL, "call_id": f"c{n}"}, {**RESULT, "call_id": f"c{n}", "output": "x" * 200}]
    raw = body(input=items)

    def best(work: Any) -> float:
        times = []
        for _ in range(7):
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
        return min(times)

    gc.disable()
    try:
        assert best(lambda: responses.read(raw, {}, short=True)) < 8 * best(lambda: orjson.loads(raw)) + 0.001
    finally:
        gc.enable()


def test_every_surface_has_what_is_called_of_it() -> None:
    """What chat has, the others have: what http calls is the same on each, but for what holds on all of them alike."""
    assert set(chat.__all__) - {"end_at", "torn"} <= set(responses.__all__)
    assert api.PATHS["/v1/responses"] is responses


@settings(max_examples=150 * FUZZ, deadline=None)
@given(st.lists(objects, max_size=6) | values, st.text(max_size=5) | values)
def test_never_raises_but_bad_ask(items: Any, instructions: Any) -> None:
    raw = orjson.dumps({"model": "m", "input": items, "instructions": instructions})
    try:
        found = responses.read(raw, {})
    except BadAsk:
        return
    responses.widen(found)
    responses.conversation(found)
    for at in range(-1, found.count + 1):
        responses.message(found, at)
    responses.raw_messages(found)
