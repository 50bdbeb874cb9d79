"""Budgets hold when many ask at once, when calls are made twice, and when processes are killed in the middle."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from guardproxy.core.view import Closing, Opening, View
from guardproxy.store.redis import Store
from guardproxy.store.runs import Runs
from tests.accept.processes import Served, alive, serving, until
from tests.http_store import counted
from tests.live import Answer, Got, Json, Live, Provider, Said, live, serve

LIMIT, CLIENTS, EACH, WORKERS = 50, 64, 3, 4
SESSION = {"x-guardproxy-session-id": "raced"}
LEASE_S = 2
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


def body(text: str) -> Json:
    return {"model": "mock-1", "messages": [{"role": "user", "content": text}]}


PLENTY = {"limits": {"session": {"turns": 10_000, "output_tokens": 100_000_000}}}
"""Limits that nobody reaches: only what is limited is held."""


def config(turns: int) -> Json:
    """No limit but on the session's turns; a lease short enough to wait for."""
    return {
        "policy": {"profile": "none", "limits": {"session": {"turns": turns}}},
        "store": {"lease_seconds": LEASE_S},
        "telemetry": {"log_level": "warning"},
    }


@asynccontextmanager
async def served(folder: Path, turns: int, workers: int = WORKERS) -> AsyncIterator[tuple[Provider, Served]]:
    provider = Provider()
    async with serve(provider.handle) as upstream, serving(folder, config(turns), upstream, workers) as running:
        yield provider, running


async def counters(store: Store, session: str) -> dict[str, int]:
    """The budget counters of a session as the store has them: used (`u:`) and held (`h:`) by dimension."""
    found: dict[str, int] = {}
    for name, (used, held) in (await counted(store, session)).items():
        if name.startswith("s:"):
            found |= {f"u:{name[2:]}": used, f"h:{name[2:]}": held}
    return found


def outcomes(answers: list[Answer]) -> Counter[str]:
    """How often requests were answered (by status, or the error's code)."""
    return Counter("answered" if a.status == 200 else f"{a.status} {a.json['error']['code']}" for a in answers)


@LINUX
async def test_exactly_the_limit_is_called_with_four_workers_and_64_clients(tmp_path: Path) -> None:
    async with served(tmp_path, LIMIT) as (provider, running):
        began = time.monotonic()

        async def client(number: int) -> list[Answer]:
            return [await running.post(body(f"Do task {number}, part {part}."), SESSION) for part in range(EACH)]

        answers = [answer for part in await asyncio.gather(*map(client, range(CLIENTS))) for answer in part]
        took = time.monotonic() - began
        store = await Store.connect(socket_path=running.socket_path, timeout_ms=5000)
        await until_settled(store)
        told = await counters(store, "raced")
        await store.close()
    found = outcomes(answers)
    print(f"\n{WORKERS} workers, {CLIENTS} clients, {len(answers)} requests in {took:.1f} s: {dict(found)}, "
          f"upstream {len(provider.got)}, counters {told['u:turns']} used {told['h:turns']} held")  # fmt: skip
    assert len(provider.got) == LIMIT
    assert found == {"answered": LIMIT, "400 budget_exceeded": CLIENTS * EACH - LIMIT}
    assert (told["u:turns"], told["h:turns"]) == (LIMIT, 0)
    denied = [answer for answer in answers if answer.status == 400]
    assert all(answer.headers["x-should-retry"] == "false" and "Retry-After" not in answer.headers for answer in denied)


async def until_settled(store: Store, held: int = 0, session: str = "raced", seconds: float = 30) -> float:
    """Wait until so many turns are held; the seconds it took."""
    began = time.monotonic()
    while (await counters(store, session)).get("h:turns", 0) != held:
        assert time.monotonic() - began < seconds, await counters(store, session)
        await asyncio.sleep(0.05)
    return time.monotonic() - began


class Twice:
    """A store whose every script is sent twice, as after a lost answer."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def begin(self, opening: Opening) -> View:
        first = await self._store.begin(opening)
        second = await self._store.begin(opening)
        assert (first.session, first.turn, first.admitted, first.spent, first.steps, first.counts) == (
            second.session, second.turn, second.admitted, second.spent, second.steps, second.counts,
        )  # fmt: skip
        return second

    async def settle(self, closing: Closing) -> None:
        await asyncio.gather(self._store.settle(closing), self._store.settle(closing))

    @property
    def runs(self) -> Runs:
        return self._store.runs

    async def renew(self, org: str, token: str, lease_ms: int) -> None:
        await self._store.renew(org, token, lease_ms)
        await self._store.renew(org, token, lease_ms)


def working(got: Got) -> Said:
    """Two calls, then an answer."""
    messages = got.json["messages"]
    rounds = sum(message["role"] == "assistant" for message in messages)
    name = messages[0]["content"]
    if rounds == 2:
        return Said("Done.")
    return Said(None, [("read", f'{{"path": "{name}{rounds}"}}', f"call_{name}_{rounds:04d}")])


async def work(running: Live, name: str) -> list[Answer]:
    messages: list[Json] = [{"role": "user", "content": name}]
    answers = []
    for rounds in range(3):
        answer = await running.post({"model": "mock-1", "messages": messages, "tools": [{"type": "function"}]}, SESSION)
        answers.append(answer)
        if answer.status != 200 or rounds == 2:
            break
        said = answer.json["choices"][0]["message"]
        if not said.get("tool_calls"):
            break
        messages += [said, {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": f"of {name}"}]
    return answers


@pytest.mark.parametrize("limit", [LIMIT, None], ids=["limited", "free"])
async def test_every_script_sent_twice_gives_the_same_totals(store: Store, limit: int | None) -> None:
    totals = []
    policy = {"limits": {"session": {"turns": limit}}} if limit else PLENTY
    for kind in (store, Twice(store)):
        await store._client.command("FLUSHALL")
        async with live(kind, policy=policy) as running:
            running.provider.script = working
            rows = await asyncio.gather(*(work(running, f"task{number}") for number in range(30)))
            await until_settled(store)
            found = outcomes([answer for row in rows for answer in row])
            ring = [await store._client.command("STRLEN", key) for key in await keys(store, "r:raced")]
            totals.append((len(running.provider.got), found["answered"], await counters(store, "raced"), sum(ring)))
    print(f"\nonce {totals[0]}\ntwice {totals[1]}")
    assert totals[0][0] == (limit or 90)
    assert totals[0] == totals[1] if limit is None else totals[0][:2] == totals[1][:2]


async def keys(store: Store, start: str) -> list[bytes]:
    found: list[bytes] = await store._client.command("KEYS", f"gp:[{{]default}}:{start}*")
    return found


async def test_a_sweep_made_twice_counts_an_expired_hold_once(store: Store) -> None:
    async with live(store, policy=PLENTY) as running:
        never = asyncio.Event()
        running.provider.script = lambda _got: Said("late", wait=never.wait())
        asking = asyncio.ensure_future(running.post(body("Wait."), SESSION))
        await until(lambda: running.provider.got, 10)
        await until_settled(store, held=1)
        late_ms = running.proxy.lease_ms + 1000
        swept = [*await store.sweep(offset_ms=late_ms), *await store.sweep(offset_ms=late_ms)]
        assert [(one.session, one.turn) for one in swept] == [("raced", 1)]
        told = await counters(store, "raced")
        assert (told["u:turns"], told["h:turns"]) == (1, 0)
        assert told["u:output_tokens"] > 0, "what nobody saw the end of is charged in full"
        never.set()
        assert (await asking).status == 200
        await asyncio.sleep(0.1)
        assert await counters(store, "raced") == told, "the late settle finds nothing to give back"


@LINUX
async def test_a_killed_worker_costs_its_holds_and_no_more(tmp_path: Path) -> None:
    """SIGKILL in mid-call: the calls of that worker are settled in full after the lease, the others go on."""
    async with served(tmp_path, 10_000) as (provider, running):
        store = await Store.connect(socket_path=running.socket_path, timeout_ms=5000)
        go = asyncio.Event()
        provider.script = lambda _got: Said("at last", wait=go.wait())
        calls = 16
        asking = [asyncio.ensure_future(running.post(body(f"Task {n}."), SESSION)) for n in range(calls)]
        await until(lambda: len(provider.got) == calls, 20)
        await until_settled(store, held=calls)
        before = running.workers()
        killed = time.monotonic()
        for pid in before:  # until one of them had a call
            os.kill(pid, signal.SIGKILL)
            await until(lambda pid=pid: not alive(pid), 10)
            await asyncio.sleep(0.3)
            if any(task.done() for task in asking):
                break
        broken = [task for task in asking if task.done()]
        assert all(isinstance(task.exception(), aiohttp.ClientError) for task in broken)
        await until_settled(store, held=calls - len(broken))
        took = time.monotonic() - killed
        go.set()
        left = [await task for task in asking if task not in broken]
        assert all(answer.status == 200 for answer in left)
        await until_settled(store)
        told = await counters(store, "raced")
        await until(lambda: len(running.workers()) == WORKERS, 30, "the dead worker is started anew")
        again = await running.post(body("And one more."), SESSION)
        await store.close()
    print(f"\n{len(broken)} of {calls} calls died with a worker, settled after {took:.1f} s (lease {LEASE_S}); {told}")
    assert 0 < len(broken) < calls
    assert told["u:turns"] == calls
    assert (again.status, again.headers["x-guardproxy-turn"]) == (200, str(calls + 1))
    assert running.lines(r"worker .* ended with code -9")


@LINUX
async def test_nothing_outlives_a_killed_parent_and_the_next_start_finds_its_data(tmp_path: Path) -> None:
    async with served(tmp_path, 5) as (provider, running):
        for number in range(3):
            assert (await running.post(body(f"Task {number}."), SESSION)).status == 200
        store = await Store.connect(socket_path=running.socket_path, timeout_ms=5000)
        await until_settled(store)
        await store.close()
        children = running.children()
        assert sum("valkey" in line for line in children.values()) == 1
        assert len(children) == WORKERS + 1
        os.kill(running.pid, signal.SIGKILL)
        gone = await until(lambda: not any(map(alive, children)), 10, f"orphans: {children}")
        calls = len(provider.got)
    async with served(tmp_path, 5) as (provider, running):
        answers = [await running.post(body(f"Task {number}."), SESSION) for number in range(3, 7)]
    print(f"\nparent killed: all {len(children)} children gone after {gone:.2f} s; then {dict(outcomes(answers))}")
    assert calls == 3
    assert answers[0].headers["x-guardproxy-turn"] == "4"
    assert outcomes(answers) == {"answered": 2, "400 budget_exceeded": 2}
    assert len(provider.got) == 2
