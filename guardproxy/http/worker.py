"""One worker process: assembles a `Proxy` from the configuration, serves it on a shared port, drains and reports.

Started by the parent as `python -m guardproxy.http.worker FD`; everything else comes over that descriptor. It never
outlives its parent.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from guardproxy import config as configs, secrets
from guardproxy.config import Config
from guardproxy.errors import GuardError
from guardproxy.http import reach
from guardproxy.http.app import Proxy
from guardproxy.http.assembly import assemble
from guardproxy.http.control import Channel
from guardproxy.http.server import Server
from guardproxy.http.sweeper import claim
from guardproxy.store.redis import Store
from guardproxy.telemetry import Telemetry

if TYPE_CHECKING:
    from guardproxy.http.request import Request
    from guardproxy.http.streamed import Response

DRAIN_SECONDS = 30.0
"""How long streams may go on after SIGTERM. Orchestrators kill after 30 s by default, and holds must be settled."""

_log = logging.getLogger(__name__)

_ORPHANED = 70  # exit code; the parent that would read it is dead


@dataclass(frozen=True, slots=True)
class Start:
    """What the parent tells a worker. `socket_path`: of the embedded store, empty with a URL. `name` is unique.

    `where`: options with which commands reach the store.
    """

    document: Mapping[str, Any]
    secret: str
    socket_path: str
    host: str
    port: int
    name: str
    where: str = ""


class Worker:
    """The process's state: what serves now, and what must be closed in which order."""

    def __init__(self, start: Start, channel: Channel) -> None:
        self._start = start
        self._channel = channel
        self._keys = secrets.derive(start.secret)
        self._retired: dict[asyncio.Task[None], Proxy] = {}

    async def open(self) -> None:
        """Build everything and listen. Raises GuardError or OSError."""
        config = configs.build(self._start.document)
        self.telemetry = Telemetry(config.telemetry, self._keys.trace, self._start.name)
        self.store = await Store.connect(
            config.store.url,
            socket_path=self._start.socket_path or None,
            timeout_ms=config.store.timeout_ms,
            on_change=self._store_changed,
            files=config.store.tls,
            replicas=config.store.wait_replicas,
            kept=reach.retention(config),
            required=False,  # the parent has seen it; a worker that is started anew must serve without it too
        )
        self.telemetry.claim = partial(claim, self.store)
        self.proxy = self._assemble(config)
        await self.proxy.start()
        self.telemetry.watch("guardproxy.requests.in_flight", self._in_flight)
        self._server = Server(self._handle, self.proxy.malformed)
        await self._server.listen(listener(self._start.host, self._start.port))

    def _assemble(self, config: configs.Config) -> Proxy:
        return assemble(config, self._keys, self.store, self.telemetry, where=self._start.where)

    def _in_flight(self) -> int:
        return sum(proxy.in_flight for proxy in (self.proxy, *list(self._retired.values())))

    def _store_changed(self, up: bool, reason: str) -> None:  # noqa: FBT001 - the store's signature
        """One line each way, and a count."""
        if up:
            _log.warning("the store answers again")
        else:
            _log.warning("the store does not answer: %s", reason)
        self.telemetry.count("guardproxy.store.changes", {"state": "up" if up else "down"})

    def _handle(self, request: Request) -> Awaitable[Response]:
        """Connections live longer than configurations: each request is for the proxy of its moment."""
        return self.proxy.handle(request)

    async def reload(self, document: Mapping[str, Any]) -> None:
        """Swap in a proxy of another configuration; requests under way keep the old one until they are done."""
        config = await asyncio.to_thread(_prepared, document)
        fresh = self._assemble(config)
        await fresh.start()
        old, self.proxy = self.proxy, fresh
        closing = asyncio.get_running_loop().create_task(_retire(old))
        self._retired[closing] = old
        closing.add_done_callback(self._retired.pop)

    async def close(self) -> None:
        """Take no more, let what runs finish, settle, flush: in this order, as each needs the one after it."""
        for proxy in (self.proxy, *self._retired.values()):  # what a person is waited for in an older one, too
            proxy.draining = True
        await self._server.close(DRAIN_SECONDS)
        if self._retired:
            await asyncio.wait(self._retired, timeout=1)
        await self.proxy.close()
        await self.telemetry.shutdown()
        await self._channel.send("snapshot", snapshot=self.telemetry.snapshot().to_json().decode())
        await self.store.close()


def _prepared(document: Mapping[str, Any]) -> Config:
    """A configuration whose large parts are read: a price file or many policies take a quarter of a second, and streams
    must not stand so long.
    """
    config = configs.build(document)
    config.price_list()
    _ = config.in_force
    return config


async def _retire(proxy: Proxy) -> None:
    while proxy.in_flight or proxy.arriving:  # noqa: ASYNC110 - counted in the hot path, where an event would cost every request
        await asyncio.sleep(0.1)
    await proxy.close()


def listener(host: str, port: int, *, shared: bool = True) -> socket.socket:
    """A bound socket. `shared`: other sockets of this user may bind the port too; the kernel spreads connections."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies (Linux; elsewhere the channel's end does it)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, prctl(2)


async def run(descriptor: int) -> int:
    """Serve until told to drain; the exit code."""
    channel = await Channel.over(socket.socket(fileno=descriptor))
    told = await channel.receive()
    if told is None:
        return _ORPHANED
    worker = Worker(Start(**{name: value for name, value in told.items() if name != "do"}), channel)
    try:
        await worker.open()
    except (GuardError, OSError) as error:
        await channel.send("failed", wrong=str(error))
        return 1
    except Exception as error:  # noqa: BLE001 - the parent says it in one line
        await channel.send("failed", wrong=f"a worker cannot start: {type(error).__name__}: {error}")
        return 1
    gc.collect()
    gc.freeze()  # what is alive now stays alive: the collector need not look at it again
    gc.set_threshold(20_000, 20, 20)  # a turn makes thousands of values and hardly a cycle; 700 means a pass every turn
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    obeying = asyncio.get_running_loop().create_task(_obey(worker, channel, stop))
    await channel.send("ready", mark=worker.proxy.mark)
    await stop.wait()
    await worker.close()
    obeying.cancel()
    return 0


async def _obey(worker: Worker, channel: Channel, stop: asyncio.Event) -> None:
    while (told := await channel.receive()) is not None:
        match told.get("do"):
            case "snapshot":
                await channel.send("snapshot", snapshot=worker.telemetry.snapshot().to_json().decode())
            case "reload":
                wrong = await _reloaded(worker, told["document"])
                await channel.send("reloaded", wrong=wrong, mark=worker.proxy.mark)
            case "drain":
                stop.set()
    os._exit(_ORPHANED)  # the store died with the parent: there is nothing left to settle with


async def _reloaded(worker: Worker, document: Mapping[str, Any]) -> str:
    try:
        await worker.reload(document)
    except (GuardError, OSError) as error:
        return str(error)
    return ""


def main() -> int:
    """Entry point of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C reaches the whole group; the parent tells us when
    die_with_parent()
    try:
        import uvloop  # noqa: PLC0415 - absent on Windows

        return uvloop.run(run(int(sys.argv[1])))
    except ImportError:
        return asyncio.run(run(int(sys.argv[1])))


if __name__ == "__main__":
    sys.exit(main())
