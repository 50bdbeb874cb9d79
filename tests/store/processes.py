"""Real servers on loopback: a Redis Cluster, or a primary with its replica and a Sentinel. Each is ended by its id."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hiredis
import redis
from redis.crc import key_slot

NODE_TIMEOUT_MS = 600
WITHIN_S = 20.0
PASSWORD = "a word of this test's own"


def free_ports(count: int, above: int = 0) -> list[int]:
    """Ports that nobody has; with `above`, also those so much higher (a cluster's nodes talk to each other there)."""
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(found) < count:
            one = stack.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            if port + above > 65535:
                continue
            other = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                other.bind(("127.0.0.1", port + above if above else 0))
                found.append(port)
    return found


def until(true: Callable[[], Any], what: str, seconds: float = WITHIN_S) -> Any:
    began = time.monotonic()
    while True:
        with contextlib.suppress(redis.RedisError, OSError):
            if found := true():
                return found
        assert time.monotonic() - began < seconds, what
        time.sleep(0.02)


@dataclass
class Node:
    """One process."""

    port: int
    process: subprocess.Popen[bytes]

    def ask(self, *words: str | int) -> Any:
        """One command on a connection of its own."""
        with redis.Redis(port=self.port, socket_timeout=5) as made:
            return made.execute_command(*words)

    def ask_all(self, commands: Sequence[tuple[str | int, ...]]) -> list[Any]:
        """Many in one trip."""
        with redis.Redis(port=self.port, socket_timeout=5) as made, made.pipeline(transaction=False) as line:
            for words in commands:
                line.execute_command(*words)
            return line.execute()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def start(folder: Path, port: int, *options: str) -> Node:
    """A redis-server without persistence."""
    own = folder / str(port)
    own.mkdir(exist_ok=True)
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(own), "--save", ""]
    words += ["--maxmemory-policy", "noeviction", "--daemonize", "no", *options]
    with (own / "log").open("wb") as log:
        return Node(port, subprocess.Popen(words, stdout=log, stderr=log))


@dataclass
class Nodes:
    """Three primaries, each with `replicas`. `socket_path`: there is none."""

    folder: Path
    nodes: list[Node] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    socket_path: None = None

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.living()[:2])

    def restart(self, node: Node) -> None:
        """Bring a killed one back; what it was it knows from its directory."""
        node.process = start(self.folder, node.port, *self.options).process

    def living(self) -> list[Node]:
        return [node for node in self.nodes if node.process.poll() is None]

    def _map(self) -> list[Any]:
        """By one that is in the cluster's majority."""
        return until(lambda: self.living()[-1].ask("CLUSTER", "SLOTS"), "a map")

    def primary_of(self, key: str) -> Node:
        slot = key_slot(key.encode())
        [port] = {row[2][1] for row in self._map() if row[0] <= slot <= row[1]}
        return next(node for node in self.nodes if node.port == port)

    def replica_of(self, primary: Node) -> Node:
        row, *_ = [row for row in self._map() if row[2][1] == primary.port]
        return next(node for node in self.nodes if node.port == row[3][1])

    def whole(self) -> bool:
        """Whether all nodes that live say that all slots are served, by nodes that live and have their replicas."""
        living = {node.port for node in self.living()}
        for node in self.living():
            if b"cluster_state:ok" not in _raw(node, "CLUSTER", "INFO"):
                return False
            rows = node.ask("CLUSTER", "SLOTS")
            if (
                sum(row[1] - row[0] + 1 for row in rows) != 16384
                or {one[1] for row in rows for one in row[2:]} != living
            ):
                return False
            if b"master_link_status:down" in _raw(node, "INFO", "replication"):
                return False
        return True


def _raw(node: Node, *words: str) -> bytes:
    with socket.create_connection(("127.0.0.1", node.port), 5) as made:
        made.sendall(hiredis.pack_command(words))  # type: ignore[arg-type]
        reader = hiredis.Reader()
        while (reply := reader.gets()) is False:
            reader.feed(made.recv(65536))
    return reply if isinstance(reply, bytes) else repr(reply).encode()


@contextlib.contextmanager
def cluster(replicas: int = 0, options: Sequence[str] = ()) -> Iterator[Nodes]:
    """Made by hand: MEET, ADDSLOTSRANGE, REPLICATE."""
    with tempfile.TemporaryDirectory() as folder:
        made = Nodes(Path(folder))
        try:
            own = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS)]
            own += ["--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0", "--appendonly", "no"]
            own += ["--cluster-replica-validity-factor", "0", "--repl-ping-replica-period", "1"]
            made.options = [*own, *options]
            for port in free_ports(3 * (1 + replicas), above=10_000):
                made.nodes.append(start(made.folder, port, *made.options))
            _join(made)
            yield made
        finally:
            for node in made.living():
                node.kill()


def _join(made: Nodes) -> None:
    for node in made.nodes:
        until(lambda node=node: node.ask("PING"), "a node that answers")
    first, primaries = made.nodes[0], made.nodes[:3]
    for number, node in enumerate(primaries):
        share = range(16384 * number // 3, 16384 * (number + 1) // 3)
        node.ask("CLUSTER", "ADDSLOTSRANGE", share[0], share[-1])
        node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
    for node in made.nodes[1:]:
        node.ask("CLUSTER", "MEET", "127.0.0.1", first.port)
    until(
        lambda: all(
            b"cluster_known_nodes:%d" % len(made.nodes) in _raw(node, "CLUSTER", "INFO") for node in made.nodes
        ),
        "nodes that know each other",
    )
    for number, node in enumerate(made.nodes[3:]):
        name = _raw(primaries[number % 3], "CLUSTER", "MYID").decode()
        until(lambda node=node, name=name: node.ask("CLUSTER", "REPLICATE", name), "a replica")
    for node in made.nodes[3:]:
        until(lambda node=node: b"master_link_status:up" in _raw(node, "INFO", "replication"), "a replica in step")
    until(made.whole, "a whole cluster")
