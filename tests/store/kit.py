"""Agents that talk to a store: what the tests of the store say in a line, written out once."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace

from guardproxy.core.model import Line
from guardproxy.core.view import Closing, Identity, Opening, RoundFact, TurnFact, View
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.http_store import counted
from tests.store.processes import Nodes

ORG = "acme"
TURNS = Line("session", "turns", 1)
LINES = (Line("span", "turns", 1), TURNS, Line("session", "cost_microusd", 100))
BOUNDARY, BLANK = b"\x00boundary\xff", b"\x00blank\xfe"
NOTHING = "nothing"
"""What an empty answer did, where the client keeps it."""

_numbers = itertools.count()


def token() -> str:
    return f"token-{next(_numbers)}"


def a_round(digest: str, index: int, counts: Mapping[str, int] | None = None, facts: int = 1) -> RoundFact:
    return RoundFact(digest, index, tuple(b"\xff%s/%d" % (digest.encode(), i) for i in range(facts)), counts or {})


def facts(*digests: str) -> tuple[bytes, ...]:
    return tuple(fact for digest in digests for fact in a_round(digest, 0).facts)


@dataclass
class Agent:
    """One conversation. `ids` tells its provider's call ids from those of others; "" = ids that repeat everywhere."""

    store: Store
    head: str = "a" * 32
    session: str = ""
    thread: str = ""
    ids: str = ""
    named: str = ""  # how the client names the calls when it sends them again; "" = as the provider did
    lines: tuple[Line, ...] = LINES
    tooled: bool = True
    lease_ms: int = 60_000
    offset_ms: int = 0
    user: str = "task"
    spoken: bool = False
    count: int = 2
    rounds: list[RoundFact] = field(default_factory=list)
    last: Opening | None = None
    view: View | None = None

    def opening(self, **changes: object) -> Opening:
        newest = self.rounds[-1] if self.rounds else None
        links = (f"{self.named or self.ids}/{newest.index}/{newest.digest}", f"round/{newest.digest}") if newest else ()
        if newest and newest.digest == NOTHING:
            links = self.empty(newest.index, self.rounds[:-1])
        history = ",".join(f"{self.named or self.ids}{r.digest}" for r in self.rounds)
        made = Opening(
            token=token(),
            org=ORG,
            identity=Identity(self.session, self.thread, self.head, newest is None, links, "test", self.spoken),
            fact=TurnFact(
                f"{self.head}|{self.user}|{history}", self.count, tuple(self.rounds[-24:]), self.user, BOUNDARY, BLANK
            ),
            lines=self.lines,
            lease_ms=self.lease_ms,
            tooled=self.tooled,
            offset_ms=self.offset_ms,
        )
        return replace(made, **changes)  # type: ignore[arg-type]

    def empty(self, count: int, rounds: list[RoundFact]) -> tuple[str, ...]:
        """The link of an empty answer to so long a history."""
        return (f"-{self.head}/{count}/{','.join(made.digest for made in rounds)}",)

    async def begin(self, **changes: object) -> View:
        self.last = self.opening(**changes)
        self.view = await self.store.begin(self.last)
        return self.view

    def closing(self, answer: str = "calls", outcome: str = "answered", **changes: object) -> Closing:
        assert self.last
        assert self.view
        digest = str(changes.pop("did", f"did{len(self.rounds)}"))
        made = Closing(
            token=self.last.token,
            org=ORG,
            session=self.view.session,
            thread=self.view.thread,
            outcome=outcome,
            answer=answer,
            spent={"turns": 1, "cost_microusd": 70},
            delivered=digest if answer in ("calls", "text") and outcome == "answered" else "",
            count=self.count,
            offset_ms=self.offset_ms,
        )
        if made.delivered:
            made = replace(made, links=(f"{self.ids}/{self.count}/{digest}", f"round/{digest}"))
        elif answer == "empty":
            made = replace(made, links=self.empty(self.count, self.rounds))
        return replace(made, **changes)  # type: ignore[arg-type]

    async def settle(self, answer: str = "calls", outcome: str = "answered", **changes: object) -> None:
        await self.store.settle(self.closing(answer, outcome, **changes))

    def took(self, did: str | None = None, counts: Mapping[str, int] | None = None, user: str | None = None) -> None:
        """The agent appends the answer and its result (or the user's next words)."""
        self.rounds.append(a_round(did or f"did{len(self.rounds)}", self.count, counts))
        self.count += 2
        self.user = self.user if user is None else user

    async def turn(self, answer: str = "calls", did: str | None = None, user: str | None = None) -> View:
        """A whole turn: ask, be answered, append."""
        view = await self.begin()
        did = NOTHING if answer == "empty" else did or f"did{len(self.rounds)}"
        await self.settle(answer, did=did)
        self.took(did, user=user)
        return view


async def used_held(store: Store, scope: str, dimension: str) -> tuple[int, int]:
    """What the counters of a scope say, read behind the store's back: `s:<session>`, `p:<its span>` or `w:<key>`."""
    kind, _, name = scope.partition(":")
    if kind != "w":
        return (await counted(store, name, f"gp:{{{ORG}}}:")).get(f"{kind}:{dimension}", (0, 0))
    reply = await store._client.command("HMGET", f"gp:{{{ORG}}}:{scope}", f"u:{dimension}", f"h:{dimension}")
    assert isinstance(reply, list)
    return int(reply[0] or 0), int(reply[1] or 0)


async def keys(store: Store, pattern: str = "*") -> set[str]:
    """On all servers; braces in the pattern are no hash tag."""
    found = await store._client.each("KEYS", pattern.replace("{", "[{]"))
    return {raw.decode() for reply in found if isinstance(reply, list) for raw in reply}


async def everything(store: Store) -> bytes:
    """All keys with all that they hold, as one heap of bytes."""
    readers: dict[object, tuple[str | int, ...]] = {
        b"string": ("GET",),
        b"hash": ("HGETALL",),
        b"list": ("LRANGE", 0, -1),
        b"set": ("SMEMBERS",),
        b"zset": ("ZRANGE", 0, -1, "WITHSCORES"),
        b"stream": ("XRANGE", "-", "+"),
    }
    heap = []
    for key in await keys(store):
        kind = await store._client.command("TYPE", key)
        reader, *more = readers[kind.encode() if isinstance(kind, str) else kind]
        heap += [key.encode(), repr(await store._client.command(reader, key, *more)).encode()]
    return b"\n".join(heap)


async def amounts(store: Store, org: str) -> dict[str, tuple[int, int]]:
    """Used and held of all counters outside of sessions, by window and dimension."""
    found: dict[str, tuple[int, int]] = {}
    prefix = f"gp:{{{org}}}:w:"
    for key in await keys(store, f"{prefix}*"):
        flat = await store._client.command("HGETALL", key)
        assert isinstance(flat, list)
        fields = {name.decode(): int(amount) for name, amount in zip(flat[::2], flat[1::2], strict=True)}
        for name in {name[2:] for name in fields}:
            where = f"{key.removeprefix(prefix)} {name}"
            found[where] = (fields.get(f"u:{name}", 0), fields.get(f"h:{name}", 0))
    return found


@contextlib.asynccontextmanager
async def emptied(server: Embedded | Nodes) -> AsyncIterator[Store]:
    """A store with nothing in it, for one event loop."""
    url = server.url if isinstance(server, Nodes) else None
    store = await Store.connect(url, socket_path=server.socket_path, timeout_ms=5000)
    try:
        await store._client.each("FLUSHALL")
        yield store
    finally:
        await store.close()
