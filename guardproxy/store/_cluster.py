"""A Redis Cluster: a `Server` for each primary, and the map of which slot lies where.

An org's keys lie in one slot, so a primary that is away concerns its own orgs only: its breaker opens, the others go
on. While one is away, and whenever a node says MOVED, the nodes are asked for the map: by it a replica that took over
gets its connection.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

from redis.crc import key_slot

from guardproxy.errors import StoreError
from guardproxy.store._address import Address, Place
from guardproxy.store._redirect import Redirected
from guardproxy.store._server import PROBE, OnChange, Server
from guardproxy.store._wire import Frozen, Lost, told

SLOTS = 16384
"""Of every cluster."""

ASKED = 8
"""Nodes that are asked for the map at once: what most of those say that answer holds."""

HOPS = 5
"""How often a call follows MOVED."""

MOVING_S = 0.02
"""Before a call is tried again whose slot is on its way to another node."""

KEYLESS = frozenset({"PING", "TIME"})
"""Commands without a key that any server may answer. (`each` is for those that all must.)"""

Map = tuple[tuple[int, int, Place], ...]
"""First slot, last slot, primary; in order."""


class Cluster:
    """The primaries of a cluster. See `_client.Client`; `timeout_s` bounds a call with all its redirections."""

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
        self._to = to
        self._scripts = scripts
        self._timeout_s = timeout_s
        self._probe_s = probe_s
        self._on_change = on_change
        self._replicas = replicas
        self._loop = asyncio.get_running_loop()
        self._servers: dict[Place, Server] = {}
        self._slots: list[Server | None] = [None] * SLOTS
        self._places = dict.fromkeys(to.seeds)
        self._tending: asyncio.Task[None] | None = None
        self._retiring: set[asyncio.Task[None]] = set()
        self._stale = True
        self._closed = False
        self._past = 0
        self.down = ""

    @property
    def up(self) -> bool:
        """Whether every slot is served."""
        return not self.down

    @property
    def generation(self) -> int:
        """Another number with every new connection to any primary."""
        return self._past + sum(server.generation for server in self._servers.values())

    async def start(self, *, required: bool = True) -> None:
        """Ask for the map and connect to all primaries. `StoreError` when `required` and one cannot be reached."""
        why = await self._look()
        if not why:
            starts = (server.start(required=required) for server in self._servers.values())
            found = await asyncio.gather(*starts, return_exceptions=True)
            why = next((str(error) for error in found if error), "")
        if why and required:
            await self.close()
            raise StoreError(f"the store {self._to.shown} cannot be reached: {why}")
        self._judge(why)

    async def run(self, script: str, key: bytes, arguments: tuple[bytes, ...]) -> object:
        """Run a script where its slot is. `StoreError` also while that slot moves: a script sees keys that are gone on
        ahead as absent, so it may run on neither side.
        """
        deadline = self._loop.time() + self._timeout_s
        server = self._at(key)
        for _ in range(HOPS):
            try:
                return await server.run(script, key, arguments, deadline)
            except Redirected as error:
                server = await self._onward(server, key, error, deadline)
        raise StoreError(f"the store {self._to.shown} sends calls in a circle")

    def run_soon(self, script: str, key: bytes, arguments: tuple[bytes, ...]) -> asyncio.Future[object] | None:
        """Run a script now; its answer is looked at with `ran`. None: its server is away."""
        server = self._slots[key_slot(key)]
        return server.run_soon(script, key, arguments) if server else None

    ran = staticmethod(Server.ran)

    async def command(self, *words: str | bytes | int) -> object:
        """Send a command where its key is, or one without a key to any server."""
        if words[0] in KEYLESS:
            return await self._any().command(*words)
        key = words[1] if isinstance(words[1], bytes) else str(words[1]).encode()
        deadline = self._loop.time() + self._timeout_s
        server, asking = self._at(key), False
        for _ in range(HOPS):
            try:
                return await server.command(*words, asking=asking)
            except Redirected as error:
                asking = error.kind == "ASK"  # one key, so it is there or comes to be there
                server = self._named(server, error) if asking else await self._onward(server, key, error, deadline)
        raise StoreError(f"the store {self._to.shown} sends calls in a circle")

    def command_soon(self, *words: str | bytes | int) -> bool:
        """Send one command now where its key should be, and ask for no answer. False: its server is away."""
        key = words[1] if isinstance(words[1], bytes) else str(words[1]).encode()
        server = self._slots[key_slot(key)]
        return server is not None and server.command_soon(*words)

    async def each(self, *words: str | bytes | int) -> list[object]:
        """Send a command without a key to every primary."""
        return await asyncio.gather(*(server.command(*words) for server in self._servers.values()))

    async def close(self) -> None:
        """End all connections."""
        self._closed = True
        tasks = [task for task in (self._tending, *self._retiring) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *(server.close() for server in self._servers.values()), return_exceptions=True)

    def _at(self, key: bytes) -> Server:
        server = self._slots[key_slot(key)]
        if server is None:
            self._tend()
            raise StoreError(f"the store {self._to.shown} has nobody for slot {key_slot(key)}: {self.down}")
        return server

    def _any(self) -> Server:
        servers = sorted(self._servers.values(), key=lambda server: not server.up)
        if not servers:
            raise StoreError(f"the store {self._to.shown} is away: {self.down}")
        return servers[0]

    async def _onward(self, server: Server, key: bytes, error: Redirected, deadline: float) -> Server:
        """Where a call goes on."""
        if error.kind == "MOVED":
            server = self._slots[error.slot] = self._named(server, error)
            self._stale = True
            self._tend()
            return server
        while self._loop.time() + MOVING_S < deadline:
            await asyncio.sleep(MOVING_S)
            if await self._rests(server, key):
                return server
        raise StoreError(f"the store {self._to.shown} moves slot {key_slot(key)} to another node") from error

    async def _rests(self, server: Server, key: bytes) -> bool:
        """Whether a slot has arrived, or is no longer being sent away: what `key` says, which is no key itself."""
        try:
            await server.command("EXISTS", key)
        except Redirected as error:
            return error.kind == "MOVED"
        return True

    def _named(self, by: Server, error: Redirected) -> Server:
        return self._server((error.host or by.to.host, error.port))

    def _server(self, place: Place) -> Server:
        if place not in self._servers:
            self._servers[place] = Server(
                self._to.at(place),
                self._scripts,
                timeout_s=self._timeout_s,
                probe_s=self._probe_s,
                on_change=self._changed,
                replicas=self._replicas,
            )
        return self._servers[place]

    def _changed(self, up: bool, reason: str) -> None:  # noqa: FBT001  # a callback's arguments
        self._stale = self._stale or not up
        self._judge(reason)

    def _judge(self, reason: str = "") -> None:
        """Whether all is served now; told once a change."""
        if self._closed:
            return
        serving = set(self._slots)
        down = next((server.down for server in serving if server and server.down), "")
        if not down and None in serving:
            down = reason or "slots that no node serves"
        changed, self.down = bool(down) != bool(self.down), down
        if changed and self._on_change is not None:
            self._loop.call_soon(self._on_change, not down, down or "the store answers again")
        if down or self._stale:
            self._tend()

    def _tend(self) -> None:
        if not self._closed and (self._tending is None or self._tending.done()):
            self._tending = self._loop.create_task(self._find())

    async def _find(self) -> None:
        """Ask for the map until all is served again."""
        while self._stale or self.down:
            self._stale = False
            why = await self._look()
            self._judge(why)
            await asyncio.sleep(self._probe_s)

    async def _look(self) -> str:
        """Take the map that most nodes give; why not, if none does."""
        places = list(self._places)[:ASKED]
        for place in places:  # those that were not asked now are the next time
            self._places[place] = self._places.pop(place)
        answers = await asyncio.gather(*(self._asked(place) for place in places))
        maps = Counter(answer for answer in answers if isinstance(answer, tuple))
        if not maps:
            return next((answer for answer in answers if isinstance(answer, str)), "it has no nodes")
        best = max(maps, key=lambda one: (maps[one], sum(last - first for first, last, _ in one)))
        self._take(best)
        return ""

    async def _asked(self, place: Place) -> Map | str:
        """The map as a node sees it, or why there is none. It also names nodes that may be asked another time."""
        try:
            raw: Any = await told(self._to.at(place), self._to.hello, ("CLUSTER", "SLOTS"), self._timeout_s)
            if not isinstance(raw, list):
                return str(raw)
            rows = [(row[0], row[1], [_place(node, place) for node in row[2:]]) for row in raw]
        except (OSError, Lost, Frozen, LookupError, TypeError, ValueError) as error:
            return f"{place[0]}:{place[1]}: {str(error) or type(error).__name__}"
        self._places |= {node: None for _, _, nodes in rows for node in nodes if node not in self._places}
        return tuple(sorted((first, last, nodes[0]) for first, last, nodes in rows)) or "it serves no slot"

    def _take(self, found: Map) -> None:
        slots: list[Server | None] = [None] * SLOTS
        for first, last, place in found:
            server = self._server(place)
            slots[first : last + 1] = [server] * (last + 1 - first)
            server.probe_key = _probe_in(first, last)
        self._slots = slots
        kept = {place for _, _, place in found}
        for place in [one for one in self._servers if one not in kept]:
            server = self._servers.pop(place)
            self._past += server.generation + 1
            task = self._loop.create_task(self._retire(server))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)

    async def _retire(self, server: Server) -> None:
        """Calls under way end by themselves."""
        try:
            await asyncio.sleep(2 * self._timeout_s)
        finally:
            await server.close()


def _place(node: list[Any], asked: Place) -> Place:
    """A node of the map. One that does not know its own name goes by that under which it was asked."""
    host = (node[0] or b"").decode()
    return (asked[0] if host in ("", "?") else host), int(node[1])


def _probe_in(first: int, last: int) -> str:
    """A key in a range of slots, so that the node that has it must say whether it takes writes."""
    for number in range(4 * SLOTS):
        key = f"{PROBE}:{{{number}}}"
        if first <= key_slot(key.encode()) <= last:
            return key
    return PROBE
