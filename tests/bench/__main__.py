"""Builds the tools, starts the targets, measures in interleaved rounds, prints the table."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.as_written import COMPILED

from . import bodies, cells, figures, hot_org, micro, procs, surfaces, targets
from .cells import BARE_TWO, CELLS, OFF, ON, TWO, WRITTEN, Cell, Row, Runner, Target
from .redis_trips import Monitor, socket_of

OUT = cells.HERE / "out"
MEMORY = "guardproxy-memory"  # a fourth one, fresh: what the rounds left in memory is not its sessions'


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, fewer requests: about a minute")
    parser.add_argument("--rounds", type=int, help="default 4, quick 1")
    parser.add_argument("--cells", help=f"only these, comma-separated: {','.join(CELLS)}")
    parser.add_argument("--sessions", type=int, help="for the memory figure; default 10000, quick 1000; 0: skip")
    parser.add_argument("--ids", choices=("named", "derived", "both"), default="both", help="named by header, or not")
    replaces = "replaces a target's command ({port} {origin} {upstream} {data} {config} are filled in); NAME= drops it"
    parser.add_argument("--target", action="append", default=[], metavar="NAME=CMD", help=replaces)
    return parser.parse_args()


def commands(given: list[str]) -> dict[str, str]:
    """Targets and their commands. A stand-in for guardproxy alone replaces all three of its variants."""
    out = targets.commands()
    chosen = dict(item.partition("=")[::2] for item in given)
    if unknown := set(chosen) - set(out):
        raise procs.BenchError(f"--target: no {', '.join(sorted(unknown))}; there are {', '.join(out)}")
    if OFF in chosen:
        out |= dict.fromkeys((ON, TWO, WRITTEN), "")
    if {"bare", OFF, TWO} & set(chosen):  # it is measured beside two workers of ours, on the same terms
        out[BARE_TWO] = ""
    return {name: command for name, command in (out | chosen).items() if command}


def rounds(
    runner: Runner,
    found: Mapping[str, Target],
    chosen: Mapping[str, Cell],
    number: int,
    share: float,
    clock: procs.Clock,
) -> list[Row]:
    """All cells, all targets, again and again; the order turns round each time. A busy machine gets fewer rounds."""
    rows: list[Row] = []
    for r in range(number):
        if r and clock.over():
            print(f"time is up after {r} of {number} rounds", file=sys.stderr)
            break
        for name, cell in chosen.items():
            some = [found[t] for t in cell.targets if t in found]
            for target in some if r % 2 == 0 else reversed(some):
                count = max(2 * cell.conns, int(cell.count * share))
                rows.append({"cell": name, "target": target.name, "round": r, **runner.measure(target, cell, count)})
        print(f"round {r + 1} of {number} done", file=sys.stderr, flush=True)
    return rows


def trips(runner: Runner, target: Target) -> float | None:
    """Commands that the proxy sends to its store, a turn."""
    path = socket_of(target.store)
    if not path:
        return None
    with Monitor(path) as monitor:
        row = runner.measure(target, Cell("M", bodies.JSON, 1, 0, ()), 200, 0)
    turns: int = row["good"]
    return round(monitor.commands().total() / max(1, turns), 1)  # the sweeper's few are rounded away


def memory(runner: Runner, target: Target, sessions: int) -> dict[str, float | None]:
    """Megabytes (PSS) of the largest worker after the sessions, and the peak while 256 streams are open."""

    def largest() -> float:
        return max(procs.memory_mb(pid)[1] for pid in procs.workers(target.root))

    peak = 0.0

    def watch() -> None:
        nonlocal peak
        peak = max(peak, largest())

    done, clock = 0, procs.Clock(60)
    while done < sessions and not clock.over():
        done += runner.measure(target, CELLS["S32"], min(2000, sessions - done))["sessions"]
    print(f"memory: after {done} sessions", file=sys.stderr)
    after = largest()
    runner.measure(target, Cell("S", bodies.PACED, 256, 0, ()), 512, watch=watch)
    return {"memory sessions": after, "memory streams": peak}


def inside() -> dict[str, float | None]:
    """The costs that are taken in this process; absent while their modules are."""
    out: dict[str, float | None] = {}
    cases: Mapping[str, Callable[[], float]] = {"step": micro.step_us, "detectors": micro.detectors_us}
    for key, measure in cases.items():
        try:
            out[key] = measure()
        except ImportError as error:
            print(f"{key}: {error}", file=sys.stderr)
    return {**out, **surfaces.costs()}


def bench(args: argparse.Namespace, running: procs.Procs) -> int:
    """The whole run; 1 when a must is missed."""
    cells.build(running.work)
    print(f"guardproxy: {'compiled, as it ships' if COMPILED else 'as it is written, nothing compiled'}")
    chosen = {name: CELLS[name] for name in (args.cells.split(",") if args.cells else CELLS)}
    mock = cells.start_mock(running)
    runner = Runner(running, args.ids)
    wanted = {name for cell in chosen.values() for name in cell.targets}
    lines = {name: command for name, command in commands(args.target).items() if name in wanted}
    sink = targets.start_sink(running) if ON in lines else ""
    found = {name: targets.start(running, name, command, mock, sink) for name, command in lines.items()}
    found["direct"] = Target("direct", mock, own=[running.running["mock"].pid])
    share, number = (0.3, 1) if args.quick else (1.0, 4)
    rows = rounds(runner, found, chosen, args.rounds or number, share, procs.Clock(210))
    extra = inside()
    sessions = args.sessions if args.sessions is not None else 1000 if args.quick else 10_000
    if sessions and OFF in lines:
        fresh = targets.start(running, OFF, lines[OFF], mock, "", run_as=MEMORY)
        extra["trips"] = trips(runner, fresh)
        extra |= memory(runner, fresh, sessions)
    notes = cells.complaints(rows)
    if sink and not targets.exports(sink):
        notes.append(f"{ON}: nothing was exported, so its figures are not those of traces")
    parse = {shape: micro.parse_us(shape) for shape in ("G", "GG")}
    print(hot_org.alone(600 if args.quick else hot_org.TURNS).line())
    return show(rows, figures.collect(rows, parse, extra), parse, notes)


def show(rows: list[Row], values: dict[str, float | None], parse: dict[str, float], notes: list[str]) -> int:
    """Prints the tables, writes the JSON."""
    print(figures.details(rows), "", figures.summary(values), "", *notes, sep="\n")
    OUT.mkdir(exist_ok=True)
    path = OUT / time.strftime("%Y%m%d-%H%M%S.json")
    whole = {"figures": values, "parse_us": parse, "notes": notes, "rows": rows}
    path.write_text(json.dumps(whole, indent=1))
    print(f"CPU pinned: {'yes' if procs.SPLIT else 'no'}; written to {os.path.relpath(path)}")
    if missed := figures.failed(values):
        print("below must: " + "; ".join(missed))
    return 1 if missed or notes else 0


def main() -> int:
    """Runs in a fresh temporary directory; its path is short, as a socket's must be."""
    args = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="gp-bench-") as work, procs.Procs(Path(work)) as running:
            code = bench(args, running)
    except procs.BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130  # SIGTERM comes here too
    print(f"{time.monotonic() - began:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
