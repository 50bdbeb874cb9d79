"""Calls that a model proposes are judged before the agent has them: refused, put back, ended. Through the front door."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from guardproxy.store.redis import Store
from tests.live import Answer, Got, Json, Live, Said, live, unique

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

    async def turn(self) -> Answer:
        body: Json = {"model": "m", "messages": self.messages, "tools": TOOLS, "stream": self.stream}
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
    assert events[-1] == "[DONE]" and events.count("[DONE]") == 1
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
            call = calls.setdefault(piece["index"], {"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
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
