"""A collector that is dead against one that is alive: what the proxy costs, and what it says of the spans it lost.

`python -m tests.bench.collector` starts three proxies that send every span: to a collector that takes them, to a port
where nobody listens, and to one that takes connections and never answers. They are measured in turns; a ratio is the
median over rounds of the ratio within one round. Exit code 1: dead or mute costs more than 1.10 of alive, an answer was
wrong, or lost spans were not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import socket
import statistics
import sys
import tempfile
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from . import cells, procs, targets
from .cells import CELLS, ON, Row, Runner, Target

MOST = 1.10
"""CPU and latency of a proxy whose collector is dead, over one whose collector is alive."""

SENT = re.compile(r'guardproxy_telemetry_spans_total\{guardproxy_result="(\w+)"\} (\d+)')
FIGURES = ("cpu_us", "p50")


@contextlib.contextmanager
def mute() -> Iterator[str]:
    """A collector that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        held: list[socket.socket] = []

        def take() -> None:
            with contextlib.suppress(OSError):
                while True:
                    held.append(server.accept()[0])

        threading.Thread(target=take, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def spans(running: procs.Procs, target: Target) -> Counter[str]:
    """What became of the spans of a proxy, as its own metrics say."""
    admin = re.search(r"admin: \{host: 127\.0\.0\.1, port: (\d+)\}", (running.work / f"{target.name}.yaml").read_text())
    assert admin is not None
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{admin[1]}/metrics", timeout=10) as answer:
        return Counter({result: int(count) for result, count in SENT.findall(answer.read().decode())})


def ratios(rows: list[Row], over: str) -> dict[tuple[str, str, str], float]:
    """The median over rounds, by cell, target and figure, of the ratio to `over` in the same round."""
    by = {(row["cell"], row["round"], row["target"]): row for row in rows}
    found: dict[tuple[str, str, str], list[float]] = {}
    for (cell, number, target), row in by.items():
        if target != over:
            for figure in FIGURES:
                ratio = row[figure] / by[cell, number, over][figure]
                found.setdefault((cell, target, figure), []).append(ratio)
    return {key: statistics.median(some) for key, some in found.items()}


def bench(running: procs.Procs, rounds: int, share: float) -> int:
    """The whole run; 1 when it is dearer than it may be, or something was wrong."""
    cells.build(running.work)
    mock, runner = cells.start_mock(running), Runner(running, "both")
    alive, dead = f"{ON}-alive", f"{ON}-dead"
    with mute() as silent:
        places = {
            alive: targets.start_sink(running),
            dead: f"http://127.0.0.1:{procs.free_port()}",
            f"{ON}-mute": silent,
        }
        found = [targets.start(running, ON, targets.GUARD, mock, place, run_as=name) for name, place in places.items()]
        rows: list[Row] = []
        for number in range(rounds):
            for cell in ("S32", "M32"):
                for target in found if number % 2 == 0 else reversed(found):
                    measured = runner.measure(target, CELLS[cell], int(CELLS[cell].count * share))
                    rows.append({"cell": cell, "target": target.name, "round": number, **measured})
            print(f"round {number + 1} of {rounds} done", file=sys.stderr, flush=True)
        told = {target.name: spans(running, target) for target in found}
    notes = cells.complaints(rows)
    for (cell, target, figure), ratio in ratios(rows, alive).items():
        print(f"{cell}  {target:<24} {figure:<8} {ratio:.3f} of alive{'' if ratio <= MOST else '  too much'}")
        notes += [f"{cell} {target} {figure}: {ratio:.2f} > {MOST}"] if ratio > MOST else []
    for name, counts in told.items():
        print(f"spans of {name}: {', '.join(f'{result} {count}' for result, count in sorted(counts.items()))}")
    notes += [f"{dead}: nothing was counted as failed"] if not told[dead]["failed"] else []
    notes += [f"{alive}: nothing was exported"] if not told[alive]["exported"] else []
    print(*notes, sep="\n")
    return 1 if notes else 0


def main() -> int:
    """As the bench does: in a temporary directory, everything started ends with it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.collector", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--share", type=float, default=1.0, help="of the requests of a round")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gp-bench-") as work, procs.Procs(Path(work)) as running:
        return bench(running, args.rounds, args.share)


if __name__ == "__main__":
    sys.exit(main())
