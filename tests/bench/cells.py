"""What is measured: the cells as data, and one run of one cell against one target."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import bodies, procs

HERE = Path(__file__).resolve().parent
INTERVAL_US = 10_000  # between the events of a paced stream: 100 a second, as fast models give
PATH = "/v1/chat/completions"
CAP_S = 6.0  # a phase of a run issues no requests after this

Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """A body shape, how the provider answers, connections, requests a run (fewer with --quick), which targets."""

    shape: str
    mode: int
    conns: int
    count: int
    targets: tuple[str, ...]

    @property
    def pool(self) -> str:
        """The name of the file with its conversations."""
        return f"{self.shape}-{self.mode}"


OFF, ON, TWO = "guardproxy", "guardproxy-traces", "guardproxy-2"
WRITTEN = "guardproxy-written"  # the sources as they are, beside the compiled modules
BARE_TWO = "bare-2"  # what two workers come to on these CPUs where they share nothing
CELLS: Mapping[str, Cell] = {
    "S32": Cell("S", bodies.JSON, 32, 2500, ("bare", OFF, WRITTEN, ON)),
    "M32": Cell("M", bodies.JSON, 32, 1600, ("bare", BARE_TWO, OFF, WRITTEN, ON, TWO)),
    "L32": Cell("L", bodies.JSON, 32, 400, ("bare", OFF, WRITTEN, ON)),
    "S1": Cell("S", bodies.JSON, 1, 800, ("direct", "bare", OFF)),
    "M1": Cell("M", bodies.JSON, 1, 200, ("direct", "bare", OFF)),
    "B1": Cell("S", bodies.BURST, 1, 400, ("direct", "bare", OFF)),
    "B32": Cell("S", bodies.BURST, 32, 400, ("bare", OFF)),
    "P32": Cell("S", bodies.PACED, 32, 64, ("bare", OFF)),
    "G32": Cell("G", bodies.JSON, 32, 700, ("bare", OFF)),
    "GG32": Cell("GG", bodies.JSON, 32, 500, ("bare", OFF)),
}


@dataclass
class Target:
    """Something to send requests to. `parts` are its process's own processes and its store's."""

    name: str
    port: int
    root: int = 0
    own: list[int] = field(default_factory=list)
    store: list[int] = field(default_factory=list)


def build(work: Path) -> None:
    """Compiles the load generator and the provider; writes conversations and answers."""
    for name in ("load", "mock"):
        command = ["gcc", "-O2", "-o", str(work / name), str(HERE / f"{name}.c")]
        try:
            made = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise procs.BenchError("make bench needs a C compiler: apt install gcc libc6-dev") from None
        if made.returncode:
            raise procs.BenchError(f"gcc failed on {name}.c (apt install gcc libc6-dev?):\n{made.stderr}")
    bodies.write_answers(work / "answers")
    for cell in CELLS.values():
        if not (work / f"{cell.pool}.pool").exists():
            modes = (bodies.BURST if cell.mode else bodies.JSON, cell.mode)  # a warm-up turn need not be paced
            bodies.write_pool(work / f"{cell.pool}.pool", bodies.SHAPES[cell.shape], modes)


def start_mock(running: procs.Procs, interval_us: int = INTERVAL_US) -> int:
    """Starts the provider; gives its port."""
    port = procs.free_port()
    running.start("mock", [str(running.work / "mock"), str(port), str(running.work / "answers"), str(interval_us)], "0")
    running.ready("mock", f"http://127.0.0.1:{port}{PATH}", b"{}")
    return port


class Runner:
    """Runs cells. Tokens go up and up, so that no run meets the sessions of another."""

    def __init__(self, running: procs.Procs, ids: str) -> None:
        self.running, self.ids = running, ids
        self.token = 10_000_000_000

    def load(self, target: Target, cell: Cell, count: int, warm: int) -> subprocess.Popen[str]:
        """Starts the load generator and returns when its warm-up is over."""
        work = self.running.work
        self.token += 1_000_000
        numbers = [cell.conns, warm, count, CAP_S, self.token]
        command = [str(work / "load"), str(target.port), PATH, str(work / f"{cell.pool}.pool"), *map(str, numbers)]
        process = subprocess.Popen(
            procs.pinned([*command, self.ids], "0"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout
        if process.stdout.readline() != "warm\n":
            process.kill()
            raise procs.BenchError(f"the load generator stopped at {target.name}: {process.communicate()[1]}")
        return process

    def measure(
        self, target: Target, cell: Cell, count: int, warm: int | None = None, watch: Callable[[], None] | None = None
    ) -> Row:
        """One run: the load's figures, CPU a request, CPU of the store, of others. `watch` is called all along."""
        process = self.load(target, cell, count, count // 5 if warm is None else warm)
        everything = [*target.own, *target.store, *[p.pid for p in self.running.running.values()], process.pid]
        time.sleep(0.03)  # what answers still cost after their last byte belongs to the warm-up
        own, store, ours = map(procs.cpu_ns, (target.own, target.store, everything))
        busy, began = procs.busy_seconds(), time.monotonic()
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
        while watch and process.poll() is None:
            watch()
            time.sleep(0.1)
        ended = time.monotonic()
        out, err = process.communicate(timeout=3 * CAP_S + 30)
        ended = time.monotonic() if not watch else ended
        time.sleep(0.03)
        if process.returncode:
            raise procs.BenchError(f"the load generator failed at {target.name}: {err}")
        row: Row = json.loads(out)
        answers = max(1, row["good"] + row["bad"])
        cpu = procs.spent_us(own, procs.cpu_ns(target.own))
        row["cpu_us"], row["chunk_us"] = cpu / answers, cpu / max(1, row["events"])
        row["store_us"] = procs.spent_us(store, procs.cpu_ns(target.store)) / answers
        mine = procs.spent_us(ours, procs.cpu_ns(everything)) / 1e6
        row["others"] = max(0.0, procs.busy_seconds() - busy - mine) / max(0.01, ended - began)
        return row


def complaints(rows: Sequence[Row]) -> list[str]:
    """What makes a row doubtful: answers that were not 200, interventions on healthy sessions, a hung server."""
    out = []
    for row in rows:
        where = f"{row['target']} {row['cell']}"
        if row["bad"] or row["hung"]:
            out.append(f"{where}: {row['bad']} bad answers, {row['hung']} hung; first: {row['first_bad']}")
        if row["acted"]:
            out.append(f"{where}: {row['acted']} of {row['good']} answers have a verdict other than pass")
    return out
