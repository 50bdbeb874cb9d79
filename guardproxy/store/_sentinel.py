"""The primary that Sentinels name: asked at every new connection, so a failover needs nothing else."""

from __future__ import annotations

import asyncio

from guardproxy.store._address import Address
from guardproxy.store._wire import Frozen, Lost, told


async def primary(to: Address, timeout_s: float) -> Address:
    """Where the primary of `to.service` is, by the first Sentinel that knows it and where it says to be one.

    All are asked at once, since one that is away says so late. `Lost` when none knows.
    """
    asked = [asyncio.ensure_future(_named(to, seed, timeout_s)) for seed in to.seeds]
    why = ""
    try:
        for answer in asyncio.as_completed(asked):
            try:
                return await answer
            except (OSError, Lost, Frozen) as error:
                why = str(error) or type(error).__name__
    finally:
        for one in asked:
            one.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
    raise Lost(f"no Sentinel names a primary of {to.service!r}: {why}")


async def _named(to: Address, seed: tuple[str, int], timeout_s: float) -> Address:
    words = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", to.service)
    found = await told(to.at(seed), to.greeting, words, timeout_s)
    if not isinstance(found, list) or len(found) != 2:
        raise Lost(str(found) if isinstance(found, Exception) else "it does not know it")
    host, port = found[0].decode(), int(found[1])
    # One that was cut off may still name a primary that is none any more.
    role = await told(to.at((host, port)), to.hello, ("ROLE",), timeout_s)
    if not isinstance(role, list) or role[0] != b"master":
        raise Lost(f"{host}:{port} is named as primary and is none")
    return to.at((host, port))
