"""The audit: who changed what, when, from where. Nothing here can be changed."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from guardproxy.errors import GuardError
from guardproxy.http.objects._kinds import DIGITS, MOST, USUAL, Milliseconds, Model, listing
from guardproxy.http.objects._route import Call, Route, Told
from guardproxy.store import audit

LATEST_MS = 10**15
"""Of a moment that is asked for: some 30,000 years, and exact wherever it is counted."""


class Differing(Model):
    """A field that was changed, before and after; null where there was or is none."""

    before: Any
    after: Any


class Entry(Model):
    """One change. `kind` of the actor: token, local (without a log-in), command, system. No content, no secrets."""

    id: str
    at_ms: Milliseconds
    actor: str
    kind: str
    role: str | None
    token: Annotated[str | None, Field(description="The id of the token that was used")]
    address: str | None
    what: str
    subject: str | None
    org: str | None
    why: str | None
    diff: dict[str, Differing]


class AuditQuery(Model):
    """Which entries. `what` may be a part in front: `session` finds `session.pause`."""

    actor: str = ""
    what: str = ""
    subject: str = ""
    org: Annotated[str, Field(description="Only of this organisation")] = ""
    since_ms: Annotated[int, Field(ge=0, le=LATEST_MS), DIGITS] = 0
    until_ms: Annotated[int, Field(ge=0, le=LATEST_MS), DIGITS] = 0
    limit: Annotated[int, Field(ge=1, le=MOST), DIGITS] = USUAL
    cursor: Annotated[str, Field(pattern=r"^(?:[0-9]{1,15}-[0-9]{1,15})?$")] = ""


Entries = listing(Entry)


def _shown(one: audit.Entry) -> Entry:
    return Entry(
        id=one.id,
        at_ms=one.at_ms,
        actor=one.actor,
        kind=one.kind,
        role=one.role or None,
        token=one.token or None,
        address=one.address or None,
        what=one.what,
        subject=one.subject or None,
        org=one.org or None,
        why=one.why or None,
        diff={name: Differing(before=old, after=new) for name, (old, new) in one.diff.items()},
    )


async def _list(call: Call) -> Told:
    """List what was changed, the newest first. A token for one organisation sees what was done to that one."""
    asked: AuditQuery = call.query
    org = call.actor.org or asked.org
    if asked.org not in ("", org):
        raise GuardError(f"this token is for {org} alone", status=403, code="other_org")
    wanted = audit.Wanted(asked.actor, asked.what, asked.subject, org, asked.since_ms, asked.until_ms)
    found, cursor = await call.store.audit.read(asked.limit, asked.cursor, wanted)
    return Told(Entries(items=[_shown(one) for one in found], next=cursor or None))


ROUTES = (Route("GET", "/audit", "viewer", _list, Entries, query=AuditQuery, about="either"),)
