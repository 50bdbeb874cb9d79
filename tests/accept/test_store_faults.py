"""The store stops or freezes under load: requests go on, loops are seen, and what was missed is told afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from guardproxy.store import embedded
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.accept.processes import Served, serving, until
from tests.http_store import PREFIX, counted
from tests.live import Got, Json, Provider, Said, serve

pytestmark = [
    pytest.mark.verify,  # half a minute of stores stopped and frozen under load: `make test` has ten in all
    pytest.mark.skipif(sys.platform != "linux", reason="freezes a process and watches others in /proc"),
]

MOST_MS = 250
"""What a request may lose to a store that is away (DESIGN section 11)."""

CLIENTS, PAUSE_S = 6, 0.02
BEFORE_S, DURING_S, AFTER_S = 2.0, 4.0, 1.0
DOWN, UP = r"the store .* does not answer|store does not answer", r"store answers again"


@dataclass(slots=True)
class Server:
    """A store that a test stops, freezes and brings back at the same place."""

    folder: Path
    running: Embedded

    def hit(self, fault: str) -> None:
        if fault == "frozen":
            os.kill(self.running.pid, signal.SIGSTOP)
        else:
            self.running.stop()

    def heal(self, fault: str) -> None:
        if fault == "frozen":
            os.kill(self.running.pid, signal.SIGCONT)
        else:
            self.running = embedded.start(self.folder)


@pytest.fixture
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="gp-") as folder:
        made = Server(Path(folder), embedded.start(Path(folder)))
        try:
            yield made
        finally:
            with suppress(ProcessLookupError):
                os.kill(made.running.pid, signal.SIGCONT)
            made.running.stop()


@dataclass(slots=True)
class Load:
    """Clients that ask without pause, each in a session of its own; `took` is in seconds, by phase."""

    served: Served
    phase: str = "before"
    took: dict[str, list[float]] = field(default_factory=dict)
    lag: dict[str, float] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    statuses: dict[str, Counter[int]] = field(default_factory=dict)
    ending: bool = False

    async def client(self, number: int) -> None:
        session = f"load-{number}"
        while not self.ending:
            self.asked[session] += 1
            body = {"model": "mock-1", "messages": [{"role": "user", "content": f"Task {self.asked[session]}."}]}
            phase, began = self.phase, time.perf_counter()
            answer = await self.served.post(body, {"x-guardproxy-session-id": session})
            self.took.setdefault(phase, []).append(time.perf_counter() - began)
            self.statuses.setdefault(phase, Counter())[answer.status] += 1
            await asyncio.sleep(PAUSE_S)

    async def watch(self) -> None:
        """How late this process itself was: what a busy machine adds to any request."""
        while not self.ending:
            began = time.perf_counter()
            await asyncio.sleep(0.01)
            late = time.perf_counter() - began - 0.01
            self.lag[self.phase] = max(late, self.lag.get(self.phase, 0.0))

    def figures(self, phase: str) -> tuple[float, float]:
        """Median and worst of a phase, in milliseconds."""
        return statistics.median(self.took[phase]) * 1000, max(self.took[phase]) * 1000


@asynccontextmanager
async def loaded(served: Served) -> AsyncIterator[Load]:
    load = Load(served)
    tasks = [asyncio.ensure_future(load.client(number)) for number in range(CLIENTS)]
    tasks.append(asyncio.ensure_future(load.watch()))
    try:
        yield load
    finally:
        load.ending = True
        await asyncio.gather(*tasks)


def config(socket_path: str, on_failure: str) -> Json:
    return {
        "policy": {"profile": "none", "limits": {"session": {"turns": 1_000_000}}},
        "store": {"url": f"unix://{socket_path}", "on_failure": on_failure},
        "telemetry": {"log_level": "warning"},
        "budgets": BUDGETS if on_failure == "by_budget" else [],
    }


BUDGETS = [{"scope": "org", "dimension": "cost_usd", "window": "day", "limit": 100}]


@asynccontextmanager
async def served(folder: Path, server: Server, on_failure: str) -> AsyncIterator[tuple[Provider, Served]]:
    provider = Provider()
    settings = config(server.running.socket_path, on_failure)
    async with serve(provider.handle) as upstream, serving(folder, settings, upstream) as running:
        yield provider, running


def answering(got: Got) -> Said:
    """A call for whoever has tools, else an answer."""
    parsed = got.json
    rounds = sum(message["role"] == "assistant" for message in parsed["messages"])
    if not parsed.get("tools"):
        return Said("Done.")
    name = parsed["tools"][0]["function"]["name"]
    where = "a.py" if name == "loops" else f"{rounds}.py"
    return Said(None, [(name, f'{{"path": "{where}"}}', f"call_{name}{rounds:05d}")])


@dataclass(slots=True)
class Agent:
    """An agent of a named session that appends what it gets. The tool `loops` always says the same."""

    served: Served
    tool: str
    history: list[Json] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)

    async def ask(self) -> None:
        tools = [{"type": "function", "function": {"name": self.tool, "parameters": {}}}]
        opening = {"role": "user", "content": f"Work with {self.tool}."}
        body = {"model": "mock-1", "messages": [opening, *self.history], "tools": tools}
        answer = await self.served.post(body, {"x-guardproxy-session-id": f"agent-{self.tool}"})
        assert answer.status == 200, answer.body
        self.verdicts.append(answer.verdict)
        self.turns.append(int(answer.headers["x-guardproxy-turn"]))
        said = answer.json["choices"][0]["message"]
        self.history.append(said)
        result = "x = 1" if self.tool == "loops" else f"text {len(self.history)}"
        self.history += [{"role": "tool", "tool_call_id": c["id"], "content": result} for c in said["tool_calls"]]


async def used(socket_path: str) -> Counter[str]:
    """Turns counted per session in the store."""
    store = await Store.connect(socket_path=socket_path, timeout_ms=5000)
    try:
        found: Counter[str] = Counter()
        for key in await store._client.command("KEYS", "gp:[{]default}:s:*"):
            session = key.decode().removeprefix(f"{PREFIX}s:")
            found[session] = (await counted(store, session)).get("s:turns", (0, 0))[0]
        return found
    finally:
        await store.close()


@pytest.mark.parametrize("fault", ["stopped", "frozen"])
async def test_requests_go_on_without_the_store(tmp_path: Path, server: Server, fault: str) -> None:
    async with served(tmp_path, server, "open") as (provider, running):
        provider.script = answering
        steady, looping = Agent(running, "reads"), Agent(running, "loops")
        async with loaded(running) as load:
            await steady.ask()
            await looping.ask()
            await asyncio.sleep(BEFORE_S)
            load.phase = "during"
            server.hit(fault)
            until_s = time.monotonic() + DURING_S
            for _ in range(3):
                await steady.ask()
                await looping.ask()
            await asyncio.sleep(max(0.0, until_s - time.monotonic()))
            load.phase = "back"
            server.heal(fault)
            back = await until(lambda: running.lines(UP), 15, "the store is seen again")
            load.phase = "after"
            await asyncio.sleep(AFTER_S)
        asked = load.asked + Counter({"agent-reads": len(steady.turns), "agent-loops": len(looping.turns)})
        told = await settled(server.running.socket_path, asked)
        await steady.ask()
        lines = (len(running.lines(DOWN)), len(running.lines(UP)))
        said = list(running.said)
    (mid, top), (mid_down, top_down), late = load.figures("before"), load.figures("during"), load.lag["during"] * 1000
    print(f"\n{fault}: median {mid:.1f} -> {mid_down:.1f} ms, worst {top:.1f} -> {top_down:.1f} ms (this process was "
          f"late by {late:.0f} ms at most), {len(load.took['during'])} requests meanwhile; back after {back:.1f} s; "
          f"told {told.total()} of {asked.total()} turns; loop: {looping.verdicts}; lines: {lines}")  # fmt: skip
    assert all(set(found) == {200} for found in load.statuses.values()), load.statuses
    assert len(load.took["during"]) > 50
    assert mid_down - mid <= MOST_MS
    assert top_down - mid <= MOST_MS + late, "the request that finds the store away pays once"
    assert looping.verdicts[-1] == "nudge", "three equal results, two of them without the store"
    assert set(steady.verdicts) == {"pass"}
    assert told == asked
    assert steady.turns[-1] == len(steady.turns), steady.turns
    assert lines == (1, 1), said


async def settled(socket_path: str, asked: Counter[str], seconds: float = 15) -> Counter[str]:
    """Turns counted in the store, once they are as many as were asked or the time is up."""
    until_s = time.monotonic() + seconds
    while (told := await used(socket_path)) != asked and time.monotonic() < until_s:
        await asyncio.sleep(0.2)
    return told


CLOSED = [("stopped", "closed"), ("frozen", "closed"), ("frozen", "by_budget")]


@pytest.mark.parametrize(("fault", "on_failure"), CLOSED)
async def test_closed_means_503_and_no_call(tmp_path: Path, server: Server, fault: str, on_failure: str) -> None:
    """`by_budget` closes to who has one."""
    body = {"model": "mock-1", "messages": [{"role": "user", "content": "Hello."}]}
    async with served(tmp_path, server, on_failure) as (provider, running):
        assert (await running.post(body)).status == 200
        server.hit(fault)
        took = []
        for _ in range(5):
            began = time.perf_counter()
            answer = await running.post(body)
            took.append((time.perf_counter() - began) * 1000)
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1"), answer.body
            assert set(answer.json["error"]) >= {"message", "type", "code", "param"}
        calls = len(provider.got)
        server.heal(fault)
        await until(lambda: running.lines(UP), 15)
        again = await running.post(body)
    print(f"\n{fault}, {on_failure}: refused after {', '.join(f'{ms:.0f}' for ms in took)} ms: {answer.json['error']}")
    assert calls == 1
    assert again.status == 200
    assert statistics.median(took) <= MOST_MS
