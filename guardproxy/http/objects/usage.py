"""What an organisation used, by day, team, key, user, model and agent. Nothing here can be changed."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, create_model

from guardproxy.core import usage
from guardproxy.core.usage import BY, FIELDS
from guardproxy.errors import BadAsk
from guardproxy.http.objects._kinds import DIGITS, MOST, USUAL, Model
from guardproxy.http.objects._route import Call, Route, Told

NAMES = ("day", *BY)
"""What rows may be told apart by."""

LONGEST = 400
"""Days that are asked for at once."""

DOLLARS = {name: name.replace("_microusd", "_usd") for name in FIELDS if name.endswith("_microusd")}
"""Counted in micro-dollars, told in dollars."""


def _field(name: str) -> tuple[str, Any]:
    if name in DOLLARS:
        return DOLLARS[name], (float, ...)
    return name, (int, ...)


_SUMS: Any = dict(map(_field, FIELDS))
_ROW: Any = {"org": (str, ...), **dict.fromkeys(NAMES, (str | None, ...))}

Sums: Any = create_model(
    "Sums",
    __base__=Model,
    __doc__="""What was used. Requests are those that went to the provider; `estimated` of them had no usage from it.

    Cached tokens and cache writes are part of the input, reasoning of the output. `saved_usd`: the least that requests
    would have cost which were answered here. `saveable_usd`: what those cost that a policy which observes would not
    have sent. `holds_expired`: requests whose worker died; they are counted as they were held.""",
    **_SUMS,
)

Usage: Any = create_model(
    "Usage", __base__=Sums, __doc__="A row of the ledger. What rows are not told apart by is null.", **_ROW
)

UsagePage: Any = create_model(
    "UsagePage",
    __base__=Model,
    __doc__="A page of rows, and the sums of all of them.",
    items=(list[Usage], ...),
    total=(Sums, ...),
    next=(str | None, Field(default=None, description="The cursor of the next page, or null")),
)

DAY = r"^(?:\d{4}-\d{2}-\d{2})?$"


class UsageQuery(Model):
    """Which days (of UTC): a month, or from one to another; else this month. `by`: what rows are told apart by."""

    month: Annotated[str, Field(pattern=r"^(?:\d{4}-\d{2})?$")] = ""
    since: Annotated[str, Field(pattern=DAY)] = ""
    until: Annotated[str, Field(pattern=DAY)] = ""
    by: Annotated[str, Field(max_length=100, description=f"Some of {', '.join(NAMES)}, with commas between")] = ""
    limit: Annotated[int, Field(ge=1, le=MOST), DIGITS] = USUAL
    cursor: Annotated[int, Field(ge=0, le=10**7), DIGITS] = 0


def _days(asked: UsageQuery, now_ms: int) -> list[str]:
    today = usage.day_of(now_ms)
    param = "month"
    try:
        first, last = usage.month(asked.month or today[:7])
        if not asked.month and (asked.since or asked.until):
            param = "since"
            first, last = asked.since or f"{today[:7]}-01", asked.until or today
        found = usage.days(first, min(last, today))
    except ValueError as error:
        said = f"{asked.month} is no month" if param == "month" else "there is no such day"
        raise BadAsk(said, param=param) from error
    if len(found) > LONGEST:
        raise BadAsk(f"must be at most {LONGEST} days before until", param="since")
    return found


def _by(asked: UsageQuery) -> list[str]:
    wanted = [name.strip() for name in asked.by.split(",")] if asked.by else list(NAMES)
    if unknown := [name for name in wanted if name not in NAMES]:
        raise BadAsk(f"{unknown[0][:40]!r} is none of {', '.join(NAMES)}", param="by")
    return list(dict.fromkeys(wanted))


def _told(sums: tuple[int, ...]) -> dict[str, Any]:
    return {
        DOLLARS.get(name, name): amount / 1_000_000 if name in DOLLARS else amount
        for name, amount in zip(FIELDS, sums, strict=True)
    }


async def _list(call: Call) -> Told:
    """What was used in a month or between two days, and the sums of it."""
    asked: UsageQuery = call.query
    days, by = _days(asked, await call.store.usages.now_ms()), _by(asked)
    rows = [row for day in days for row in await call.store.usages.day(call.org, day)]
    found = usage.added(rows, by)
    end = asked.cursor + asked.limit
    none = dict.fromkeys(NAMES)
    items = [
        Usage.model_validate({"org": call.org, **none, **dict(zip(by, key, strict=True)), **_told(sums)})
        for key, sums in found[asked.cursor : end]
    ]
    total = next((sums for _, sums in usage.added(rows, ())), (0,) * len(FIELDS))
    page = UsagePage(items=items, total=Sums.model_validate(_told(total)), next=str(end) if end < len(found) else None)
    return Told(page)


ROUTES = (Route("GET", "/usage", "viewer", _list, UsagePage, query=UsageQuery),)
