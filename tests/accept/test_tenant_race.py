"""Budgets of tenants with four real workers, of which some are killed: exactly the limit, and nothing stays held."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import aiohttp
import pytest

from guardproxy.store.redis import Store
from tests.accept.processes import alive, serving, until
from tests.live import Answer, Json, Provider, Said, serve

pytestmark = pytest.mark.verify  # workers started and killed: `make test` has ten minutes in all
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
WORKERS, LEASE_S, LIMIT, CLIENTS, EACH = 4, 2, 60, 48, 3
BUDGETS = [
    {"scope": "org", "dimension": "requests", "window": "month", "limit": LIMIT, "timezone": "Europe/Berlin"},
    {"scope": "org", "dimension": "concurrent_requests", "limit": 24},
    {"scope": "model", "match": "mock-*", "dimension": "cost_usd", "window": "total", "limit": 100},
]


def config(**policy: object) -> Json:
    return {
        "policy": {"profile": "none", **policy},
        "budgets": BUDGETS,
        "store": {"lease_seconds": LEASE_S},
        "telemetry": {"log_level": "warning"},
    }


def body(text: str) -> Json:
    return {"model": "mock-1", "messages": [{"role": "user", "content": text}]}


async def standing(store: Store) -> dict[str, tuple[int, int]]:
    """Used and held by kind of window and dimension."""
    found: dict[str, tuple[int, int]] = {}
    for raw in await store._client.command("KEYS", "gp:[{]default}:w:*"):
        flat = await store._client.command("HGETALL", raw)
        fields = {name.decode(): int(amount) for name, amount in zip(flat[::2], flat[1::2], strict=True)}
        letter = raw.decode().partition("}:w:")[2][0]
        for name in {name[2:] for name in fields}:
            found[f"{letter} {name}"] = (fields.get(f"u:{name}", 0), fields.get(f"h:{name}", 0))
    return found


async def nothing_held(store: Store, seconds: float = 30) -> dict[str, tuple[int, int]]:
    began = time.monotonic()
    while True:
        found = await standing(store)
        if not any(held for _, held in found.values()):
            return found
        assert time.monotonic() - began < seconds, found
        await asyncio.sleep(0.05)


@LINUX
async def test_four_workers_admit_exactly_the_limit_of_the_month(tmp_path: Path) -> None:
    provider = Provider()
    most = [0, 0]

    async def busy() -> None:
        most[0] += 1
        most[1] = max(most)
        await asyncio.sleep(0.02)
        most[0] -= 1

    provider.script = lambda _got: Said("ok", wait=busy())
    async with serve(provider.handle) as upstream, serving(tmp_path, config(), upstream, WORKERS) as running:

        async def client(number: int) -> list[Answer]:
            return [await running.post(body(f"Do task {number}, part {part}.")) for part in range(EACH)]

        answers = [answer for part in await asyncio.gather(*map(client, range(CLIENTS))) for answer in part]
        store = await Store.connect(socket_path=running.socket_path, timeout_ms=5000)
        found = await nothing_held(store)
        await store.close()
    assert len(provider.got) == sum(answer.status == 200 for answer in answers) == LIMIT
    assert {answer.json["error"]["code"] for answer in answers if answer.status != 200} == {"budget_exceeded"}
    assert most[1] <= 24
    assert found["M requests"] == (LIMIT, 0)
    assert found["n concurrent_requests"] == (0, 0)


@LINUX
async def test_killed_workers_cost_their_holds_and_give_back_their_places(tmp_path: Path) -> None:
    provider, go = Provider(), asyncio.Event()
    provider.script = lambda _got: Said("at last", wait=go.wait())
    async with serve(provider.handle) as upstream, serving(tmp_path, config(), upstream, WORKERS) as running:
        store = await Store.connect(socket_path=running.socket_path, timeout_ms=5000)
        calls = 16
        asking = [asyncio.ensure_future(running.post(body(f"Task {n}."))) for n in range(calls)]
        await until(lambda: len(provider.got) == calls, 20)
        hold = (await standing(store))["t cost_microusd"][1] // calls
        assert (await standing(store))["n concurrent_requests"] == (0, calls)
        for pid in running.workers():
            os.kill(pid, signal.SIGKILL)
            await until(lambda pid=pid: not alive(pid), 10)
            await asyncio.sleep(0.3)
            if any(task.done() for task in asking):
                break
        broken = [task for task in asking if task.done()]
        go.set()
        left = [await task for task in asking if task not in broken]
        found = await nothing_held(store)
        await store.close()
    assert all(isinstance(task.exception(), aiohttp.ClientError) for task in broken)
    assert {answer.status for answer in left} == {200}
    assert 0 < len(broken) < calls
    assert found["M requests"] == (calls, 0)
    assert found["n concurrent_requests"] == (0, 0)
    assert found["t cost_microusd"][0] >= hold * len(broken) > 0
