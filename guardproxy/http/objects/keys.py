"""Virtual keys. A secret is in the answer that makes it and nowhere else; its ends are shown, to tell keys apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from guardproxy._policies import DEFAULT
from guardproxy.errors import BadAsk, GuardError
from guardproxy.http import keyring
from guardproxy.http.auditing import changed
from guardproxy.http.keyring import Made
from guardproxy.http.objects._kinds import NAME, WHOLE, Milliseconds, Model, Named, Signed, after, listing
from guardproxy.http.objects._route import Call, Route, Told
from guardproxy.store import registry

SAID = 8
"""Settings that are named where a policy is looser."""

Globs = Annotated[list[str], Field(max_length=keyring.MOST)]
Text = Annotated[str, Field(max_length=keyring.LONGEST_NAME)]
Expiry = Annotated[str, Field(max_length=40, description="A span from now (90d), a date (2027-01-31), or never")]


class Secret(Model):
    """What is shown of a secret: its first and last characters. `until_ms`: when a rotation ends it."""

    shown: str
    until_ms: Milliseconds | None


class Key(Model):
    """A key. No models, no upstreams: all of them; `routes`: those that are passed on unread and yet open to it.

    `user_header`: the header by which a client may name its end user.
    """

    id: str
    org: str
    team: str | None
    name: str
    enabled: bool
    expires_ms: Milliseconds | None
    models: list[str]
    routes: list[str]
    upstreams: list[str]
    policy: str | None
    user_header: str | None
    secrets: list[Secret]
    made_ms: Milliseconds
    made_by: str


class NewKey(Key):
    """A key with its new secret, which is shown once and kept nowhere."""

    secret: str


class ChangeKey(Signed):
    """What is to be otherwise; what is absent or null stays. An empty list or text takes away what there was."""

    name: Text | None = None
    models: Globs | None = None
    routes: Globs | None = None
    upstreams: Globs | None = None
    policy: Text | None = None
    user_header: Text | None = None
    expires: Expiry | None = None
    enabled: bool | None = None


class MakeKey(ChangeKey):
    """Its team, if it is one's, and what it may do."""

    team: Annotated[str | None, NAME] = None


class Rotate(Signed):
    """For how long the secrets before it hold beside the new one; 0 = no longer."""

    overlap_seconds: Annotated[int, Field(ge=0, le=keyring.LONGEST_MS // 1000), WHOLE] = keyring.OVERLAP_MS // 1000


class KeyQuery(Named):
    """Which keys: of this team, or all."""

    team: Annotated[str, Field(max_length=200)] = ""


Keys = listing(Key)


def _facts(one: registry.Key) -> dict[str, Any]:
    """Of a key, field by field: its hashes stay here."""
    return {
        "id": one.id,
        "org": one.org,
        "team": one.team or None,
        "name": one.name,
        "enabled": one.enabled,
        "expires_ms": one.expires_ms or None,
        "models": list(one.models),
        "routes": list(one.routes),
        "upstreams": list(one.upstreams),
        "policy": one.policy or None,
        "user_header": one.user_header or None,
        "secrets": [{"shown": secret.shown, "until_ms": secret.until_ms or None} for secret in one.secrets],
        "made_ms": one.made_ms,
        "made_by": one.made_by,
    }


def _noted(one: registry.Key | None) -> dict[str, object]:
    """For the audit; who made it when is in another entry, whose it is in this one."""
    left_out = ("id", "org", "made_ms", "made_by")
    return {name: said for name, said in _facts(one).items() if name not in left_out} if one else {}


def _shown(one: registry.Key) -> Key:
    return Key.model_validate(_facts(one))


def _told(call: Call, what: str, one: registry.Key, before: registry.Key | None = None, secret: str = "") -> Told:
    gone = what == "delete"
    diff = changed(_noted(one if gone else before), _noted(None if gone else one))
    entry = call.actor.did(f"key.{what}", one.id, org=one.org, why=call.why(), diff=diff)
    body = NewKey.model_validate(_facts(one) | {"secret": secret}) if secret else _shown(one)
    return Told(
        body, status=201 if what == "create" else 200, etag="" if gone else one.etag, entry=entry if diff else None
    )


def _known_policy(call: Call) -> None:
    """`BadAsk` for a policy that is not in force where this is asked: the key would be refused everywhere.

    `GuardError` 403 for a looser one than the default, from the owner of one organisation: it binds them, too.
    """
    wanted = call.body.policy
    if not wanted or call.standing is None:
        return
    force = call.standing.in_force()
    if wanted not in force:
        raise BadAsk("there is no such policy (GET /admin/v1/policies)", param="policy")
    if call.actor.org and (wrong := force[wanted].looser(force[DEFAULT])):
        told = f"a token for one organisation may only tighten: {wanted} is looser in {', '.join(wrong[:SAID])}"
        raise GuardError(told, status=403, code="policy_not_tighter", param="policy")


def _opens(call: Call, had: Sequence[str] = ()) -> None:
    """`GuardError` 403 where the owner of one organisation opens a route that is passed on unread: what others left at
    the provider is behind it, and no budget of money holds there. Those that the key has it may keep.
    """
    if call.actor.org and (new := set(call.body.routes or ()) - {"", *had}):
        told = f"a token for one organisation opens no routes ({min(new)[:80]}): others have files behind them"
        raise GuardError(told, status=403, code="other_org", param="routes")


async def _own(call: Call) -> str:
    """The id of the key, where the caller may know of it: another organisation's is not there for them."""
    name = call.path["id"]
    if call.actor.org and (await call.tenants().key(name)).org != call.actor.org:
        raise keyring.unknown("key", name)
    return name


async def _list(call: Call) -> Told:
    """List the keys of an organisation, the oldest first."""
    asked: KeyQuery = call.query
    found = [one for one in await call.store.registry.keys(call.org) if asked.team in ("", one.team)]
    return Told(after(Keys, found, asked, lambda one: f"{one.made_ms:015}-{one.id}", _shown))


async def _show(call: Call) -> Told:
    """One key."""
    one = await call.tenants().key(await _own(call))
    return Told(_shown(one), etag=one.etag)


async def _make(call: Call) -> Told:
    """Make a key. Its secret is in this answer and nowhere else."""
    _known_policy(call)
    _opens(call)
    made: Made = await call.tenants().make_key(call.org, call.body.team or "", **_fields(call))
    return _told(call, "create", made.key, secret=made.secret)


async def _change(call: Call) -> Told:
    """Change what a key may do, or switch it off: within two seconds everywhere."""
    _known_policy(call)
    name = await _own(call)
    if call.actor.org and call.body.routes:
        _opens(call, (await call.tenants().key(name)).routes)
    before, now = await call.tenants().change(name, _fields(call), call.expect)
    return _told(call, "update", now, before)


async def _rotate(call: Call) -> Told:
    """Give a key a new secret, which is in this answer and nowhere else. The old one holds for a while."""
    overlap_ms = call.body.overlap_seconds * 1000
    before, made = await call.tenants().rotate(await _own(call), overlap_ms, call.expect)
    return _told(call, "rotate", made.key, before, made.secret)


async def _delete(call: Call) -> Told:
    """Forget a key: it is refused within two seconds everywhere. What it has used stays counted."""
    return _told(call, "delete", await call.tenants().delete_key(await _own(call), call.expect))


def _fields(call: Call) -> dict[str, Any]:
    """What was said of the key."""
    names = [name for name in ChangeKey.model_fields if name not in Signed.model_fields]
    return {name: getattr(call.body, name) for name in names}


ROUTES = (
    Route("GET", "/keys", "viewer", _list, Keys, query=KeyQuery),
    Route("GET", "/keys/{id}", "viewer", _show, Key, about="either", etag=True),
    Route(
        "POST",
        "/keys",
        "owner",
        _make,
        NewKey,
        body=MakeKey,
        example={"name": "nightly", "models": ["gpt-*"], "expires": "90d"},
        status=201,
        errors=(404, 409),
    ),
    Route(
        "PATCH",
        "/keys/{id}",
        "owner",
        _change,
        Key,
        body=ChangeKey,
        example={"enabled": False, "why": "it leaked"},
        about="either",
        etag=True,
    ),
    Route(
        "POST",
        "/keys/{id}/rotate",
        "owner",
        _rotate,
        NewKey,
        body=Rotate,
        example={"overlap_seconds": 3600},
        about="either",
        etag=True,
    ),
    Route(
        "DELETE",
        "/keys/{id}",
        "owner",
        _delete,
        Key,
        body=Signed,
        example={"why": "no longer used"},
        about="either",
        etag=True,
    ),
)
