"""A company's day in short: three orgs of four teams of ten keys, four real workers that are killed at random, and
one call in five to the store is made twice. No budget is passed, nothing stays held, and the ledger of usage says what
the budgets say: on the embedded store and on a Redis Cluster.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from guardproxy.core.usage import FIELDS, day_of, days
from guardproxy.core.windows import Budget
from guardproxy.http.keyring import Keyring, Made
from guardproxy.secrets import derive
from guardproxy.store.redis import Store
from guardproxy.store.registry import Org, Team
from tests.accept.processes import Served, serving, until
from tests.live import Got, Json, Provider, Said, serve
from tests.store.kit import amounts
from tests.store.processes import Nodes, cluster

pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

CALLS, AT_ONCE, WORKERS, ORGS, TEAMS, KEYS = 10_000, 500, 4, 3, 4, 10
KILLS = 6
"""Workers killed, one after each seventh of the calls: a fast machine kills as many as a slow one."""

LEASE_S = 4
SECRET = "a secret for tests only, long enough"
MOST = 400
"""Tokens of output that a call asks for at most, at 10 micro-dollars each."""

BROKEN = {"broken", "store_unavailable"}
"""What became of calls that may have been held, and were not answered: their worker died, or the store was too slow."""

UNCLOSED = 4
"""Calls of an org of which a killed worker may have given the answer and not told the store."""

AT_A_TIME = 120
ORG_LIMIT, TEAM_LIMIT, KEY_LIMIT = 2_000_000, 620_000, 9_000
CONFIG: Json = {
    "auth": "keys",
    "policy": {"profile": "none"},
    "upstream": {"api_key": "sk-provider"},
    "prices": {"models": {"*": {"input": 1, "output": 10}}},
    "store": {"lease_seconds": LEASE_S, "on_failure": "closed", "timeout_ms": 2000},
    "telemetry": {"log_level": "error"},
}


TWICE = """
import random
from guardproxy.store._server import Server

run, run_soon = Server.run, Server.run_soon

async def twice(self, script, key, arguments, deadline=None):
    if random.random() < 0.2:  # as if the first answer had been lost
        await run(self, script, key, arguments, deadline)
    return await run(self, script, key, arguments, deadline)

def twice_soon(self, script, key, arguments):
    if random.random() < 0.2:
        run_soon(self, script, key, arguments)
    return run_soon(self, script, key, arguments)

Server.run, Server.run_soon = twice, twice_soon
"""
"""What every process of the proxy runs before anything else (a module `sitecustomize` in its path)."""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with cluster(replicas=1) as made:
        yield made


@dataclass
class Load:
    """What is known outside of the proxy, by the number of a call."""

    chance: random.Random
    real: dict[int, int] = field(default_factory=dict)  # micro-dollars, by the provider
    whose: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    hold: dict[int, int] = field(default_factory=dict)
    outcome: dict[int, str] = field(default_factory=dict)
    killed: int = 0

    def answer(self, got: Got) -> Said:
        asked = got.json
        number = int(asked["messages"][0]["content"].split()[1])
        made = round(asked["max_tokens"] * self.chance.uniform(0, 1.1))
        self.real[number] = 10 + 10 * made
        usage = {"prompt_tokens": 10, "completion_tokens": made, "total_tokens": 10 + made}
        return Said("ok", usage=usage, wait=asyncio.sleep(self.chance.uniform(0, 0.03)))


async def company(store: Store) -> list[tuple[str, str, Made]]:
    ring, made = Keyring(store.registry, derive(SECRET).key_hash, "a test"), []
    for org in (f"org{number}" for number in range(ORGS)):
        budgets = (
            Budget("org", "cost_microusd", "total", ORG_LIMIT),
            Budget("org", "requests", "month", 10**6, "Europe/Berlin"),
            Budget("org", "concurrent_requests", "now", AT_A_TIME),
            Budget("model", "cost_microusd", "week", 10**9),
        )
        await store.registry.put(Org(org, budgets=budgets))
        for team in (f"team{number}" for number in range(TEAMS)):
            limit = Budget("team", "cost_microusd", "total", TEAM_LIMIT)
            tokens = Budget("key", "total_tokens", "total", KEY_LIMIT)
            await store.registry.put(Team(org, team, budgets=(limit, tokens)))
            made += [(org, team, await ring.make_key(org, team)) for _ in range(KEYS)]
    return made


async def one_call(running: Served, load: Load, number: int, org: str, team: str, made: Made) -> None:
    most = load.chance.randrange(1, MOST)
    body: Json = {
        "model": "m",
        "max_tokens": most,
        "messages": [{"role": "user", "content": f"Task {number} of many."}],
    }
    load.whose[number], load.hold[number] = (org, team, made.key.id), 10 * most + len(json.dumps(body))
    try:
        answer = await running.post(body, {"Authorization": f"Bearer {made.secret}"})
    except (aiohttp.ClientError, TimeoutError):
        load.outcome[number] = "broken"
        return
    load.outcome[number] = "done" if answer.status == 200 else str(answer.json["error"]["code"])


async def kill_now_and_then(running: Served, load: Load) -> None:
    while load.killed < KILLS:
        await until(lambda: len(load.outcome) > CALLS * (load.killed + 1) // (KILLS + 1), 120)
        await until(lambda: len(running.workers()) > 1, 60)
        with suppress(ProcessLookupError):
            os.kill(load.chance.choice(running.workers()), signal.SIGKILL)
            load.killed += 1


async def nothing_held(store: Store) -> dict[str, dict[str, tuple[int, int]]]:
    async with asyncio.timeout(60):
        while True:
            found = {f"org{number}": await amounts(store, f"org{number}") for number in range(ORGS)}
            if not any(held for one in found.values() for _, held in one.values()):
                return found
            await asyncio.sleep(0.2)


async def ledger(store: Store, org: str, since_ms: int) -> Counter[str]:
    """Sums of all rows of an org."""
    sums: Counter[str] = Counter()
    for day in days(day_of(since_ms), day_of(await store.usages.now_ms())):
        for row in await store.usages.day(org, day):
            sums.update(dict(zip(FIELDS, row.sums, strict=True)))
    return sums


@pytest.mark.parametrize("where", ["embedded", "cluster"])
async def test_no_budget_is_passed_and_all_is_accounted_for(
    where: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = request.getfixturevalue("nodes").url if where == "cluster" else None
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "sitecustomize.py").write_text(TWICE)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'first'}:{os.environ.get('PYTHONPATH', '')}")
    load, provider = Load(random.Random("company")), Provider()
    provider.script = load.answer
    config: Json = {**CONFIG, "usage": {"folder": str(tmp_path / "usage")}}
    config["store"] = {**CONFIG["store"], "url": url}
    async with serve(provider.handle) as upstream, serving(tmp_path, config, upstream, WORKERS) as running:
        store = await Store.connect(url, socket_path=None if url else running.socket_path, timeout_ms=20_000)
        keys, since_ms = await company(store), await store.usages.now_ms()
        await until(lambda: len(running.workers()) == WORKERS, 60)
        gate = asyncio.Semaphore(AT_ONCE)

        async def call(number: int) -> None:
            async with gate:
                await one_call(running, load, number, *load.chance.choice(keys))

        killing = asyncio.ensure_future(kill_now_and_then(running, load))
        await asyncio.gather(*(call(number) for number in range(CALLS)))
        killing.cancel()
        found = await nothing_held(store)
        rows = {org: await ledger(store, org, since_ms) for org in found}
        await store.close()

    outcomes = Counter(load.outcome.values())
    print(f"\n{where}: {CALLS} calls, {load.killed} workers killed: {dict(outcomes)}")
    assert load.killed == KILLS
    assert outcomes["done"] > CALLS // 10
    assert outcomes["budget_exceeded"] > CALLS // 10
    assert outcomes["broken"] > 0
    assert set(outcomes) <= {"done", *BROKEN, "budget_exceeded", "rate_limit_exceeded"}
    over = AT_A_TIME * MOST  # what calls in flight may cost above their holds: a tenth of the output
    for org, standing in found.items():
        folder = tmp_path / "usage" / org
        exported = [json.loads(line) for file in folder.iterdir() for line in file.read_text().splitlines()]
        assert {row["org"] for row in exported} == {org}  # of what was used by then
        check(load, org, standing, rows[org], over)
        used, expired = standing["t:org: cost_microusd"][0], rows[org]["holds_expired"]
        print(f"{org}: used {used:,} of {ORG_LIMIT:,}, {expired} holds expired")


def check(load: Load, org: str, standing: dict[str, tuple[int, int]], rows: Counter[str], over: int) -> None:
    used = standing["t:org: cost_microusd"][0]
    mine = [number for number, (whose, _, _) in load.whose.items() if whose == org]
    done = sum(load.real[number] for number in mine if load.outcome[number] == "done")
    broken = [number for number in mine if load.outcome[number] in BROKEN]
    late = UNCLOSED * load.killed  # their answers left, their closings died with the worker: they cost what was held
    most = sum(max(load.hold[number], load.real.get(number, 0)) for number in broken)
    assert done - late * MOST <= used <= done + most + late * 10 * MOST
    assert ORG_LIMIT // 2 < used <= ORG_LIMIT + over
    assert rows["cost_microusd"] == used
    completed = sum(load.outcome[number] == "done" for number in mine)
    requests = next(amount for name, (amount, _) in standing.items() if name.startswith("M:org:"))
    assert rows["requests"] == requests
    assert completed <= requests <= completed + len(broken)
    assert rows["holds_expired"] <= len(broken) + late
    teams = [amount for name, (amount, _) in standing.items() if name.startswith("t:team:")]
    assert sum(teams) == used
    assert max(teams) <= TEAM_LIMIT + over
    tokens = [amount for name, (amount, _) in standing.items() if name.startswith("t:key:")]
    assert max(tokens) <= KEY_LIMIT + over // 10
    assert sum(amount for name, (amount, _) in standing.items() if name.startswith("w:model:")) == used
