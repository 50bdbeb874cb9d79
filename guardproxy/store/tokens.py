"""Tokens of operators, by their keyed hashes: the secret itself is never here. Keys and rules: `admin.lua`.

Each method is one trip and raises `StoreError` when the server does not answer. Every change is written to the audit
stream in the same step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from guardproxy.errors import GuardError, StoreError
from guardproxy.store._client import Client
from guardproxy.store._codec import unpack
from guardproxy.store.audit import KEY, Entry, head

ROLES = ("viewer", "operator", "owner")
"""What a token may do, each what the ones before it may: look; steer runs and decide; say who may do what."""


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token. `org`: the only organisation it is for, "" = all. `last`: its last four characters.

    Milliseconds of the store's clock; `expires_ms` 0: never; `revoked_ms` 0: nobody took it back.
    """

    id: str
    name: str
    role: str
    org: str = ""
    last: str = ""
    by: str = ""
    at_ms: int = 0
    expires_ms: int = 0
    revoked_ms: int = 0
    revoked_by: str = ""

    @property
    def version(self) -> str:
        """Changes when the token does; nothing but taking it back can happen to one."""
        return f"{self.id}-{1 if self.revoked_ms else 0}"


@dataclass(frozen=True, slots=True)
class Found:
    """The token of a hash, if there is one; whether it is live; whether any token was ever made."""

    any: bool
    token: Token | None
    live: bool


class Tokens:
    """The admin tokens of a store. `Store.tokens` is one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, digest: str, token: Token, for_ms: int, entry: Entry, *, first: bool = False) -> Token:
        """Keep a token under its hash for so long (0 = without end). `first`: only where no owner is live.

        `GuardError` 409: `owned` (there is an owner), `taken` (a live one has that name), `full`.
        """
        said, *rest = await self._run(head("create", digest, asdict(token), for_ms, entry, first=first))
        if said == b"owned":
            message = "there is an owner already: guardproxy admin tokens lists them, and an owner makes more"
            raise GuardError(message, status=409, code="owned")
        if said == b"named":
            message = f"a live token is named {token.name!r}: names say in the audit who it was"
            raise GuardError(message, status=409, code="taken", param="name")
        if said == b"full":
            raise GuardError("1,000 tokens are kept, which is the most", status=409, code="full")
        return _token(rest[0])

    async def revoke(self, token: str, by: str, entry: Entry, expect: str = "") -> Token:
        """Take a token back. `expect`: the version that the caller saw.

        `GuardError`: 404; 412 (`stale`); 409: `already_revoked`, `last_owner` (nobody could make tokens any more).
        """
        said, *rest = await self._run(head("revoke", expect, {"id": token, "revoked_by": by}, 0, entry))
        if said == b"unknown":
            raise GuardError(f"there is no token {token!r}", status=404, code="not_found")
        one = _token(rest[0])
        if said == b"revoked":
            message = f"token {one.id} ({one.name}) was taken back before, by {one.revoked_by}"
            raise GuardError(message, status=409, code="already_revoked")
        if said == b"stale":
            raise GuardError(f"token {one.id} is not as you saw it", status=412, code="stale")
        if said == b"last":
            message = f"token {one.id} ({one.name}) is the last owner's: make another first"
            raise GuardError(message, status=409, code="last_owner")
        return one

    async def find(self, digest: str) -> Found:
        """The token of a hash."""
        count, raw, live = await self._run(head("find", digest))
        return Found(any=count > 0, token=_token(raw) if raw else None, live=live == 1)

    async def every(self) -> list[Token]:
        """All tokens that were ever made, the newest first."""
        found = [_token(raw) for raw in await self._run(head("list"))]
        return sorted(found, key=lambda one: (one.at_ms, one.id), reverse=True)

    async def _run(self, words: bytes) -> Any:
        reply = await self._client.run("admin", KEY, (words,))
        if not isinstance(reply, list):
            raise StoreError("the store gave an answer that cannot be read")
        return reply


_FIELDS = {one.name for one in fields(Token)}


def _token(raw: bytes) -> Token:
    """A token as it is kept; what another version wrote beside it is left out."""
    kept: Mapping[str, Any] = unpack(raw)
    try:
        return Token(**{name: held for name, held in kept.items() if name in _FIELDS})
    except TypeError as error:
        raise StoreError(f"the store holds a token that cannot be read: {error}") from error
