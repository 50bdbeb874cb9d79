"""Usage in the admin API: which days, what rows are told apart by, pages and sums."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from guardproxy.core.usage import FIELDS, day_of, payer
from guardproxy.store.redis import Store
from tests.http import admin_api
from tests.http.admin_api import Api
from tests.store.test_tenants import DAY, offset


@pytest.fixture
async def api(store: Store) -> AsyncIterator[Api]:
    async with admin_api.serving(store) as made:
        yield made


async def used(api: Api, day: str, team: str, model: str, *sums: int, user: str = "") -> None:
    await api.store.usages.add("acme", {payer((team, "k1", user, model, "")): sums}, offset(f"{day}T12:00:00+00:00"))


async def test_a_month_by_team_and_model(api: Api) -> None:
    for day, team, model, cost in (
        ("2026-10-31", "web", "a", 1),
        ("2026-11-01", "web", "a", 2_000_000),
        ("2026-11-30", "web", "a", 500_000),
        ("2026-11-30", "ops", "b", 10),
        ("2026-12-01", "web", "a", 1),
    ):
        await used(api, day, team, model, 1, 10, 4, 0, 20, 3, cost, 0, 0, 2, 1, 7, 8)
    body = (await api.ask("GET", "/usage?month=2026-11&by=team,model")).body
    assert [(one["org"], one["team"], one["model"], one["requests"], one["cost_usd"]) for one in body["items"]] == [
        ("acme", "ops", "b", 1, 0.00001), ("acme", "web", "a", 2, 2.5),
    ]  # fmt: skip
    assert {body["items"][0][name] for name in ("day", "key", "user", "agent")} == {None}
    assert body["total"] == {
        "requests": 3,
        "input_tokens": 30,
        "cached_tokens": 12,
        "cache_write_tokens": 0,
        "output_tokens": 60,
        "reasoning_tokens": 9,
        "cost_usd": 2.50001,
        "estimated": 0,
        "failed": 0,
        "interventions": 6,
        "denied": 3,
        "saved_usd": 0.000021,
        "saveable_usd": 0.000024,
        "holds_expired": 0,
    }
    assert len(body["total"]) == len(FIELDS)


DAYS = [
    ("month=2026-11", ["2026-11-01", "2026-11-29"]),
    ("since=2026-11-02&until=2026-12-31", ["2026-11-29"]),
    ("since=2026-10-01&until=2026-11-01", ["2026-10-31", "2026-11-01"]),
    ("until=2026-11-01", []),  # of this month
]


@pytest.mark.parametrize(("asked", "days"), DAYS)
async def test_which_days(api: Api, asked: str, days: list[str]) -> None:
    for day in ("2026-10-31", "2026-11-01", "2026-11-29"):
        await used(api, day, "web", "a", 1)
    today = day_of(await api.store.usages.now_ms())
    body = (await api.ask("GET", f"/usage?{asked}&by=day")).body
    if today < "2026-12" and asked == "until=2026-11-01":
        days = ["2026-11-01"]
    assert [one["day"] for one in body["items"]] == days


async def test_since_a_day_is_up_to_today(api: Api) -> None:
    today_ms = await api.store.usages.now_ms()
    days = [day_of(today_ms - ago * DAY) for ago in (33, 32, 1)]
    for day in days:
        await used(api, day, "web", "a", 1)
    body = (await api.ask("GET", f"/usage?since={days[1]}&by=day")).body
    assert [one["day"] for one in body["items"]] == days[1:]


async def test_this_month_is_what_nobody_asked_otherwise(api: Api) -> None:
    today = day_of(await api.store.usages.now_ms())
    await api.store.usages.add("acme", {payer(("web", "k1", "ann", "a", "codex")): (1,)})
    (one,) = (await api.ask("GET", "/usage")).body["items"]
    assert (one["day"], one["team"], one["key"], one["user"], one["model"], one["agent"]) == (
        today, "web", "k1", "ann", "a", "codex",
    )  # fmt: skip
    assert (await api.ask("GET", "/usage?org=other")).body == {
        "items": [], "next": None, "total": dict.fromkeys((await api.ask("GET", "/usage")).body["total"], 0),
    }  # fmt: skip


async def test_pages(api: Api) -> None:
    for number in range(5):
        await used(api, "2026-11-01", "web", f"m{number}", number + 1)
    found, cursor = [], ""
    while True:
        body = (await api.ask("GET", f"/usage?month=2026-11&by=model&limit=2{cursor}")).body
        assert body["total"]["requests"] == 15
        found += [one["model"] for one in body["items"]]
        if body["next"] is None:
            break
        cursor = f"&cursor={body['next']}"
    assert found == [f"m{number}" for number in range(5)]


WRONG = [
    ("month=2026-13", "month"),
    ("month=26-1", "month"),
    ("since=2026-02-30", "since"),
    ("since=2024-01-01&until=2026-11-01", "since"),
    ("by=team,colour", "by"),
    ("by=,", "by"),
    ("limit=0", "limit"),
    ("cursor=x", "cursor"),
]


@pytest.mark.parametrize(("asked", "param"), WRONG)
async def test_refused(api: Api, asked: str, param: str) -> None:
    got = await api.ask("GET", f"/usage?{asked}")
    assert (got.status, got.body["param"]) == (400, param), got.body
