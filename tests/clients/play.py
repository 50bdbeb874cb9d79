"""One scene with one client: a home of its own, no way out but the proxy, and an end by its process group."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from tests.clients import Client, Json, Way, fill
from tests.clients.environment import folder, programs
from tests.clients.provider import Provider
from tests.clients.scenes import FILES, PAGES, SCENES, Played, Scene, Wrong, judge, wanted
from tests.clients.tap import Exchange, tap
from tests.running import Running

SECONDS = 150.0
"""For one scene; a client that needs longer is still going."""

NOWHERE = "http://127.0.0.1:9"
"""Where nobody listens: what a client wants from the network fails at once."""


async def play(client: Client, proxy: Running, provider: Provider, only: Mapping[str, bool]) -> Json:
    """All scenes of a client in all its ways; what came of each."""
    found: Json = {}
    for way in client.ways:
        results: Json = {}
        for scene in SCENES.values():
            if scene.name in wanted(way) and (not only or scene.name in only):
                results[scene.name] = await _result(client, way, scene, proxy, provider)
                print(f"{client.name:16} {way.name:32} {scene.name:10} {results[scene.name]}", flush=True)
        found[way.name] = results
    return found


async def _result(client: Client, way: Way, scene: Scene, proxy: Running, provider: Provider) -> Json:
    played = await once(client, way, scene, proxy, provider)
    try:
        judge(scene, played)
    except (Wrong, AssertionError) as wrong:
        return {"wrong": str(wrong)[:2000], **played.facts}
    return {"ok": True, **played.facts}


async def once(client: Client, way: Way, scene: Scene, proxy: Running, provider: Provider) -> Played:
    """Play one scene."""
    there = urlsplit(proxy.base)
    home = Path(tempfile.mkdtemp(prefix="client-"))
    run = f"{client.name}-{scene.name}-1"
    try:
        async with tap(there.hostname or "", there.port or 0) as (port, seen):
            way = Way(way.name, {**way.data, "work": str(home / "work")})
            cut = None if scene.cut is None else (scene.cut, partial(_cut, proxy, seen))
            provider.play(scene.script(way), tools=way.get("tools", True), cut=cut)
            base = f"http://127.0.0.1:{port}" + (f"/s/{run}" if way.get("session") == "path" else "")
            places = {
                "base": base,
                "bin": str(programs(client)),
                "env": str(folder(client)),
                "here": str(client.here),
                "home": str(home),
                "key": "sk-0123456789abcdef",
                "model": scene.model,
                "task": f"Read {FILES[0]} and tell me what it says. For {client.name}, {way.name}, {scene.name}.",
            }
            code, output = await _run(way, home, places)
            return Played(way, list(seen), list(provider.turns), code, output, run)
    finally:
        shutil.rmtree(home, ignore_errors=True)


async def _cut(proxy: Running, seen: Sequence[Exchange]) -> None:
    """End the run, as a person does it."""
    run = next(name for one in reversed(seen) if (name := one.answer.headers.get("x-guardproxy-session-id")))
    command = ["-m", "guardproxy", "sessions", "cut", run, "--data-dir", str(proxy.data), "--why", "enough"]
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.DEVNULL)
    if await process.wait():
        raise Wrong(f"{run} could not be cut")


async def _run(way: Way, home: Path, places: Mapping[str, str]) -> tuple[int | None, str]:
    """Start the client and wait for its end; exit code (None: it had to be ended) and what it printed."""
    work = home / "work"
    work.mkdir()
    for file in (*FILES, *PAGES):
        (work / file).write_text("hello\n" if file == FILES[0] else f"text of {file}\n")
    setup = way.get("setup", {})
    for path, text in {**setup.get("files", {}), **way.get("files", {})}.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(fill(text, places))
    env = _quiet(home, places) | fill({**setup.get("env", {}), **way.get("env", {})}, places)
    for before in way.get("before", []):
        code, output = await _process(fill(before, places), work, env)
        if code != 0:
            return code, f"{before} failed: {output}"
    return await _process(fill(way.get("start"), places), work, env)


def _quiet(home: Path, places: Mapping[str, str]) -> dict[str, str]:
    """An environment that has nothing of the caller's but the path to programs, and no network beyond the loopback."""
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"), NOWHERE)
    direct = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
    folders = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "DATA", "STATE", "CACHE")}
    (home / "tmp").mkdir()
    return {
        "PATH": f"{places['bin']}:{os.environ['PATH']}",
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "DO_NOT_TRACK": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **proxies,
        **direct,
        **folders,
    }


async def _process(command: list[str], work: Path, env: Mapping[str, str]) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=work,
        env=dict(env),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    reading = asyncio.ensure_future(process.stdout.read() if process.stdout else asyncio.sleep(0, b""))
    ended = True
    try:
        await asyncio.wait_for(process.wait(), SECONDS)
    except TimeoutError:
        ended = False
    finally:
        with contextlib.suppress(ProcessLookupError):  # what it left behind, too: the session is its own
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    output = (await reading).decode(errors="replace")
    return (process.returncode if ended else None), output
