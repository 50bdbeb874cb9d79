"""Orgs, teams and virtual keys, as all workers of all machines see them. Keys of the store and rules: `registry.lua`.

A key's secret is never here: only its keyed hash, and the characters by which people tell keys apart. Each method is
one trip, or two, and raises `StoreError` when the server does not answer.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha1
from typing import Any, TypeVar

import orjson

from guardproxy.core.tenant import DEFAULT_ORG
from guardproxy.core.windows import Budget
from guardproxy.errors import GuardError, StoreError
from guardproxy.store._client import Client
from guardproxy.store._codec import bare, prefix

SLOT = "_registry"
"""In the place of an org: what is not any org's own. No org can have this name."""

LONGEST_ID = 64
"""Characters, fewer than which the id of a key has: digests of secrets, which stand beside ids, have as many."""

ANY, NONE = "*", "-"
"""What a writer may expect beside an etag: whatever there is, or nothing."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret of a key: its keyed hash, and what is shown of it. `until_ms`: when it ends (store's clock), 0 = not."""

    digest: str
    shown: str
    until_ms: int = 0


@dataclass(frozen=True, slots=True)
class Org:
    """An organisation. `etag` is of the document as it was read, "" of one that was not."""

    name: str
    enabled: bool = True
    budgets: tuple[Budget, ...] = ()
    made_ms: int = 0
    made_by: str = ""
    etag: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Team:
    """A team of an org."""

    org: str
    name: str
    enabled: bool = True
    budgets: tuple[Budget, ...] = ()
    made_ms: int = 0
    made_by: str = ""
    etag: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Key:
    """A virtual key. `name` is for people. `expires_ms`: of the store's clock, 0 = never.

    `user_header`: the request header that names the end user, "" = clients may name none. The rest as in `Tenant`.
    """

    id: str
    org: str = DEFAULT_ORG
    team: str = ""
    name: str = ""
    enabled: bool = True
    expires_ms: int = 0
    models: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    upstreams: tuple[str, ...] = ()
    policy: str = ""
    user_header: str = ""
    budgets: tuple[Budget, ...] = ()
    secrets: tuple[Secret, ...] = ()
    made_ms: int = 0
    made_by: str = ""
    etag: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Found:
    """What a digest leads to, read in one moment: `now_ms` by the store's clock. None = there is none."""

    now_ms: int
    key: Key | None = None
    org: Org | None = None
    team: Team | None = None


_Object = TypeVar("_Object", bound=Org | Team | Key)
_KINDS: dict[type, str] = {Org: "org", Team: "team", Key: "key"}
_MANY = {"budgets": Budget, "secrets": Secret}


class Registry:
    """The registry of a store. `Store.registry` is one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def find(self, digest: str) -> Found:
        """The key that has a secret of this digest, with its org and team. Whether they may be used is not judged."""
        reply = await self._run("find", digests=(digest,))
        if not isinstance(reply, list) or not reply:
            raise StoreError("the store gave an answer that cannot be read")
        now_ms = int(reply[0])
        if len(reply) == 1:
            return Found(now_ms)
        _, _, key, org, team = reply
        return Found(now_ms, _read(Key, key), _read(Org, org), _read(Team, team))

    async def now_ms(self) -> int:
        """The store's clock, by which keys expire."""
        return (await self.find("")).now_ms

    async def key(self, key: str) -> Key | None:
        """A key by its id."""
        org = (await self._run("org_of", name=key)).decode() if len(key) < LONGEST_ID else ""
        return _read(Key, await self._run("get", "key", org, key)) if org else None

    async def org(self, name: str) -> Org | None:
        """An org by its name."""
        return _read(Org, await self._run("get", "org", name, name))

    async def team(self, org: str, name: str) -> Team | None:
        """A team by its name."""
        return _read(Team, await self._run("get", "team", org, name))

    async def orgs(self) -> list[Org]:
        """All orgs, by name."""
        return sorted(await self._list(Org, "org", ""), key=lambda one: one.name)

    async def teams(self, org: str) -> list[Team]:
        """The teams of an org, by name."""
        return sorted(await self._list(Team, "team", org), key=lambda one: one.name)

    async def keys(self, org: str) -> list[Key]:
        """The keys of an org, the oldest first."""
        return sorted(await self._list(Key, "key", org), key=lambda one: (one.made_ms, one.id))

    async def put(self, one: _Object, expected: str = ANY, gone: Sequence[str] = ()) -> _Object:
        """Keep an object. `expected`: an etag, ANY or NONE; `gone`: digests of secrets that lead to it no more.

        `GuardError`: 404 where it, its org or its team is not there, 409 where it is there (NONE) or was changed.
        """
        document = _document(one)
        org = one.name if isinstance(one, Org) else one.org
        kind, name, team = _KINDS[type(one)], one.id if isinstance(one, Key) else one.name, ""
        digests: list[str] = []
        if isinstance(one, Key):
            team, digests = one.team, [secret.digest for secret in one.secrets]
        word = await self._run(
            "put", kind, org, name, expected, team=team, digests=digests, gone=gone, document=document
        )
        _check(word, kind, name, org, team)
        return replace(one, etag=_etag(document))

    async def delete(self, one: Org | Team | Key, expected: str = ANY) -> None:
        """Forget an object, and the secrets of a key. `GuardError` 404, or 409 where something belongs to it."""
        org = one.name if isinstance(one, Org) else one.org
        name = one.id if isinstance(one, Key) else one.name
        digests = [secret.digest for secret in one.secrets] if isinstance(one, Key) else []
        kind = _KINDS[type(one)]
        _check(await self._run("delete", kind, org, name, expected, gone=digests), kind, name, org, "")

    async def _list(self, made: type[_Object], kind: str, org: str) -> list[_Object]:
        reply = await self._run("list", kind, org)
        return [one for raw in reply if (one := _read(made, raw)) is not None]

    async def _run(
        self,
        act: str,
        kind: str = "key",
        org: str = "",
        name: str = "",
        expected: str = ANY,
        *,
        team: str = "",
        digests: Sequence[str] = (),
        gone: Sequence[str] = (),
        document: bytes = b"",
    ) -> Any:
        head = bare((act, secrets.token_hex(8), kind, org, name, expected, team, list(digests), list(gone)))
        return await self._client.run("registry", prefix(SLOT).encode(), (head, document))


def _document(one: Org | Team | Key) -> bytes:
    kept = asdict(one)
    del kept["etag"]
    return orjson.dumps(kept)


def _etag(document: bytes) -> str:
    return sha1(document, usedforsecurity=False).hexdigest()  # what a script can compute, too


def _read(made: type[_Object], raw: object) -> _Object | None:
    """An object from its document. Fields of another version are left out."""
    if not isinstance(raw, bytes) or not raw:
        return None
    try:
        kept = orjson.loads(raw)
        wanted: dict[str, Any] = {one.name: kept[one.name] for one in fields(made) if one.name in kept}
        for name, value in wanted.items():
            if isinstance(value, list):
                wanted[name] = tuple(_part(_MANY[name], one) if name in _MANY else one for one in value)
        return made(**{**wanted, "etag": _etag(raw)})
    except (TypeError, ValueError, KeyError) as error:
        raise StoreError(f"the store holds a {_KINDS[made]} that cannot be read: {error}") from error


def _part(made: type[Any], kept: dict[str, Any]) -> object:
    wanted = {one.name: kept[one.name] for one in fields(made) if one.name in kept}
    return made(**{name: tuple(value) if isinstance(value, list) else value for name, value in wanted.items()})


def _check(word: object, kind: str, name: str, org: str, team: str) -> None:
    if word == b"done":
        return
    of = "" if kind == "org" else f" of org {org!r}"
    said = {
        b"exists": (409, "already_exists", f"there is a {kind} {name!r}{of} already"),
        b"unknown": (404, "not_found", f"the store has no {kind} {name!r}{of}; guardproxy {kind}s list shows them"),
        b"changed": (409, "changed", f"the {kind} {name!r}{of} was changed meanwhile; read it again"),
        b"no org": (404, "not_found", f"the store has no org {org!r}; guardproxy orgs create {org} makes it"),
        b"no team": (404, "not_found", f"org {org!r} has no team {team!r}; guardproxy teams create {team} --org {org}"),
        b"in use": (409, "in_use", f"the {kind} {name!r}{of} has keys or teams; delete them first"),
    }.get(word if isinstance(word, bytes) else b"")
    if said is None:
        raise StoreError("the store gave an answer that cannot be read")
    status, code, message = said
    raise GuardError(message, status=status, code=code)
