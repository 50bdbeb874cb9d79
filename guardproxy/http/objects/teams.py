"""Teams of an organisation. An owner's token for one organisation makes those of its own."""

from __future__ import annotations

from typing import Annotated

from guardproxy.http.auditing import changed
from guardproxy.http.objects._kinds import NAME, Milliseconds, Model, Named, Signed, after, listing
from guardproxy.http.objects._route import Call, Route, Told
from guardproxy.store import registry


class Team(Model):
    """A team. While it is not `enabled` all of its keys are refused."""

    org: str
    name: str
    enabled: bool
    made_ms: Milliseconds
    made_by: str


class MakeTeam(Signed):
    """Its name, which stays."""

    name: Annotated[str, NAME]


class SwitchTeam(Signed):
    """Whether its keys may be used."""

    enabled: bool


Teams = listing(Team)


def _shown(one: registry.Team) -> Team:
    return Team(org=one.org, name=one.name, enabled=one.enabled, made_ms=one.made_ms, made_by=one.made_by)


def _facts(one: registry.Team | None) -> dict[str, object]:
    return {"name": one.name, "enabled": one.enabled} if one else {}


def _told(call: Call, what: str, one: registry.Team, before: registry.Team | None = None, status: int = 200) -> Told:
    gone = what == "delete"
    diff = changed(_facts(one if gone else before), _facts(None if gone else one))
    entry = call.actor.did(f"team.{what}", one.name, org=one.org, why=call.why(), diff=diff)
    return Told(_shown(one), status=status, etag="" if gone else one.etag, entry=entry if diff else None)


async def _list(call: Call) -> Told:
    """List the teams of an organisation, by name."""
    found = await call.store.registry.teams(call.org)
    return Told(after(Teams, found, call.query, lambda one: one.name, _shown))


async def _show(call: Call) -> Told:
    """One team."""
    one = await call.tenants().team(call.org, call.path["id"])
    return Told(_shown(one), etag=one.etag)


async def _make(call: Call) -> Told:
    """Make a team."""
    return _told(call, "create", await call.tenants().make_team(call.org, call.body.name), status=201)


async def _switch(call: Call) -> Told:
    """Let its keys be used, or not: within two seconds everywhere."""
    name, on = call.path["id"], call.body.enabled
    before, now = await call.tenants().switch_team(call.org, name, on=on, expect=call.expect)
    return _told(call, "update", now, before)


async def _delete(call: Call) -> Told:
    """Forget a team that has no keys."""
    return _told(call, "delete", await call.tenants().delete_team(call.org, call.path["id"], call.expect))


ROUTES = (
    Route("GET", "/teams", "viewer", _list, Teams, query=Named),
    Route("GET", "/teams/{id}", "viewer", _show, Team, etag=True),
    Route(
        "POST",
        "/teams",
        "owner",
        _make,
        Team,
        body=MakeTeam,
        example={"name": "mobile"},
        status=201,
        errors=(404, 409),
    ),
    Route("PATCH", "/teams/{id}", "owner", _switch, Team, body=SwitchTeam, example={"enabled": False}, etag=True),
    Route("DELETE", "/teams/{id}", "owner", _delete, Team, body=Signed, example={"why": "merged"}, etag=True),
)
