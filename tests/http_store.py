"""A look into the store for tests: what was used, and what is still held."""

from __future__ import annotations

import asyncio
import struct
import time

import msgspec

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
        found_keys = [key for reply in await store._client.each("KEYS", "gp:[{]default}:s:*") for key in reply]
        names = {key.decode().removeprefix(f"{PREFIX}s:") for key in found_keys}
    for session in sorted(names):
        counters = await counted(store, session)
        found |= {f"{session} {name}": held for name, (_, held) in counters.items() if held}
    if sessions is None and (tokens := await store._client.command("ZCARD", f"{PREFIX}holds")):
        found["holds"] = tokens
    return found


HEAD = struct.Struct("<B10d")
"""What stands before the texts of a session's record."""


async def counted(store: Store, session: str, prefix: str = PREFIX) -> dict[str, tuple[int, int]]:
    """What is used and held of a session: `s:<dimension>`, and of its present span: `p:<dimension>`. No clocks."""
    raw = await store._client.command("GET", f"{prefix}s:{session}")
    if not isinstance(raw, bytes):
        return {}
    texts, at = [], HEAD.size
    while at < len(raw):
        size = int.from_bytes(raw[at : at + 4], "little")
        texts.append(raw[at + 4 : at + 4 + size])
        at += 4 + size
    amounts = struct.unpack(f"<{len(texts[6]) // 8}q", texts[6])
    names = msgspec.msgpack.decode(b"\xdc" + (len(amounts) // 2).to_bytes(2) + texts[5])  # one text after the other
    pairs = zip(amounts[::2], amounts[1::2], strict=True)
    return {name: pair for name, pair in zip(names, pairs, strict=True) if name[:1].islower()}
