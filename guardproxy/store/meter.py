"""Counters of tenants beside those of sessions: holds of requests that are not read, and how budgets stand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from guardproxy.core.model import Line
from guardproxy.core.view import Spent, View
from guardproxy.errors import StoreError
from guardproxy.store._client import Client
from guardproxy.store._codec import amounts_of, bare, integers, named, prefix

REFUSED = bytes(4)
"""What a token that holds nothing has, see `state.lua`: no hold, and here no answer either."""

REFUSED_MS = 600_000
"""More than a command can wait in a connection that was given up, once the server reads again."""


class Meter:
    """`Store.meter` is one. `register` makes an org known to the sweeper."""

    def __init__(self, client: Client, register: Callable[[str], Awaitable[None]]) -> None:
        self._client = client
        self._register = register

    async def hold(self, org: str, token: str, lines: Sequence[Line], lease_ms: int, offset_ms: int = 0) -> View:
        """Hold what a request outside of any session needs, all or nothing. `Store.settle` ends it as any hold."""
        await self._register(org)
        scopes, dimensions, holds, limits, keyed, clocks = zip(*lines, strict=True)
        _, keys, names, most = named(scopes, dimensions, limits, keyed, clocks)
        words = bare((token, lease_ms, offset_ms, keys)), names, most + amounts_of(holds)
        return _view(await self._client.run("meter", prefix(org).encode(), words), lines)

    async def forestall(self, org: str, token: str) -> None:
        """Remember a token as refused, unless the store has heard of it: what was sent with it may come yet."""
        await self._client.command("SET", f"{prefix(org)}k:{token}", REFUSED, "NX", "PX", REFUSED_MS)

    async def standing(self, org: str, places: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
        """Used and held of counters, by window (`core.windows.chosen`) and dimension."""
        base = f"{prefix(org)}w:"
        asked = [self._client.command("HMGET", base + window, f"u:{name}", f"h:{name}") for window, name in places]
        found = await asyncio.gather(*asked)
        return [(int(one[0] or 0), int(one[1] or 0)) if isinstance(one, list) else (0, 0) for one in found]


def _view(reply: object, lines: Sequence[Line]) -> View:
    if not isinstance(reply, bytes) or len(reply) != 16 * (len(lines) + 1):
        raise StoreError("the store gave an answer to meter that cannot be read")
    now, admitted, *amounts = integers(2 * len(lines) + 2).unpack(reply)
    spent = tuple([Spent(*one) for one in zip(lines, amounts[::2], amounts[1::2], strict=True)])
    short = tuple([one.line for one in spent if 0 <= one.line.limit < one.used + one.held + one.line.hold])
    return View("", "", 0, now, admitted=admitted == 1, short=() if admitted else short, spent=spent, counted=False)
