"""The rest of the store: claims, the panic switch, lists of sessions, idle ones, the server's policy."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from guardproxy.errors import ConfigError, StoreError
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.store.kit import ORG, Agent

MINUTE = 60_000


async def test_a_claim_is_won_once(store: Store) -> None:
    won = await asyncio.gather(*(store.claim(ORG, "page", MINUTE) for _ in range(10)))
    assert sorted(won) == [False] * 9 + [True]
    assert await store.claim("other", "page", 1)
    await asyncio.sleep(0.01)
    assert await store.claim("other", "page", 1)


async def test_the_panic_switch_is_seen_by_the_next_turn_of_every_org(store: Store, server: Embedded) -> None:
    other = await Store.connect(socket_path=server.socket_path, timeout_ms=5000)
    try:
        agent = Agent(store, session="s")
        assert not (await agent.turn()).panic
        assert await other.panic(True)
        assert (await agent.turn()).panic
        assert (await store.begin(replace(agent.opening(), org="seen first while it is on"))).panic
        assert await store.panic()
        assert not await other.panic(False)
        assert not (await agent.turn()).panic
        assert not (await store.begin(replace(agent.opening(), org="seen first while it is on"))).panic
    finally:
        await other.close()


async def test_sessions_are_listed_newest_first(store: Store) -> None:
    for number in range(5):
        await Agent(store, session=f"s{number}", offset_ms=number * 10).turn()
    assert [known.session for known in await store.list_sessions(ORG, 3)] == ["s4", "s3", "s2"]
    known = (await store.list_sessions(ORG))[0]
    assert (known.turn, known.span, known.closed, known.threads) == (1, 1, "", ("aaaaaaaaaaaa-1",))
    assert known.at_ms >= known.started_ms > 0
    assert await store.session_state(ORG, "unknown") is None
    assert await store.records(ORG, "unknown") == []


async def test_an_idle_session_is_handed_out_once_until_it_has_a_turn_again(store: Store) -> None:
    agent, busy = Agent(store, session="s"), Agent(store, session="busy", offset_ms=20 * MINUTE)
    await agent.turn()
    await busy.turn()
    late = 25 * MINUTE
    assert await store.idle_sessions(late) == []
    found = await asyncio.gather(*(store.idle_sessions(10 * MINUTE, late) for _ in range(4)))
    assert [known.session for some in found for known in some] == ["s"]
    agent.offset_ms = late
    await agent.turn()
    assert await store.idle_sessions(10 * MINUTE, late) == []
    assert {known.session for known in await store.idle_sessions(10 * MINUTE, 2 * late)} == {"s", "busy"}


async def test_turns_within_a_minute_put_off_being_idle(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.turn()
    agent.offset_ms = 50_000
    await agent.begin()
    assert await store.idle_sessions(30_000, 70_000) == []
    assert await store.idle_sessions(30_000, 75_000) == []
    assert [known.session for known in await store.idle_sessions(30_000, 85_000)] == ["s"]
    assert await store.idle_sessions(30_000, 90_000) == []
    await agent.settle()  # the end of a long call, within a minute of what was handed out
    assert [known.session for known in await store.idle_sessions(30_000, 85_000)] == ["s"]


async def test_a_long_call_that_is_renewed_is_not_idle(store: Store) -> None:
    agent = Agent(store, session="s", lease_ms=MINUTE)
    await agent.begin()
    assert agent.last
    await store.renew(ORG, agent.last.token, MINUTE, offset_ms=20 * MINUTE)
    assert await store.idle_sessions(10 * MINUTE, 25 * MINUTE) == []


async def test_a_server_that_evicts_is_refused_with_the_reason(store: Store) -> None:
    await store.check_policy()
    await store._client.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(ConfigError, match=r"maxmemory-policy is allkeys-lru.*noeviction"):
            await store.check_policy()
    finally:
        await store._client.command("CONFIG", "SET", "maxmemory-policy", "noeviction")


async def test_a_script_that_the_server_forgot_is_loaded_again(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.turn()
    await store._client.command("SCRIPT", "FLUSH")
    views = await asyncio.gather(*(Agent(store, session="s", thread=f"t{i}").begin() for i in range(10)))
    assert len({view.turn for view in views}) == 10
    await agent.turn()


async def test_an_error_of_the_server_is_a_store_error_and_keeps_the_connection(store: Store) -> None:
    await store._client.command("RPUSH", f"gp:{{{ORG}}}:v:broken", "a list where a set belongs")
    with pytest.raises(StoreError, match="WRONGTYPE"):
        await Agent(store, session="broken").begin()
    assert (await Agent(store, session="s").begin()).admitted
    assert store.up


async def test_what_version_0_1_kept_is_as_good_as_none(store: Store) -> None:
    """Maps, lists and hashes where there are packed texts now: nothing fails, and nobody is held up by them."""
    command, prefix, run = store._client.command, f"gp:{{{ORG}}}:", "s\x1faaaaaaaaaaaa-1"
    old = msgspec.msgpack.encode({"born": 1, "turn": 7, "span": 1, "main": "aaaaaaaaaaaa-1", "closed": "budget"})
    await command("SET", f"{prefix}s:s", old)
    await command("SET", f"{prefix}t:{run}", old)
    await command("RPUSH", f"{prefix}r:{run}", "fact")
    await command("HSET", f"{prefix}k:old", "held", old, "answer", old)
    await command("ZADD", f"{prefix}holds", 1, "old")
    await command("ZADD", f"{prefix}idle", 1, "s")
    await command("SADD", "gp:orgs", ORG)
    assert await store.session_state(ORG, "s") is None
    assert await store.idle_sessions(1) == []
    await store.renew(ORG, "old", MINUTE)
    assert await store.sweep() == []
    assert await command("EXISTS", f"{prefix}holds") == 0
    agent = Agent(store, session="s")
    views = [await agent.turn() for _ in range(3)]
    assert [(view.turn, view.closed, len(view.ring)) for view in views] == [(1, False, 0), (2, False, 1), (3, False, 2)]


async def test_a_part_that_is_away_does_not_keep_the_others_waiting(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orgs of a cluster lie on several servers, and what was found is handed out once."""
    for org in ("a", "b", "c"):
        await store.begin(Agent(store, session="s", lease_ms=1).opening(org=org))
    run = store._client.run

    async def partly(script: str, key: bytes, *more: Any) -> object:
        if key in away:
            raise StoreError("its primary is away")
        return await run(script, key, *more)

    away = {b"gp:{a}:"}
    monkeypatch.setattr(store._client, "run", partly)
    assert [one.org for one in await store.sweep(offset_ms=1000)] == ["b", "c"]
    assert [one.org for one in await store.idle_sessions(1, offset_ms=60_000)] == ["b", "c"]
    with pytest.raises(StoreError, match="is away"):
        await store.sweep(offset_ms=1000)
    away.clear()
    assert [one.org for one in await store.sweep(offset_ms=1000)] == ["a"]
    assert [one.org for one in await store.idle_sessions(1, offset_ms=60_000)] == ["a"]
