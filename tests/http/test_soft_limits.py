"""Soft limits over HTTP: a header while they are passed, a line to each run at work, the webhook once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.errors import StoreError
from guardproxy.store.redis import Store
from tests.http.test_room import who
from tests.live import Answer, Json, Live, Said, live, serve, unique

TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}]
TOLD = "of the budget that this run draws on"
BUDGET = {"scope": "org", "dimension": "requests", "limit": 10, "window": "day", "soft": [30, 60]}


@dataclass
class Agent:
    """A run that reads one file after another; it keeps what it gets."""

    running: Live
    tools: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    messages: list[Json] = field(default_factory=lambda: [{"role": "user", "content": unique("task")}])

    async def turn(self) -> Answer:
        body: Json = {"model": "m", "messages": self.messages} | ({"tools": TOOLS} if self.tools else {})
        answer = await self.running.post(body, self.headers)
        await self.running.proxy.quiet()
        message = answer.json["choices"][0]["message"]
        self.messages.append(message)
        for call in message.get("tool_calls") or ():
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": unique("found")})
        if not message.get("tool_calls"):
            self.messages.append({"role": "user", "content": unique("more")})
        return answer

    def sent(self) -> list[str]:
        """The texts of the newest request, as the provider got them."""
        return [str(message["content"]) for message in self.running.provider.got[-1].json["messages"]]


def reading(running: Live) -> None:
    made = iter(range(10**6))

    def script(_got: object) -> Said:
        number = next(made)
        return Said(calls=[("read", json.dumps({"path": f"f{number}"}), f"call_{number:08d}")])

    running.provider.script = script


def soft(answer: Answer) -> str:
    return answer.headers.get("x-guardproxy-budget-soft", "")


async def test_the_header_says_the_highest_that_is_passed(store: Store) -> None:
    other = {"scope": "model", "dimension": "requests", "limit": 4, "window": "total", "soft": [50], "match": "m*"}
    async with live(store, budgets=[BUDGET, {**other, "limit": 1000}, other | {"match": "m"}]) as running:
        found = [soft(await Agent(running).turn()) for _ in range(4)]
        assert found == ["", "", "model requests total=50%", "org requests day=30%, model requests total=50%"]
    async with live(store, budgets=[BUDGET]) as running:
        found = [soft(await Agent(running).turn()) for _ in range(3)]
        assert found == ["org requests day=30%", "org requests day=30%", "org requests day=60%"]


async def test_a_run_at_work_is_told_once_a_limit_and_it_stays_where_it_was_said(store: Store) -> None:
    async with live(store, budgets=[BUDGET]) as running:
        reading(running)
        agent = Agent(running)
        places: list[list[int]] = []
        texts: set[str] = set()
        for _ in range(8):
            await agent.turn()
            told = [(at, text.partition(GUARD_MARK)[2]) for at, text in enumerate(agent.sent()) if TOLD in text]
            places.append([at for at, _ in told])
            texts |= {text for _, text in told}
        # requests used before each turn: 0 … 7; the limits are at 3 and 6, the results of turn n stand at 2 n
        assert places == [[], [], [], [6], [6], [6], [6, 12], [6, 12]]
        assert len(texts) == 2
        assert "30 %" in min(texts)
        assert "(org requests day)" in min(texts)


async def test_each_run_hears_of_it_but_not_with_its_first_request(store: Store) -> None:
    async with live(store, budgets=[BUDGET]) as running:
        reading(running)
        for _ in range(3):
            await Agent(running).turn()
        late = Agent(running)
        assert TOLD not in str([await late.turn(), late.sent()])
        assert [(await late.turn(), sum(TOLD in text for text in late.sent()))[1] for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("why", ["chat", "observe", "panic"])
async def test_who_is_not_told(store: Store, why: str) -> None:
    """A chat is left as it is; where nothing is done, nothing is said."""
    policy = {"mode": "observe"} if why == "observe" else {}
    async with live(store, budgets=[{**BUDGET, "limit": 100, "soft": [1]}], policy=policy) as running:
        if why != "chat":
            reading(running)
        await store.panic(why == "panic")
        agent = Agent(running, tools=why != "chat")
        answers = [await agent.turn() for _ in range(4)]
        assert soft(answers[-1]) == "org requests day=1%"
        assert TOLD not in str([got.body for got in running.provider.got])


@pytest.mark.parametrize("scope", ["org", "model"])
async def test_the_last_request_that_fits_ends_a_run_in_words_that_name_the_limit(store: Store, scope: str) -> None:
    """A chat, or a question by itself, is left as it is: nothing is going on there that could be ended."""
    budgets = [{"scope": scope, "dimension": "requests", "limit": 3, "window": "day"}]
    async with live(store, budgets=budgets) as running:
        chat = Agent(running, tools=False)
        told = [await Agent(running, tools=False).turn(), await chat.turn(), await chat.turn()]
        assert [(answer.status, answer.verdict) for answer in told] == [(200, "pass")] * 3
        assert (await running.post({"model": "m", "messages": chat.messages})).status == 400, "it was the last"
        assert not any("x-guardproxy-edit" in answer.headers for answer in told)
        assert GUARD_MARK not in str([got.body for got in running.provider.got])
    async with live(store, budgets=[{**budgets[0], "window": "total", "limit": 2}]) as running:
        reading(running)
        agent = Agent(running)
        await agent.turn()
        assert (await agent.turn()).headers["x-guardproxy-edit"] == "advice,tools,calls"
        said = agent.sent()[-1].partition(GUARD_MARK)[2]
        assert f"the limit of the {scope} that this run draws on is nearly reached (limit requests" in said


@asynccontextmanager
async def receiver() -> AsyncIterator[tuple[str, list[Json]]]:
    got: list[Json] = []

    async def receive(request: web.BaseRequest) -> web.Response:
        got.append(json.loads(await request.read()))
        return web.Response()

    async with serve(receive) as url:
        yield url, got


async def test_the_webhook_hears_of_each_crossing_once_from_all_workers(store: Store) -> None:
    async with receiver() as (url, got):
        hook = {"url": url, "secret": "s" * 16}
        async with (
            live(store, budgets=[BUDGET], webhook=hook) as one,
            live(store, budgets=[BUDGET], webhook=hook) as two,
        ):
            day = one.offset_ms
            for number in range(9):
                await Agent((one, two)[number % 2]).turn()
            one.offset_ms = two.offset_ms = day + 86_400_000
            for number in range(3):
                await Agent((one, two)[number % 2]).turn()
        crossings = [(event["type"], event["data"]["percent"], event["data"]["used"]) for event in got]
        assert crossings == [("budget.soft", 30, 3), ("budget.soft", 60, 6), ("budget.soft", 30, 3)]
        first = got[0]["data"]
        assert {name: first[name] for name in ("scope", "kind", "window", "limit")} == {
            "scope": "org", "kind": "requests", "window": "day", "limit": 10,
        }  # fmt: skip
        assert first["resets_at"] < got[2]["data"]["resets_at"]


async def test_no_word_of_another_tenant(store: Store) -> None:
    budgets = [{"scope": "team", "dimension": "requests", "limit": 4, "window": "total", "soft": [50]}]
    async with live(store, budgets=budgets) as running:
        who(running)
        reading(running)
        red = [await Agent(running, headers={"x-test-team": "red"}).turn() for _ in range(3)]
        blue = await Agent(running, headers={"x-test-team": "blue"}).turn()
        assert [soft(answer) for answer in (*red, blue)] == ["", "", "team requests total=50%", ""]
        assert "red" not in str([answer.headers for answer in red])
        assert "red" not in str(blue.headers)


async def test_a_store_that_is_away_costs_the_word_and_not_the_request(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_args: object) -> bool:
        await asyncio.sleep(0)
        raise StoreError("away")

    async with (
        receiver() as (url, got),
        live(store, budgets=[{**BUDGET, "soft": [10]}], webhook={"url": url, "secret": "s" * 16}) as running,
    ):
        monkeypatch.setattr(store, "claim", away)
        assert [(await Agent(running).turn()).status for _ in range(3)] == [200, 200, 200]
        monkeypatch.undo()
        await Agent(running).turn()
    assert [event["data"]["percent"] for event in got] == [10]
