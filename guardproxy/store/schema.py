"""Which layout the keys of a store have: noted at the first start, looked at with every start.

Layouts change by adding, so that programs of this version and of the one before it run side by side on one store while
workers are replaced. A layout that an older program would misread says so in `NEEDS`: that program does not start.
"""

from __future__ import annotations

from typing import Any

from guardproxy.errors import ConfigError
from guardproxy.store._client import Client

KEY = "gp:schema"
"""No TTL."""

VERSION = 2
"""The layout that this program writes. 1: before there was a number; 2: sessions know their users (`erase.lua`)."""

NEEDS = 1
"""The oldest layout whose programs may run beside this one."""


class Schema:
    """`Store.schema` is one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def check(self, orgs: str) -> int:
        """Note our layout; the one that was there, 0 = the store was empty. `orgs`: a key that every used store has.

        `ConfigError` where a newer program has written what this one would misread. `StoreError` without the store.
        """
        used = await self._client.command("EXISTS", orgs)
        words = tuple(str(number).encode() for number in (VERSION, NEEDS, used))
        reply: Any = await self._client.run("schema", KEY.encode(), words)
        version, needs = map(int, reply)
        if needs > VERSION:
            raise ConfigError(
                f"the store was written by a newer guardproxy (layout {version}, for programs from layout {needs} on; "
                f"this one knows {VERSION}): nothing was changed. Start that version again, or use another store",
                param="store.url",
            )
        return version
