"""Erasing while agents are at work: what runs ends first, is charged, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from guardproxy.core.usage import day_of
from guardproxy.errors import GuardError
from guardproxy.http import erasing
from guardproxy.store.redis import Store
from guardproxy.store.registry import Key, Org, Team
from tests.http.test_guarded import Agent as Client, then
from tests.live import Said, live
from tests.store.filling import fill
from tests.store.kit import ORG, used_held
from tests.store.test_erasures import traces


async def raised(work: Any) -> tuple[int, str, str]:
    with pytest.raises(GuardError) as error:
        await work
    return error.value.status, error.value.code, error.value.message


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_run_that_is_under_way_is_ended_first(store: Store, stream: bool) -> None:
    never = asyncio.Event()
    waits = {"stall": (3, never.wait())} if stream else {"wait": never.wait()}
    async with live(store, policy={"checkpoints": {"enabled": True}}) as running:
        running.provider.script = then(Said("once upon a time", **waits))  # type: ignore[arg-type]
        agent = Client(running, stream=stream)
        turn = asyncio.ensure_future(agent.turn())
        while not await store.erasures.held("default", [agent.session]):
            await asyncio.sleep(0.01)
        done = await erasing.session(store, "default", agent.session)
        await asyncio.wait_for(turn, 5)
        await running.proxy.quiet()
        never.set()
    assert done.runs == 1
    assert done.entries > 3
    left = await traces(store, agent.session)
    assert left == []
    assert await store.erasures.held("default", [agent.session]) == []


async def test_what_does_not_end_is_settled_in_full(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a worker that is gone: nobody settles what it holds."""
    monkeypatch.setattr(erasing, "WAIT_S", 0.2)
    running = await fill(store)
    used, held = await used_held(store, "w:t:org", "cost_microusd")
    assert held == 100
    await erasing.session(store, ORG, "run-2")
    assert await used_held(store, "w:t:org", "cost_microusd") == (used + 100, 0)
    await running.settle(record=b"tardy", ledger={"tardy": b"tardy"}, facts=(b"tardy",))
    assert await used_held(store, "w:t:org", "cost_microusd") == (used + 100, 0)  # counted once
    assert await traces(store, "tardy") == await traces(store, "run-2") == []


async def test_a_user(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasing, "WAIT_S", 0)
    await fill(store)
    done = await erasing.user(store, ORG, "ann")
    assert (done.runs, done.usage_rows, done.virtual_keys) == (6, 1, 0)
    assert await store.list_sessions(ORG) == []
    assert all(":w:" in key or ":claim:soft:" in key for key in await traces(store, "ann"))
    rows = await store.usages.day(ORG, day_of(await store.usages.now_ms()))
    assert {one.by[2] for one in rows} == {"(erased)"}
    said = await raised(erasing.user(store, ORG, "ann"))
    assert said == (404, "not_found", "nothing is kept of a user 'ann'")


async def test_an_organisation(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasing, "WAIT_S", 0)
    monkeypatch.setattr(erasing, "GRACE_S", 0.3)
    await fill(store)
    for one in (Org("other"), Team("other", "web"), Key("k2", "other")):
        await store.registry.put(one)
    began = asyncio.get_running_loop().time()
    done = await erasing.organisation(store, ORG)
    assert asyncio.get_running_loop().time() - began > 0.3  # workers knew the key until then
    assert (done.runs, done.usage_rows, done.virtual_keys) == (6, 1, 1)
    assert (await store.registry.find("d" * 64)).key is None
    assert await store.registry.org(ORG) is None
    assert await store.registry.teams(ORG) == []
    assert await store.registry.key("k2")
    assert await store.registry.teams("other")
    assert (await raised(erasing.organisation(store, ORG)))[0] == 404


async def test_what_is_not_there(store: Store) -> None:
    await fill(store)
    before = await store.list_sessions(ORG)
    for work in (
        erasing.session(store, ORG, "run-"),
        erasing.session(store, "other", "run-1"),
        erasing.user(store, ORG, "an"),
        erasing.user(store, ORG, "*"),
        erasing.organisation(store, "acm"),
    ):
        assert (await raised(work))[:2] == (404, "not_found")
    assert await store.list_sessions(ORG) == before
