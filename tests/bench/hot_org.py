"""What one hot organisation costs against many: turns (a hold and its settling) per second and the store's CPU of one.

`python -m tests.bench.hot_org`: on a cluster. An org lies in one slot, so on one primary: more of them help many orgs,
not one. `make bench` has a line of it, on the embedded store.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass

from guardproxy.core.model import Line
from guardproxy.core.windows import CONCURRENT
from guardproxy.store import embedded
from guardproxy.store.redis import Store
from tests.store.kit import Agent
from tests.store.processes import Node, Nodes, cluster

AT_ONCE, TURNS = 64, 6000
LINES = (
    Line("span", "turns", 1),
    Line("session", "cost_microusd", 100, 10**12),
    Line("org", "cost_microusd", 100, 10**12, "t:org:"),
    Line("team", "cost_microusd", 100, 10**12, "t:team:web"),
    Line("key", "requests", 1, 10**9, "t:key:k1"),
    Line("org", CONCURRENT, 1, 10**6, "n:org:"),
)


def cpu_s(node: Node) -> float:
    found = node.ask("INFO", "cpu")
    return float(found["used_cpu_user"]) + float(found["used_cpu_sys"])


async def turns(store: Store, orgs: int, count: int = TURNS) -> float:
    """Seconds for all turns."""
    left = iter(range(count))

    async def client(number: int) -> None:
        agent = Agent(store, session=f"s{number}", lines=LINES)
        org = f"org-{number % orgs}"
        for _ in left:
            await agent.begin(org=org)
            await agent.settle(org=org)
            agent.took()
            if len(agent.rounds) >= 20:
                agent = Agent(store, session=f"{agent.session}+", lines=LINES)

    began = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(AT_ONCE)))
    return time.perf_counter() - began


@dataclass(frozen=True)
class Hot:
    """Turns a second of one org with 64 calls at once, and the CPU of one: the store's, and of who asks it."""

    per_second: float
    store_us: float
    client_us: float

    def line(self) -> str:
        """As `make bench` prints it."""
        return (
            f"one hot org, {len(LINES)} limits in each hold: {self.per_second:,.0f} holds/s, each with its settling "
            f"{self.store_us:,.0f} µs of the store's CPU and {self.client_us:,.0f} µs of who asks"
        )


async def _alone(socket_path: str, count: int) -> Hot:
    store = await Store.connect(socket_path=socket_path, timeout_ms=10_000)
    try:
        await turns(store, 1, count // 10)
        before, own = await _spent_s(store), time.process_time()
        seconds = await turns(store, 1, count)
        own = time.process_time() - own
        return Hot(count / seconds, (await _spent_s(store) - before) / count * 1e6, own / count * 1e6)
    finally:
        await store.close()


async def _spent_s(store: Store) -> float:
    raw = await store._client.command("INFO", "cpu")
    text = raw.decode() if isinstance(raw, bytes) else str(raw)
    return sum(float(found) for found in re.findall(r"used_cpu_(?:user|sys):([\d.]+)", text))


def alone(count: int = TURNS) -> Hot:
    """The figures on an embedded store of its own."""
    with embedded.scratch() as running:
        return asyncio.run(_alone(running.socket_path, count))


async def measure(nodes: Nodes, orgs: int, replicas: int) -> None:
    store = await Store.connect(nodes.url, timeout_ms=10_000, replicas=replicas)
    await store.begin(Agent(store, session="warm").opening())
    primaries = [node for node in nodes.living() if node.ask("ROLE")[0] in (b"master", "master")]
    before, own = [cpu_s(node) for node in primaries], time.process_time()
    seconds = await turns(store, orgs)
    own = time.process_time() - own
    spent = [cpu_s(node) - was for node, was in zip(primaries, before, strict=True)]
    await store.close()
    cpu_us, own_us = sum(spent) / TURNS * 1e6, own / TURNS * 1e6
    print(
        f"{orgs:>3} orgs, wait_replicas {replicas}: {TURNS / seconds:6.0f} turns/s, store {cpu_us:4.0f} us a turn "
        f"(busiest primary {max(spent) / seconds:4.0%}), client {own_us:4.0f} us a turn"
    )


def main() -> None:
    with cluster(replicas=1) as nodes:
        for _ in range(2):
            for replicas in (0, 1):
                for orgs in (1, 64):
                    asyncio.run(measure(nodes, orgs, replicas))


if __name__ == "__main__":
    main()
