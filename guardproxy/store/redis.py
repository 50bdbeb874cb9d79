"""The store: what `core.view` asks for, over the Redis protocol. Two trips a turn, `begin` and `settle`.

Every method raises `StoreError` when the server does not answer in time; see `_client` for how long that may take.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from guardproxy.core.memo import Memo
from guardproxy.core.model import Line
from guardproxy.core.view import Closing, Opening, View
from guardproxy.errors import StoreError
from guardproxy.store import _codec
from guardproxy.store._address import Files, address
from guardproxy.store._client import Client, client, refuse_eviction
from guardproxy.store._scripts import USUAL, Retention, sources
from guardproxy.store._server import OnChange
from guardproxy.store.approvals import Approvals
from guardproxy.store.audit import Audit
from guardproxy.store.background import Background
from guardproxy.store.chains import Chains
from guardproxy.store.checkpoints import Checkpoints
from guardproxy.store.erasures import Erasures
from guardproxy.store.known import Known, known
from guardproxy.store.labels import Labels
from guardproxy.store.meter import Meter
from guardproxy.store.orphans import Orphans
from guardproxy.store.policies import Policies
from guardproxy.store.registry import Registry
from guardproxy.store.runs import Runs
from guardproxy.store.schema import Schema
from guardproxy.store.stays import Stays
from guardproxy.store.tokens import Tokens
from guardproxy.store.usages import Usages

ORGS = "gp:orgs"
"""Set of the orgs seen, for the sweeper. No TTL."""

PANIC = "gp:panic"
"""The panic switch, for orgs that appear while it is on; each known org has its own copy, in its own slot. No TTL."""

AT_ONCE = 256
"""Tokens or sessions taken in one go by `sweep` and `idle_sessions`: bounds a script's time."""

RECORDS = 256
"""Turn records of a session that are shown; some more may be kept for a while."""

NEWEST = 2
"""Rounds of a known conversation sent to `begin`: the last one, and one to spare."""

KNOWN = 8_000
"""Conversations remembered for that, up to twice as many; some 100 bytes each."""

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Swept:
    """A hold whose lease had ended: settled with use = hold. `turn` 0: of a session that is gone."""

    org: str
    token: str
    session: str
    thread: str
    turn: int


class Store:
    """One connection to the store, for one event loop. Make it with `connect`."""

    def __init__(self, client: Client, kept: Retention = USUAL) -> None:
        self._client = client
        self.stays = Stays(client)
        self.orphans = Orphans(client)
        self.labels = Labels(client)
        self.approvals = Approvals(client)
        self.runs = Runs(client, kept.runs_ms)
        self.registry = Registry(client)
        self.chains = Chains(client)
        self.background = Background(client)
        self.policies = Policies(client)
        self.checkpoints = Checkpoints(client)
        self.tokens = Tokens(client)
        self.audit = Audit(client)
        self.meter = Meter(client, self._register)
        self.usages = Usages(client, self._register)
        self.erasures = Erasures(client)
        self.schema = Schema(client)
        self._orgs, self._orgs_of = set[str](), 0
        self._known = Memo[str, bool](KNOWN)

    @classmethod
    async def connect(
        cls,
        url: str | None = None,
        *,
        socket_path: str | None = None,
        timeout_ms: int = 250,
        probe_ms: int = 1000,
        on_change: OnChange | None = None,
        required: bool = True,
        files: Files | None = None,
        replicas: int = 0,
        kept: Retention = USUAL,
    ) -> Store:
        """Connect to a URL or a socket. `ConfigError` for a bad URL, `StoreError` if nothing answers and `required`.

        250 ms is what a request may lose to a store that is away (DESIGN section 11). `on_change` is told
        `(up, reason)`, once a change. `files`: for TLS. `replicas`: how many must have a hold before it counts.
        """
        made = client(
            address(url, socket_path, files),
            sources(kept),
            timeout_s=timeout_ms / 1000,
            probe_s=probe_ms / 1000,
            on_change=on_change,
            replicas=replicas,
        )
        await made.start(required=required)
        return cls(made, kept)

    @property
    def up(self) -> bool:
        """Whether calls are let through now."""
        return self._client.up

    async def begin(self, opening: Opening) -> View:
        """Trip 1: resolve, recognise a retry, append, check and hold. The same answer for the same token."""
        org = opening.org
        await self._register(org)
        # Of a conversation that this worker has seen the store knows mostly all but the last round: the older ones are
        # sent only if it asks. That is a guess about cost; the answer is the same. It also asks if that one has grown.
        who = f"{org} {opening.identity.session} {opening.identity.head}"
        known = self._known[who]
        reply = await self._client.run("begin", _key(org), _codec.opening(opening, newest=NEWEST if known else 0))
        if reply == 0 or isinstance(reply, bytes):
            reply = await self._client.run("begin", _key(org), _codec.opening(opening, asked=reply))
        if not known:
            self._known.keep(who, True)
        return _codec.view(reply, opening)

    async def settle(self, closing: Closing) -> None:
        """Trip 2: release the hold, count what was used, keep the answer. Without a hold it does nothing."""
        await self._client.run("settle", _key(closing.org), _codec.closing(closing))

    def settle_soon(self, closing: Closing, done: Callable[[bool], None]) -> bool:
        """`settle` without waiting: `done` hears whether it went well; if not, `settle` is to be called.

        False: it cannot be sent now, and `done` hears nothing.
        """
        reply = self._client.run_soon("settle", _key(closing.org), _codec.closing(closing))
        if reply is None:
            return False
        reply.add_done_callback(lambda answered: done(self._client.ran(answered)))
        return True

    async def extend(self, org: str, token: str, lines: Sequence[Line], offset_ms: int = 0) -> bool:
        """Hold for one more attempt under a token: all lines or none, but not the turn and its calls again.

        False: no room, or the token holds nothing any more. `settle` gives back the sum.
        """
        return await self.stretch(org, token, lines, offset_ms) == 1

    async def stretch(self, org: str, token: str, lines: Sequence[Line], offset_ms: int = 0) -> int:
        """`extend`, with the reason: 1 = held; 0 = it is over; -n = the n-th line has no room."""
        words = _codec.extension(token, secrets.token_hex(8), lines, offset_ms)
        reply = await self._client.run("extend", _key(org), words)
        return reply if isinstance(reply, int) else 0

    async def renew(self, org: str, token: str, lease_ms: int, offset_ms: int = 0) -> None:
        """Lengthen a hold to `lease_ms` from now; never shorten it."""
        words = (token.encode(), str(lease_ms).encode(), str(offset_ms).encode())
        await self._client.run("renew", _key(org), words)

    async def sweep(self, offset_ms: int = 0) -> list[Swept]:
        """Settle the holds whose lease has ended, in all orgs, with use = hold and outcome abandoned."""

        async def of(org: str) -> list[Swept]:
            found = []
            words = (str(offset_ms).encode(), str(AT_ONCE).encode())
            for raw in _list(await self._client.run("sweep", _key(org), words)):
                token = raw.decode()
                closing = Closing(token, org, "", "", "abandoned", "", {}, offset_ms=offset_ms)
                reply = _list(await self._client.run("settle", _key(org), _codec.closing(closing, swept=True)))
                if reply:
                    found.append(Swept(org, token, reply[0].decode(), reply[1].decode(), reply[2]))
            return found

        return await self._in_all(of)

    async def claim(self, org: str, name: str, ttl_ms: int) -> bool:
        """Whether the caller is the first to ask within `ttl_ms`: for what must happen once."""
        key = f"{_codec.prefix(org)}claim:{name}"
        return await self._client.command("SET", key, "1", "NX", "PX", ttl_ms) is not None

    async def records(self, org: str, session: str, first: int = -RECORDS, last: int = -1) -> list[bytes]:
        """The newest 256 turn records of a session, oldest first; or from one place to another, as from the end."""
        return _list(await self._client.command("LRANGE", f"{_codec.prefix(org)}x:{session}", first, last))

    async def session_state(self, org: str, session: str, offset_ms: int = 0) -> Known | None:
        """A session as it stands, or None if there is none of that id."""
        words = (session.encode("utf-8", "replace"), str(offset_ms).encode())
        return known(org, session, _list(await self._client.run("known", _key(org), words)))

    async def list_sessions(self, org: str, limit: int = 50) -> list[Known]:
        """Sessions of the last day, and of the last eight those that people were asked about; newest first.

        `limit` of each at most, found by the hour of their last turn or their start.
        """
        sets = (f"{_codec.prefix(org)}{name}" for name in ("sessions", "asked"))
        lists = await asyncio.gather(*(self._client.command("ZREVRANGE", key, 0, limit - 1) for key in sets))
        names = dict.fromkeys(name for some in lists for name in _list(some))
        found = await asyncio.gather(*(self.session_state(org, name.decode()) for name in names))
        return sorted((session for session in found if session), key=lambda one: -one.at_ms)

    async def idle_sessions(self, older_ms: int, offset_ms: int = 0) -> list[Known]:
        """Sessions of all orgs without a turn for `older_ms`. Each is handed out once, to one caller."""
        words = (str(older_ms).encode(), str(offset_ms).encode(), str(AT_ONCE).encode())

        async def of(org: str) -> list[Known]:
            reply = _list(await self._client.run("idle", _key(org), words))
            sessions = [known(org, name.decode(), looked) for name, *looked in reply]
            return [session for session in sessions if session]

        return await self._in_all(of)

    async def _in_all(self, work: Callable[[str], Awaitable[list[Found]]]) -> list[Found]:
        """What is found in all orgs. Those of a part that is away wait for another time; `StoreError` if nothing is."""
        found, away = list[Found](), None
        for org in await self.orgs():
            try:
                found += await work(org)
            except StoreError as error:
                away = error
        if away and not found:
            raise away
        return found

    async def panic(self, on: bool | None = None) -> bool:  # noqa: FBT001  # a switch
        """Read the panic switch, or set it everywhere. `begin` reads it, so it holds from the next turn on."""
        if on is None:
            return await self._client.command("EXISTS", PANIC) == 1
        # The global key first: an org that registers meanwhile copies it, one that had registered is in the set.
        for key in (PANIC, *[f"{_codec.prefix(org)}panic" for org in await self._switched(on)]):
            await self._client.command(*(("SET", key, "1") if on else ("DEL", key)))
        return on

    async def orgs(self) -> list[str]:
        """The orgs that have used this store."""
        return sorted(raw.decode() for raw in _list(await self._client.command("SMEMBERS", ORGS)))

    async def ping(self) -> None:
        """Ask for a sign of life."""
        await self._client.each("PING")

    async def check_policy(self) -> None:
        """`ConfigError` unless all servers refuse writes when memory is full: budgets must not be evicted."""
        await refuse_eviction(self._client)

    async def check_schema(self) -> int:
        """See that the keys have a layout we know, and note ours; see `store.schema`. `ConfigError` for a newer one."""
        return await self.schema.check(ORGS)

    async def close(self) -> None:
        """End the connection."""
        await self._client.close()

    async def _switched(self, on: bool) -> list[str]:  # noqa: FBT001  # a switch
        await self._client.command(*(("SET", PANIC, "1") if on else ("DEL", PANIC)))
        return await self.orgs()

    async def _register(self, org: str) -> None:
        """Once an org and connection: make it known to the sweeper, copy the panic switch to its slot."""
        if org in self._orgs and self._orgs_of == self._client.generation:
            return
        if self._orgs_of != self._client.generation:
            self._orgs.clear()
        await self._client.command("SADD", ORGS, org)
        if await self.panic():
            await self._client.command("SET", f"{_codec.prefix(org)}panic", "1")
        self._orgs_of = self._client.generation
        self._orgs.add(org)


@lru_cache(maxsize=1024)
def _key(org: str) -> bytes:
    return _codec.prefix(org).encode()


def _list(reply: object) -> list[Any]:
    if not isinstance(reply, list):
        raise StoreError("the store gave an answer that cannot be read")
    return reply
