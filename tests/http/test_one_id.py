"""A provider that names all its answers alike, and a client that takes them for one message (Claude Code does).

Its history has one assistant message with ever more calls, and their results behind it: a loop in it is told and ended
like any other, and a healthy run is left alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import ModuleType

import pytest

from guardproxy.store.redis import Store
from tests.live import Answer, Json, Live, Said, ids, live, unique
from tests.surfaces import SURFACES

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("f", "g")]
Called = tuple[str, str, str]
"""Tool, arguments, result."""


@dataclass
class Agent:
    """`split`: every answer is a message of its own, as with a provider that names them."""

    running: Live
    stream: bool = False
    split: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    rounds: list[list[tuple[str, str, str, str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.task = {"role": "user", "content": unique("task")}
        self.fresh = ids(unique("")[-8:])

    def messages(self) -> list[Json]:
        rounds = self.rounds if self.split else [[*chain(*self.rounds)]] if self.rounds else []
        found: list[Json] = [self.task]
        for made in rounds:
            found.append(Said(None, [(tool, given, i) for tool, given, _, i in made]).message())
            found += [{"role": "tool", "tool_call_id": i, "content": result} for _, _, result, i in made]
        return found

    async def turn(self, *made: Called) -> Answer:
        """Ask; the model makes these calls, and the agent carries them out, whatever else it is told."""
        named = [(*one, self.fresh()) for one in made]
        said = Said(None, [(tool, given, i) for tool, given, _, i in named])
        self.running.provider.script = lambda _got: said
        asked = {"model": "m", "messages": self.messages(), "tools": TOOLS, "stream": self.stream}
        answer = await self.running.post(self.running.surface.request(asked), self.headers)
        self.rounds.append(named)
        return answer


async def verdicts(agent: Agent, rounds: Sequence[Sequence[Called]]) -> list[str]:
    return [(await agent.turn(*made)).verdict for made in rounds]


def same(*made: Called) -> Callable[[int], list[Called]]:
    return lambda _number: list(made)


LOOPS: dict[str, Callable[[int], list[Called]]] = {
    "one call": same(("f", "{}", "same")),
    "a batch": same(("f", '{"n": 1}', "same"), ("f", '{"n": 2}', "too")),
    "two in turn": lambda number: [("fg"[number % 2], "{}", "same")],
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", SURFACES)
async def test_a_loop_in_one_message_is_told_as_in_many(store: Store, name: str, stream: bool) -> None:
    async with live(store, surface=SURFACES[name]) as running:
        for loop in LOOPS.values():
            rounds = [loop(number) for number in range(14)]
            apart = await verdicts(Agent(running, stream, split=True), rounds)
            seen = await verdicts(Agent(running, stream), rounds)
            told = seen.index("finalize") if "finalize" in seen else len(seen)
            assert seen[: told + 1] == apart[: told + 1]
            assert {"nudge", "firm"} <= set(seen)
            assert {"finalize", "cut"} & set(seen)


def call(number: int) -> Called:
    return "f", json.dumps({"n": number}), f"result {number * 7919}"


HEALTHY: dict[str, Callable[[int], list[Called]]] = {
    "other calls": lambda number: [call(number)],
    "batches": lambda number: [call(3 * number + k) for k in range(3)],
    "work and a look at it": lambda number: [call(number), ("g", "{}", f"now {number * 7919}")],
}


@pytest.mark.parametrize("surface", SURFACES.values(), ids=SURFACES.keys())
async def test_a_healthy_run_in_one_message_is_left_alone(store: Store, surface: ModuleType) -> None:
    """Longer than a message's calls that are looked at; each call is counted once, as of messages of their own."""
    async with live(store, surface=surface, policy={"limits": {"session": {"tool_calls": 10_000}}}) as running:
        for healthy in HEALTHY.values():
            agent = Agent(running, headers={"x-guardproxy-session-id": unique("s")})
            assert set(await verdicts(agent, [healthy(number) for number in range(30)])) == {"pass"}


async def test_what_a_batch_brings_whole_is_no_growth(store: Store) -> None:
    """A healthy agent beside it with batches in messages of their own: byte for byte, with two trips a turn."""
    async with live(store) as running:
        agent = Agent(running, split=True)
        for number in range(6):
            assert (await agent.turn(*HEALTHY["batches"](number))).verdict == "pass"
        assert running.provider.got[-1].json["messages"] == agent.messages()[:-4]


@pytest.mark.parametrize("surface", SURFACES.values(), ids=SURFACES.keys())
async def test_a_call_that_is_refused_is_not_executed_a_fifth_time(store: Store, surface: ModuleType) -> None:
    """The agent takes what it is given, into its one message; what the provider gets has a result for every call."""
    async with live(store, surface=surface, policy={"refuse": "enforce"}) as running:
        fresh, task = ids(unique("")[-8:]), {"role": "user", "content": unique("task")}
        running.provider.script = lambda _got: Said(None, [("f", "{}", fresh())])
        calls: list[Json] = []
        for _ in range(12):
            results = [{"role": "tool", "tool_call_id": one["id"], "content": "same"} for one in calls]
            said = [{"role": "assistant", "content": None, "tool_calls": calls}] if calls else []
            answer = await running.post(
                surface.request({"model": "m", "messages": [task, *said, *results], "tools": TOOLS})
            )
            message = surface.answer(answer.body, stream=False)[0]
            if not message.get("tool_calls"):
                break
            calls += message["tool_calls"]
        assert len(calls) == 4
        assert answer.verdict == "finalize"
        for got in running.provider.got:
            told = surface.messages(got.json)
            made = [one["id"] for message in told for one in message.get("tool_calls") or ()]
            assert sorted(made) == sorted(one["tool_call_id"] for one in told if one["role"] == "tool")
