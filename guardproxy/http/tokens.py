"""Admin tokens: made, shown once, known again by a keyed hash. For `guardproxy admin` and the admin listener alike."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from guardproxy.core.memo import Memo
from guardproxy.core.scoped_exemption import moment
from guardproxy.errors import BadAsk, StoreError
from guardproxy.http import people
from guardproxy.http.auditing import Actor, changed
from guardproxy.http.terminal import visible
from guardproxy.store.redis import Store
from guardproxy.store.tokens import ROLES, Found, Token

PREFIX = "gpa-"
"""In front of every admin token, so that people and scanners know one that lies about."""

BYTES = 32
"""Random bytes of a token: it cannot be guessed, so its hash needs no salt and no slowness."""

LONGEST_NAME = 60
"""Characters of a token's name: it stands beside everything that was done with it."""

LONGEST_MS = 10 * 366 * 86_400_000
"""Ten years: a token that lives longer is one without an end."""

REMEMBERED = 100
"""Tokens that a process knows again while the store is away, up to twice as many."""


class Keyring:
    """The tokens of an installation. `key`: of the hashes (`secrets.Keys.key_hash`), 32 bytes."""

    def __init__(self, store: Store, key: bytes) -> None:
        self._store = store
        self._key = key
        self._seen: Memo[str, Token | None] = Memo(REMEMBERED)
        self._any: bool | None = None

    async def used(self) -> bool:
        """Whether there are tokens, so that one is needed. As last known while the store is away."""
        return (await self.find("")).any

    async def find(self, secret: str) -> Found:
        """What is known of a token. With the store away: what was known when it was used last."""
        digest = self._digest(secret)
        try:
            found = await self._store.tokens.find(digest)
        except StoreError:
            if self._any is None:
                raise
            known = self._seen[digest]
            return Found(self._any, known, live=known is not None)
        self._any = found.any
        if found.token is not None:
            self._seen.keep(digest, found.token if found.live else None)
        return found

    async def create(
        self, name: str, role: str, actor: Actor, *, org: str = "", for_ms: int = 0, first: bool = False
    ) -> tuple[Token, str]:
        """Make a token; it and its secret, which nobody can find out later. `GuardError` 409 as `Tokens.create`."""
        name = people.line("name", name, LONGEST_NAME)
        if not name:
            raise BadAsk("must say whose it is", param="name")
        if role not in ROLES:
            raise BadAsk(f"must be one of {', '.join(ROLES)}", param="role")
        if not 0 <= for_ms <= LONGEST_MS:
            raise BadAsk("must not be longer than ten years", param="for")
        secret = PREFIX + secrets.token_urlsafe(BYTES)
        org = people.org("org", org) if org else ""
        made = Token(secrets.token_hex(6), name, role, org, secret[-4:], actor.name)
        diff = changed({}, {"name": name, "role": role, "org": org or None, "for_seconds": for_ms // 1000 or None})
        entry = actor.did("token.create", made.id, org=org, diff=diff)
        return await self._store.tokens.create(self._digest(secret), made, for_ms, entry, first=first), secret

    async def revoke(self, token: str, actor: Actor, *, why: str = "", expect: str = "") -> Token:
        """Take a token back, everywhere and at once. `GuardError` as `Tokens.revoke`."""
        token, why = token.encode("utf-8", "replace").decode(), people.line("why", why)
        entry = actor.did("token.revoke", token, why=why, diff={"revoked": (False, True)})
        return await self._store.tokens.revoke(token, actor.name, entry, expect)

    def _digest(self, secret: str) -> str:
        return hmac.new(self._key, b"admin-token:" + secret.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


HEADS = ("token", "name", "role", "for", "made", "ends", "state")
"""Over the rows of `guardproxy admin tokens list`."""


def row(one: Token, now_ms: int) -> tuple[str, ...]:
    """For a table of them."""
    made = f"{moment(one.at_ms)} by {visible(one.by)}"
    ends = moment(one.expires_ms) if one.expires_ms else "never"
    name = f"{visible(one.name)} (…{one.last})"
    return (one.id, name, one.role, visible(one.org) or "all", made, ends, state(one, now_ms))


def state(one: Token, now_ms: int) -> str:
    """live, expired, or who took it back."""
    if one.revoked_ms:
        return f"revoked by {visible(one.revoked_by)}"
    return "expired" if one.expires_ms and now_ms >= one.expires_ms else "live"
