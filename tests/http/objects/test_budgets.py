"""Budgets in the admin API. Who may what: `tests/http/test_roles.py`; how they stand: `test_budgeting`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from guardproxy.core.windows import Budget
from guardproxy.store.redis import Store
from guardproxy.store.registry import Key, Org, Team
from tests.http import admin_api
from tests.http.admin_api import Api

MONTH = {"scope": "org", "dimension": "cost_usd", "window": "month", "limit": 500.5, "timezone": "Europe/Berlin"}
KEY = "k00000000000a"


@pytest.fixture
async def api(store: Store) -> AsyncIterator[Api]:
    async with admin_api.serving(store) as made:
        for one in (Org("acme"), Team("acme", "web"), Key(KEY, "acme", "web"), Org("other")):
            await store.registry.put(one)
        yield made


async def test_a_life(api: Api) -> None:
    made = await api.ask("PUT", "/budgets", MONTH | {"soft": [80, 50], "by": "ann", "why": "new"})
    assert made.status == 200
    one = made.body
    assert {name: one[name] for name in (*MONTH, "org", "of", "match", "soft", "used", "held")} == MONTH | {
        "org": "acme", "of": "org", "match": "*", "soft": [50, 80], "used": 0.0, "held": 0.0,
    }  # fmt: skip
    assert one["resets_ms"] % 3_600_000 == 0
    assert (await api.ask("GET", f"/budgets/{one['id']}")).body == one
    stored = await api.store.registry.org("acme")
    assert stored is not None
    assert stored.budgets == (Budget("org", "cost_microusd", "month", 500_500_000, "Europe/Berlin", (50, 80)),)

    more = await api.ask("PATCH", f"/budgets/{one['id']}", {"limit": 750}, If_Match=made.headers["ETag"])
    assert (more.status, more.body["limit"], more.body["soft"], more.body["id"]) == (200, 750.0, [50, 80], one["id"])
    assert (await api.ask("PATCH", f"/budgets/{one['id']}", {"limit": 1}, If_Match=made.headers["ETag"])).status == 412
    again = await api.ask("PUT", "/budgets", MONTH | {"limit": 900, "soft": []})
    assert (again.body["id"], again.body["limit"], again.body["soft"]) == (one["id"], 900.0, [])
    assert len((await api.ask("GET", "/budgets")).body["items"]) == 1
    gone = await api.ask("DELETE", f"/budgets/{one['id']}", {"why": "enough"})
    assert (gone.status, gone.body["id"]) == (200, one["id"])
    assert (await api.ask("GET", f"/budgets/{one['id']}")).status == 404

    entries = await api.entries()
    assert [(entry.what, entry.actor, entry.subject, entry.org, entry.why) for entry in entries] == [
        ("budget.set", "ann", one["id"], "acme", "new"),
        ("budget.set", "admin", one["id"], "acme", ""),
        ("budget.set", "admin", one["id"], "acme", ""),
        ("budget.remove", "admin", one["id"], "acme", "enough"),
    ]
    assert entries[0].diff["limit"] == (None, 500.5)
    assert entries[1].diff == {"limit": (500.5, 750)}
    assert entries[2].diff == {"limit": (750, 900), "soft": ([50, 80], [])}
    assert entries[3].diff["limit"] == (900, None)


async def test_each_document_has_its_own(api: Api) -> None:
    for of, scope in (("org", "user"), ("team:web", "team"), ("team:web", "user"), (f"key:{KEY}", "key")):
        got = await api.ask("PUT", "/budgets", MONTH | {"of": of, "scope": scope})
        assert (got.status, got.body["of"]) == (200, of)
    found = (await api.ask("GET", "/budgets")).body["items"]
    assert [(one["of"], one["scope"], one["used"]) for one in found] == [
        ("org", "user", None), ("team:web", "team", 0.0), ("team:web", "user", None), (f"key:{KEY}", "key", 0.0),
    ]  # fmt: skip
    first = (await api.ask("GET", "/budgets?limit=3")).body
    assert (len(first["items"]), first["items"]) == (3, found[:3])
    rest = await api.client.get("/admin/v1/budgets", params={"limit": "3", "cursor": first["next"]})
    assert (await rest.json())["items"] == found[3:]
    assert (await api.ask("GET", "/budgets?org=other")).body["items"] == []


REFUSED: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "no window": ({"window": None}, 400, "window", "must be one of minute"),
    "a window of what has none": ({"dimension": "concurrent_requests"}, 400, "window", "concurrent requests have none"),
    "half a request": ({"dimension": "requests"}, 400, "limit", "must be a whole number"),
    "nothing": ({"limit": 0}, 400, "limit", "greater than 0"),
    "too much": ({"limit": 10**13}, 400, "limit", "less than or equal to"),
    "no time zone": ({"timezone": "Mars/Olympus"}, 400, "timezone", "no time zone"),
    "a rate that is only said": ({"window": "minute", "soft": [50]}, 400, "soft", "rates have no soft limits"),
    "too many percent": ({"soft": [101]}, 400, "soft.0", "less than or equal to 100"),
    "one org": ({"match": "a*"}, 400, "match", "there is one org"),
    "a team's org": ({"of": "team:web"}, 400, "scope", "a team has budgets of team, key, user, model"),
    "a key's team": ({"of": f"key:{KEY}", "scope": "team"}, 400, "scope", "a key has budgets of key, user, model"),
    "teams of a team": ({"of": "team:web", "scope": "team", "match": "w*"}, 400, "match", "is for the team itself"),
    "no such team": ({"of": "team:ops", "scope": "team"}, 404, "", "has no 'team:ops'"),
    "no such key": ({"of": "key:k00000000000b", "scope": "key"}, 404, "", "has no 'key:"),
    "no document": ({"of": "file"}, 400, "of", "pattern"),
    "what does not print": ({"scope": "user", "match": "a\nb"}, 400, "match", "printable"),
    "an unknown field": ({"hard": True}, 400, "hard", "is not known here"),
    "no scope": ({"scope": "world"}, 400, "scope", "'org', 'team'"),
}


@pytest.mark.parametrize("why", REFUSED)
async def test_refused(api: Api, why: str) -> None:
    given, status, param, said = REFUSED[why]
    got = await api.ask("PUT", "/budgets", MONTH | given)
    assert (got.status, got.body.get("param") or "") == (status, param), got.body
    assert said in got.body["detail"]
    assert await api.entries() == []
    assert (await api.ask("GET", "/budgets")).body["items"] == []


async def test_a_document_has_so_many(api: Api) -> None:
    budgets = tuple(Budget("model", "requests", "total", 5, match=f"m{number}") for number in range(64))
    await api.store.registry.put(Org("acme", budgets=budgets))
    got = await api.ask("PUT", "/budgets", MONTH)
    assert (got.status, got.body["param"]) == (400, "of")
    one = MONTH | {"scope": "model", "match": "m7", "dimension": "requests", "window": "total", "timezone": "UTC"}
    assert (await api.ask("PUT", "/budgets", one | {"limit": 6})).status == 200  # in the place of one


async def test_the_default_org_needs_no_document_and_the_files_stay(store: Store) -> None:
    file = (Budget("org", "requests", "day", 7),)
    async with admin_api.serving(store, budgets=file) as api:
        (one,) = (await api.ask("GET", "/budgets?org=default")).body["items"]
        assert (one["of"], one["limit"], one["dimension"]) == ("file", 7.0, "requests")
        for method, body in (("DELETE", {}), ("PATCH", {"limit": 9})):
            got = await api.ask(method, f"/budgets/{one['id']}?org=default", body)
            assert (got.status, got.code) == (409, "in_the_file")
        made = await api.ask("PUT", "/budgets?org=default", MONTH)
        assert made.status == 200
        assert [one["of"] for one in (await api.ask("GET", "/budgets?org=default")).body["items"]] == ["file", "org"]
        assert (await api.ask("GET", "/budgets?org=acme")).body["items"] == []
