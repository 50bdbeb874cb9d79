"""/v1/messages over HTTP beside the scenes: headers, keys, errors, usage, thoughts in rounds that are put back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from guardproxy.api._blocks_made import block_events
from guardproxy.http.keyring import Keyring
from guardproxy.secrets import derive
from guardproxy.store.redis import Store
from tests.api.blocks import begun, called, ended, event, events_of, model, result, said, text, thought, use, user
from tests.live import SECRET, Json, Live, Said, live
from tests.scenes import Heard
from tests.surfaces import messages as surface

STREAM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in ("read", "delete")]
VERSION = {"x-api-key": "k", "anthropic-version": "2023-06-01", "anthropic-beta": "b-1,b-2"}


def asked(*messages: Json, **more: Any) -> Json:
    """A request's body."""
    return {"model": "m", "max_tokens": 99, "messages": list(messages), "tools": TOOLS, **more}


def answering(running: Live, *answers: Said) -> None:
    """The provider's next answers."""
    waiting: list[Said] = list(answers)
    running.provider.script = lambda _got: waiting.pop(0)


@STREAM
async def test_bytes_headers_and_query_arrive_as_they_were_sent(stream: bool, store: Store) -> None:
    body = asked(user(text("hi", cache_control={"type": "ephemeral"})), stream=stream, thinking={"type": "adaptive"})
    raw = json.dumps(body, indent=1).encode()
    async with live(store, surface=surface) as running:
        answer = await running.post(raw, {**VERSION, "x-claude-code-session-id": "cc-1"}, "/v1/messages?beta=true")
    (got,) = running.provider.got
    assert (got.body, got.path) == (raw, "/v1/messages?beta=true")
    assert {name: got.headers[name] for name in VERSION} == VERSION
    assert answer.body == running.provider.sent[0]
    assert answer.headers["x-guardproxy-session-id"] == "cc-1"


async def test_the_count_of_tokens_passes_through(store: Store, heard: Heard) -> None:
    counted = Said(raw=b'{ "input_tokens": 14 }')
    async with live(store, heard, surface=surface) as running:
        answering(running, counted)
        answer = await running.post(asked(user("hi")), VERSION, "/v1/messages/count_tokens?beta=true")
    assert answer.body == counted.raw
    assert running.provider.got[0].path == "/v1/messages/count_tokens?beta=true"
    assert "x-guardproxy-turn" not in answer.headers


WRONG: dict[str, tuple[Any, int, str, str]] = {
    "no JSON": (b"{", 400, "invalid_request_error", "invalid_json"),
    "no model": (asked(user("a"), model=None), 400, "invalid_request_error", "missing_required_parameter"),
    "a message that is none": ({"model": "m", "messages": [3]}, 400, "invalid_request_error", "invalid_type"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_errors_have_the_shape_of_the_surface(name: str, store: Store) -> None:
    body, status, kind, code = WRONG[name]
    async with live(store, surface=surface) as running:
        answer = await running.post(body, VERSION)
    told = answer.json
    assert answer.status == status
    assert (told["type"], told["error"]["type"], told["error"]["code"]) == ("error", kind, code)
    assert told["error"]["message"]
    assert answer.headers["x-should-retry"] == "false"
    assert not running.provider.got


async def test_errors_before_a_turn_too(store: Store) -> None:
    async with live(store, surface=surface) as running:
        async with running.client.get(running.url + "/v1/messages") as answer:
            assert answer.status == 405
            assert (await answer.json())["type"] == "error"
        running.proxy.draining = True
        shed = await running.post(asked(user("a")))
        assert (shed.status, shed.json["error"]["type"]) == (503, "overloaded_error")
        running.proxy.draining = False


@STREAM
async def test_of_a_conversation_that_the_provider_holds_the_whole_is_asked_for(stream: bool, store: Store) -> None:
    """As the tool runner of Anthropic's SDK sends it: by itself, what is new would be a run of its own each time."""
    more = {"thread": {"type": "continue", "previous_message_id": "msg_1"}, "tools": None, "stream": stream}
    async with live(store, surface=surface) as running:
        refused = await running.post(asked(user(result("c1", "r")), **more), VERSION)
        assert not running.provider.got
        sent = asked(user("q"), model(use("c1")), user(result("c1", "r")), thread={"type": "create"}, stream=stream)
        again = await running.post(sent, VERSION)
    assert refused.status == 404
    assert refused.json["error"]["type"] == "not_found_error"
    assert refused.json["error"]["details"] == {"error_code": "thread_not_found"}
    assert (again.status, running.provider.got[0].json) == (200, sent)


@STREAM
async def test_the_providers_own_errors_pass(stream: bool, store: Store, heard: Heard) -> None:
    raw = b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}'
    async with live(store, heard, surface=surface) as running:
        answering(running, Said(status=400, raw=raw))
        answer = await running.post(asked(user("a"), stream=stream))
    assert (answer.status, answer.body) == (400, raw)
    assert (await heard.next()).attempts[-1].error_type == "400"


async def test_a_stream_that_breaks_off_ends_in_an_error_event(store: Store, heard: Heard) -> None:
    sent = [begun(), said(0, "Hel")]
    async with live(store, heard, surface=surface) as running:
        answering(running, Said(raw=sent))
        answer = await running.post(asked(user("a"), stream=True))
    assert answer.body.startswith(b"".join(sent))
    last = events_of(answer.body)[-1]
    assert (last["type"], last["error"]["type"], last["error"]["code"]) == ("error", "api_error", "upstream_broken")
    assert answer.body.rpartition(b"event: ")[2].startswith(b"error\ndata: ")


async def test_an_error_in_the_middle_of_a_stream(store: Store, heard: Heard) -> None:
    sent = [begun(), said(0, "Hel"), event("error", error={"type": "overloaded_error", "message": "Overloaded"})]
    async with live(store, heard, surface=surface) as running:
        answering(running, Said(raw=sent))
        answer = await running.post(asked(user("a"), stream=True))
    assert answer.body == b"".join(sent)
    assert (await heard.next()).error_type == "upstream_error"


@STREAM
async def test_cached_tokens_are_counted_beside_the_input(stream: bool, store: Store, heard: Heard) -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "p", "content": [text("ok")]}
    whole = json.dumps({**message, "stop_reason": "end_turn", "usage": {**usage, "output_tokens": 7}}).encode()
    pieces = [
        event("message_start", message={**message, "content": [], "usage": usage}),
        said(0, "ok"),
        ended(tokens=7),
    ]
    async with live(store, heard, surface=surface) as running:
        answering(running, Said(raw=pieces if stream else whole))
        await running.post(asked(user("a"), stream=stream))
    report = await heard.next()
    found = report.attempts[-1].usage
    assert found is not None
    assert (found.input, found.cached, found.cache_write, found.output, found.estimated) == (130, 100, 20, 7, False)
    assert report.surface == "messages"


async def test_a_virtual_key_comes_in_the_protocols_header_and_the_providers_goes_out_there(store: Store) -> None:
    ring = Keyring(store.registry, derive(SECRET).key_hash, "a test")
    made = await ring.make_key()
    async with live(store, surface=surface, auth="keys", upstream={"api_key": "sk-provider"}) as running:
        answer = await running.post(asked(user("a")), {**VERSION, "x-api-key": made.secret, "Authorization": ""})
        assert answer.status == 200, answer.body
        refused = await running.post(asked(user("a")), {**VERSION, "x-api-key": "gp-" + "A" * 42, "Authorization": ""})
    (got,) = running.provider.got
    assert got.headers["x-api-key"] == "sk-provider"
    assert "Authorization" not in got.headers
    assert made.secret not in str(got)
    assert (refused.status, refused.json["error"]["type"]) == (401, "authentication_error")


THINKS = [thought(0, "It must go."), said(1, "I delete it.")]
SIGNED = {"type": "thinking", "thinking": "It must go.", "signature": "sig"}


async def test_thoughts_of_a_refused_round_go_back_signed_and_are_not_said_twice(store: Store) -> None:
    """The provider refuses thoughts that stand in another answer than the one they were signed in."""
    first = Said(raw=[begun(), *THINKS, called(2, "d1", "delete"), ended("tool_use")])
    second = Said(raw=[begun(), thought(0, "So be it."), called(1, "r1"), ended("tool_use")])
    async with live(store, surface=surface, policy={"refuse": "enforce"}, tools={"deny": ["delete"]}) as running:
        answering(running, first, second, Said("Done."))
        history = [user("Delete a.")]
        answer = await running.post(asked(*history, stream=True))
        message, _, _ = surface.answer(answer.body, stream=True)
        assert [block["type"] for block in message["blocks"]] == ["thinking", "text", "thinking", "tool_use"]
        history += [{"role": "assistant", "content": message["blocks"]}, user(result("r1", "nothing", is_error=True))]
        await running.post(asked(*history, stream=True))
    sent = [got.json["messages"] for got in running.provider.got]
    refused = model(SIGNED, text("I delete it."), use("d1", "delete", path="a"))
    (told,) = sent[1][2]["content"]
    assert sent[1][:2] == [history[0], refused]
    assert (told["type"], told["tool_use_id"]) == ("tool_result", "d1")
    assert "[guardproxy]" in told["content"]
    own = model({**SIGNED, "thinking": "So be it."}, use("r1", path="a"))
    assert sent[2] == [*sent[1], own, history[2]]


async def test_what_a_person_denied_goes_back_with_the_thoughts_that_the_client_has(store: Store) -> None:
    """They flowed before the notice: the client has them in front of it."""
    first = Said(raw=[begun(), *THINKS, called(2, "d1", "delete"), ended("tool_use")])
    async with live(store, surface=surface, tools={"approval": ["delete"]}) as running:
        answering(running, first, Said("I leave it."), Said("Bye."))
        history = [user("Delete a.")]
        answer = await running.post(asked(*history, stream=True))
        message, _, _ = surface.answer(answer.body, stream=True)
        assert [block["type"] for block in message["blocks"]] == ["thinking", "text", "text"]
        (waits,) = await store.approvals.list("default")
        await store.approvals.decide("default", waits.id, "deny", "ann", "not today")
        history += [{"role": "assistant", "content": message["blocks"]}, user("Go on.")]
        await running.post(asked(*history, stream=True))
        history += [model("I leave it."), user("And?")]
        await running.post(asked(*history, stream=True))
    sent = [got.json["messages"] for got in running.provider.got]
    assert sent[1][:2] == [history[0], model(SIGNED, text("I delete it."), use("d1", "delete", path="a"))]
    assert "not today" in sent[1][2]["content"][0]["content"]
    assert [one["role"] for one in sent[1][3:]] == ["assistant", "user"]
    assert sent[2] == [*sent[1], *history[3:]]


@STREAM
async def test_what_was_refused_goes_back_in_front_of_an_answer_that_the_provider_searched_for(
    stream: bool, store: Store
) -> None:
    blocks = [*searched("x", 1), text("So it is."), use("r1", path="a")]
    whole = {"id": "msg_2", "type": "message", "role": "assistant", "model": "p", "content": blocks}
    second = {**whole, "stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 1}}
    made = b"".join([block_events(number, one) for number, one in enumerate(blocks)])
    raw = [begun(), made, ended("tool_use")] if stream else json.dumps(second).encode()
    async with live(store, surface=surface, policy={"refuse": "enforce"}, tools={"deny": ["delete"]}) as running:
        answering(running, Said(None, [("delete", "{}", "d1")]), Said(raw=raw), Said("Done."))
        history = [user("Delete a.")]
        answer = await running.post(asked(*history, stream=stream))
        message, _, _ = surface.answer(answer.body, stream=stream)
        history += [{"role": "assistant", "content": message["blocks"]}, user(result("r1", "nothing"))]
        await running.post(asked(*history, stream=stream))
    sent = [got.json["messages"] for got in running.provider.got]
    assert sent[1][1] == model(use("d1", "delete"))
    assert sent[2] == [*sent[1], *history[1:]]


async def test_arguments_that_are_no_json_are_repaired(store: Store) -> None:
    """Only a stream can hold them; the provider gets them back inside an object, as it demands."""
    broken = Said(raw=[begun(), called(0, "r1", "read", '{"path": "a'), ended("tool_use")])
    good = Said(None, [("read", '{"path": "a"}', "r2")])
    async with live(store, surface=surface, policy={"refuse": "enforce", "arguments": {"mode": "enforce"}}) as running:
        answering(running, broken, good)
        answer = await running.post(asked(user("Read a."), stream=True))
    message, _, _ = surface.answer(answer.body, stream=True)
    assert [call["id"] for call in message["tool_calls"]] == ["r2"]
    _, refused, told = running.provider.got[1].json["messages"]
    assert refused == model(use("r1", invalid_arguments='{"path": "a'))
    assert told["content"][0]["tool_use_id"] == "r1"
    assert "JSON" in told["content"][0]["content"]


@STREAM
async def test_an_answer_that_the_provider_has_not_ended_is_no_final_one(stream: bool, store: Store) -> None:
    """Its own tools may take long: it pauses, and is asked to go on. Then the answer is checked."""
    policy = {"completion": {"required_tools": {"tools": ["read"]}}, "final": {"hold": True}}
    async with live(store, surface=surface, policy=policy) as running:
        answering(running, Said("I search.", finish="pause_turn"), Said("No."), Said("No."), Said("No."))
        paused = await running.post(asked(user("a"), stream=stream))
        assert len(running.provider.got) == 1
        assert surface.answer(paused.body, stream=stream)[:2] == (
            {**model("I search."), "blocks": [text("I search.")]},
            "pause_turn",
        )
        await running.post(asked(user("a"), model("I search."), stream=stream))
        assert len(running.provider.got) > 2, "sent back"


def searched(query: str, number: int) -> list[Json]:
    """What a provider that searches by itself has found, and the words that come of it."""
    found = {"type": "web_search_result", "title": "X", "url": "https://x.example", "encrypted_content": f"E{number}"}
    call = {"type": "server_tool_use", "id": f"srv{number}", "name": "web_search", "input": {"query": query}}
    return [call, {"type": "web_search_tool_result", "tool_use_id": f"srv{number}", "content": [found]}]


def turns(count: int) -> Sequence[Json]:
    """A run whose model searches for the same in each answer, and says no more than that."""
    listed = [user("What is X?")]
    for number in range(count):
        listed.append(model(*searched("x", number)))
        listed.append(user("<system-reminder>Go on.</system-reminder>"))
    return listed


async def test_tools_that_the_provider_runs_are_steps(store: Store) -> None:
    """A search that comes again and again is a loop, whoever carries it out."""
    async with live(store, surface=surface) as running:
        verdicts = []
        for count in range(1, 7):
            answer = await running.post(asked(*turns(count)))
            verdicts.append((answer.verdict, answer.rule))
    assert verdicts[0] == ("pass", "")
    assert ("nudge", "repeated_call") in verdicts, verdicts
    body = running.provider.got[verdicts.index(("nudge", "repeated_call"))].json
    assert "`web_search` was called" in body["messages"][-1]["content"]
