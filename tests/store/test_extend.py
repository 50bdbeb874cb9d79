"""One more attempt of a turn: held under the same token, all or nothing, never above a limit, given back whole."""

from __future__ import annotations

import asyncio

import pytest

from guardproxy.core.model import Line
from guardproxy.store.redis import Store
from tests.store.kit import LINES, ORG, TURNS, Agent, used_held

MINUTE = 60_000
COST, CALLS = Line("session", "cost_microusd", 100), Line("session", "tool_calls", 1)
DAY = Line("org", "tokens", 7, key="day")


async def extend(agent: Agent, *lines: Line, offset_ms: int = 0) -> bool:
    assert agent.last
    return await agent.store.extend(ORG, agent.last.token, lines or agent.lines, offset_ms)


async def test_tokens_and_money_are_held_again_and_the_turn_is_not(store: Store) -> None:
    agent = Agent(store, session="s", lines=(*LINES, CALLS, DAY))
    await agent.begin()
    assert [await extend(agent), await extend(agent)] == [True, True]
    found = [await used_held(store, where, what) for where, what in COUNTED]
    assert found == [(0, 1), (0, 1), (0, 1), (0, 300), (0, 21)]
    await agent.settle(spent={"turns": 1, "tool_calls": 2, "cost_microusd": 170, "tokens": 9})
    found = [await used_held(store, where, what) for where, what in COUNTED]
    assert found == [(1, 0), (1, 0), (2, 0), (170, 0), (9, 0)]
    known = await store.session_state(ORG, "s")  # the counters are as many as before
    assert known is not None
    assert (known.used["turns"], known.used["tool_calls"], known.used["cost_microusd"]) == (1, 2, 170)


async def test_what_is_kept_of_the_session_stays_as_long_as_it_was(store: Store) -> None:
    """Else it could not be read any more, and lines that come later would be counted in the wrong place."""
    agent = Agent(store, session="s", lines=(*LINES, CALLS))
    await agent.begin()
    before = await store._client.command("GET", f"gp:{{{ORG}}}:s:s")
    assert await extend(agent)
    after = await store._client.command("GET", f"gp:{{{ORG}}}:s:s")
    assert len(after) == len(before)
    assert [one.session for one in await store.list_sessions(ORG, 5)] == ["s"]
    agent.lines = (*agent.lines, Line("session", "output_tokens", 7))
    await agent.settle(spent={"turns": 1, "cost_microusd": 170})
    await agent.begin()
    assert await used_held(store, "s:s", "output_tokens") == (0, 7)
    assert await used_held(store, "s:s", "cost_microusd") == (170, 100)


async def test_a_session_that_was_extended_can_be_read(store: Store) -> None:
    """Its counters are as many as before: a further one, however small, and nobody can show or sweep the session."""
    agent = Agent(store, session="s", lines=(*LINES, CALLS))
    await agent.begin()
    for spent in (170, 190):
        assert await extend(agent)
        known = await store.session_state(ORG, "s")
        assert known is not None
        assert set(known.used) == {"turns", "tool_calls", "cost_microusd"}
        await agent.settle(spent={"turns": 1, "tool_calls": 2, "cost_microusd": spent})
        await agent.begin()
    known = await store.session_state(ORG, "s")
    assert known is not None
    assert known.used == {"turns": 2, "tool_calls": 4, "cost_microusd": 360}


COUNTED = (
    ("p:s", "turns"),
    ("s:s", "turns"),
    ("s:s", "tool_calls"),
    ("s:s", "cost_microusd"),
    ("w:day", "tokens"),
)


@pytest.mark.parametrize("short", ["session", "key"])
async def test_without_room_on_one_line_nothing_is_held(store: Store, short: str) -> None:
    cost = COST._replace(limit=250 if short == "session" else -1)
    day = DAY._replace(limit=15 if short == "key" else -1)
    agent = Agent(store, session="s", lines=(day, cost, DAY._replace(key="week")))
    await agent.begin()
    assert [await extend(agent) for _ in range(3)] == [True, False, False]
    assert await used_held(store, "s:s", "cost_microusd") == (0, 200)
    assert await used_held(store, "w:day", "tokens") == await used_held(store, "w:week", "tokens") == (0, 14)


async def test_no_turn_is_left_and_another_attempt_fits(store: Store) -> None:
    agent = Agent(store, session="s", lines=(TURNS._replace(limit=1), CALLS._replace(limit=1), COST))
    await agent.begin()
    assert await extend(agent)


async def test_a_clock_that_is_over_ends_it(store: Store) -> None:
    agent = Agent(store, session="s", lines=(Line("span", "wall_ms", 0, 5_000, clock=True), COST))
    await agent.begin()
    assert [await extend(agent, offset_ms=ms) for ms in (1_000, 9_000)] == [True, False]


async def test_many_at_once_fill_the_budget_exactly(store: Store) -> None:
    lines = (COST._replace(limit=4_250), DAY._replace(limit=201))
    agents = [Agent(store, session="s", thread=f"t{n}", lines=lines) for n in range(10)]
    await asyncio.gather(*(agent.begin() for agent in agents))
    found = await asyncio.gather(*(extend(agent) for agent in agents for _ in range(5)))
    assert sum(found) == (201 - 70) // 7 == 18
    assert await used_held(store, "w:day", "tokens") == (0, 196)
    assert await used_held(store, "s:s", "cost_microusd") == (0, 2_800)
    await asyncio.gather(*(agent.settle("", "failed", spent={}) for agent in agents))
    assert await used_held(store, "w:day", "tokens") == await used_held(store, "s:s", "cost_microusd") == (0, 0)


async def test_sent_twice_it_holds_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(store, session="s", lines=(COST,))
    await agent.begin()
    monkeypatch.setattr("guardproxy.store.redis.secrets.token_hex", lambda _: "once")
    assert [await extend(agent), await extend(agent)] == [True, True]
    assert await used_held(store, "s:s", "cost_microusd") == (0, 200)


async def test_a_token_that_holds_nothing_is_not_extended(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.begin()
    await agent.settle()
    assert not await extend(agent)
    assert not await store.extend(ORG, "unknown", LINES)
    assert await used_held(store, "s:s", "cost_microusd") == (70, 0)


async def test_a_line_that_came_meanwhile_does_not_bind(store: Store) -> None:
    """A policy that was loaded anew holds from the next turn on."""
    agent = Agent(store, session="s", lines=(COST,))
    await agent.begin()
    assert await extend(agent, DAY._replace(limit=1), COST, Line("span", "tokens", 5, 1))
    assert await used_held(store, "w:day", "tokens") == (0, 0)
    await agent.settle()
    assert await used_held(store, "s:s", "cost_microusd") == (70, 0)


async def test_after_another_policy_asked_the_right_counters_are_held(store: Store) -> None:
    one = Agent(store, session="s", thread="one", lines=(TURNS, COST))
    two = Agent(store, session="s", thread="two", lines=(COST._replace(hold=9), Line("span", "turns", 1), TURNS))
    await one.begin()
    await two.begin()
    assert await extend(one)
    assert await used_held(store, "s:s", "cost_microusd") == (0, 209)
    assert await used_held(store, "s:s", "turns") == (0, 2)
    await one.settle(spent={})
    assert await used_held(store, "s:s", "cost_microusd") == (0, 9)


async def test_of_a_span_that_is_over_nothing_is_held(store: Store) -> None:
    tokens = Line("span", "tokens", 5, 7)
    slow = Agent(store, session="s", thread="main", lines=(tokens, COST))
    await slow.turn("text", user="more")
    sub = Agent(store, session="s", thread="sub", lines=(tokens, COST))
    await sub.begin()
    assert (await slow.begin()).span == 2
    assert await extend(sub)
    assert await used_held(store, "p:s", "tokens") == (0, 5)
    assert await used_held(store, "s:s", "cost_microusd") == (70, 300)


async def test_what_was_extended_is_swept_whole(store: Store) -> None:
    agent = Agent(store, session="s", lines=(COST, DAY), lease_ms=1_000)
    await agent.begin()
    assert await extend(agent)
    assert await store.sweep(500) == []
    assert len(await store.sweep(1_500)) == 1
    assert await used_held(store, "s:s", "cost_microusd") == (200, 0)
    assert await used_held(store, "w:day", "tokens") == (14, 0)


async def test_in_a_panic_there_is_room(store: Store) -> None:
    agent = Agent(store, session="s", lines=(COST._replace(limit=100),))
    await agent.begin()
    assert not await extend(agent)
    await store.panic(True)
    assert await extend(agent)


async def test_the_session_is_as_readable_as_before(store: Store) -> None:
    """Its counters are as many as their names: also for who asks by other lines later."""
    agent = Agent(store, session="s", lines=(COST, CALLS))
    await agent.begin()
    assert [await extend(agent) for _ in range(3)] == [True] * 3
    await agent.settle(spent={"cost_microusd": 170, "tool_calls": 2})
    known = await store.session_state(ORG, "s")
    assert known
    assert known.used == {"cost_microusd": 170, "tool_calls": 2}
    other = Agent(store, session="s", lines=(TURNS,))
    await other.begin()
    await other.settle(spent={"turns": 1})
    assert await used_held(store, "s:s", "cost_microusd") == (170, 0)
    assert await used_held(store, "s:s", "tool_calls") == (2, 0)
