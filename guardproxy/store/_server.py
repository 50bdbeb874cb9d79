"""Scripts and commands over one connection at a time: reconnecting, a time limit a call, and a circuit breaker.

A store that is away may cost one request its time limit, and then nothing: the breaker answers at once and a probe in
the background finds out when the store is back.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from hashlib import sha1

import hiredis

from guardproxy.errors import StoreError
from guardproxy.store._address import Address
from guardproxy.store._redirect import redirected
from guardproxy.store._replicas import REPLICATED, Replicas
from guardproxy.store._sentinel import primary
from guardproxy.store._wire import Frozen, Lost, Wire, pack

OnChange = Callable[[bool, str], None]
"""Told `(up, reason)`, once a change."""

NAME = "guardproxy"
"""What `CLIENT LIST` shows of us."""


PROBE = "gp:probe"
"""A key that is written, for a moment, to see that the server takes writes again."""

_READS_ONLY = re.compile(r"(?:^|[\s:]-)(?:OOM|MISCONF|READONLY|NOREPLICAS|LOADING|MASTERDOWN|CLUSTERDOWN)\s")
"""Errors of a server that answers and keeps nothing: memory or disk full, a replica, a cluster without one of its
primaries. In front, or behind the script."""


class Server:
    """A connection that comes back. `timeout_s` bounds each call in all: connecting, resending, loading a script."""

    def __init__(
        self,
        to: Address,
        scripts: Mapping[str, str],
        *,
        timeout_s: float,
        probe_s: float,
        on_change: OnChange | None,
        replicas: int = 0,
    ) -> None:
        self.to = to
        self._sources = [source.encode() for source in scripts.values()]
        # Redis names scripts by SHA-1; nothing is protected by it.
        self._sha = {name: sha1(source.encode(), usedforsecurity=False).hexdigest() for name, source in scripts.items()}
        self._source = dict(zip(self._sha.values(), self._sources, strict=True))
        self._timeout_s = timeout_s
        self._probe_s = probe_s
        self._on_change = on_change
        self._replicas = Replicas(replicas, lambda: self._wire, self._fall) if replicas else None
        self._loop = asyncio.get_running_loop()
        self._wire: Wire | None = None
        self._connecting: asyncio.Task[Wire] | None = None
        self._probing: asyncio.Task[None] | None = None
        self._closed = False
        self.generation = 0
        self.down = ""
        self.probe_key = PROBE

    @property
    def up(self) -> bool:
        """Whether the breaker lets calls through."""
        return not self.down

    async def start(self, *, required: bool = True) -> None:
        """Connect. If that fails: `StoreError` when `required`, else the breaker opens and the probe goes on."""
        try:
            await self._reach(self._loop.time() + self._timeout_s)
        except StoreError:
            if required:
                await self.close()
                raise

    async def run(self, script: str, key: bytes, arguments: tuple[bytes, ...], deadline: float | None = None) -> object:
        """Run a script by its name. `StoreError` also when it fails in the server. `deadline`: on the loop's clock."""
        sha = self._sha[script]
        deadline = deadline or self._loop.time() + self._timeout_s
        packed = pack(("EVALSHA", sha, 1, key, *arguments))
        wire = self._wire
        if wire is None:
            reply = await self._ask(packed, deadline)
        else:  # mostly; and a layer less
            try:
                reply = await wire.send(packed, deadline)
            except (Lost, Frozen) as error:
                reply = await self._ask(packed, deadline, failed=error)
        if isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT"):
            load = pack(("SCRIPT", "LOAD", self._source[sha]))
            reply = await self._ask(load + packed, deadline, answers=2)
        taken = self._taken(reply)
        if self._replicas and script in REPLICATED:
            await self._replicas.keep(deadline)
        return taken

    def run_soon(self, script: str, key: bytes, arguments: tuple[bytes, ...]) -> asyncio.Future[object] | None:
        """Run a script now; its answer is looked at with `ran`. None: there is no connection."""
        if self._wire is None:
            return None
        packed = pack(("EVALSHA", self._sha[script], 1, key, *arguments))
        reply = self._wire.send(packed, self._loop.time() + self._timeout_s)
        self._wire.flush()
        return reply

    @staticmethod
    def ran(reply: asyncio.Future[object]) -> bool:
        """Whether a script did what it should; if not, `run` will, or says why not."""
        failed = reply.cancelled() or reply.exception() is not None
        return not failed and not isinstance(reply.result(), hiredis.ReplyError)

    async def command(self, *words: str | bytes | int, asking: bool = False) -> object:
        """Send one command. `StoreError` when it fails. `asking`: about a key that is on its way to this server."""
        packed = pack(("ASKING",)) + pack(words) if asking else pack(words)
        return self._taken(await self._ask(packed, self._loop.time() + self._timeout_s, answers=1 + asking))

    async def each(self, *words: str | bytes | int) -> list[object]:
        """The answers of all servers that share the keys: of this one."""
        return [await self.command(*words)]

    def command_soon(self, *words: str | bytes | int) -> bool:
        """Send one command now, and ask for no answer: it is one that may be lost. False: there is no connection."""
        if self._wire is None:
            return False
        self._wire.send(pack(words), self._loop.time() + self._timeout_s).add_done_callback(_let_be)
        self._wire.flush()
        return True

    async def close(self) -> None:
        """End the connection and the probe."""
        self._closed = True
        for task in (self._probing, self._connecting):
            if task and not task.done():
                task.cancel()
                await asyncio.wait([task])
        if self._wire:
            self._wire.close()

    async def _ask(
        self, packed: bytes, deadline: float, *, answers: int = 1, failed: Lost | Frozen | None = None
    ) -> object:
        """Every call is safe to send twice, so a lost connection is tried once more. `failed`: how a first try was."""
        for last in (False, True) if failed is None else (True,):
            if isinstance(failed, Frozen):
                break
            try:
                wire = self._wire or await self._reach(deadline)
            except StoreError as error:
                error.unsent = failed is None
                raise
            try:
                return await wire.send(packed, deadline, answers=answers)
            except Lost as error:
                failed = error
                if last:
                    self._fall(str(error))
            except Frozen:
                break
        raise StoreError(f"the store {self.to.shown} does not answer: {self.down or 'no answer in time'}")

    async def _reach(self, deadline: float) -> Wire:
        """The connection, made if need be. At once a `StoreError` while the breaker is open."""
        if self.down or self._closed:
            raise StoreError(f"the store {self.to.shown} is away: {self.down or 'closed'}")
        task = self._connect()
        await asyncio.wait([task], timeout=max(0.0, deadline - self._loop.time()))
        if not task.done():
            self._fall("no connection in time")
        elif (error := task.exception()) is None:
            return task.result()
        else:
            self._fall(str(error) or type(error).__name__)
        raise StoreError(f"the store {self.to.shown} cannot be reached: {self.down}")

    def _connect(self) -> asyncio.Task[Wire]:
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._dial())
            self._connecting.add_done_callback(self._dialled)
        return self._connecting

    def _dialled(self, task: asyncio.Task[Wire]) -> None:
        if self._connecting is task:
            self._connecting = None
        if not task.cancelled():
            task.exception()  # seen, also when nobody waits any more

    async def _dial(self) -> Wire:
        """Connect, say who we are, load the scripts: one trip, within the time limit of a call."""
        deadline = self._loop.time() + self._timeout_s
        async with asyncio.timeout(self._timeout_s):
            to = await primary(self.to, self._timeout_s) if self.to.service else self.to
            wire = await Wire.open(to, self._ended)
        commands: list[tuple[str | bytes, ...]] = [*self.to.hello, ("CLIENT", "SETNAME", NAME)]
        commands += [("SCRIPT", "LOAD", source) for source in self._sources]
        commands.append(("PING",))
        try:
            replies = [wire.send(pack(command), deadline) for command in commands]
            for reply in await asyncio.gather(*replies):
                if isinstance(reply, hiredis.ReplyError):
                    raise self._refused(reply)
        except BaseException:
            wire.close("not connected")
            raise
        if wire.reason:
            raise Lost(wire.reason)
        if self._wire:
            self._wire.close("replaced")
        self._wire = wire
        self.generation += 1
        return wire

    def _ended(self, wire: Wire, reason: str, frozen: bool) -> None:  # noqa: FBT001  # a callback's arguments
        if wire is not self._wire:
            return
        self._wire = None
        if frozen:
            self._fall(reason)
        elif not self._closed and not self.down:
            self._connect().add_done_callback(self._back_or_down)

    def _back_or_down(self, task: asyncio.Task[Wire]) -> None:
        """Nobody may be calling when the server goes; the change is told all the same."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fall(str(error) or type(error).__name__)

    def _fall(self, reason: str) -> None:
        if self.down or self._closed:
            return
        self.down = reason
        if self._wire:
            self._wire.close(reason)
        self._tell(False, reason)
        self._probing = self._loop.create_task(self._probe())

    async def _probe(self) -> None:
        while not self._closed:
            await asyncio.sleep(self._probe_s)
            try:
                if self._wire is None:
                    await asyncio.wait([task := self._connect()])
                    task.result()
                await self._write()
            except (StoreError, OSError, Lost, Frozen, TimeoutError):
                continue
            self.down = ""
            self._tell(True, "the store answers again")
            return

    async def _write(self) -> None:
        """See that the server takes a write. What else it may say to this one (key patterns, slots) is no outage."""
        if self._wire is None:
            raise Lost("the connection was lost")
        packed = pack(("SET", self.probe_key, "1", "PX", 1000))
        reply = await self._wire.send(packed, self._loop.time() + self._timeout_s)
        if isinstance(reply, hiredis.ReplyError) and _READS_ONLY.search(str(reply)):
            raise self._refused(reply)
        if self._replicas:
            await self._replicas.have(self._wire, self._loop.time() + self._timeout_s)

    def _taken(self, reply: object) -> object:
        """A reply that is no error. A server that takes no writes is away: it would count nothing."""
        if isinstance(reply, hiredis.ReplyError):
            if _READS_ONLY.search(str(reply)):
                self._fall(str(reply))
            raise self._refused(reply)
        return reply

    def _tell(self, up: bool, reason: str) -> None:  # noqa: FBT001  # a callback's one argument is the state
        if self._on_change is not None:
            self._loop.call_soon(self._on_change, up, reason)

    def _refused(self, reply: object) -> StoreError:
        return redirected(str(reply)) or StoreError(f"the store {self.to.shown} refused: {reply}")


def _let_be(reply: asyncio.Future[object]) -> None:
    """See an answer that nobody waits for: what went wrong shows with the next call."""
    if not reply.cancelled():
        reply.exception()
