"""The parent process: owns the embedded store, the workers, the admin listener and the sweeper; serves no agent itself.

SIGTERM and SIGINT drain (a second one kills), SIGHUP reads the configuration again.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial

from guardproxy import secrets
from guardproxy.config import Config
from guardproxy.core.windows import Budget
from guardproxy.errors import ConfigError, GuardError
from guardproxy.http import greeting, reach, whereabouts
from guardproxy.http.admin import Sight
from guardproxy.http.crew import Crew
from guardproxy.http.exporting import Exporter
from guardproxy.http.gauges import Gauges
from guardproxy.http.operators import Operators
from guardproxy.http.standing import Loaded, Standing
from guardproxy.http.sweeper import Sweeper, bury, claim
from guardproxy.http.switch import Switch
from guardproxy.http.worker import listener
from guardproxy.store import embedded
from guardproxy.store.redis import Store
from guardproxy.telemetry import Fleet, Snapshot, Telemetry

TEND_SECONDS = 0.5
"""Between two looks at the store; without it budgets are counted by each worker alone."""

RETRY_SECONDS = 5.0
"""After a store that could not be started: a try may hold up this process for as long again."""


_log = logging.getLogger(__name__)


class Parent:
    """One `guardproxy serve`. `first`: its configuration; `load` reads it again at SIGHUP.

    `where`: options with which commands reach its store.
    """

    def __init__(self, load: Callable[[], Loaded], first: Loaded, secret: str, where: str = "") -> None:
        self._standing = Standing(load, first)
        self._where = where
        self._secret = secret
        self._fleet = Fleet()
        self._draining = False
        self._stop = asyncio.Event()
        self._opening: asyncio.Task[object] | None = None
        self._busy: set[asyncio.Task[None]] = set()

    @property
    def _config(self) -> Config:
        return self._standing.config

    async def run(self, say: Callable[[str], None]) -> None:
        """Serve until told to stop. `say` gets what a person reads first. Raises GuardError if it cannot start."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):  # now: the first process of a container heeds no others
            loop.add_signal_handler(number, self._end)
        async with AsyncExitStack() as stack:
            if not await self._opened(stack):
                return
            loop.add_signal_handler(signal.SIGHUP, self._reload_soon)
            for line in greeting.lines(self._config, self._port, self._admin_url, self._where):
                say(line)
            await self._stop.wait()
            self._draining = True
            _log.info("draining: no new requests, streams finish")

    async def _opened(self, stack: AsyncExitStack) -> bool:
        """False when it was told to end meanwhile."""
        self._opening = asyncio.current_task()
        try:
            await self._open(stack)
        except asyncio.CancelledError:
            if self._opening is None or not self._stop.is_set():
                raise
            self._opening.uncancel()
            return False
        finally:
            self._opening = None
        return True

    async def _open(self, stack: AsyncExitStack) -> None:
        """Everything in the order in which it is needed; it is closed in the opposite one."""
        config = self._config
        self._port = stack.enter_context(_reserve(config.listen.host, config.listen.port, "listen"))
        self._embedded = self._own_store(stack)
        self._telemetry = Telemetry(config.telemetry, secrets.derive(self._secret).trace, "parent")
        stack.push_async_callback(self._telemetry.shutdown)
        _name_bad_prices(config)
        section, path = config.store, self._socket_path or None
        self._store = await Store.connect(
            section.url,
            socket_path=path,
            timeout_ms=section.timeout_ms,
            files=section.tls,
            replicas=section.wait_replicas,
            kept=reach.retention(config),
        )
        stack.push_async_callback(self._store.close)
        self._telemetry.claim = partial(claim, self._store)
        await self._store.check_policy()
        await self._store.check_schema()
        self._crew = Crew(config.listen.workers, self._start, self._fleet, lambda mark: bury(self._store, mark))
        await self._standing.open(self._store, self._crew.reload)
        self._switch = Switch(self._store)
        keys = secrets.derive(self._secret)
        self._operators = Operators(config.admin, self._store, keys, self._switch, self._standing)
        stack.callback(self._crew.kill)
        await self._admin(stack)
        await self._crew.open()
        self._in_background(stack, self._tend())
        stack.push_async_callback(self._drain)
        gauges = Gauges(self._store, self._telemetry, self._budgets_in_file)
        steps = self._crew.collect, Exporter(self._store, lambda: self._config.usage).step, gauges.step
        self._in_background(stack, Sweeper(self._store, self._telemetry, steps).run())

    def _budgets_in_file(self) -> Sequence[Budget]:
        return self._config.budget_values()

    def _in_background(self, stack: AsyncExitStack, work: Coroutine[object, object, None]) -> None:
        stack.callback(asyncio.get_running_loop().create_task(work).cancel)

    async def _drain(self) -> None:
        """The workers finish; meanwhile what the parent has to report is sent: nothing is added any more."""
        await asyncio.gather(self._crew.drain(), self._telemetry.shutdown())

    async def _tend(self) -> None:
        """Bring the store back soon after it died, and tell it what it missed."""
        pause = TEND_SECONDS
        while True:
            await asyncio.sleep(pause)
            try:
                await self._revive()
                await self._operators.tend()
                await self._standing.look()
                pause = TEND_SECONDS
            except Exception as error:  # noqa: BLE001 - whatever it is, the store is needed
                _log.warning("the embedded store cannot be started anew: %s", error)
                pause = RETRY_SECONDS

    def _own_store(self, stack: AsyncExitStack) -> embedded.Embedded | None:
        """Start the store of our own where no URL is given: in the main thread, as it dies with the one that did."""
        if self._config.store.url:
            return None
        running = embedded.start(self._config.data_dir)
        stack.callback(self._stop_store)
        return running

    def _stop_store(self) -> None:
        if self._embedded is not None:
            self._embedded.stop()

    @property
    def _socket_path(self) -> str:
        return self._embedded.socket_path if self._embedded else ""

    async def _revive(self) -> None:
        """Start our store anew if it has died; the workers find it again at the same place."""
        old = self._embedded
        if old is None:
            return
        if old.process is not None and old.process.poll() is None:
            return  # it may be frozen or busy: killing it would lose what it has not written
        if old.process is None and embedded.answers(old.socket_path):
            return  # another proxy's, or one that we started and did not see come up
        old.stop()
        self._embedded = embedded.start(self._config.data_dir)
        _log.warning("the embedded store had ended and was started anew")
        if self._embedded.socket_path != old.socket_path:
            self._crew.renew()

    async def _admin(self, stack: AsyncExitStack) -> None:
        sight = Sight(
            workers=lambda: self._crew.ready,
            draining=lambda: self._draining,
            refused=lambda: self._standing.refused,
            upstreams=lambda: self._config.addresses,
            store=self._store_fit,
            store_needed=lambda: self._config.store.on_failure == "closed",
            metrics=self._metrics,
            panic=self._switch.panic,
        )
        try:
            await self._operators.open(stack, sight)
        except OSError as error:
            raise _cannot_listen("admin", self._config.admin.host, self._config.admin.port, error) from error
        whereabouts.tell(self._config, self._operators.mark, self._admin_url)
        stack.callback(whereabouts.forget, self._config, self._operators.mark)

    @property
    def _admin_url(self) -> str:
        return f"{self._operators.scheme}://{greeting.shown(self._config.admin.host)}:{self._operators.port}"

    def _start(self, name: str) -> dict[str, object]:
        """What a new worker is to serve."""
        return {
            "document": self._standing.document,
            "secret": self._secret,
            "socket_path": self._socket_path,
            "host": self._config.listen.host,
            "port": self._port,
            "name": name,
            "where": self._where,
        }

    async def _store_fit(self) -> None:
        await self._store.ping()
        await self._store.check_policy()

    async def _metrics(self) -> Snapshot:
        await self._crew.collect()
        return self._fleet.total(self._telemetry.snapshot())

    def _end(self) -> None:
        if self._draining:
            _log.warning("told twice: the workers are killed")
            self._crew.kill()
        self._stop.set()
        if self._opening is not None:
            self._opening.cancel()

    def _reload_soon(self) -> None:
        task = asyncio.get_running_loop().create_task(self._reload())
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    async def _reload(self) -> None:
        """Read the configuration again and swap it in; a bad one is refused and the old one stays."""
        changed = await self._standing.reload()
        if changed is None:
            return
        _name_bad_prices(self._config)
        try:
            await self._operators.reload(changed)
        except GuardError as error:
            _log.error("the old certificate stays: %s", error.message)


def _name_bad_prices(config: Config) -> None:
    """One line each in the log; the other prices of the file are used."""
    for complaint in config.price_list().complaints():
        _log.warning("%s", complaint)


class _reserve:  # noqa: N801 - used like a function
    """The port, kept for our workers: bound, never listening.

    Bound alone first: two proxies of one user would otherwise share the port without a word.
    """

    def __init__(self, host: str, port: int, section: str) -> None:
        try:
            listener(host, port, shared=False).close()
            self._socket: socket.socket = listener(host, port)
        except OSError as error:
            raise _cannot_listen(section, host, port, error) from error

    def __enter__(self) -> int:
        return int(self._socket.getsockname()[1])

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def _cannot_listen(section: str, host: str, port: int, error: OSError) -> ConfigError:
    return ConfigError(f"cannot listen on {host}:{port} ({section}): {error.strerror or error}; choose another port")


def serve(load: Callable[[], Loaded], env: Mapping[str, str], say: Callable[[str], None], where: str = "") -> None:
    """Run the parent. Raises GuardError, in words for the operator, when it cannot start. `where`: see `Parent`."""

    async def main() -> None:
        config, document = load()
        secret = secrets.find(env, config.data_dir, shared_store=bool(config.store.url))
        await Parent(load, (config, document), secret, where).run(say)

    asyncio.run(main())
