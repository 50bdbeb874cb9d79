"""An answer that was cut short in the middle of a call which a person would have to allow: nobody is asked for half of
one, and nobody gets it. It goes to the agent as what it is, an answer that was cut short. Over HTTP, every surface.
"""

from __future__ import annotations

import json

import pytest

from guardproxy.store.redis import Store
from tests.http.test_guarded import TOOLS, then
from tests.http.test_sessions import runs_of
from tests.live import Answer, Json, Live, Said, live, unique
from tests.surfaces import SURFACES

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
EVERY = pytest.mark.parametrize("name", SURFACES)
HALF = '{"path": "/da'
WAYS: Json = {"answer": {"approvals": {"way": "answer"}}, "hold": {"approvals": {"way": "hold", "hold_seconds": 30}}}


def whole(said: Said) -> bytes:
    """The answer as Messages has it: arguments are an object, which does not show where they stopped."""
    texts = [{"type": "text", "text": said.text}] if said.text else []
    uses = [{"type": "tool_use", "id": i, "name": n, "input": _value(a)} for n, a, i in said.calls]
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [*texts, *uses],
               "stop_reason": "max_tokens", "stop_sequence": None,
               "usage": {"input_tokens": 10, "output_tokens": 5}}  # fmt: skip
    return json.dumps(message).encode()


def _value(arguments: str) -> Json:
    try:
        found: Json = json.loads(arguments)
    except ValueError:
        return {"path": "/da"}
    return found


def events(said: Said) -> list[bytes]:
    """The same as a stream of Messages."""
    made: list[tuple[str, Json]] = []
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
               "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1}}  # fmt: skip
    made.append(("message_start", {"message": message}))
    at = 0
    if said.text:
        made.append(("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}))
        made.append(("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": said.text}}))
        made.append(("content_block_stop", {"index": 0}))
        at = 1
    for n, arguments, i in said.calls:
        block = {"type": "tool_use", "id": i, "name": n, "input": {}}
        made.append(("content_block_start", {"index": at, "content_block": block}))
        delta = {"type": "input_json_delta", "partial_json": arguments}
        made.append(("content_block_delta", {"index": at, "delta": delta}))
        made.append(("content_block_stop", {"index": at}))
        at += 1
    ended = {"stop_reason": "max_tokens", "stop_sequence": None}
    made += [("message_delta", {"delta": ended, "usage": {"output_tokens": 5}}), ("message_stop", {})]
    return [f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode() for kind, more in made]


async def ask(running: Live, name: str, *every: Said, stream: bool, session: str = "") -> tuple[Answer, Json, str]:
    """What a client is given, the provider saying these one after the other."""
    surface = SURFACES[name]
    for said in every if name == "messages" else ():
        if said.finish:
            said.raw = events(said) if stream else whole(said)
    running.provider.script, running.settled = then(*every), True
    body = {"model": "m", "messages": [{"role": "user", "content": "Tidy up."}], "tools": TOOLS, "stream": stream}
    answer = await running.post(surface.request(body), {"x-guardproxy-session-id": session or unique("half")})
    assert answer.status == 200, answer.body
    message, finish, _ = surface.answer(answer.body, stream=stream)
    return answer, message, finish


@EVERY
@BOTH
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", ["I delete it.", ""])
async def test_nobody_is_asked(store: Store, name: str, stream: bool, way: str, text: str) -> None:
    said = Said(text, calls=[("delete", HALF, "call_000000001")], finish="length")
    async with live(store, surface=SURFACES[name], policy=WAYS[way], tools={"approval": ["delete"]}) as running:
        answer, message, finish = await ask(running, name, said, stream=stream)
        assert await store.approvals.list("default", "") == []
        assert len(running.provider.got) == 1

    assert (message.get("tool_calls"), message["content"] or "", finish) == (None, text, "length")
    assert answer.verdict in ("", "pass")
    assert b"delete" not in answer.body.replace(b"I delete it.", b"")


READ, DELETE = ("read", '{"path": "a"}', "call_000000001"), ("delete", '{"path": "a"}', "call_000000002")
TORN = ("delete", HALF, "call_000000003")


def names(message: Json) -> list[str]:
    return [call["function"]["name"] for call in message.get("tool_calls") or ()]


@EVERY
@BOTH
async def test_calls_that_are_whole_are_handed_on(store: Store, name: str, stream: bool) -> None:
    said = Said("Both.", calls=[READ, TORN], finish="length")
    async with live(store, surface=SURFACES[name], tools={"approval": ["delete"]}) as running:
        surface = SURFACES[name]
        if name == "messages":
            said.raw = events(said) if stream else whole(said)
        running.provider.script, running.settled = then(said), True
        chat = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "tools": TOOLS, "stream": stream}
        answer = await running.post(surface.request(chat))
        assert await store.approvals.list("default", "") == []

    assert answer.status == 200
    assert (b"call_000000001" in answer.body, b"call_000000003" in answer.body) == (True, False)
    assert {"chat": b'"length"', "messages": b'"max_tokens"', "responses": b'"incomplete"'}[name] in answer.body


@EVERY
@BOTH
async def test_a_person_is_asked_about_the_whole_one(store: Store, name: str, stream: bool) -> None:
    """The other one is not handed on beside it, whatever is decided."""
    said = Said("Both.", calls=[DELETE, TORN], finish="length")
    async with live(store, surface=SURFACES[name], tools={"approval": ["delete"]}) as running:
        _, message, _ = await ask(running, name, said, stream=stream)
        (asked,) = await store.approvals.list("default", "")
        held = running.proxy.sealer.open_held(asked.id, asked.sealed)

    assert held is not None
    assert (json.loads(held.arguments), b"call_000000003" in held.message) == ({"path": "a"}, False)
    assert names(message) == []


@pytest.mark.parametrize("name", ["chat", "responses"])
@BOTH
async def test_one_that_is_whole_all_the_same_waits_for_a_person(store: Store, name: str, stream: bool) -> None:
    said = Said("", calls=[DELETE], finish="length")
    async with live(store, surface=SURFACES[name], tools={"approval": ["delete"]}) as running:
        await ask(running, name, said, stream=stream)
        assert len(await store.approvals.list("default", "")) == 1


@BOTH
@pytest.mark.parametrize(("finish", "asked"), [("length", 0), ("content_filter", 0), ("tool_calls", 1), ("stop", 1)])
async def test_by_how_the_answer_ended(store: Store, finish: str, asked: int, stream: bool) -> None:
    """What ended by itself is what the model wanted to say, however it is written: a person sees it as it is."""
    async with live(store, tools={"approval": ["delete"]}) as running:
        _, _, ended = await ask(running, "chat", Said("", calls=[TORN], finish=finish), stream=stream)
        assert len(await store.approvals.list("default", "")) == asked
    assert ended == ("stop" if asked else finish)


@EVERY
@BOTH
async def test_a_question_to_a_person_is_not_asked_by_half(store: Store, name: str, stream: bool) -> None:
    said = Said("", calls=[("search", '{"question": "Wh', "call_000000001")], finish="length")
    async with live(store, surface=SURFACES[name], tools={"human": ["search"]}) as running:
        _, message, finish = await ask(running, name, said, stream=stream)
        assert await store.approvals.list("default", "") == []

    assert (names(message), finish) == ([], "length")


@BOTH
async def test_what_is_only_observed_stays_byte_for_byte(store: Store, stream: bool) -> None:
    said = Said("", calls=[TORN], finish="length")
    async with live(store, policy={"mode": "observe"}, tools={"approval": ["delete"]}) as running:
        running.provider.script = then(said)
        options = {"stream": stream, "stream_options": {"include_usage": True}} if stream else {}
        chat = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "tools": TOOLS, **options}
        assert (await running.post(chat)).body.startswith(running.provider.sent[-1])


@EVERY
@BOTH
async def test_behind_an_attempt_that_was_sent_back(store: Store, name: str, stream: bool) -> None:
    """One answer for the client: what flowed before, and the end of the last one."""
    tools = {"approval": ["delete"], "deny": ["read"]}
    async with live(store, surface=SURFACES[name], policy={"refuse": "enforce"}, tools=tools) as running:
        first, second = Said("I read.", calls=[READ]), Said("I delete.", calls=[TORN], finish="length", number=2)
        _, message, finish = await ask(running, name, first, second, stream=stream)
        assert await store.approvals.list("default", "") == []
        assert len(running.provider.got) == 2

    assert (names(message), finish) == ([], "length")
    assert message["content"].startswith("I read.")
    assert message["content"].endswith("I delete.")


@BOTH
async def test_the_run_goes_on(store: Store, stream: bool) -> None:
    """An agent asks again with more room. What was cut off was no call of the run: nobody carried it out."""
    session = unique("half")
    async with live(store, tools={"approval": ["delete"]}) as running:
        await ask(running, "chat", Said("So:", calls=[TORN], finish="length"), stream=stream, session=session)
        _, message, finish = await ask(running, "chat", Said("Done."), stream=stream, session=session)
        await running.proxy.quiet()
        records = (await runs_of(store).shown(session)).records

    assert (message["content"], finish) == ("Done.", "stop")
    assert [(one["calls"], one["status"]) for one in records] == [([], 200), ([], 200)]
    assert [tool for tool, _ in records[0].get("events", {}).get("dropped", ())] == ["delete"]
    assert "objected" not in records[0].get("events", {})
