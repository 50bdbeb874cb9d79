"""How the proxies under test are started: bare, guardproxy as it ships, with traces, with two workers."""

from __future__ import annotations

import shlex
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from tests.as_written import COMPILED

from . import procs
from .cells import BARE_TWO, OFF, ON, PATH, TWO, WRITTEN, Target

BARE = f"{sys.executable} -m {__package__}.bare {{port}} {{origin}}"
GUARD = f"{sys.executable} -m guardproxy serve --config {{config}}"
READY = b'{"model":"gpt-4o-mini","messages":[{"role":"user","content":"ready?"}]}'
COMMANDS: Mapping[str, str] = {"bare": BARE, BARE_TWO: f"{BARE} --workers 2", OFF: GUARD, ON: GUARD, TWO: GUARD}
SOURCES = Path(__file__).parents[2]


def commands() -> dict[str, str]:
    """Every target's command. Beside compiled modules, the sources are a target of their own."""
    written = {WRITTEN: f"env PYTHONPATH={shlex.quote(str(SOURCES))} {GUARD}"} if COMPILED else {}
    return {**COMMANDS, **written}


def config(port: int, admin: int, origin: str, data: Path, workers: int, otlp: str) -> str:
    """The configuration file of one guardproxy: defaults but for places, workers and traces."""
    lines = [
        f"listen: {{host: 127.0.0.1, port: {port}, workers: {workers}}}",
        f"admin: {{host: 127.0.0.1, port: {admin}}}",
        f"upstream: {{url: '{origin}/v1'}}",
        f"store: {{data_dir: '{data}'}}",
    ]
    if otlp:
        lines.append(f"telemetry: {{otlp_endpoint: '{otlp}', sample_ratio: 1.0}}")
    return "\n".join(lines) + "\n"


def start(running: procs.Procs, name: str, command: str, mock: int, otlp: str, run_as: str = "") -> Target:
    """Starts a target and waits for its first answer. Its store is moved to the load's CPU, it keeps its own."""
    name = run_as or name
    target = Target(name, procs.free_port())
    origin = f"http://127.0.0.1:{mock}"
    data, settings = running.work / f"{name}-data", running.work / f"{name}.yaml"
    two, traces = name in (TWO, BARE_TWO), otlp if ON in name else ""
    settings.write_text(config(target.port, procs.free_port(), origin, data, 2 if two else 1, traces))
    places = {"port": str(target.port), "origin": origin, "upstream": f"{origin}/v1"}
    places |= {"data": str(data), "config": str(settings)}
    words = [word.format_map(places) for word in shlex.split(command)]
    target.root = running.start(name, words, "" if two else "1")
    running.ready(name, f"http://127.0.0.1:{target.port}{PATH}", READY)
    target.own, target.store = procs.parted(target.root)
    if procs.SPLIT:
        procs.bind(target.store, 0)
    return target


def start_sink(running: procs.Procs) -> str:
    """Starts the OTLP sink; gives its endpoint."""
    port = procs.free_port()
    running.start("sink", [sys.executable, "-m", f"{__package__}.sink", str(port)], "0")
    running.ready("sink", f"http://127.0.0.1:{port}/", b"")
    return f"http://127.0.0.1:{port}"


def exports(endpoint: str) -> int:
    """How many exports the sink has taken, the readiness probe apart."""
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(endpoint, timeout=5) as answer:
        return int(answer.read().split()[0]) - 1
