"""While a person thinks a turn holds no more than it has used; a worker that dies meanwhile leaves that charged."""

from __future__ import annotations

import asyncio

import pytest

from guardproxy.core.usage import FIELDS, day_of, days
from guardproxy.store.redis import Store
from tests.http.test_approving import BOTH, DELETE, HOLD, TOOL, asked_of, desk
from tests.http.test_guarded import Agent, then
from tests.http.test_room import LATE_MS, PRICES, budget, counters
from tests.live import Json, Live, Said, live

USED = {"prompt_tokens": 20, "completion_tokens": 50, "total_tokens": 70}
COST = 20 * 10 + 50 * 100
BUDGETS = [budget("org", "output_tokens", 100_000), budget("org", "cost_usd", 100), budget("org", "requests", 9)]
WANTED = {"output_tokens": 50, "cost_microusd": COST, "requests": 1}


async def standing(store: Store, at: int) -> dict[str, int]:
    """What is used (0) or held (1), by dimension."""
    return {name.rpartition(" ")[2]: amounts[at] for name, amounts in (await counters(store)).items()}


async def reckoned(store: Store) -> None:
    async with asyncio.timeout(5):
        while await standing(store, 1) != WANTED:
            await asyncio.sleep(0.005)


async def row(store: Store) -> Json:
    now_ms = await store.usages.now_ms()
    of = days(day_of(now_ms), day_of(now_ms + LATE_MS))  # late in the evening what is swept later is tomorrow's
    (found,) = [one for day in of for one in await store.usages.day("default", day)]
    return {name: number for name, number in zip(FIELDS, found.sums, strict=True) if number}


async def asks(store: Store, running: Live, *, stream: bool, then_: Said) -> tuple[Agent, asyncio.Task[object], str]:
    running.provider.script = then(Said("So:", calls=[DELETE], usage=USED), then_)
    agent = Agent(running, stream=stream)
    turn: asyncio.Task[object] = asyncio.ensure_future(agent.turn())
    asked = await asked_of(store, agent.session)
    await reckoned(store)
    return agent, turn, asked.id


@BOTH
async def test_it_holds_what_it_has_used_and_gives_it_back(store: Store, stream: bool) -> None:
    async with live(store, policy=HOLD, tools=TOOL, budgets=BUDGETS, prices=PRICES) as running:
        agent, turn, asked = await asks(store, running, stream=stream, then_=Said("deleted", usage=USED))
        await desk(store).approve(asked, "ann")
        await turn
        await running.proxy.quiet()
        assert agent.executed == ["delete"]
        assert (await standing(store, 0), set((await standing(store, 1)).values())) == (WANTED, {0})
        assert (await row(store))["output_tokens"] == 50


@BOTH
async def test_one_more_attempt_has_a_hold_of_its_own(store: Store, stream: bool) -> None:
    async with live(store, policy=HOLD, tools=TOOL, budgets=BUDGETS, prices=PRICES) as running:
        _, turn, asked = await asks(store, running, stream=stream, then_=Said("I leave it.", usage=USED))
        await desk(store).deny(asked, "ann", "no")
        await turn
        await running.proxy.quiet()
        assert await standing(store, 0) == {"output_tokens": 100, "cost_microusd": 2 * COST, "requests": 1}
        assert set((await standing(store, 1)).values()) == {0}


@BOTH
async def test_its_worker_dies_meanwhile(store: Store, stream: bool) -> None:
    async with live(store, policy=HOLD, tools=TOOL, budgets=BUDGETS, prices=PRICES) as running:
        agent, turn, asked = await asks(store, running, stream=stream, then_=Said("deleted"))
        assert [one.turn for one in await store.sweep(LATE_MS)] == [1]
        assert (await standing(store, 0), set((await standing(store, 1)).values())) == (WANTED, {0})
        found = {"requests": 1, "input_tokens": 20, "output_tokens": 50, "cost_microusd": COST}
        assert await row(store) == found
        (run,) = await store.list_sessions("default")
        assert {name: run.used[name] for name in ("input_tokens", "output_tokens", "cost_microusd")} == {
            "input_tokens": 20, "output_tokens": 50, "cost_microusd": COST}  # fmt: skip
        await desk(store).deny(asked, "ann")
        await turn
        await running.proxy.quiet()
        assert agent.messages
        assert (await row(store))["output_tokens"] == 50


@pytest.mark.parametrize(
    "usage", [None, {"prompt_tokens": 10**6, "completion_tokens": 10**5, "total_tokens": 11 * 10**5}]
)
async def test_what_nobody_knows_or_is_more_stays_held(store: Store, usage: Json | None) -> None:
    async with live(store, policy=HOLD, tools=TOOL, budgets=BUDGETS[:1], prices=PRICES) as running:
        running.provider.script = then(Said("So:", calls=[DELETE], usage=usage), Said("deleted"))
        agent = Agent(running, stream=False)
        turn = asyncio.ensure_future(agent.turn())
        asked = await asked_of(store, agent.session)
        await desk(store).approve(asked.id, "ann")
        assert (await standing(store, 1))["output_tokens"] == 4096
        await turn
        await running.proxy.quiet()
        assert set((await standing(store, 1)).values()) == {0}
