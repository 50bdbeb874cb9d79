"""People and processes: an approval that many decide at once, processes killed meanwhile, runs that are cut and paused.

Everything against `guardproxy serve` with two workers and the embedded store, as an operator starts it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tests.accept.processes import Served, alive, serving, until
from tests.http.test_guarded import joined
from tests.live import SECRET, Answer, Got, Json, Provider, Said, serve

pytestmark = [
    pytest.mark.verify,  # a minute of processes started and killed: `make test` has ten in all
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

WORKERS, RACERS, COMMANDS = 2, 50, 4
AWAY = "cannot be reached"
"""Said by a command whose store does not answer, on a machine that is busy."""

LATE = 40
"""Requests after the race, until three have come behind the one with the call."""

WITHIN_S = 1.0
"""A run that is cut ends so soon, whichever worker has it (DESIGN section 7)."""

TOOLS: list[Json] = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("read", "delete")
]
CALL = ("delete", '{"path": "a.txt"}', "call_delete0001")
CONFIG: Json = {
    "tools": {"approval": ["delete"]},
    "store": {"lease_seconds": 2},
    "telemetry": {"log_level": "warning"},
}


def script(got: Got) -> Said:
    """A model that wants to delete something, and is content when it has."""
    results = [m for m in got.json["messages"] if m["role"] == "tool" or m["role"] == "assistant"]
    return Said("All done.") if results else Said("I clean up.", calls=[CALL])


@asynccontextmanager
async def served(folder: Path, config: Json = CONFIG) -> AsyncIterator[tuple[Provider, Served]]:
    provider = Provider()
    provider.script = script
    async with serve(provider.handle) as upstream, serving(folder, config, upstream, WORKERS) as running:
        yield provider, running


@dataclass(slots=True)
class Agent:
    """An agent that counts the calls that it gets."""

    running: Served
    session: str
    stream: bool = False
    messages: list[Json] = field(default_factory=lambda: [{"role": "user", "content": "Clean up."}])
    calls: list[str] = field(default_factory=list)

    async def ask(self, *more: Json) -> str:
        """The text of the answer; calls are counted, and nothing is appended but `more` and the answer."""
        self.messages += more
        body: Json = {"model": "m", "messages": self.messages, "tools": TOOLS, "stream": self.stream}
        answer = await self.running.post(body, {"x-guardproxy-session-id": self.session})
        if answer.status == 400:  # told often enough
            assert answer.json["error"]["code"] == "session_paused", answer.body
            return str(answer.json["error"]["message"])
        assert answer.status == 200, answer.body
        message = message_of(answer)
        self.calls += [call["id"] for call in message.get("tool_calls") or ()]
        self.messages.append(message)
        return str(message.get("content") or "")


def message_of(answer: Answer) -> Json:
    found: Json = joined(answer.body) if answer.body.startswith(b"data: ") else answer.json["choices"][0]["message"]
    return found


def say(text: str) -> Json:
    return {"role": "user", "content": text}


async def admin(running: Served, path: str, body: Json | None = None) -> tuple[int, Json]:
    """One request to the admin API."""
    url = f"{running.admin}/admin/v1/{path}"
    if body is None:
        async with running.client.get(url) as answer:
            return answer.status, await answer.json(content_type=None)
    async with running.client.post(url, json=body) as answer:
        return answer.status, await answer.json(content_type=None)


async def command(folder: Path, *arguments: str) -> tuple[int, str]:
    """`guardproxy …` as a person types it."""
    env = {**os.environ, "GUARDPROXY_SECRET": SECRET}
    where = ("--config", str(folder / "guardproxy.yaml"), "--data-dir", str(folder / "data"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "guardproxy", *arguments, *where),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=env,
    )
    told, _ = await process.communicate()
    return process.returncode or 0, told.decode()


async def pending(running: Served) -> list[str]:
    """Ids of what waits for a person."""
    status, found = await admin(running, "approvals")
    assert status == 200, found
    return [one["id"] for one in found["items"]]


async def test_fifty_approve_and_fifty_ask_and_the_call_is_released_once(tmp_path: Path) -> None:
    async with served(tmp_path) as (provider, running):
        agent = Agent(running, "raced")
        text = await agent.ask()
        (one,) = await pending(running)
        assert one in text
        racers = [Agent(running, "raced", n % 2 > 0, [*agent.messages, say(f"go on {n}")]) for n in range(RACERS)]
        approving = [admin(running, f"approvals/{one}/approve", {"by": f"p{n}"}) for n in range(RACERS - COMMANDS)]
        typing = [command(tmp_path, "approvals", "approve", one, "--by", f"c{n}") for n in range(COMMANDS)]
        told, typed, _ = await asyncio.gather(
            asyncio.gather(*approving), asyncio.gather(*typing), asyncio.gather(*(racer.ask() for racer in racers))
        )
        statuses = Counter(status for status, _ in told)
        codes = Counter("away" if code and AWAY in said else str(code) for code, said in typed)
        while statuses[200] + codes["0"] == 0 and (await admin(running, f"approvals/{one}/approve", {}))[0] not in (
            200,
            409,
        ):
            await asyncio.sleep(0.5)  # the store heard nobody, or nobody heard the store
        late: list[Agent] = []
        while len(late) < LATE:  # a store that was busy, as on a loaded machine, has it given a moment later
            late.append(Agent(running, "raced", len(late) % 2 > 0, [*agent.messages, say(f"and now {len(late)}")]))
            await late[-1].ask()
            done = any(each.calls for each in (*racers, *late[:-3]))
            await asyncio.sleep(0 if done else 0.5)
            if done:
                break
    given = [call for each in (*racers, *late) for call in each.calls]
    print(f"\napproved {dict(statuses)}, by commands {dict(codes)}; released {given}; model asked {len(provider.got)}")
    assert statuses[200] + codes["0"] <= 1, typed
    assert statuses[409] + statuses[503] == len(approving) - statuses[200], "503: the store was busy"
    assert all(f"{one} was approved by" in said or AWAY in said for code, said in typed if code), typed
    assert given == [CALL[2]]
    assert agent.calls == []


def workers(running: Served) -> list[int]:
    return running.workers()


def server(running: Served) -> list[int]:
    return [pid for pid, line in running.children().items() if "valkey" in line]


VICTIMS: dict[str, Callable[[Served], list[int]]] = {"worker": workers, "store": server}


async def after_all(agent: Agent, one: str, provider: Provider) -> None:
    """Nothing is lost and nothing is released; once a person has approved, the call is released, once."""
    running, asked = agent.running, len(provider.got)
    assert await pending(running) == [one]
    assert one in await agent.ask(say("go on"))
    assert agent.calls == []
    assert len(provider.got) == asked
    assert (await admin(running, f"approvals/{one}/approve", {"by": "ann"}))[0] == 200
    assert (await admin(running, f"approvals/{one}/approve", {"by": "bob"}))[0] == 409
    await agent.ask(say("now"))
    assert agent.calls == [CALL[2]]
    told = await agent.ask({"role": "tool", "tool_call_id": CALL[2], "content": "deleted"})
    assert told == "All done."
    assert agent.calls == [CALL[2]]
    last = provider.got[-1].json["messages"]
    assert sum(len(message.get("tool_calls") or ()) for message in last) == 1


@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_killed_process_releases_nothing_and_loses_nothing(tmp_path: Path, victim: str) -> None:
    async with served(tmp_path) as (provider, running):
        agent = Agent(running, "killed")
        await agent.ask()
        (one,) = await pending(running)
        killed = VICTIMS[victim](running)
        assert killed
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        await until(lambda: not any(map(alive, killed)), 10)
        await until(lambda: len(VICTIMS[victim](running)) == len(killed), 40, f"the {victim} is started anew")
        await serves_again(running)
        await after_all(agent, one, provider)


async def test_a_killed_parent_releases_nothing_and_loses_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, running):
        agent = Agent(running, "killed")
        await agent.ask()
        (one,) = await pending(running)
        children = running.children()
        os.kill(running.pid, signal.SIGKILL)
        await until(lambda: not any(map(alive, children)), 20, "orphans")
    async with served(tmp_path) as (provider, running):
        agent.running = running
        await after_all(agent, one, provider)


GREETED: list[Json] = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "What can I do?"}]


@pytest.mark.parametrize("begun", [[], GREETED], ids=["the first request", "a later one"])
async def test_a_request_that_is_held_dies_with_its_worker_and_its_call_does_not(
    tmp_path: Path, begun: list[Json]
) -> None:
    """Also before its lease ends: the client asks again at once, and nobody is asked a second time."""
    config = {**CONFIG, "store": {}, "policy": {"approvals": {"way": "hold", "hold_seconds": 60}}}
    async with served(tmp_path, config) as (provider, running):
        provider.script = lambda got: Said("Ok.") if got.json["messages"][-1]["role"] == "tool" else Said(calls=[CALL])
        agent = Agent(running, "held", messages=[*begun, say("Clean up.")])
        asking = asyncio.ensure_future(agent.ask())
        one = await asked(running)
        killed = running.workers()
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(aiohttp.ClientError):
            await asking
        await until(lambda: len(running.workers()) == len(killed), 40, "the workers are started anew")
        await serves_again(running)
        assert await pending(running) == [one]
        again = asyncio.ensure_future(agent.ask())  # the client's retry
        await asyncio.sleep(1)
        assert not again.done()
        assert (await admin(running, f"approvals/{one}/approve", {}))[0] == 200
        await again
        assert agent.calls == [CALL[2]]
        assert await pending(running) == []
        assert len(provider.got) == 1


async def asked(running: Served) -> str:
    """The id of the approval, once it is there."""
    for _ in range(200):
        if found := await pending(running):
            return found[0]
        await asyncio.sleep(0.05)
    raise AssertionError("nobody was asked")


async def serves_again(running: Served, seconds: float = 40) -> None:
    """Wait until the proxy is ready and its store answers."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        with suppress(aiohttp.ClientError):
            async with running.client.get(f"{running.admin}/readyz") as answer:
                if answer.status == 200 and (await admin(running, "approvals"))[0] == 200:
                    return
        await asyncio.sleep(0.1)
    raise AssertionError(f"not ready: {running.said}")


# ------------------------------------------------------------------------------------------------------- cut and pause


class Dripping:
    """A provider that never comes to an end: a word every now and then, or nothing at all for a whole answer."""

    def __init__(self) -> None:
        self.open = 0
        self.gone = asyncio.Condition()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        wants = json.loads(await request.read())
        self.open += 1
        try:
            if not wants.get("stream"):
                await asyncio.sleep(600)
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            for chunk in Said("word " * 4).chunks(usage=False)[:1]:
                await response.write(chunk)
            while True:
                piece = {"index": 0, "delta": {"content": "word "}, "finish_reason": None}
                event = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock-1"}
                await response.write(b"data: " + json.dumps({**event, "choices": [piece]}).encode() + b"\n\n")
                await asyncio.sleep(0.1)
        finally:
            self.open -= 1


async def test_a_run_that_is_cut_ends_within_a_second_on_any_worker(tmp_path: Path) -> None:
    provider = Dripping()
    runner = web.ServerRunner(web.Server(provider.handle, access_log=None, handler_cancellation=True))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    upstream = "http://{}:{}".format(*runner.addresses[0][:2])
    config = {"telemetry": {"log_level": "warning"}}
    async with serving(tmp_path, config, upstream, WORKERS) as running:
        agents = [Agent(running, f"run-{n}", stream=n % 2 == 0) for n in range(8)]
        asking = [asyncio.ensure_future(agent.ask()) for agent in agents]
        await until(lambda: provider.open == len(agents), 30)
        await asyncio.sleep(1)
        busy = [pid for pid in running.workers() if connections(pid) > 2]
        took = []
        for number, (agent, waiting) in enumerate(zip(agents, asking, strict=True)):
            left = provider.open - 1
            if number == 0:
                code, said = await command(tmp_path, "sessions", "cut", agent.session, "--why", "too dear")
                assert code == 0, said
            else:
                assert (await admin(running, f"sessions/{agent.session}/cut", {"why": "too dear"}))[0] == 200
            began = time.monotonic()
            text = await waiting
            await until(lambda left=left: provider.open == left, 5, "the provider's stream is closed")
            took.append(time.monotonic() - began)
            assert "[guardproxy]" in text
            assert text.startswith("word") is agent.stream
            after = await running.post(
                {"model": "m", "messages": [say("Clean up.")], "tools": TOOLS},
                {"x-guardproxy-session-id": agent.session},
            )
            assert "[guardproxy]" in message_of(after)["content"]
        assert provider.open == 0
    await runner.cleanup()
    print(f"\n{len(agents)} runs on {len(busy)} workers ended after {', '.join(f'{s:.2f}' for s in took)} s")
    assert len(busy) == WORKERS, "both have some of them"
    assert max(took) <= WITHIN_S


def connections(pid: int) -> int:
    """Sockets that a process has open."""
    found = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            found += str(entry.readlink()).startswith("socket:")
    return found


async def test_a_paused_run_stays_paused_over_a_restart(tmp_path: Path) -> None:
    config = {"telemetry": {"log_level": "warning"}}
    async with served(tmp_path, config) as (provider, running):
        provider.script = lambda _got: Said("Fine.")
        agent = Agent(running, "paused")
        assert await agent.ask() == "Fine."
        code, told = await command(tmp_path, "sessions", "pause", "paused", "--why", "looks odd", "--by", "ann")
        assert code == 0, told
        assert "looks odd" in await agent.ask(say("more"))
        assert len(provider.got) == 1
    async with served(tmp_path, config) as (provider, running):
        provider.script = lambda _got: Said("Fine again.")
        agent.running = running
        text = await agent.ask(say("and more"))
        assert "looks odd" in text
        assert provider.got == []
        status, found = await admin(running, "sessions/paused")
        assert (status, found["state"]) == (200, "paused")
        assert [entry["by"] for entry in found["history"] if entry["what"] == "pause"] == ["ann"]
        assert (await admin(running, "sessions/paused/resume", {"by": "bob"}))[0] == 200
        assert await agent.ask(say("go on")) == "Fine again."
