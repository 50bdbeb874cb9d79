"""Which upstream serves a session, where there are several: all workers send it there. Rule: `stay.lua`.

Each method is one trip and raises `StoreError` when the server does not answer.
"""

from __future__ import annotations

from guardproxy.store._client import Client
from guardproxy.store._codec import prefix

KEPT_MS = 86_400_000
"""Milliseconds: a day, after which no provider has a prompt cache."""


class Stays:
    """The places of sessions in a store. `Store.stays` is one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get(self, org: str, session: str, group: str) -> str:
        """The upstream that serves a session of those in `group` (their names with commas between); "" = not known."""
        return await self._run(org, session, group, "")

    async def keep(self, org: str, session: str, group: str, upstream: str) -> None:
        """Note the upstream that serves it from now on."""
        await self._run(org, session, group, upstream)

    async def _run(self, org: str, session: str, group: str, upstream: str) -> str:
        arguments = tuple(text.encode() for text in (session, group, upstream, str(KEPT_MS)))
        found = await self._client.run("stay", prefix(org).encode(), arguments)
        return found.decode() if isinstance(found, bytes) else ""
