"""What is taken out of the store for a session, a user, an org, and what stays. The table is `docs/data.md`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from guardproxy.core.usage import FIELDS, day_of, payer
from guardproxy.errors import StoreError
from guardproxy.store import erasures
from guardproxy.store.redis import Store
from tests.store import filling
from tests.store.filling import PAYER, a_run, fill, told, waits
from tests.store.kit import ORG, Agent, used_held

SOON = ("k:", "once:", "charged:", "extended:", "stopped")
"""Kinds that keep an id and nothing else, for minutes."""


async def kept(store: Store) -> dict[str, str]:
    """Every key of the org but those that are gone in minutes, with its content, as text."""
    found = {}
    for one in await told(store):
        key = filling._raw(one["key"]).decode()
        if key.startswith(f"gp:{{{ORG}}}:") and not key.removeprefix(f"gp:{{{ORG}}}:").startswith(SOON):
            flat = one["content"] if isinstance(one["content"], list) else [one["content"]]
            found[key] = repr([filling._raw(text) for text in flat])
    return found


async def traces(store: Store, text: str) -> list[str]:
    return [key for key, content in (await kept(store)).items() if text in key or text in content]


async def test_a_session_leaves_nothing_and_the_others_all(store: Store) -> None:
    running = await fill(store)
    await a_run(store, "run-12")  # another that was told the same things, whose name begins like it
    await waits(store, "run-12", "a12")
    before = await kept(store)
    await store.erasures.end(ORG, ["run-1"])
    assert await store.erasures.wipe(ORG, ["run-1"]) > 20
    assert [key for key in await traces(store, "run-1") if "run-12" not in key + (await kept(store))[key]] == []
    after = await kept(store)
    shared = ("a:", "m:", "sessions", "idle", "asked", "labels", "exempt", "approvals")
    for key, content in before.items():
        name = key.removeprefix(f"gp:{{{ORG}}}:")
        if "run-1" not in (key + content).replace("run-12", "") and not name.startswith(shared):
            assert after.get(key) == content, key
    known = await store.session_state(ORG, "run-12")
    assert known
    assert known.turn == 3
    assert [one.id for one in await store.approvals.list(ORG)] == ["a12"]
    for ids in ("approvals", "approvals:pending"):
        assert await store._client.command("ZRANGE", f"gp:{{{ORG}}}:{ids}", 0, -1) == [b"a12"]
    assert [one.id for one in await store.labels.every(ORG)] == ["l-run-12"]
    assert [one.label for one in (await store.labels.standing(ORG))[1]] == ["l-run-12"]
    assert (await store.labels.standing(ORG))[0] > 0
    await running.settle()
    assert await store.erasures.wipe(ORG, ["run-1"]) == 0  # safe to do twice


async def test_what_a_session_spent_stays_spent(store: Store) -> None:
    await fill(store)
    spent = [await used_held(store, f"w:{key}", "cost_microusd") for key in ("t:org", "M:user:ann:2026-11")]
    rows = await store.usages.day(ORG, day_of(await store.usages.now_ms()))
    await store.erasures.wipe(ORG, ["run-1"])
    await store.erasures.wipe(ORG, erasures.EVERYBODY)
    assert [await used_held(store, f"w:{key}", "cost_microusd") for key in ("t:org", "M:user:ann:2026-11")] == spent
    assert await store.usages.day(ORG, day_of(await store.usages.now_ms())) == rows


async def test_a_turn_that_runs_is_known_and_leaves_its_cost_alone(store: Store) -> None:
    running = await fill(store)
    assert running.last
    assert await store.erasures.held(ORG, ["run-2"]) == [running.last.token]
    assert await store.erasures.held(ORG, ["run-1"]) == []
    assert await store.erasures.held(ORG, erasures.EVERYBODY) == [running.last.token]
    await store.erasures.end(ORG, ["run-2"])
    assert "run-2" in await store.runs.stopped(ORG)
    assert (await Agent(store, session="run-2", head="e" * 32).begin()).closed
    await store.erasures.wipe(ORG, ["run-2"])
    used, held = await used_held(store, "w:t:org", "cost_microusd")
    await running.settle(record=b"planted", facts=(b"planted",), episodes=(b"planted",), ledger={"a": b"planted"})
    assert await used_held(store, "w:t:org", "cost_microusd") == (used + 70, held - 100)
    assert await traces(store, "run-2") == await traces(store, "planted") == []
    assert await store.erasures.held(ORG, erasures.EVERYBODY) == []


async def test_a_user_is_found_by_what_they_had_a_part_in(store: Store) -> None:
    await fill(store)
    other = payer(("web", "k1", "bob", "gpt", ""))
    await a_run(store, "bobs", other, head="f" * 32)
    both = Agent(store, session="both")
    for who in (other, PAYER, payer(("", "", "", "gpt", ""))):
        await both.begin(payer=who)
        await both.settle("text")
        both.took(user=who)
    aside = Agent(store, session="both", tooled=False)
    await aside.begin(payer=payer(("", "", "carl", "", "")))
    assert sorted(await store.erasures.find(ORG, "bob")) == ["bobs", "both"]
    assert await store.erasures.find(ORG, "carl") == ["both"]
    assert await store.erasures.find(ORG, "nobody") == []
    ann = await store.erasures.find(ORG, "ann")
    assert set(ann) == {"run-1", "run-2", "run-cut", "both", "twin-1", "twin-2", "d-bbbbbbbbbbbb-1"}
    assert set(await store.erasures.find(ORG)) == {*ann, "bobs"}


async def test_usage_of_a_user_is_nobodys_and_its_sums_stay(store: Store) -> None:
    for who, number in (("ann", 1), ("bob", 10), ("ann*", 100), ("", 1000)):
        for model in ("gpt", "gpt", "o"):
            await store.usages.add(ORG, {payer(("web", "k1", who, model, "")): (number, number)})
    assert await store.erasures.unname(ORG, "ann") == 2
    assert await store.erasures.unname(ORG, "bob") == 2
    assert await store.erasures.unname(ORG, "bob") == 0
    rows = await store.usages.day(ORG, day_of(await store.usages.now_ms()))
    assert {(one.by[2], one.by[3]): one.sums[:2] for one in rows} == {
        ("(erased)", "gpt"): (22, 22),
        ("(erased)", "o"): (11, 11),
        ("ann*", "gpt"): (200, 200),
        ("ann*", "o"): (100, 100),
        ("", "gpt"): (2000, 2000),
        ("", "o"): (1000, 1000),
    }
    assert len(rows[0].sums) == len(FIELDS)
    assert await store.erasures.unname(ORG) == 2


async def test_no_sessions_are_not_everybody(store: Store) -> None:
    await fill(store)
    before = await kept(store)
    await store.erasures.end(ORG, [])
    assert await store.erasures.held(ORG, []) == []
    assert await store.erasures.wipe(ORG, []) == 0
    assert await kept(store) == before


async def test_an_org_keeps_what_was_spent_and_nothing_else(store: Store) -> None:
    running = await fill(store)
    await store._client.command("SET", "gp:{acmes}:x:y", "of another org")
    await store._client.command("SET", f"gp:{{{ORG}}}:a-kind-that-comes-later:x", "1")
    assert await store.erasures.wipe(ORG, erasures.EVERYBODY) > 60
    left = {key.removeprefix(f"gp:{{{ORG}}}:").partition(":")[0] for key in await kept(store)}
    assert left == {"w", "usage", "holds", "claim", "corrected"}
    await running.settle()
    assert await store.erasures.held(ORG, erasures.EVERYBODY) == []
    assert await store._client.command("EXISTS", "gp:{acmes}:x:y") == 1


async def test_a_step_is_short_and_others_are_served_meanwhile(store: Store) -> None:
    """30,000 keys: no step asks for more than it may, and no answer of another connection waits for the whole."""
    words = [part for number in range(30_000) for part in (f"gp:{{{ORG}}}:s:r{number}", "x")]
    await store._client.command("MSET", *words)
    steps = 0
    real: Callable[..., Awaitable[Any]] = store._client.run

    async def counting(script: str, key: bytes, arguments: tuple[bytes, ...]) -> Any:
        nonlocal steps
        steps += 1
        return await real(script, key, arguments)

    store._client.run = counting  # type: ignore[method-assign]
    erasing = asyncio.ensure_future(store.erasures.wipe(ORG, erasures.EVERYBODY))
    most = at = 0
    while not erasing.done():
        await store.ping()
        most, at = max(most, steps - at), steps
    assert await erasing == 30_000
    assert steps >= 30  # of a thousand keys at most
    assert most <= 3, "an answer came only after so many steps"
    assert json.dumps(await kept(store)) == "{}"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """One server of a Redis Cluster, which has all slots: keys of two slots in a script are an error all the same."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [
        "--port",
        str(port),
        "--cluster-enabled",
        "yes",
        "--dir",
        str(tmp_path),
        "--save",
        "",
        "--bind",
        "127.0.0.1",
    ]
    words += ["--bind", "127.0.0.1", "--cluster-port", str(port - 1000 if port > 55_000 else port + 1000)]
    process = subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL)
    yield f"redis://127.0.0.1:{port}"
    process.kill()
    process.wait()


@pytest.mark.redis_server
async def test_in_a_cluster(cluster: str) -> None:
    for _ in range(200):
        with contextlib.suppress(StoreError):
            store = await Store.connect(cluster, timeout_ms=1000)
            break
        await asyncio.sleep(0.02)
    await store._client.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    while b"cluster_state:ok" not in str(await store._client.command("CLUSTER", "INFO")).encode():
        await asyncio.sleep(0.02)
    running = await fill(store)
    assert await store.check_schema() == 1
    assert "run-1" in await store.erasures.find(ORG, "ann")
    await store.erasures.end(ORG, ["run-1"])
    assert await store.erasures.held(ORG, erasures.EVERYBODY)
    assert await store.erasures.wipe(ORG, ["run-1"]) > 20
    assert await store.erasures.unname(ORG, "ann") == 1
    assert await traces(store, "run-1") == []
    assert await store.erasures.wipe(ORG, erasures.EVERYBODY) > 20
    await running.settle()
    await store.close()


async def test_a_run_without_a_name_that_is_started_again_is_a_new_one(store: Store) -> None:
    agent = Agent(store, lines=())
    view = await agent.turn()
    await store.erasures.end(ORG, [view.session])
    await store.erasures.wipe(ORG, [view.session])
    assert await traces(store, view.session) == []
    again = await agent.begin()
    assert (again.new_session, again.closed, again.turn, again.steps) == (True, False, 1, 1)


async def test_what_is_known_of_users_ends_with_the_run(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.turn()
    await store._client.command("DEL", f"gp:{{{ORG}}}:d:s")
    await agent.begin(payer=PAYER)
    assert await store._client.command("PTTL", f"gp:{{{ORG}}}:d:s") > 0  # type: ignore[operator]
