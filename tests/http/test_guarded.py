"""Calls that a model proposes are judged before the agent has them: refused, put back, approved. Over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from guardproxy.store.approvals import Approval
from guardproxy.store.redis import Store
from tests.live import Answer, Got, Json, Live, Said, live, unique
from tests.scenes import Heard
from tests.surfaces import SURFACES

TOOLS: list[Json] = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("search", "read", "delete")
]
LOOP = ("search", '{"q":"refund"}')


class Agent:
    """A plain agent: it appends what it gets, runs what it is told to, and counts both."""

    def __init__(self, running: Live, *, stream: bool, session: str = "") -> None:
        self.running, self.stream = running, stream
        self.session = session or unique("guarded")
        self.messages: list[Json] = [{"role": "user", "content": "Find the refund policy."}]
        self.executed: list[str] = []
        self.text = ""
        self.more: Json = {}

    async def turn(self) -> Answer:
        body: Json = {"model": "m", "messages": self.messages, "tools": TOOLS, "stream": self.stream, **self.more}
        answer = await self.running.post(body, {"x-guardproxy-session-id": self.session})
        if answer.status != 200:
            return answer
        message = joined(answer.body) if self.stream else answer.json["choices"][0]["message"]
        self.messages.append(message)
        for call in message.get("tool_calls") or ():
            name = call["function"]["name"]
            self.executed.append(name)
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": f"{name}: nothing new"})
        if not message.get("tool_calls"):
            self.text = message["content"] or ""
        return answer

    async def run(self, most: int = 30) -> int:
        for number in range(1, most + 1):
            answer = await self.turn()
            if self.text or answer.status != 200:
                return number
        return most


def joined(raw: bytes) -> Json:
    """A streamed answer put together, with what must hold of every stream."""
    events = [line[6:] for line in raw.decode().split("\n") if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    assert events.count("[DONE]") == 1
    chunks = [json.loads(event) for event in events[:-1]]
    assert len({chunk["id"] for chunk in chunks}) == 1
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert sum(choice["delta"].get("role") is not None for choice in choices) == 1
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] != []
    assert sum(choice["finish_reason"] is not None for choice in choices) == 1
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    calls: dict[int, Json] = {}
    for choice in choices:
        for piece in choice["delta"].get("tool_calls") or ():
            call = calls.setdefault(
                piece["index"], {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            )
            call["id"] += piece.get("id") or ""
            call["function"]["name"] += piece["function"].get("name") or ""
            call["function"]["arguments"] += piece["function"].get("arguments") or ""
    assert sorted(calls) == list(range(len(calls)))
    message: Json = {"role": "assistant", "content": text or None}
    return {**message, "tool_calls": [calls[at] for at in sorted(calls)]} if calls else message


def looping() -> Callable[[Got], Said]:
    """A model that makes the same call until it may not."""
    made = {"n": 0}

    def script(got: Got) -> Said:
        made["n"] += 1
        if got.json.get("tool_choice") == "none":
            return Said("There is no refund policy to be found.")
        return Said(calls=[(*LOOP, f"call_{made['n']:08d}")])

    return script


def paired(messages: list[Json]) -> bool:
    """Whether each call has exactly one result, behind its message, and no result stands elsewhere."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return False
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return False
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
    return not waiting


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_loop_ends_within_three_more_calls_of_the_model_and_none_of_a_tool(store: Store, stream: bool) -> None:
    async with live(store, policy={"refuse": "enforce"}) as running:
        running.provider.script = looping()
        agent = Agent(running, stream=stream)
        await agent.run()
        assert agent.text == "There is no refund policy to be found."
        assert len(agent.executed) == 4  # no fifth equal call
        assert len(running.provider.got) <= 4 + 1 + 3
        assert all(paired(got.json["messages"]) for got in running.provider.got)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_each_attempt_says_why_it_was_made(store: Store, heard: Heard, stream: bool) -> None:
    async with live(store, heard, policy={"refuse": "enforce"}) as running:
        running.provider.script = looping()
        await Agent(running, stream=stream).run()
        await running.proxy.quiet()
        asked = len(running.provider.got)
    told = [await heard.next() for _ in range(5)]
    assert [one.asked for one in told] == [(), (), (), (), ("reask", "reask", "finalize")]
    assert sum(len(one.attempts) for one in told) == asked


def then(*answers: Said) -> Callable[[Got], Said]:
    """A model that gives these answers one after another; the last one for ever."""
    waiting = list(answers)

    def script(_got: Got) -> Said:
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return script


BOTH = (("read", '{"path":"a"}', "call_read00001"), ("delete", '{"path":"b"}', "call_del000001"))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_only_the_forbidden_call_is_taken_out_and_it_is_put_back_later(store: Store, stream: bool) -> None:
    async with live(store, policy={"refuse": "enforce"}, tools={"deny": ["delete"]}) as running:
        running.provider.script = then(
            Said(calls=BOTH), Said(calls=[("read", '{"path":"c"}', "call_read00002")]), Said("done")
        )
        agent = Agent(running, stream=stream)
        await agent.run()
        assert agent.executed == ["read", "read"]
        assert agent.text == "done"
        first, second, third = [got.json["messages"] for got in running.provider.got]
        assert second[: len(first)] == first
        assert third[: len(second)] == second
        assert paired(second)
        assert paired(third)
        assert [call["function"]["name"] for call in second[1]["tool_calls"]] == ["read", "delete"]
        refused = next(message for message in second if message.get("tool_call_id") == "call_del000001")
        assert "forbid" in refused["content"]
        bodies = [got.body for got in running.provider.got]
        assert bodies[2].startswith(bodies[1][: bodies[1].rindex(b'"tools"') - 20])


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_refused_call_alone_is_asked_about_again_and_stays_in_the_history(store: Store, stream: bool) -> None:
    async with live(store, policy={"refuse": "enforce"}, tools={"deny": ["delete"]}) as running:
        answers = (
            Said("I clean up.", calls=[("delete", "{}", "call_del000001")]),
            Said("Then I read.", calls=[("read", '{"path":"c"}', "call_read00002")]),
            Said("done"),
        )
        running.provider.script = then(*answers)
        agent = Agent(running, stream=stream)
        answer = await agent.turn()
        assert agent.executed == ["read"]
        assert agent.messages[1]["content"] == "I clean up.\n\nThen I read."
        assert answer.verdict == ("pass" if stream else "refuse")
        assert stream is (b": guardproxy action=refuse rule=tools.deny" in answer.body)
        await agent.run()
        first, again, third = [got.json["messages"] for got in running.provider.got]
        assert again[: len(first)] == first
        assert third[: len(again)] == again
        assert [message["role"] for message in third] == ["user", "assistant", "tool", "assistant", "tool"]
        assert third[1]["content"] == "I clean up."
        assert third[3]["content"] == "Then I read."
        assert paired(third)


ERRORS = {
    "chat": b'data: {"error":{"message":"overloaded","type":"server_error"}}\n\n',
    "responses": b'data: {"type":"error","code":"server_error","message":"overloaded","param":null}\n\n',
    "messages": b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"overloaded"}}\n\n',
}


@pytest.mark.parametrize("name", SURFACES)
async def test_of_an_answer_that_fails_no_call_is_judged(store: Store, name: str) -> None:
    """It may be half: nobody is asked whether to carry it out, and the client has the provider's error to go by."""
    surface = SURFACES[name]
    chat_body: Json = {"model": "m", "messages": [{"role": "user", "content": "Go on."}], "tools": TOOLS}
    tools = {"approval": ["delete"], "deny": ["read"]}
    async with live(store, surface=surface, policy={"refuse": "enforce"}, tools=tools) as running:
        for call in (BOTH[1:], BOTH[:1], BOTH):
            events = surface.events(Said("I look.", calls=call), usage=True)
            half = next(at for at, event in enumerate(events) if b'"call_' in event) + 2
            running.provider.script = then(Said(raw=[*events[:half], ERRORS[name]]), Said("Never."))
            asked = len(running.provider.got)
            answer = await running.post({**surface.request(chat_body), "stream": True})
            assert answer.body.endswith(ERRORS[name])
            assert b"call_" not in answer.body.replace(b"tool_call", b"")
            assert len(running.provider.got) == asked + 1
        assert await store.approvals.list("default") == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", SURFACES)
async def test_a_model_that_says_nothing_more_to_a_refusal(store: Store, name: str, stream: bool) -> None:
    """What it said before is the answer: the run goes on with it, and the refusal stands there."""
    surface = SURFACES[name]
    said: list[Json] = [{"role": "user", "content": "Clean up."}]
    async with live(store, surface=surface, policy={"refuse": "enforce"}, tools={"deny": ["delete"]}) as running:
        running.provider.script = then(
            Said("I clean up.", calls=BOTH[1:]), Said("", number=2), Said("Fine.", number=3), Said("Bye.", number=4)
        )
        for words in ("And?", "And now?", ""):
            asked = surface.request({"model": "m", "messages": said, "tools": TOOLS})
            answer = await running.post({**asked, "stream": stream}, {"x-guardproxy-session-id": f"{name}-{stream}"})
            message, _, _ = surface.answer(answer.body, stream=stream)
            said += [message, {"role": "user", "content": words}]
        assert [one["content"] for one in said[1::2]] == ["I clean up.", "Fine.", "Bye."]
        last = running.provider.got[-1].json
        assert paired(last["messages"]) if name == "chat" else surface.sound(last)
        assert [one["role"] for one in surface.messages(last)][:3] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_an_approved_call_is_released_once(store: Store, stream: bool) -> None:
    async with live(store, tools={"approval": ["delete"]}) as running:
        running.provider.script = then(Said(calls=BOTH[1:]), Said("deleted"))
        agent = Agent(running, stream=stream)
        answer = await agent.turn()
        assert agent.executed == []
        (asked,) = [one for one in await store.approvals.list("default") if one.session.endswith(agent.session)]
        assert asked.id in agent.text
        assert asked.tool == "delete"
        agent.text = ""
        agent.messages.append({"role": "user", "content": "go on"})
        await agent.turn()
        assert asked.id in agent.text
        assert len(running.provider.got) == 1
        await store.approvals.decide("default", asked.id, "approve", "ann")
        agent.text = ""
        agent.messages.append({"role": "user", "content": "now"})
        await agent.turn()
        assert agent.executed == ["delete"]
        assert len(running.provider.got) == 1
        await agent.turn()
        assert agent.text == "deleted"
        assert paired(running.provider.got[-1].json["messages"])
        assert answer.verdict in ("pause", "pass")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_denied_call_is_told_to_the_model(store: Store, stream: bool) -> None:
    async with live(store, tools={"approval": ["delete"]}) as running:
        running.provider.script = then(Said(calls=BOTH[1:]), Said("I leave it."), Said("Bye."))
        agent = Agent(running, stream=stream)
        await agent.turn()
        (asked,) = [one for one in await store.approvals.list("default") if one.session.endswith(agent.session)]
        await store.approvals.decide("default", asked.id, "deny", "ann", "not on a Friday")
        agent.text = ""
        agent.messages.append({"role": "user", "content": "go on"})
        await agent.turn()
        assert agent.text == "I leave it."
        assert agent.executed == []
        told = running.provider.got[-1].json["messages"]
        assert paired(told)
        assert [m["role"] for m in told] == ["user", "assistant", "tool", "assistant", "user"]
        assert "not on a Friday" in told[2]["content"]
        agent.messages.append({"role": "user", "content": "and?"})
        await agent.turn()
        assert running.provider.got[-1].json["messages"][: len(told)] == told


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_request_can_be_held_for_a_person(store: Store, stream: bool) -> None:
    policy = {"approvals": {"way": "hold", "hold_seconds": 20}}
    async with live(store, policy=policy, tools={"approval": ["delete"]}) as running:
        running.provider.script = then(Said("So:", calls=BOTH), Said("deleted"))
        agent = Agent(running, stream=stream)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        asked = await _asked(store, agent.session)
        await store.approvals.decide("default", asked.id, "approve", "ann")
        await turn
        assert agent.executed == ["read", "delete"]
        assert agent.messages[1]["content"] == "So:"


async def _asked(store: Store, session: str) -> Approval:
    for _ in range(200):
        found = [one for one in await store.approvals.list("default") if one.session.endswith(session)]
        if found:
            return found[0]
        await asyncio.sleep(0.02)
    raise AssertionError("nobody was asked")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("made", [3, 5, 8])
async def test_a_loop_that_is_only_observed_opens_no_way_past_the_rules(store: Store, stream: bool, made: int) -> None:
    """On paper it reaches the last rung; what is forbidden stays so, and what needs a person waits."""
    policy = {"refuse": "enforce", "detectors": {"repeated_call": {"mode": "observe"}}}
    for rule, after in (("deny", []), ("approval", [])):
        async with live(store, policy=policy, tools={rule: ["delete"]}) as running:
            loop = [Said(calls=[(*LOOP, f"call_{number:08d}")]) for number in range(made)]
            running.provider.script = then(*loop, Said(calls=BOTH[1:]), Said("left alone"))
            agent = Agent(running, stream=stream)
            await agent.run()
            assert agent.executed == ["search"] * made + after
            assert agent.text
