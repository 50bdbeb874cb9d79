"""A session as people see it: what state it is in, because of whom and why."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from guardproxy.core.model import Line
from guardproxy.store.approvals import Approval
from guardproxy.store.known import known
from guardproxy.store.redis import Store
from tests.store.kit import LINES, ORG, Agent

MINUTE, DAY = 60_000, 86_400_000


async def state(store: Store, session: str = "s", offset_ms: int = 0) -> tuple[str, str, str]:
    found = await store.session_state(ORG, session, offset_ms)
    assert found
    return found.state, found.by, found.why


SETTLED: dict[str, tuple[dict[str, Any], tuple[str, str, str]]] = {
    "answered": ({}, ("active", "", "")),
    "asks": ({"status": "need_human"}, ("need_human", "", "")),
    "result comes later": ({"status": "waiting"}, ("waiting", "", "")),
    "main thread cut": ({"close": "cycle"}, ("closed", "cycle", "")),
    "closed": ({"close": "budget.turns", "close_session": True}, ("closed", "budget.turns", "")),
    "paused": ({"pause": "loop", "pause_why": "the same call, 5 times"}, ("paused", "loop", "the same call, 5 times")),
}


@pytest.mark.parametrize("what", SETTLED)
async def test_the_state_after_a_turn(store: Store, what: str) -> None:
    closing, expected = SETTLED[what]
    agent = Agent(store, session="s")
    await agent.begin()
    assert await state(store) == ("active", "", "")
    await agent.settle("own", **closing)
    assert await state(store) == expected
    assert (await store.list_sessions(ORG))[0].state == expected[0]


async def test_what_it_has_used(store: Store) -> None:
    """All of it, of all its threads; what is held and what its present span used are not in it."""
    for thread in ("main", "sub"):
        agent = Agent(store, session="s", thread=thread, lines=(*LINES, Line("span", "tool_calls", 1)))
        await agent.turn()
        await agent.turn("text", user="and now?")
    await agent.begin()
    found = await store.session_state(ORG, "s")
    assert found
    assert found.used == {"turns": 4, "cost_microusd": 280}


async def test_a_sub_agent_that_was_cut_does_not_close_its_session(store: Store) -> None:
    await Agent(store, session="s", thread="main").turn()
    sub = Agent(store, session="s", thread="sub")
    await sub.begin()
    await sub.settle("own", close="cycle")
    assert await state(store) == ("active", "", "")


async def test_what_needs_a_person_most_is_the_state_of_a_session(store: Store) -> None:
    agents = {name: Agent(store, session="s", thread=name) for name in ("main", "late", "asks")}
    for name, agent in agents.items():
        await agent.begin()
        await agent.settle(status={"main": "active", "late": "waiting", "asks": "need_human"}[name])
        agent.took()
    assert await state(store) == ("need_human", "", "")
    await agents["asks"].begin()
    assert await state(store) == ("waiting", "", "")


async def test_a_thread_that_waits_for_an_approval_pauses_its_session_until_it_is_decided(store: Store) -> None:
    agent = Agent(store, session="s", thread="main")
    view = await agent.begin()
    ends = view.now_ms + 5 * MINUTE
    await store.approvals.open(ORG, Approval("a1", ORG, "s", view.thread, "delete_all", view.now_ms, ends))
    await agent.settle("own", waits_for="a1")
    assert await state(store) == ("paused", "approval", "a1 delete_all")
    assert await state(store, offset_ms=6 * MINUTE) == ("active", "", "")
    await store.approvals.decide(ORG, "a1", "deny", "ann")
    assert await state(store) == ("active", "", "")


async def test_what_waits_for_people_stays_listed_for_days(store: Store) -> None:
    for name, closing in {"busy": {}, "paused": {"pause": "loop"}, "asks": {"status": "need_human"}}.items():
        agent = Agent(store, session=name)
        await agent.begin()
        await agent.settle(**closing)
    await Agent(store, session="later", offset_ms=2 * DAY).begin()
    await store._client.command("DEL", f"gp:{{{ORG}}}:s:busy")  # its time is over
    assert {one.session for one in await store.list_sessions(ORG)} == {"later", "paused", "asks"}
    for name in ("paused", "asks"):
        for key in (f"s:{name}", f"d:{name}", "asked"):
            left = await store._client.command("PTTL", f"gp:{{{ORG}}}:{key}")
            assert int(str(left)) > 7 * DAY, key


async def test_an_idle_one_that_waits_is_handed_out_with_its_state(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.begin()
    await agent.settle(status="need_human")
    found = await asyncio.gather(*(store.idle_sessions(10 * MINUTE, 20 * MINUTE) for _ in range(3)))
    assert [(one.session, one.state) for some in found for one in some] == [("s", "need_human")]


@pytest.mark.parametrize("found", [[], [b""], [b"\x02" + bytes(200), [], b"active", b"", b""]])
def test_what_is_not_of_this_version_is_none(found: list[Any]) -> None:
    assert known(ORG, "s", found) is None
