"""Budgets of an organisation, its teams and keys: what may be spent, and how much of it is. For owners to change."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from guardproxy import _budgets
from guardproxy.core.budget import DIMENSIONS
from guardproxy.core.denial import amount
from guardproxy.errors import GuardError
from guardproxy.http import budgeting
from guardproxy.http.auditing import changed
from guardproxy.http.budgeting import Kept
from guardproxy.http.objects._kinds import WHOLE, Milliseconds, Model, Named, Signed, listing
from guardproxy.http.objects._route import Call, Route, Told

Scope = Literal["org", "team", "key", "user", "model"]
Counted = Literal["cost_usd", "input_tokens", "output_tokens", "total_tokens", "requests", "concurrent_requests"]
Window = Literal["minute", "hour", "day", "week", "month", "total"]
OF = r"^(?:org|team:[a-z0-9][a-z0-9._-]{0,62}|key:k[0-9a-f]{12})$"

Limit = Annotated[float, Field(gt=0, le=10**15)]
Soft = Annotated[list[Annotated[int, Field(ge=1, le=100), WHOLE]], Field(max_length=10)]

LONGEST = 200
"""Names of a budget whose standing is shown: those who used most."""


class Budget(Model):
    """A budget. `of`: where it stands (org, team:<name>, key:<id>, or the file). Amounts in the units of the file.

    `used`, `held`: where it has one counter; null where each name has its own.
    """

    id: str
    org: str
    of: str
    scope: Scope
    match: str
    dimension: Counted
    window: Window | None
    limit: float
    timezone: str
    soft: list[int]
    used: float | None
    held: float | None
    resets_ms: Annotated[Milliseconds | None, Field(description="When its window ends; null = never")]


class Standing(Model):
    """How it stands for one name: a team, a key, a user. `left` is below 0 where real costs went above the hold."""

    name: str
    used: float
    held: float
    left: float


class WholeBudget(Budget):
    """A budget with how it stands for each of those that it is for, who used most first."""

    standing: list[Standing]


class SetBudget(Signed):
    """What may be spent. It takes the place of a budget of the same scope, match, dimension, window and timezone."""

    of: Annotated[str, Field(pattern=OF)] = "org"
    scope: Scope
    match: Annotated[str, Field(min_length=1, max_length=budgeting.LONGEST_MATCH)] = "*"
    dimension: Counted
    window: Window | None = None
    limit: Limit
    timezone: Annotated[str, Field(max_length=60)] = "UTC"
    soft: Soft = Field(default_factory=list)


class ChangeBudget(Signed):
    """What is to be otherwise; what is absent or null stays."""

    limit: Limit | None = None
    soft: Soft | None = None


Budgets = listing(Budget)


async def _shown(call: Call, kept: Kept, now_ms: int) -> dict[str, Any]:
    found, ends = await call.budgets().standing(kept, now_ms, all_names=False)
    row = DIMENSIONS[kept.budget.dimension]
    return {
        "id": kept.id,
        "org": kept.org,
        "of": kept.of,
        **_budgets.written(kept.budget),
        "used": float(amount(row, found[0].used)) if found else None,
        "held": float(amount(row, found[0].held)) if found else None,
        "resets_ms": ends or None,
    } | {"limit": float(amount(row, kept.budget.limit))}


async def _whole(call: Call, kept: Kept) -> WholeBudget:
    now_ms = await call.store.usages.now_ms()
    found, _ = await call.budgets().standing(kept, now_ms)
    row, limit = DIMENSIONS[kept.budget.dimension], kept.budget.limit
    standing = [
        Standing(
            name=one.name,
            used=float(amount(row, one.used)),
            held=float(amount(row, one.held)),
            left=float(amount(row, limit - one.used - one.held)),
        )
        for one in found[:LONGEST]
    ]
    return WholeBudget.model_validate(await _shown(call, kept, now_ms) | {"standing": standing})


def _facts(kept: Kept | None) -> dict[str, object]:
    return {"of": kept.of, **_budgets.written(kept.budget)} if kept else {}


async def _told(call: Call, what: str, before: Kept | None, now: Kept | None) -> Told:
    kept = now or before
    assert kept is not None  # noqa: S101  # for the type checker
    diff = changed(_facts(before), _facts(now))
    entry = call.actor.did(f"budget.{what}", kept.id, org=kept.org, why=call.why(), diff=diff) if diff else None
    return Told(await _whole(call, kept), etag=now.etag if now else "", entry=entry)


def _governs(call: Call, of: str) -> None:
    """`GuardError` 403 where the owner of one organisation would change what that may spend: others govern it."""
    if call.actor.org and not of.startswith(("team:", "key:")):
        told = f"this token is for {call.actor.org} alone: it sets budgets of its teams and keys, not its own"
        raise GuardError(told, status=403, code="other_org", param="of")


async def _list(call: Call) -> Told:
    """List the budgets of an organisation, of its teams and keys, and of the file."""
    asked, now_ms = call.query, await call.store.usages.now_ms()
    rest = [one for one in await call.budgets().every() if one.place > asked.cursor]
    kept = rest[: asked.limit]
    items = [Budget.model_validate(await _shown(call, one, now_ms)) for one in kept]
    return Told(Budgets(items=items, next=kept[-1].place if len(rest) > len(kept) else None))


async def _show(call: Call) -> Told:
    """One budget, and how it stands for each team, key or user that it is for."""
    kept = await call.budgets().find(call.path["id"])
    return Told(await _whole(call, kept), etag=kept.etag)


async def _set(call: Call) -> Told:
    """Set a budget: within two seconds everywhere. What was used before counts."""
    _governs(call, call.body.of)
    given = call.body.model_dump(exclude=set(Signed.model_fields) | {"of"})
    before, now = await call.budgets().set(call.body.of, _budgets.read(given), call.expect)
    return await _told(call, "set", before, now)


async def _change(call: Call) -> Told:
    """Change how much it is, or what is only said: within two seconds everywhere."""
    kept = await call.budgets().find(call.path["id"])
    _governs(call, kept.of)
    given = {"limit": call.body.limit, "soft": call.body.soft}
    wanted = _budgets.written(kept.budget) | {name: said for name, said in given.items() if said is not None}
    before, now = await call.budgets().set(kept.of, _budgets.read(wanted), call.expect)
    return await _told(call, "set", before, now)


async def _remove(call: Call) -> Told:
    """Take a budget away: within two seconds everywhere. What was used stays counted."""
    _governs(call, (await call.budgets().find(call.path["id"])).of)
    return await _told(call, "remove", await call.budgets().remove(call.path["id"], call.expect), None)


ROUTES = (
    Route("GET", "/budgets", "viewer", _list, Budgets, query=Named),
    Route("GET", "/budgets/{id}", "viewer", _show, WholeBudget, etag=True),
    Route(
        "PUT",
        "/budgets",
        "owner",
        _set,
        WholeBudget,
        body=SetBudget,
        example={"scope": "org", "dimension": "cost_usd", "window": "day", "limit": 500, "soft": [50, 80]},
        errors=(404, 409),
    ),
    Route(
        "PATCH",
        "/budgets/{id}",
        "owner",
        _change,
        WholeBudget,
        body=ChangeBudget,
        example={"limit": 750},
        etag=True,
    ),
    Route(
        "DELETE",
        "/budgets/{id}",
        "owner",
        _remove,
        WholeBudget,
        body=Signed,
        example={"why": "no longer needed"},
        etag=True,
    ),
)
