"""Named policies: those of the configuration file as they are, and those that are kept here, with their revisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from guardproxy import _in_force
from guardproxy._policies import InForce, NamedPolicy
from guardproxy.core.tenant import DEFAULT_ORG
from guardproxy.errors import GuardError
from guardproxy.http.auditing import changed
from guardproxy.http.objects._kinds import Milliseconds, Model, Named, Signed, after, listing
from guardproxy.http.objects._route import Call, Route, Told
from guardproxy.http.standing import Standing
from guardproxy.store.policies import Kept

Document = Annotated[
    dict[str, Any],
    Field(description="As a policy of `policies` in the configuration file; what is absent is as in `policy` there"),
]


class Policy(Model):
    """A policy. `version` stands with every decision that it made; null where it is not in force here.

    `document`: as it was written, null for those of the file, whose `revision` is null, too.
    """

    name: str
    origin: Literal["file", "api"]
    version: str | None
    mode: str | None
    models: list[str]
    agents: list[str]
    revision: int | None
    at_ms: Milliseconds | None
    by: str | None
    document: dict[str, Any] | None


class WholePolicy(Policy):
    """A policy with what it comes to here.

    `in_force_revision`: which one of them that is; another than `revision` where the newest cannot be used here.
    """

    in_force: Annotated[list[str], Field(description="What it comes to, a line each, as `guardproxy check` says it")]
    in_force_revision: int | None


class Revision(Model):
    """A policy as it was once. `version`: what it came to then."""

    revision: int
    at_ms: Milliseconds
    by: str
    version: str
    document: dict[str, Any]


class Revisions(Model):
    """The newest hundred, the newest first."""

    items: list[Revision]


class SetPolicy(Signed):
    """The whole policy: it takes the place of the one before."""

    document: Document


Policies = listing(Policy)


def _standing(call: Call) -> Standing:
    if call.standing is None:
        raise GuardError("this listener has no configuration", status=404, code="not_found")
    return call.standing


def _shown(name: str, one: InForce | None, kept: Kept | None) -> Policy:
    section = one.section if one is not None else None
    named = section if isinstance(section, NamedPolicy) else None
    return Policy(
        name=name,
        origin="api" if kept else "file",
        version=one.version if one else None,
        mode=one.policy.mode if one else None,
        models=list(named.models) if named else [],
        agents=list(named.agents) if named else [],
        revision=kept.revision if kept else None,
        at_ms=kept.at_ms if kept else None,
        by=kept.by if kept else None,
        document=dict(kept.written) if kept else None,
    )


async def _every(call: Call) -> dict[str, Policy]:
    standing = _standing(call)
    _, kept = await call.store.policies.every()
    own = {name: one for name, one in kept.items() if not standing.of_the_file(name)}
    force = standing.in_force()
    names = sorted({name for name in force if standing.of_the_file(name)} | set(own))
    return {name: _shown(name, force.get(name), own.get(name)) for name in names}


async def _list(call: Call) -> Told:
    """List the policies, by name."""
    found = list((await _every(call)).values())
    return Told(after(Policies, found, call.query, lambda one: one.name, lambda one: one))


async def _show(call: Call) -> Told:
    """One policy, with what it comes to."""
    one = (await _every(call)).get(call.path["id"])
    if one is None:
        raise GuardError(f"there is no policy {call.path['id'][:80]!r}", status=404, code="not_found")
    standing = _standing(call)
    stands, kept = standing.in_force().get(one.name), standing.kept(one.name)
    told: dict[str, Any] = {"in_force": list(_in_force.stands(stands)) if stands else []}
    told["in_force_revision"] = kept.revision if kept else None
    return Told(WholePolicy(**one.model_dump(), **told), etag=str(one.revision or one.version))


async def _revisions(call: Call) -> Told:
    """What a policy was before, also one that was forgotten."""
    found = await call.store.policies.revisions(call.path["id"])
    if not found:
        raise GuardError(f"there is no policy {call.path['id'][:80]!r}", status=404, code="not_found")
    return Told(
        Revisions(
            items=[
                Revision(
                    revision=one.revision, at_ms=one.at_ms, by=one.by, version=one.version, document=dict(one.written)
                )
                for one in found
            ]
        )
    )


async def _put(call: Call) -> Told:
    """Make a policy, or put another in its place: in force within two seconds everywhere, no request is dropped."""
    standing, name, written = _standing(call), call.path["id"], call.body.document
    version = standing.check(name, written).version
    before = await _kept(call, name)
    await call.store.policies.put(Kept(name, written, by=call.by(), version=version), call.expect or "*")
    await standing.look()
    now = await _kept(call, name)
    diff = changed(before.written if before else {}, written) or {"revision": (before and before.revision, "again")}
    entry = call.actor.did("policy.set", name, why=call.why(), diff=diff)
    told = _shown(name, standing.in_force().get(name), now)
    return Told(told, status=200 if before else 201, etag=str(now.revision) if now else "", entry=entry)


async def _delete(call: Call) -> Told:
    """Forget a policy that no key names. Its revisions stay."""
    standing, name = _standing(call), call.path["id"]
    if standing.of_the_file(name):
        raise GuardError(f"the policy {name!r} stands in the configuration file", status=409, code="in_file")
    before = await _kept(call, name)
    if before is None:
        raise GuardError(f"there is no policy {name[:80]!r}", status=404, code="not_found")
    if call.expect not in ("", str(before.revision)):
        call.unchanged(str(before.revision))
    if key := await _key_of(call, name):
        raise GuardError(f"the policy {name!r} is that of the key {key}", status=409, code="in_use")
    await call.store.policies.delete(name, call.expect or "*")
    await standing.look()
    entry = call.actor.did(
        "policy.delete", name, why=call.why(), diff=changed(before.written, {}) or {"name": (name, None)}
    )
    return Told(_shown(name, None, before), entry=entry)


async def _kept(call: Call, name: str) -> Kept | None:
    _, kept = await call.store.policies.every()
    return kept.get(name)


async def _key_of(call: Call, name: str) -> str:
    """A key that is for the policy."""
    orgs = {DEFAULT_ORG, *(one.name for one in await call.store.registry.orgs())}
    for org in sorted(orgs):
        found = next((one.id for one in await call.store.registry.keys(org) if one.policy == name), "")
        if found:
            return found
    return ""


_EXAMPLE: Mapping[str, Any] = {"document": {"preset": "strict", "limits": {"session": {"cost_usd": 5}}}}

ROUTES = (
    Route("GET", "/policies", "viewer", _list, Policies, query=Named, about="whole", errors=(404,)),
    Route("GET", "/policies/{id}", "viewer", _show, WholePolicy, about="whole", etag=True),
    Route("GET", "/policies/{id}/revisions", "viewer", _revisions, Revisions, about="whole"),
    Route(
        "PUT",
        "/policies/{id}",
        "owner",
        _put,
        Policy,
        body=SetPolicy,
        example=_EXAMPLE,
        about="whole",
        etag=True,
        also=(201,),
    ),
    Route(
        "DELETE",
        "/policies/{id}",
        "owner",
        _delete,
        Policy,
        body=Signed,
        example={"why": "nobody uses it"},
        about="whole",
        etag=True,
    ),
)
