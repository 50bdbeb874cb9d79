"""Ten minutes of agents against `guardproxy serve`: `python -m tests.bench.soak --minutes 10 --agents 16`.

Agents play run after run: most do something new each turn, one in four repeats itself until it is ended. Every line
says what the last interval was like; the exit code is 1 if an answer was wrong, a healthy run was touched, a looping
one was not ended, the proxy had a fault, or a worker became too large.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import re
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web
from redis import Redis

from tests.running import Running, fetch

from .procs import memory_mb

TURNS = 14
MODEL_S = 0.1
"""What the model takes: agents wait for it, and the machine is not busy all the time."""

TEXT = "One line of what was found, as tools give it: name, size, time.\n" * 40
MOST_MB = 160
"""Of a worker. It grows while its caches fill, which takes some 65,000 steps, and then no more."""


@dataclass
class Seen:
    """What agents saw since the last line, and what was wrong at all."""

    seconds: list[float] = field(default_factory=list)
    runs: int = 0
    ended: int = 0
    wrong: list[str] = field(default_factory=list)


async def provide(request: web.Request) -> web.Response:
    """The model: a call whose argument says whether it is a new one. Asked without tools, it answers."""
    await asyncio.sleep(MODEL_S)
    ask = await request.json()
    turn = sum(message["role"] == "assistant" for message in ask["messages"])
    name = ask["model"]
    message: dict[str, object] = {"role": "assistant", "content": "That is what I found."}
    if ask.get("tool_choice") != "none" and turn < TURNS:
        path = "src/same.py" if name == "looping" else f"src/{ask['messages'][0]['content']}/{turn}.py"
        function = {"name": "read_file", "arguments": json.dumps({"path": path})}
        message = {"role": "assistant", "content": None}
        message["tool_calls"] = [{"id": f"call_{turn}_{time.monotonic_ns()}", "type": "function", "function": function}]
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    usage = {"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return web.json_response(
        {"id": "c", "object": "chat.completion", "created": 0, "model": name, "choices": [choice], "usage": usage}
    )


async def agent(
    client: aiohttp.ClientSession, base: str, numbers: itertools.count[int], seen: Seen, until: float
) -> None:
    """Run after run until the time is over."""
    while time.monotonic() < until:
        number = next(numbers)
        await run(client, base, number, "looping" if number % 4 == 0 else "healthy", seen)
        seen.runs += 1


async def run(client: aiohttp.ClientSession, base: str, number: int, model: str, seen: Seen) -> None:
    """One run to its end."""
    messages: list[dict[str, object]] = [{"role": "user", "content": f"task {number}"}]
    tool = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}
    for turn in range(TURNS + 2):
        began = time.monotonic()
        async with client.post(
            f"{base}/chat/completions", json={"model": model, "messages": messages, "tools": [tool]}
        ) as got:
            body = await got.json()
            verdict = got.headers.get("x-guardproxy-verdict", "")
        seen.seconds.append(time.monotonic() - began)
        if got.status != 200 or (model == "healthy" and verdict != "pass"):
            seen.wrong.append(f"{model} run {number}, turn {turn}: {got.status} {verdict} {str(body)[:200]}")
            return
        message = body["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            break
        result = "the same" if model == "looping" else f"{number}.{turn}\n{TEXT}"
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": result} for call in message["tool_calls"]]
    if model == "looping":
        seen.ended += 1
        if turn >= TURNS:
            seen.wrong.append(f"looping run {number} was not ended")


def look(proxy: Running, store: Redis, empty: int, seen: Seen, minute: float) -> float:
    """One line; megabytes of the largest worker. `empty`: bytes of the store before the first run."""
    largest = max(memory_mb(pid)[1] for pid in proxy.workers())
    kept, runs = int(store.info("memory")["used_memory"]) - empty, int(store.zcard("gp:{default}:sessions") or 0)
    times = seen.seconds or [0.0]
    p95 = statistics.quantiles(times, n=20)[-1] if len(times) > 1 else times[0]
    each = f", {kept / runs / 1024:.1f} KB a run" if runs else ""
    parts = (
        f"{minute:5.1f} min {len(times):6d} requests",
        f"p50 {statistics.median(times) * 1e3:6.1f} p95 {p95 * 1e3:6.1f} ms",
        f"{seen.runs:5d} runs, {seen.ended:4d} loops ended",
        f"worker {largest:5.1f} MB",
        f"store {kept / 2**20:6.1f} MB{each}",
    )
    print("  ".join(parts), flush=True)
    seen.seconds, seen.runs, seen.ended = [], 0, 0
    return largest


def faults(proxy: Running) -> float:
    """Faults of ours, as the metrics have them."""
    text = fetch(f"{proxy.admin}/metrics").decode()
    return sum(float(number) for number in re.findall(r"^guardproxy_faults_total\S* (\S+)", text, re.MULTILINE))


async def soak(proxy: Running, minutes: float, agents: int) -> list[str]:
    """What was wrong."""
    seen, numbers, memory = Seen(), itertools.count(), []
    began, every = time.monotonic(), max(10.0, minutes * 2)
    until = began + minutes * 60
    path = json.loads((proxy.data / "server.json").read_text())["socket"]
    with Redis(unix_socket_path=path) as store:
        empty = int(store.info("memory")["used_memory"])
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
            work = [asyncio.ensure_future(agent(client, proxy.base, numbers, seen, until)) for _ in range(agents)]
            while (now := time.monotonic()) < until:
                await asyncio.wait(work, timeout=min(every, until - now))
                memory.append(await asyncio.to_thread(look, proxy, store, empty, seen, (time.monotonic() - began) / 60))
            await asyncio.gather(*work)
    if broken := faults(proxy):
        seen.wrong.append(f"{broken:.0f} faults inside guardproxy; its log: {proxy.err[-2000:]}")
    if max(memory) > MOST_MB:
        seen.wrong.append(f"a worker has {max(memory):.0f} MB")
    return seen.wrong


async def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--agents", type=int, default=16, help="at once")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/v1/chat/completions", provide)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    upstream = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    with tempfile.TemporaryDirectory() as folder:
        words = ("--upstream", upstream, "--workers", str(given.workers))
        with await asyncio.to_thread(Running, Path(folder), *words) as proxy:
            wrong = await soak(proxy, given.minutes, given.agents)
            code = await asyncio.to_thread(proxy.stop)
    await runner.cleanup()
    wrong += [] if code == 0 else [f"it ended with code {code}"]
    for line in wrong[:20]:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
