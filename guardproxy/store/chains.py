"""What is remembered of responses that later requests may go on with by their ids alone. It is sealed by the caller.

Plain keys with a time to live, `chain:<name>` under the org's prefix: an answer has a name of its own, so the last
write is the only one; of a conversation the newest answer is what counts. In front of each stands whose run it is, so
that `erase.lua` finds it: the name is a digest, which says nothing of that.
"""

from __future__ import annotations

from guardproxy.store._client import Client
from guardproxy.store._codec import prefix

MARK = b"run\0"
"""Begins a value; one without it was kept by an earlier version, of nobody knows which run."""


class Chains:
    """The remembered responses of a store. `Store.chains` is one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get(self, org: str, name: str) -> bytes | None:
        """What was kept under a name; None where there is nothing. `StoreError` when the server does not answer."""
        found = await self._client.command("GET", _key(org, name))
        if not isinstance(found, bytes) or not found.startswith(MARK):
            return found if isinstance(found, bytes) else None
        return found[6 + int.from_bytes(found[4:6], "little") :]

    async def keep(self, org: str, name: str, sealed: bytes, ttl_s: int, session: str = "") -> None:
        """Keep it for so long, as one of a session's. `StoreError` as above."""
        await self._client.command("SET", _key(org, name), _value(session, sealed), "EX", ttl_s)

    def keep_soon(self, org: str, name: str, sealed: bytes, ttl_s: int, session: str = "") -> bool:
        """The same without waiting for an answer, in front of whatever is sent later; False: there is no connection."""
        return self._client.command_soon("SET", _key(org, name), _value(session, sealed), "EX", ttl_s)


def _value(session: str, sealed: bytes) -> bytes:
    whose = session.encode()
    return MARK + len(whose).to_bytes(2, "little") + whose + sealed


def _key(org: str, name: str) -> str:
    return f"{prefix(org)}chain:{name}"
