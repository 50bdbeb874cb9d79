"""Orgs, teams and virtual keys as an operator makes and changes them; what is typed is checked before it is kept.

For `guardproxy orgs|teams|keys` and for the admin listener alike. A secret is answered once, by `create` and `rotate`;
what the store has of it cannot be turned back. A `BadAsk` names the field that is wrong.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from guardproxy.core.tenant import DEFAULT_ORG
from guardproxy.errors import BadAsk, GuardError
from guardproxy.http import people, virtual_key
from guardproxy.http.tenancy import CREDENTIALS
from guardproxy.store.registry import NONE, Key, Org, Registry, Secret, Team

MOST, LONGEST_GLOB = 64, 200
"""Globs of a list, and characters of one."""

LONGEST_NAME = 100
"""Characters of a key's name, which is for people."""

OVERLAPPING = 8
"""Secrets that a key has at once: a rotation that is made over and over keeps no more."""

OVERLAP_MS = 86_400_000
"""For how long the old secret holds beside the new one, unless said otherwise: a day to bring it everywhere."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_ID = re.compile(r"k[0-9a-f]{12}")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_SPAN = re.compile(r"(\d{1,6})([smhdw])")
_UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_LISTS = ("models", "routes", "upstreams")


@dataclass(frozen=True, slots=True)
class Made:
    """A key and its new secret, which nobody sees again."""

    key: Key
    secret: str


class Keyring:
    """The registry, as a person changes it. `key`: `secrets.Keys.key_hash`. `by`: who does it."""

    def __init__(self, registry: Registry, key: bytes, by: str) -> None:
        self._registry = registry
        self._key = key
        self._by = people.line("by", by)

    async def make_org(self, name: str) -> Org:
        """A new org. `GuardError` 409 if there is one."""
        now_ms = await self._registry.now_ms()
        return await self._registry.put(Org(_name("name", name), made_ms=now_ms, made_by=self._by), NONE)

    async def make_team(self, org: str, name: str) -> Team:
        """A new team of an org that there is."""
        now_ms = await self._registry.now_ms()
        team = Team(_name("org", org), _name("name", name), made_ms=now_ms, made_by=self._by)
        return await self._registry.put(team, NONE)

    async def make_key(self, org: str = DEFAULT_ORG, team: str = "", **fields: Any) -> Made:
        """A new key with its secret. `fields` are those of `Key` that `change` takes."""
        now_ms = await self._registry.now_ms()
        secret = virtual_key.mint(self._key)
        key = Key(
            id=f"k{secrets.token_hex(6)}",
            org=_name("org", org),
            team=_name("team", team) if team else "",
            secrets=(self._kept(secret),),
            made_ms=now_ms,
            made_by=self._by,
        )
        return Made(await self._registry.put(_changed(key, fields, now_ms), NONE), secret)

    async def switch_org(self, name: str, *, on: bool) -> Org:
        """Let the keys of an org be used, or not."""
        org = await self._registry.org(name)
        if org is None:
            raise _unknown("org", name)
        return await self._registry.put(replace(org, enabled=on), org.etag)

    async def switch_team(self, org: str, name: str, *, on: bool) -> Team:
        """Let the keys of a team be used, or not."""
        team = await self._registry.team(org, name)
        if team is None:
            raise _unknown("team", name)
        return await self._registry.put(replace(team, enabled=on), team.etag)

    async def key(self, name: str) -> Key:
        """A key by its id, or by the name that people gave it where only one of its org's keys has it."""
        if _ID.fullmatch(name) and (key := await self._registry.key(name)) is not None:
            return key
        if virtual_key.is_ours(name):
            raise BadAsk("is the secret of a key; name the key by its id (k…)", param="key")
        raise _unknown("key", name)

    async def change(self, name: str, fields: Mapping[str, Any]) -> Key:
        """Change what a key may do. `expires`: a span from now (90d), a date, or "never"."""
        key = await self.key(name)
        return await self._registry.put(_changed(key, fields, await self._registry.now_ms()), key.etag)

    async def rotate(self, name: str, overlap_ms: int = OVERLAP_MS) -> Made:
        """A new secret; those before it hold for `overlap_ms` longer (0: not any more)."""
        key, now_ms = await self.key(name), await self._registry.now_ms()
        secret, end_ms = virtual_key.mint(self._key), now_ms + overlap_ms
        old = [replace(one, until_ms=min(one.until_ms or end_ms, end_ms)) for one in key.secrets]
        kept = (self._kept(secret), *[one for one in old if one.until_ms > now_ms][: OVERLAPPING - 1])
        gone = {one.digest for one in key.secrets} - {one.digest for one in kept}
        return Made(await self._registry.put(replace(key, secrets=kept), key.etag, sorted(gone)), secret)

    async def delete_key(self, name: str) -> Key:
        """Forget a key: it is unknown within two seconds. What it has used stays counted."""
        key = await self.key(name)
        await self._registry.delete(key, key.etag)
        return key

    def _kept(self, secret: str) -> Secret:
        return Secret(virtual_key.digest(self._key, secret), virtual_key.shown(secret))


def span_ms(param: str, text: str) -> int:
    """A span such as 90m, 12h, 7d, 2w, or 0."""
    found = _SPAN.fullmatch(text.strip())
    if found is None and text.strip() != "0":
        raise BadAsk(f"{text[:40]!r} must be a number with a unit: 90m, 12h, 7d or 2w", param=param)
    return int(found[1]) * _UNITS[found[2]] if found else 0


def _expiry(text: str, now_ms: int) -> int:
    """When a key ends. A date without a time zone is UTC."""
    text = text.strip()
    if text in ("", "never"):
        return 0
    if _SPAN.fullmatch(text):
        return now_ms + span_ms("expires", text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadAsk(f"{text[:40]!r} must be a span (90d), a date (2027-01-31) or never", param="expires") from error
    at_ms = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    if at_ms <= now_ms:
        raise BadAsk(f"{text[:40]} is over; to switch a key off, disable it", param="expires")
    return at_ms


def _changed(key: Key, fields: Mapping[str, Any], now_ms: int) -> Key:
    """The key with the fields that were given (None: as it is)."""
    given = {name: value for name, value in fields.items() if value is not None}
    made: dict[str, Any] = {name: _globs(name, given[name]) for name in _LISTS if name in given}
    if "expires" in given:
        made["expires_ms"] = _expiry(given["expires"], now_ms)
    if "name" in given:
        made["name"] = people.line("name", given["name"], LONGEST_NAME)
    if "policy" in given:
        made["policy"] = people.line("policy", given["policy"], LONGEST_NAME)
    if "user_header" in given:
        made["user_header"] = _header(given["user_header"])
    if "enabled" in given:
        made["enabled"] = bool(given["enabled"])
    changed = replace(key, **made)
    if changed.models and changed.routes:
        said = (
            "a key for certain models has no routes: what is passed on unread may name any model. Make a key for each"
        )
        raise BadAsk(said, param="routes")
    return changed


def _globs(param: str, given: Sequence[str]) -> tuple[str, ...]:
    """A list of globs; an empty one, or one empty text, takes it away."""
    globs = tuple(dict.fromkeys(one.strip() for one in given if one.strip()))
    bad = next((one for one in globs if len(one) > LONGEST_GLOB or not one.isprintable() or " " in one), "")
    if bad or len(globs) > MOST:
        raise BadAsk(f"must be at most {MOST} patterns of at most {LONGEST_GLOB} characters, no spaces", param=param)
    if param == "routes" and (wrong := next((one for one in globs if not one.startswith(("/v1/", "*"))), "")):
        raise BadAsk(f"{wrong!r} must begin with /v1/, such as /v1/embeddings", param=param)
    return globs


def _header(text: str) -> str:
    """A header that names the end user; "" for none."""
    text = text.strip().lower()
    if text and (not _HEADER.fullmatch(text) or text in {one.lower() for one in CREDENTIALS}):
        raise BadAsk(
            "must be the name of a header, such as x-guardproxy-user, and none that carries a key", param="user_header"
        )
    return text


def _name(param: str, text: str) -> str:
    if not _NAME.fullmatch(text):
        said = "must be 1 to 63 of a-z, 0-9, dot, dash and underscore, and begin with a letter or a digit"
        raise BadAsk(said, param=param)
    return text


def _unknown(kind: str, name: str) -> GuardError:
    said = f"the store has no {kind} {name!r}; guardproxy {kind}s list shows them"
    return GuardError(said, status=404, code="not_found")
