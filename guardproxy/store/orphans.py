"""Attempts of a worker that died: nobody will settle them, and until their lease ends they look like running ones.

A client whose connection broke asks again within a second. Only where the first attempt is known to be over is that a
retry (DESIGN section 4): else it is a second run, and a call that waits for a person would be asked about twice.
"""

from __future__ import annotations

from guardproxy.store._client import Client
from guardproxy.store._codec import prefix


class Orphans:
    """The holds of dead workers in a store. `Store.orphans` is one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def expire(self, org: str, mark: str, offset_ms: int = 0) -> int:
        """End the leases of all attempts whose token begins with `mark`; how many. `Store.sweep` settles them then.

        Raises `StoreError` when the server does not answer.
        """
        if not mark:
            raise ValueError("every token begins with nothing")
        found = await self._client.run("orphan", prefix(org).encode(), (mark.encode(), str(offset_ms).encode()))
        return found if isinstance(found, int) else 0
