"""Takes out what the store has of runs: of some, of all that a user had a part in, of a whole org. Rules: `erase.lua`.

Every method is many short trips, each bounded, so that agents are served meanwhile; it raises `StoreError` when the
server does not answer, and can then be called again. `docs/data.md` says what is taken out, and what stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from guardproxy.core.windows import DAY_MS
from guardproxy.errors import StoreError
from guardproxy.store._client import Client
from guardproxy.store._codec import bare, prefix

STEP = 500
"""Keys that one trip looks at: a millisecond or two of the server's time."""

BATCH = 200
"""Sessions that are named in one trip."""

DAYS = 401
"""Days of which there may be usage (`account.lua`), today among them."""

EVERYBODY = None
"""In the place of sessions: all of the org. (No sessions are none: a search that finds nothing must erase nothing.)"""

Sessions = Sequence[str] | None


class Erasures:
    """`Store.erasures` is one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def find(self, org: str, user: str = "") -> list[str]:
        """The sessions that a user had a part in, or all of the org."""
        found: dict[str, None] = {}
        at = "0"
        while True:
            at, some = await self._step(org, "find", at, user=user)
            found |= dict.fromkeys(raw.decode() for raw in some)
            if at == "0":
                return list(found)

    async def end(self, org: str, sessions: Sequence[str], offset_ms: int = 0) -> None:
        """Close sessions: none of their turns begins any more, and those that run are ended within a second."""
        for part in _parts(sessions):
            await self._run(org, "end", "0", part, "", offset_ms)

    async def held(self, org: str, sessions: Sessions) -> list[str]:
        """Tokens of turns that run, or whose worker died, in these sessions."""
        found = []
        for part in _parts(sessions):
            at = "0"
            while True:
                at, some = await self._step(org, "held", at, part)
                found += [raw.decode() for raw in some]
                if at == "0":
                    break
        return found

    async def wipe(self, org: str, sessions: Sessions, offset_ms: int = 0) -> int:
        """Take out what is kept of sessions; how many keys."""
        count = 0
        for part in _parts(sessions):
            at = "0"
            while True:
                at, some = await self._step(org, "wipe", at, part, offset_ms=offset_ms)
                count += some
                if at == "0":
                    break
        return count

    async def unname(self, org: str, user: str = "") -> int:
        """Put the usage of a user, or of every user, under nobody's name; how many rows had it. Sums stay."""
        clock: Any = await self._client.command("TIME")
        today, count = int(clock[0]) * 1000 // DAY_MS, 0
        for day in range(today, today - DAYS, -1):
            count += (await self._run(org, "unname", str(day), (), user, 0))[0]
        return count

    async def _step(
        self, org: str, act: str, at: str, sessions: Sequence[str] = (), user: str = "", offset_ms: int = 0
    ) -> tuple[str, Any]:
        next_, found = await self._run(org, act, at, sessions, user, offset_ms)
        return next_.decode(), found

    async def _run(self, org: str, act: str, at: str, sessions: Sequence[str], user: str, offset_ms: int) -> Any:
        words = bare((act, at, STEP, list(sessions), user, offset_ms))
        reply = await self._client.run("erase", prefix(org).encode(), (words,))
        if not isinstance(reply, list):
            raise StoreError("the store gave an answer that cannot be read")
        return reply


def _parts(sessions: Sessions) -> list[Sequence[str]]:
    """Each is not empty, but for the one that stands for everybody (`names` in erase.lua)."""
    if sessions is EVERYBODY:
        return [()]
    return [sessions[at : at + BATCH] for at in range(0, len(sessions), BATCH)]
