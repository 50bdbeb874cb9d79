"""`guardproxy serve` as an operator starts it, for tests that kill, stop and freeze parts of it.

Only processes that were started here are ended, each by its id.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.live import Answer

START_S = 60.0
"""A worker starts within a second on a machine that does nothing else, and this one may do much else."""


@dataclass(slots=True)
class Served:
    """A running `serve`: its parent process, what it has said, and a client."""

    process: asyncio.subprocess.Process
    data_dir: Path
    client: aiohttp.ClientSession
    said: list[str] = field(default_factory=list)
    url: str = ""
    admin: str = ""

    @property
    def pid(self) -> int:
        return self.process.pid

    def children(self) -> dict[int, str]:
        """Living children of the parent and their command lines: workers and the embedded store."""
        return {pid: line for pid, line in _processes().items() if _parent(pid) == self.pid}

    def workers(self) -> list[int]:
        return sorted(pid for pid, line in self.children().items() if "guardproxy.http.worker" in line)

    @property
    def socket_path(self) -> str:
        """Of the embedded store."""
        return str(json.loads((self.data_dir / "server.json").read_text("utf-8"))["socket"])

    def lines(self, pattern: str) -> list[str]:
        """What was logged and matches."""
        return [line for line in self.said if re.search(pattern, line)]

    async def post(self, body: dict[str, Any], headers: dict[str, str] | None = None) -> Answer:
        """One chat request over a connection of its own, so that the kernel spreads them over the workers."""
        raw = json.dumps(body).encode()
        sent = {"Content-Type": "application/json", "Authorization": "Bearer k", **(headers or {})}
        async with self.client.post(f"{self.url}/v1/chat/completions", data=raw, headers=sent) as answer:
            return Answer(answer.status, dict(answer.headers), await answer.read())

    async def end(self) -> None:
        """SIGTERM, and SIGKILL for what does not heed it."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self.process.wait(), START_S)
            except TimeoutError:
                self.process.kill()
                await self.process.wait()
                raise


@asynccontextmanager
async def serving(folder: Path, config: dict[str, Any], upstream: str, workers: int = 1) -> AsyncIterator[Served]:
    """Start `guardproxy serve` with its data under `folder`; it is ended with the block."""
    file = folder / "guardproxy.yaml"
    file.write_text(json.dumps(config), "utf-8")  # JSON is YAML
    command = [sys.executable, "-m", "guardproxy", "serve", "--config", str(file), "--data-dir", str(folder / "data")]
    command += ["--port", "0", "--admin-port", "0", "--workers", str(workers), "--upstream", f"{upstream}/v1"]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GUARDPROXY", "OPENAI", "OTEL"))}
    env["GUARDPROXY_SECRET"] = "a secret for tests only, long enough"
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=env,
    )
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as client:
        served = Served(process, folder / "data", client)
        reading = asyncio.ensure_future(_read(process, served.said))
        try:
            await until(lambda: served.lines("metrics and health") or process.returncode is not None, START_S)
            assert process.returncode is None, served.said
            served.url = re.search(r"serves (http://[^/]+)/v1", "\n".join(served.said)).group(1)  # type: ignore[union-attr]
            served.admin = re.search(r"health: (http://[^/]+)/", "\n".join(served.said)).group(1)  # type: ignore[union-attr]
            yield served
        finally:
            await served.end()
            await asyncio.wait_for(reading, 10)


async def _read(process: asyncio.subprocess.Process, said: list[str]) -> None:
    assert process.stdout
    while line := await process.stdout.readline():
        said.append(line.decode("utf-8", "replace").rstrip())


async def until(true: Callable[[], Any], seconds: float, what: str = "") -> float:
    """Wait until something holds; the seconds it took."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds, f"not within {seconds} s: {what or true}"
        await asyncio.sleep(0.05)
    return time.monotonic() - began


def alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def _processes() -> dict[int, str]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and alive(int(entry.name)):
            try:
                line = (entry / "cmdline").read_bytes()
                found[int(entry.name)] = line.replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
    return found


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1])
    except OSError:
        return 0
