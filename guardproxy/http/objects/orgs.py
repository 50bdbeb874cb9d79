"""Organisations: whose the teams and keys are. For owners of the whole; a token for one organisation sees its own."""

from __future__ import annotations

import time
from typing import Annotated

from guardproxy.errors import GuardError
from guardproxy.http.auditing import changed
from guardproxy.http.objects._kinds import NAME, Milliseconds, Model, Named, Signed, after, listing
from guardproxy.http.objects._route import Call, Route, Told
from guardproxy.http.tokens import state
from guardproxy.store import registry


class Org(Model):
    """An organisation. While it is not `enabled` all of its keys are refused."""

    name: str
    enabled: bool
    made_ms: Milliseconds
    made_by: str


class MakeOrg(Signed):
    """Its name, which stays."""

    name: Annotated[str, NAME]


class SwitchOrg(Signed):
    """Whether its keys may be used."""

    enabled: bool


Orgs = listing(Org)


def _shown(one: registry.Org) -> Org:
    return Org(name=one.name, enabled=one.enabled, made_ms=one.made_ms, made_by=one.made_by)


def _facts(one: registry.Org | None) -> dict[str, object]:
    return {"name": one.name, "enabled": one.enabled} if one else {}


def _told(call: Call, what: str, one: registry.Org, before: registry.Org | None = None, status: int = 200) -> Told:
    gone = what == "delete"
    diff = changed(_facts(one if gone else before), _facts(None if gone else one))
    entry = call.actor.did(f"org.{what}", one.name, org=one.name, why=call.why(), diff=diff)
    return Told(_shown(one), status=status, etag="" if gone else one.etag, entry=entry if diff else None)


async def _list(call: Call) -> Told:
    """List the organisations, by name. The default one is there without being listed."""
    found = [one for one in await call.store.registry.orgs() if call.actor.org in ("", one.name)]
    return Told(after(Orgs, found, call.query, lambda one: one.name, _shown))


async def _show(call: Call) -> Told:
    """One organisation."""
    call.only(call.path["id"])
    one = await call.tenants().org(call.path["id"])
    return Told(_shown(one), etag=one.etag)


async def _make(call: Call) -> Told:
    """Make an organisation."""
    return _told(call, "create", await call.tenants().make_org(call.body.name), status=201)


async def _switch(call: Call) -> Told:
    """Let its keys be used, or not: within two seconds everywhere."""
    before, now = await call.tenants().switch_org(call.path["id"], on=call.body.enabled, expect=call.expect)
    return _told(call, "update", now, before)


async def _delete(call: Call) -> Told:
    """Forget an organisation that has no teams, keys and admin tokens. Its runs and what they used stay."""
    name, now_ms = call.path["id"], time.time_ns() // 1_000_000
    every = await call.store.tokens.every()
    if one := next((one for one in every if one.org == name and state(one, now_ms) == "live"), None):
        told = f"the token {one.id} ({one.name}) is for {name} alone, and would be for another one of that name"
        raise GuardError(f"{told}: revoke it first", status=409, code="in_use")
    return _told(call, "delete", await call.tenants().delete_org(call.path["id"], call.expect))


ROUTES = (
    Route("GET", "/orgs", "viewer", _list, Orgs, query=Named, about="either"),
    Route("GET", "/orgs/{id}", "viewer", _show, Org, about="either", etag=True),
    Route(
        "POST",
        "/orgs",
        "owner",
        _make,
        Org,
        body=MakeOrg,
        example={"name": "globex"},
        about="whole",
        status=201,
        errors=(409,),
    ),
    Route(
        "PATCH",
        "/orgs/{id}",
        "owner",
        _switch,
        Org,
        body=SwitchOrg,
        example={"enabled": False},
        about="whole",
        etag=True,
    ),
    Route(
        "DELETE",
        "/orgs/{id}",
        "owner",
        _delete,
        Org,
        body=Signed,
        example={"why": "left us"},
        about="whole",
        etag=True,
    ),
)
