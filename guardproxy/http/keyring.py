"""Orgs, teams and virtual keys as an operator makes and changes them; what is typed is checked before it is kept.

For `guardproxy orgs|teams|keys` and for the admin listener alike. A secret is answered once, by `create` and `rotate`;
what the store has of it cannot be turned back. A `BadAsk` names the field that is wrong.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

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

LONGEST_MS = 100 * 366 * 86_400_000
"""A hundred years: what ends later need not end, and has no date that can be written everywhere."""

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
"""Of an org or a team, whole."""

_ID = re.compile(r"k[0-9a-f]{12}")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_SPAN = re.compile(r"(\d{1,6})([smhdw])")
_UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_LISTS = ("models", "routes", "upstreams")

TRIES = 20
"""Of a change that others came before: each time one of them was made, so twenty at once all are."""

T = TypeVar("T")
_Object = TypeVar("_Object", bound=Org | Team | Key)


@dataclass(frozen=True, slots=True)
class Made:
    """A key and its new secret, which nobody sees again."""

    key: Key
    secret: str


class Keyring:
    """The registry, as a person changes it. `key`: `secrets.Keys.key_hash`. `by`: who does it.

    Changes answer how it was and how it is. `expect`: the etag that the caller saw, "" = any; `GuardError` 412 where it
    is another one by now. Without one a change that somebody else's came before is made on top of theirs.
    """

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

    async def org(self, name: str) -> Org:
        """An org by its name. `GuardError` 404."""
        org = await self._registry.org(name) if NAME.fullmatch(name) else None
        if org is None:
            raise unknown("org", name)
        return org

    async def team(self, org: str, name: str) -> Team:
        """A team by its name. `GuardError` 404."""
        named = NAME.fullmatch(org) and NAME.fullmatch(name)
        team = await self._registry.team(org, name) if named else None
        if team is None:
            raise unknown("team", name)
        return team

    async def key(self, name: str) -> Key:
        """A key by its id. `GuardError` 404."""
        if _ID.fullmatch(name) and (key := await self._registry.key(name)) is not None:
            return key
        if virtual_key.is_ours(name):
            raise BadAsk("is the secret of a key; name the key by its id (k…)", param="key")
        raise unknown("key", name)

    async def switch_org(self, name: str, *, on: bool, expect: str = "") -> tuple[Org, Org]:
        """Let the keys of an org be used, or not."""
        return await self._turn(partial(self.org, name), lambda org: replace(org, enabled=on), expect)

    async def switch_team(self, org: str, name: str, *, on: bool, expect: str = "") -> tuple[Team, Team]:
        """Let the keys of a team be used, or not."""
        return await self._turn(partial(self.team, org, name), lambda team: replace(team, enabled=on), expect)

    async def change(self, name: str, fields: Mapping[str, Any], expect: str = "") -> tuple[Key, Key]:
        """Change what a key may do. `expires`: a span from now (90d), a date, or "never"."""
        now_ms = await self._registry.now_ms()
        return await self._turn(partial(self.key, name), lambda key: _changed(key, fields, now_ms), expect)

    async def rotate(self, name: str, overlap_ms: int = OVERLAP_MS, expect: str = "") -> tuple[Key, Made]:
        """A new secret; those before it hold for `overlap_ms` longer (0: not any more)."""
        now_ms, secret = await self._registry.now_ms(), virtual_key.mint(self._key)
        end_ms = now_ms + overlap_ms

        def rotated(key: Key) -> Key:
            old = [replace(one, until_ms=min(one.until_ms or end_ms, end_ms)) for one in key.secrets]
            kept = [one for one in old if one.until_ms > now_ms][: OVERLAPPING - 1]
            return replace(key, secrets=(self._kept(secret), *kept))

        before, after = await self._turn(partial(self.key, name), rotated, expect)
        return before, Made(after, secret)

    async def delete_org(self, name: str, expect: str = "") -> Org:
        """Forget an org. `GuardError` 409 while it has teams or keys."""
        return await self._forget(partial(self.org, name), expect)

    async def delete_team(self, org: str, name: str, expect: str = "") -> Team:
        """Forget a team. `GuardError` 409 while it has keys."""
        return await self._forget(partial(self.team, org, name), expect)

    async def delete_key(self, name: str, expect: str = "") -> Key:
        """Forget a key: it is unknown within two seconds. What it has used stays counted."""
        return await self._forget(partial(self.key, name), expect)

    async def _turn(
        self, read: Callable[[], Awaitable[_Object]], turned: Callable[[_Object], _Object], expect: str
    ) -> tuple[_Object, _Object]:
        """How it was, and how it is."""

        async def put(before: _Object) -> tuple[_Object, _Object]:
            after = turned(before)
            gone = _digests(before) - _digests(after)
            return before, await self._registry.put(after, before.etag, sorted(gone))

        return await _settled(read, put, expect)

    async def _forget(self, read: Callable[[], Awaitable[_Object]], expect: str) -> _Object:
        async def delete(one: _Object) -> _Object:
            await self._registry.delete(one, one.etag)
            return one

        return await _settled(read, delete, expect)

    def _kept(self, secret: str) -> Secret:
        return Secret(virtual_key.digest(self._key, secret), virtual_key.shown(secret))


async def _settled(read: Callable[[], Awaitable[_Object]], work: Callable[[_Object], Awaitable[T]], expect: str) -> T:
    """Read it and do the work, which the store refuses if somebody came in between; then again, on what they left."""
    for left in reversed(range(TRIES)):
        one = await read()
        if expect not in ("", one.etag):
            raise _stale()
        try:
            return await work(one)
        except GuardError as error:
            if error.code != "changed" or not left:
                raise
    raise AssertionError("not reached")


def _digests(one: Org | Team | Key) -> set[str]:
    return {secret.digest for secret in one.secrets} if isinstance(one, Key) else set()


def span_ms(param: str, text: str) -> int:
    """A span such as 90m, 12h, 7d, 2w, or 0."""
    found = _SPAN.fullmatch(text.strip())
    if found is None and text.strip() != "0":
        raise BadAsk(f"{text[:40]!r} must be a number with a unit: 90m, 12h, 7d or 2w", param=param)
    span = int(found[1]) * _UNITS[found[2]] if found else 0
    if span > LONGEST_MS:
        raise BadAsk(f"{text[:40]} is longer than a hundred years", param=param)
    return span


def _expiry(text: str, now_ms: int) -> int:
    """When a key ends. A date without a time zone is UTC."""
    text = text.strip()
    if text in ("", "never"):
        return 0
    at_ms = now_ms + span_ms("expires", text) if _SPAN.fullmatch(text) else _moment_ms(text)
    if at_ms <= now_ms:
        raise BadAsk(f"{text[:40]} is over; to switch a key off, disable it", param="expires")
    if at_ms > now_ms + LONGEST_MS:
        raise BadAsk(f"{text[:40]} is farther than a hundred years; never is longer", param="expires")
    return at_ms


def _moment_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadAsk(f"{text[:40]!r} must be a span (90d), a date (2027-01-31) or never", param="expires") from error
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _changed(key: Key, fields: Mapping[str, Any], now_ms: int) -> Key:
    """The key with the fields that were given (None: as it is)."""
    given = {name: value for name, value in fields.items() if value is not None}
    made: dict[str, Any] = {name: _globs(name, given[name]) for name in _LISTS if name in given}
    if "expires" in given:
        made["expires_ms"] = _expiry(given["expires"], now_ms)
    for name in ("name", "policy"):
        if name in given:
            made[name] = people.line(name, _no_secret(name, given[name]), LONGEST_NAME)
    if "user_header" in given:
        made["user_header"] = _header(given["user_header"])
    if "enabled" in given:
        made["enabled"] = bool(given["enabled"])
    changed = replace(key, **made)
    if changed.models and changed.routes:
        said = "a key for certain models has no routes: what is passed on unread may name any model"
        raise BadAsk(f"{said}. Make a key for each", param="routes")
    return changed


def _globs(param: str, given: Sequence[str]) -> tuple[str, ...]:
    """A list of globs; an empty one, or one empty text, takes it away."""
    globs = tuple(dict.fromkeys(one.strip() for one in given if one.strip()))
    bad = next((one for one in globs if len(one) > LONGEST_GLOB or not one.isprintable() or " " in one), "")
    if bad or len(globs) > MOST:
        raise BadAsk(f"must be at most {MOST} patterns of at most {LONGEST_GLOB} characters, no spaces", param=param)
    if param == "routes" and (wrong := next((one for one in globs if not one.startswith(("/v1/", "*"))), "")):
        raise BadAsk(f"{wrong!r} must begin with /v1/, such as /v1/rerank", param=param)
    for one in globs:
        _no_secret(param, one)
    return globs


def _no_secret(param: str, text: str) -> str:
    """A text that is shown and written down wherever the key is."""
    if virtual_key.within(text):
        raise BadAsk("has a key in it, which everybody would see here", param=param)
    return text


def _header(text: str) -> str:
    """A header that names the end user; "" for none."""
    text = text.strip().lower()
    if text and (not _HEADER.fullmatch(text) or text in {one.lower() for one in CREDENTIALS}):
        said = "must be the name of a header, such as x-guardproxy-user, and none that carries a key"
        raise BadAsk(said, param="user_header")
    return _no_secret("user_header", text)


def _name(param: str, text: str) -> str:
    if not NAME.fullmatch(text):
        said = "must be 1 to 63 of a-z, 0-9, dot, dash and underscore, and begin with a letter or a digit"
        raise BadAsk(said, param=param)
    return text


def unknown(kind: str, name: str) -> GuardError:
    """What to say of an org, a team or a key that is not there."""
    said = f"the store has no {kind} {name[:80]!r}; guardproxy {kind}s list shows them"
    return GuardError(said, status=404, code="not_found")


def _stale() -> GuardError:
    return GuardError("it is not as you saw it: get it again", status=412, code="stale")
