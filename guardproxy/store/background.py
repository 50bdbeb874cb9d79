"""Answers that a provider makes in the background: charged in full until somebody fetches them (`background.lua`).

Names are made by the caller, of the tenant and the id: another tenant's look at an answer finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from guardproxy.store._client import Client
from guardproxy.store._codec import bare, prefix


class Background:
    """`Store.background` is one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def look(self, org: str, name: str) -> tuple[str, str] | None:
        """How an answer stands (early, charged, settled), and how it is priced; None where nothing is known of it.

        `StoreError` when the server does not answer.
        """
        found = await self._client.command("HMGET", f"{prefix(org)}later:{name}", "state", "about")
        state, about = found if isinstance(found, list) else (None, None)
        return (state.decode(), about.decode() if about else "") if state else None

    def early_soon(self, org: str, name: str, token: str, about: str) -> None:
        """Note the name of an answer that is on its way: should this worker die, it can be settled all the same."""
        self._client.run_soon("background", prefix(org).encode(), _words("early", name, token, about))

    def settle_soon(
        self,
        org: str,
        name: str,
        spent: Mapping[str, int],
        charge: Sequence[int],
        done: Callable[[bool | None], None],
        offset_ms: int = 0,
    ) -> bool:
        """`settle` without waiting: `done` hears its answer, None where there is none. False: it cannot be sent now."""
        words = _words("settle", name, "", "", spent, charge, offset_ms)
        reply = self._client.run_soon("background", prefix(org).encode(), words)
        if reply is None:
            return False
        reply.add_done_callback(lambda told: done(told.result() == 1 if self._client.ran(told) else None))
        return True

    async def settle(
        self, org: str, name: str, spent: Mapping[str, int], charge: Sequence[int], offset_ms: int = 0
    ) -> bool:
        """What it used: counters and row get the difference to what was charged. Whether anything was owed.

        `StoreError` when the server does not answer.
        """
        words = _words("settle", name, "", "", spent, charge, offset_ms)
        return await self._client.run("background", prefix(org).encode(), words) == 1


def _words(
    act: str,
    name: str,
    token: str,
    about: str,
    spent: Mapping[str, int] | None = None,
    charge: Sequence[int] = (),
    offset_ms: int = 0,
) -> tuple[bytes]:
    return (bare((act, name, token, about, spent or {}, list(charge), offset_ms)),)
