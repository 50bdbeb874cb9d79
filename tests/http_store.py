"""A look into the store for tests: what was used, and what is still held."""

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
    names = sessions or set()
    if sessions is None:
        keys = await store._client.command("KEYS", "gp:[{]default}:s:*")
        names = {key.decode().removeprefix(f"{PREFIX}s:") for key in keys}
    for session in sorted(names):
        counters = await counted(store, session)
        found |= {f"{session} {name}": held for name, (_, held) in counters.items() if held}
    if sessions is None and (tokens := await store._client.command("ZCARD", f"{PREFIX}holds")):
        found["holds"] = tokens
    return found


READ = """
local raw = redis.call('GET', KEYS[1])
if not raw then return {} end
local values = { struct.unpack('<BddddddddddI4c0I4c0I4c0I4c0I4c0I4c0I4c0', raw) }
local found = { cmsgpack.unpack(values[17] or '') }
local numbers = { struct.unpack('<' .. string.rep('i8', 2 * #found), values[18] or '') }
for i = 1, #found do found[i] = { found[i], numbers[2 * i - 1], numbers[2 * i] } end
return found
"""


async def counted(store: Store, session: str, prefix: str = PREFIX) -> dict[str, tuple[int, int]]:
    """What is used and held of a session: `s:<dimension>`, and of its present span: `p:<dimension>`. No clocks."""
    found = await store._client.command("EVAL", READ, 1, f"{prefix}s:{session}")
    return {name.decode(): (used, held) for name, used, held in found if name[:1].islower()}
