"""Processes of a bench run: started here, watched through /proc, ended here and nowhere else. Linux only."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path

STORES = ("valkey", "redis")  # beginnings of the names that the embedded store's process can have
SPLIT = bool(shutil.which("taskset")) and (os.cpu_count() or 1) > 1  # load, provider and store on CPU 0, proxy on 1


class BenchError(Exception):
    """The bench cannot go on; the message says why."""


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def pinned(command: Sequence[str], cpus: str) -> list[str]:
    """The command, bound to CPUs where that is possible. The kernel ends it with us, also after a SIGKILL."""
    leash = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    return [*leash, *(["taskset", "-c", cpus] if SPLIT and cpus else []), *command]


class Procs:
    """Everything that this run started; leaving the context ends it."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Procs:
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(list(self.running)):  # what is talked to ends last
            self.stop(name)

    def start(self, name: str, command: Sequence[str], cpus: str = "") -> int:
        """Starts a process in a session of its own, its output in a file of the work directory; gives its pid."""
        with (self.work / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                pinned(command, cpus), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.running[name] = process
        return process.pid

    def stop(self, name: str) -> None:
        """SIGTERM to the process, later SIGKILL to its session, of which it is the leader."""
        process = self.running.pop(name)
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def log_end(self, name: str) -> str:
        """The last lines that a process wrote."""
        return "\n".join((self.work / f"{name}.log").read_text(errors="replace").splitlines()[-12:])

    def ready(self, name: str, url: str, body: bytes, seconds: float = 30) -> None:
        """Waits until the process answers a request with 200."""
        headers = {"Content-Type": "application/json", "Authorization": "Bearer sk-bench"}
        request = urllib.request.Request(url, body, headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no http_proxy for the loopback
        why, until = "", time.monotonic() + seconds
        while time.monotonic() < until:
            if self.running[name].poll() is not None:
                break
            try:
                with opener.open(request, timeout=5) as answer:
                    answer.read()
                    return
            except (OSError, urllib.error.URLError) as error:
                why = str(error)
                time.sleep(0.1)
        raise BenchError(f"{name} does not answer ({why}); its last lines:\n{self.log_end(name)}")


def tree(pid: int) -> list[int]:
    """The process and all below it."""
    out = [pid]
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                out += tree(int(child))
    return out


def name_of(pid: int) -> str:
    """The kernel's name of a process; empty when it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def parted(pid: int) -> tuple[list[int], list[int]]:
    """The proxy's own processes, and those of its embedded store."""
    pids = tree(pid)
    stores = [p for p in pids if name_of(p).startswith(STORES)]
    return [p for p in pids if p not in stores], stores


def workers(pid: int) -> list[int]:
    """The processes that serve: the children of the parent if it has any, else itself."""
    own, _ = parted(pid)
    pythons = [p for p in own if p != pid and name_of(p) not in ("", "sh", "taskset")]
    return pythons or [pid]


def bind(pids: Iterable[int], cpu: int) -> None:
    """Moves all threads of processes that we started to one CPU."""
    for pid in pids:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), {cpu})


def cpu_ns(pids: Iterable[int]) -> dict[int, int]:
    """Nanoseconds on a CPU, user and system, of every thread."""
    out: dict[int, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                out[int(task.name)] = int((task / "schedstat").read_text().split()[0])
    return out


def spent_us(before: dict[int, int], after: dict[int, int]) -> float:
    """Microseconds between two readings; a thread that ended in between is lost."""
    return sum(ns - before.get(task, 0) for task, ns in after.items()) / 1e3


def memory_mb(pid: int) -> tuple[float, float]:
    """Resident and proportional set size of one process, in MB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    values = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines[1:]}
    return values["Rss"], values["Pss"]


class Clock:
    """How long the run may still take: it starts nothing new after `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds

    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self.until


def busy_seconds() -> float:
    """CPU seconds that the whole machine has spent on anything."""
    fields = [int(v) for v in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
