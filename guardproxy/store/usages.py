"""The ledger of usage in the store: rows of a day (`account.lua`). Turns write theirs in `settle`.

Each method is one trip a day and raises `StoreError` when the server does not answer.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from struct import Struct, error as StructError  # noqa: N812  # an exception's name

from guardproxy.core.usage import FIELDS, Row, day_of, names, number_of
from guardproxy.core.windows import DAY_MS
from guardproxy.errors import StoreError
from guardproxy.store._client import Client
from guardproxy.store._codec import bare, encode, pairs, prefix

_SUMS = Struct(f"<{len(FIELDS)}d")


class Usages:
    """`Store.usages` is one. `register` makes an org known to whoever looks at all of them."""

    def __init__(self, client: Client, register: Callable[[str], Awaitable[None]]) -> None:
        self._client = client
        self._register = register

    async def add(self, org: str, rows: Mapping[str, Sequence[int]], offset_ms: int = 0) -> None:
        """Add to rows of today, by what `core.usage.payer` calls them."""
        await self._register(org)
        words = bare((secrets.token_hex(8), offset_ms)), encode([(who, list(sums)) for who, sums in rows.items()])
        await self._client.run("charge", prefix(org).encode(), words)

    async def day(self, org: str, day: str) -> list[Row]:
        """The rows of a day (`2026-11-30`), in no order."""
        flat = await self._client.command("HGETALL", _key(org, day))
        if not isinstance(flat, list):
            raise StoreError("the store gave an answer that cannot be read")
        try:
            return [Row(org, day, names(who), tuple(map(int, _SUMS.unpack(sums)))) for who, sums in pairs(flat)]
        except (StructError, UnicodeDecodeError) as error:
            raise StoreError(f"the store holds usage that cannot be read: {error}") from error

    async def corrected(self, org: str, since_ms: int) -> list[str]:
        """Days that changed after they were over, since then: answers made in the background (`background.lua`)."""
        found = await self._client.command("ZRANGE", f"{prefix(org)}corrected", since_ms, "+inf", "BYSCORE")
        if not isinstance(found, list):
            raise StoreError("the store gave an answer that cannot be read")
        return [day_of(int(number) * DAY_MS) for number in found]

    async def forget(self, org: str, day: str) -> bool:
        """Take a day out of the store. Whether there was one."""
        return await self._client.command("UNLINK", _key(org, day)) == 1

    async def now_ms(self) -> int:
        """The store's clock, by which days are told apart."""
        clock = await self._client.command("TIME")
        if not isinstance(clock, list):
            raise StoreError("the store gave an answer that cannot be read")
        return int(clock[0]) * 1000 + int(clock[1]) // 1000


def _key(org: str, day: str) -> str:
    return f"{prefix(org)}usage:{number_of(day)}"
