"""Counts what a proxy's embedded store is asked, with the MONITOR command on its unix socket."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

LINE = re.compile(rb'^\+\d+\.\d+ \[\d+ (\S+)\] "([^"]+)"', re.MULTILINE)
IDLE = {"PING", "HELLO", "CLIENT", "INFO", "SELECT", "AUTH", "CONFIG", "MONITOR"}  # not part of a turn


def socket_of(pids: Iterable[int]) -> str | None:
    """The path of the unix socket that one of the processes listens on."""
    inodes = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            inodes |= {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) == 8 and f"socket:[{fields[6]}]" in inodes and fields[3] == "00010000":  # accepts connections
            return fields[7]
    return None


class Monitor:
    """Collects the commands that clients send while the context is open; those of scripts are left out."""

    def __init__(self, path: str) -> None:
        self.peer = socket.socket(socket.AF_UNIX)
        self.peer.settimeout(10)
        self.peer.connect(path)
        self.peer.sendall(b"*1\r\n$7\r\nMONITOR\r\n")
        self.peer.recv(5)
        self.seen = bytearray()
        self.thread = threading.Thread(target=self.collect, daemon=True)

    def collect(self) -> None:
        """Reads until the socket is shut."""
        with contextlib.suppress(OSError):
            while data := self.peer.recv(1 << 18):
                self.seen += data

    def __enter__(self) -> Monitor:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.peer.shutdown(socket.SHUT_RDWR)
        self.thread.join(5)
        self.peer.close()

    def commands(self) -> Counter[str]:
        """How often each command came from a client."""
        return count(bytes(self.seen))


def count(lines: bytes) -> Counter[str]:
    """Commands by name in the output of MONITOR, without those that scripts ran and those of idle connections."""
    found = Counter(m[2].decode().upper() for m in LINE.finditer(lines) if m[1] != b"lua")
    return Counter({name: n for name, n in found.items() if name not in IDLE})
