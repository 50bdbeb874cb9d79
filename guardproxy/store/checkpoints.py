"""The newest messages of a session, kept so that a crashed agent can fetch them and go on. Rules: `checkpoint.lua`.

Each method is one trip and raises `StoreError` when the server does not answer. What is kept is sealed by the caller.
"""

from __future__ import annotations

import secrets
from typing import Any, NamedTuple

from guardproxy.errors import GuardError
from guardproxy.store._client import Client
from guardproxy.store._codec import bare, prefix


class Checkpoint(NamedTuple):
    """What was kept last. `generation` goes up by one with each; `at_ms` is of the store's clock."""

    generation: int
    sealed: bytes
    at_ms: int


class Checkpoints:
    """The checkpoints of a store. `Store.checkpoints` is one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def put(self, org: str, session: str, sealed: bytes, ttl_s: int, offset_ms: int = 0) -> int:
        """Keep it for so long (0: as what waits for people) in place of the last; its generation, not yet taken."""
        found = await self._run(org, "put", session, 0, "", ttl_s * 1000, offset_ms, sealed)
        return int(found[0])

    async def get(self, org: str, session: str) -> Checkpoint | None:
        """The newest one, whether it was taken or not; None where there is none, or its time is over."""
        found = await self._run(org, "get", session, 0, "", 0, 0)
        return Checkpoint(int(found[0]), found[1], int(found[2])) if found else None

    async def take(self, org: str, session: str, generation: int, by: str, offset_ms: int = 0) -> None:
        """Go on from a generation: the first who asks for it may.

        `GuardError`: 404 (`not_found`) where there is none; 409 (`conflict`) for the second, and for one that is no
        longer the newest: then the agent has gone on by itself.
        """
        said, *rest = await self._run(org, "take", session, generation, by, 0, offset_ms)
        if said == b"unknown":
            raise GuardError(f"session {session!r} has no checkpoint", status=404, code="not_found")
        if said == b"newer":
            message = f"checkpoint {generation} of session {session} is not the newest one, which is {rest[0]}"
            raise GuardError(message, status=409, code="conflict")
        if said == b"taken":
            message = f"checkpoint {generation} of session {session} was taken up before, by {rest[0].decode()}"
            raise GuardError(message, status=409, code="conflict")

    async def _run(
        self,
        org: str,
        act: str,
        session: str,
        generation: int,
        by: str,
        ttl_ms: int,
        offset_ms: int,
        sealed: bytes = b"",
    ) -> Any:
        head = bare((act, secrets.token_hex(8), session, generation, by, ttl_ms, offset_ms))
        return await self._client.run("checkpoint", prefix(org).encode(), (head, sealed))
