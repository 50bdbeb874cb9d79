"""A look into the store for tests: what is still held."""

from __future__ import annotations

import asyncio
import time

from guardproxy.store.redis import Store

PREFIX = "gp:{default}:"


async def held(store: Store, sessions: set[str] | None = None, wait_s: float = 2.0) -> dict[str, int]:
    """Amounts held now, by counter, after at most `wait_s`: settling may end a moment after the answer.

    `sessions` None: of all of them, running tokens included.
    """
    until = time.monotonic() + wait_s
    while (found := await _held(store, sessions)) and time.monotonic() < until:
        await asyncio.sleep(0.01)
    return found


async def _held(store: Store, sessions: set[str] | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for session in ["*"] if sessions is None else sorted(sessions):
        for key in await store._client.command("KEYS", f"{PREFIX}b:{session}:*"):
            flat = [part.decode() for part in await store._client.command("HGETALL", key)]
            pairs = dict(zip(flat[::2], flat[1::2], strict=True))
            found |= {
                f"{key.decode()} {name}": int(n) for name, n in pairs.items() if name.startswith("h:") and n != "0"
            }
    if sessions is None and (tokens := await store._client.command("ZCARD", f"{PREFIX}holds")):
        found["holds"] = tokens
    return found
