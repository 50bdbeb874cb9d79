"""Holds: all or nothing, exactly up to the limit, given back once, where they were held; nothing without a TTL."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import replace

import pytest

from guardproxy.core.model import Line
from guardproxy.store import _codec
from guardproxy.store.redis import Store, Swept
from tests.store.kit import ORG, Agent, keys, used_held

MINUTE, HOUR = 60_000, 3_600_000
SESSION, SPAN = "s:s", "p:s"

LIMITS = [
    # used, held, hold, limit, admitted
    (0, 0, 10, 10, True),
    (0, 0, 11, 10, False),
    (4, 0, 6, 10, True),
    (4, 1, 6, 10, False),
    (0, 0, 0, 0, True),
    (0, 0, 1, 0, False),
    (10**12, 10**12, 10**12, -1, True),
    (10**15, 0, 1, 10**15 + 1, True),
    (10**15, 1, 1, 10**15 + 1, False),
]


@pytest.mark.parametrize(("used", "held", "hold", "limit", "admitted"), LIMITS)
async def test_admitted_while_used_and_held_and_hold_fit(
    store: Store, used: int, held: int, hold: int, limit: int, admitted: bool
) -> None:
    await store._client.command("HSET", f"gp:{{{ORG}}}:w:day", "u:tokens", used, "h:tokens", held)
    line = Line("org", "tokens", hold, limit, key="day")
    view = await Agent(store, session="s", lines=(line,)).begin()
    assert (view.admitted, view.short) == (admitted, () if admitted else (line,))
    assert [(s.line, s.used, s.held) for s in view.spent] == [(line, used, held + (hold if admitted else 0))]


async def test_a_refused_begin_leaves_nothing_but_its_answer(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.turn()
    before = {key: await store._client.command("DUMP", key) for key in await keys(store)}
    lines = (Line("span", "turns", 1), Line("session", "turns", 1, 1), Line("org", "tokens", 5, 4, key="day"))
    opening = agent.opening(lines=lines)
    one, two = await store.begin(opening), await store.begin(opening)
    assert one == two
    assert (one.admitted, one.short, one.turn) == (False, lines[1:], 2)
    assert [(s.used, s.held) for s in one.spent] == [(1, 0), (1, 0), (0, 0)]
    after = {key: await store._client.command("DUMP", key) for key in await keys(store)}
    assert after.pop(f"gp:{{{ORG}}}:k:{opening.token}")
    assert after == before


async def test_a_refused_new_run_is_not_created(store: Store) -> None:
    views = [await Agent(store, lines=(Line("org", "tokens", 5, 4, key="day"),)).begin() for _ in range(3)]
    assert {view.session for view in views} == {"d-aaaaaaaaaaaa-1"}
    assert not [key for key in await keys(store) if ":k:" not in key and key != "gp:orgs"]


@pytest.mark.parametrize(
    ("scope", "wait_ms", "limit", "fits"),
    [
        ("span", 4_000, 5_000, True),
        ("span", 6_000, 5_000, False),
        ("session", 6_000, 5_000, False),
        ("span", 6_000, -1, True),
    ],
)
async def test_a_clock_line_holds_nothing_and_refuses_late(
    store: Store, scope: str, wait_ms: int, limit: int, fits: bool
) -> None:
    agent = Agent(store, session="s", lines=(Line(scope, "wall_ms", 0, limit, clock=True),))
    first = await agent.turn()
    view = await agent.begin(offset_ms=wait_ms)
    assert (view.admitted, view.spent[0].held) == (fits, 0)
    assert view.spent[0].used == view.now_ms - first.now_ms


async def test_a_new_span_has_its_clock_and_its_counters_to_itself(store: Store) -> None:
    lines = (Line("span", "wall_ms", 0, 5_000, clock=True), Line("span", "turns", 1, 1), Line("session", "turns", 1, 9))
    agent = Agent(store, session="s", lines=lines)
    await agent.turn("text", user="more")
    view = await agent.begin(offset_ms=6_000)
    assert view.admitted
    assert [(s.used, s.held) for s in view.spent] == [(0, 0), (0, 1), (1, 1)]


async def test_two_hundred_at_once_against_fifty_are_exactly_fifty(store: Store) -> None:
    lines = (Line("session", "turns", 1, 50), Line("org", "tokens", 7, key="day"))
    agents = [Agent(store, session="s", thread=f"t{i}", lines=lines) for i in range(200)]
    views = await asyncio.gather(*(agent.begin() for agent in agents))
    assert sum(view.admitted for view in views) == 50
    assert await used_held(store, SESSION, "turns") == (0, 50)
    assert await used_held(store, "w:day", "tokens") == (0, 350)
    admitted = [agent for agent, view in zip(agents, views, strict=True) if view.admitted]
    await asyncio.gather(*(agent.settle(spent={"turns": 1, "tokens": 3}) for agent in admitted))
    assert await used_held(store, SESSION, "turns") == (50, 0)
    assert await used_held(store, "w:day", "tokens") == (150, 0)


async def test_everything_called_twice_gives_the_same_answers_and_totals(store: Store) -> None:
    agent = Agent(store, session="s")
    for number in range(5):
        opening = agent.opening()
        first, second = await store.begin(opening), await store.begin(opening)
        assert first == second
        agent.last, agent.view = opening, first
        closing = agent.closing(did=f"d{number}", facts=(b"f",), episodes=(b"e",), ledger={"a": b"t"}, record=b"r")
        await store.settle(closing)
        state = {key: await store._client.command("DUMP", key) for key in await keys(store)}
        await store.settle(closing)
        assert {key: await store._client.command("DUMP", key) for key in await keys(store)} == state
        assert replace(await store.begin(opening), episodes=first.episodes, ledger=first.ledger) == first
        agent.took(f"d{number}")
    assert await used_held(store, SESSION, "turns") == (5, 0)
    assert await used_held(store, SESSION, "cost_microusd") == (350, 0)


async def test_a_repeated_begin_shows_the_ring_as_it_was(store: Store) -> None:
    agent = Agent(store, session="s")
    for _ in range(3):
        await agent.turn()
    opening = agent.opening()
    first = await store.begin(opening)
    later = Agent(store, session="s", thread=first.thread, count=agent.count + 2, rounds=list(agent.rounds))
    later.took()
    assert (await later.begin()).steps == first.steps + 1
    assert (await store.begin(opening)).ring == first.ring


async def test_settle_without_a_hold_does_nothing(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.turn()
    state = {key: await store._client.command("DUMP", key) for key in await keys(store)}
    await store.settle(replace(agent.closing(), token="never begun"))
    assert {key: await store._client.command("DUMP", key) for key in await keys(store)} == state


async def test_settle_counts_in_full_what_was_used_also_above_the_hold(store: Store) -> None:
    agent = Agent(store, session="s", lines=(Line("session", "tokens", 10, 100),))
    await agent.begin()
    await agent.settle(spent={"tokens": 5_000, "unknown": 3})
    assert await used_held(store, SESSION, "tokens") == (5_000, 0)
    assert not (await agent.begin()).admitted


async def test_settle_goes_to_the_span_held(store: Store) -> None:
    slow = Agent(store, session="s", thread="main")
    await slow.turn("text")
    await slow.begin()
    sub = Agent(store, session="s", thread="sub")
    await sub.begin()
    await slow.settle("text")
    slow.took(user="more")
    assert await used_held(store, SPAN, "turns") == (2, 1)
    assert (await slow.begin()).span == 2
    await sub.settle()
    assert await used_held(store, SPAN, "turns") == (0, 1)
    assert await used_held(store, SESSION, "turns") == (3, 1)


@pytest.mark.parametrize("lease_ms", [1_000, 10 * MINUTE])
async def test_killed_holders_are_swept_with_their_hold_as_use(store: Store, lease_ms: int) -> None:
    agent = Agent(store, session="s", lease_ms=lease_ms)
    view = await agent.begin()
    assert agent.last
    assert await store.sweep(lease_ms - 500) == []
    swept = await store.sweep(lease_ms + 5)
    assert swept == [Swept(ORG, agent.last.token, "s", view.thread, 1)]
    assert await store.sweep(lease_ms + 5) == []
    assert await used_held(store, SESSION, "cost_microusd") == (100, 0)
    await agent.settle()  # too late: it has been counted
    assert await used_held(store, SESSION, "cost_microusd") == (100, 0)
    again = await agent.begin(offset_ms=lease_ms + 10)
    assert (again.retry, again.turn) == (True, 1)


async def test_a_renewed_hold_is_not_swept_and_a_settled_one_not_renewed(store: Store) -> None:
    agent = Agent(store, session="s", lease_ms=1_000)
    await agent.begin()
    assert agent.last
    await store.renew(ORG, agent.last.token, MINUTE)
    await store.renew(ORG, agent.last.token, 10)  # never shorter
    assert await store.sweep(50_000) == []
    await agent.settle()
    await store.renew(ORG, agent.last.token, MINUTE)
    assert await store.sweep(2 * MINUTE) == []
    assert await store._client.command("EXISTS", f"gp:{{{ORG}}}:holds") == 0


async def test_a_hold_renewed_after_the_sweeper_looked_stays(store: Store) -> None:
    agent = Agent(store, session="s", lease_ms=MINUTE)
    await agent.begin()
    arguments = _codec.closing(agent.closing(), swept=True)
    assert await store._client.run("settle", _codec.prefix(ORG).encode(), arguments) == []
    assert await used_held(store, SESSION, "turns") == (0, 1)


async def test_what_equal_runs_leave_behind_is_bounded(store: Store) -> None:
    agents = [Agent(store, ids="same") for _ in range(400)]
    for some in range(0, 400, 50):
        await asyncio.gather(*(agent.turn("text") for agent in agents[some : some + 50]))
    sizes = {key: await store._client.command("ZCARD", key) for key in await keys(store) if key[10:12] == "m:"}
    assert len(sizes) == 2
    assert all(200 < int(str(size)) < 400 for size in sizes.values())
    asked = [await store._client.command("GET", key) for key in await keys(store) if key[10:12] == "a:"]
    assert [len(str(runs).split("\\x1e")) for runs in asked] == [16]


async def test_sweepers_side_by_side_settle_a_hold_once(store: Store) -> None:
    for number in range(20):
        await Agent(store, session="s", thread=f"t{number}", lease_ms=1_000).begin()
    found = await asyncio.gather(*(store.sweep(2_000) for _ in range(4)))
    assert sum(map(len, found)) == 20
    assert await used_held(store, SESSION, "turns") == (20, 0)


async def test_a_lost_counter_does_not_go_below_nothing(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.begin()
    lost = await store._client.command("GET", f"gp:{{{ORG}}}:{SESSION}")
    assert isinstance(lost, bytes)
    lost = lost.replace(struct.pack("<qq", 0, 100), bytes(16))
    await store._client.command("SET", f"gp:{{{ORG}}}:{SESSION}", lost, "KEEPTTL")
    await agent.settle()
    assert await used_held(store, SESSION, "cost_microusd") == (70, 0)
    assert int(str(await store._client.command("PTTL", f"gp:{{{ORG}}}:{SESSION}"))) > 24 * HOUR


async def test_a_session_that_was_lost_begins_anew(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.begin()
    await store._client.command("DEL", f"gp:{{{ORG}}}:{SESSION}")
    await agent.settle()
    view = await agent.begin()
    assert (view.new_session, view.turn, {spent.used for spent in view.spent}) == (True, 1, {0})


async def test_no_key_is_without_a_ttl_but_the_registry_and_the_live_sets(store: Store) -> None:
    for session in ("", "s"):
        agent = Agent(store, session=session, lines=(*Agent(store).lines, Line("org", "tokens", 1, key="day")))
        await agent.begin()
        await agent.settle("empty")
        await agent.begin()
        await agent.settle("text", episodes=(b"e",), ledger={"a": b"t"}, record=b"r", facts=(b"f",))
        agent.took(user="more", counts={"tool:x": 1})
        await agent.begin()
        await agent.settle("", "failed")
        await agent.begin()
        await agent.settle("own", close="repeated_call")
        await agent.begin()
        await agent.begin(lines=(Line("session", "turns", 1, 0),))
        await Agent(store, session=session, user="other", head="e" * 32).begin()  # stays open
    await store.claim(ORG, "page", MINUTE)
    await store.panic(True)
    forever = set()
    for key in await keys(store):
        if await store._client.command("PTTL", key) == -1:
            forever.add(key.replace(f"{{{ORG}}}:", ""))
    assert forever == {"gp:orgs", "gp:panic", "gp:holds", "gp:idle"}  # gp:panic twice: global and of the org


async def test_run_state_lives_a_day_after_the_last_turn(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.turn()
    for key in await keys(store):
        if key.split("}:")[-1][:2] in ("t:", "r:", "s:", "b:", "v:"):
            await store._client.command("PEXPIRE", key, HOUR)
    agent.offset_ms = 2 * HOUR  # more than an hour since they were last refreshed
    await agent.begin()
    for key in await keys(store):
        if key.split("}:")[-1][:2] in ("t:", "r:", "s:", "b:", "v:"):
            assert int(str(await store._client.command("PTTL", key))) > 24 * HOUR, key


async def test_a_session_that_is_asked_under_several_policies_keeps_the_counters_of_each(store: Store) -> None:
    """The counters lie in the order of the lines; those of other lines are not lost, nor is what is held meanwhile."""
    turns, cost, spans = Line("session", "turns", 1, 9), Line("session", "cost_microusd", 100), Line("span", "turns", 1)
    one = Agent(store, session="s", thread="one", lines=(turns, cost))
    two = Agent(store, session="s", thread="two", lines=(Line("span", "wall_ms", 0, clock=True), spans, turns))
    await one.begin()
    await two.begin()  # in another order, and without a line that holds something
    await one.settle()
    await two.settle(spent={"turns": 1, "cost_microusd": 5_000})
    assert await used_held(store, SESSION, "turns") == (2, 0)
    assert await used_held(store, SESSION, "cost_microusd") == (70, 0)  # only what has a line is counted
    assert await used_held(store, SPAN, "turns") == (1, 0)
    for agent, standing in ((one, [(2, 1), (70, 100)]), (two, [(0, 0), (1, 1), (3, 1)])):
        agent.took()
        view = await agent.begin()
        assert [(s.used, s.held) for s in view.spent if not s.line.clock] == standing[-2:]
        await agent.settle()
    main = Agent(store, session="s", thread="one", user="new words", lines=(turns,), rounds=one.rounds, count=one.count)
    await main.begin()
    await main.settle("text")
    main.took(user="and more")
    assert (await main.begin()).span == 2
    assert await used_held(store, SPAN, "turns") == (0, 0)  # a new span begins with nothing, also for other lines
    assert await used_held(store, SESSION, "cost_microusd") == (140, 0)


async def test_counters_of_keys_are_held_and_settled_each(store: Store) -> None:
    lines = (Line("org", "turns", 1, key="day"), Line("session", "turns", 1), Line("team", "tokens", 7, key="week"))
    agent = Agent(store, session="s", lines=lines)
    await agent.begin()
    assert (await used_held(store, "w:day", "turns"), await used_held(store, "w:week", "tokens")) == ((0, 1), (0, 7))
    await agent.settle("", "failed", spent={"turns": 1, "tokens": 3})
    assert (await agent.begin()).retry
    assert (await used_held(store, "w:day", "turns"), await used_held(store, "w:week", "tokens")) == ((1, 0), (3, 7))
    await agent.settle(spent={"turns": 1, "tokens": 3})
    assert (await used_held(store, "w:day", "turns"), await used_held(store, "w:week", "tokens")) == ((1, 0), (6, 0))


@pytest.mark.parametrize("hold", [2**53, 2**63, 10**30])
async def test_an_amount_beyond_all_measure_does_not_fit(store: Store, hold: int) -> None:
    view = await Agent(store, session="s", lines=(Line("session", "tokens", hold, 1_000),)).begin()
    assert (view.admitted, len(view.short)) == (False, 1)


async def test_what_an_earlier_version_kept_is_as_good_as_none(store: Store) -> None:
    """Sessions and threads of another form are not read; what it held of a key is given back all the same."""
    agent = Agent(store, session="s", lines=(Line("org", "tokens", 7, 100, key="day"), Line("session", "turns", 1)))
    await agent.turn()
    await agent.begin()
    for key in await keys(store):
        if key.split("}:")[-1][:2] in ("s:", "t:"):
            kept = await store._client.command("GET", key)
            assert isinstance(kept, bytes)
            await store._client.command("SET", key, b"\x02" + kept[1:], "KEEPTTL")
    assert await store.session_state(ORG, "s") is None
    await agent.settle(spent={"tokens": 3})
    assert await used_held(store, "w:day", "tokens") == (3, 0)
    view = await agent.begin()
    assert (view.new_session, view.turn, view.admitted) == (True, 1, True)
