"""Organisations in the admin API. Who may what: `tests/http/test_roles.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from guardproxy.store.redis import Store
from tests.http import admin_api
from tests.http.admin_api import Api


@pytest.fixture
async def api(store: Store) -> AsyncIterator[Api]:
    async with admin_api.serving(store) as made:
        yield made


async def test_a_life(api: Api) -> None:
    made = await api.ask("POST", "/orgs", {"name": "acme", "by": "ann", "why": "new"})
    assert (made.status, made.body["enabled"], made.body["made_by"]) == (201, True, "ann")
    assert (await api.ask("POST", "/orgs", {"name": "acme"})).code == "already_exists"
    off = await api.ask("PATCH", "/orgs/acme", {"enabled": False}, If_Match=made.headers["ETag"])
    assert (off.status, off.body["enabled"]) == (200, False)
    assert (await api.ask("GET", "/orgs/acme")).headers["ETag"] == off.headers["ETag"] != made.headers["ETag"]
    gone = await api.ask("DELETE", "/orgs/acme", {"why": "left us"})
    assert (gone.status, gone.body["name"]) == (200, "acme")
    assert (await api.ask("GET", "/orgs/acme")).status == 404
    entries = await api.entries()
    assert [(one.what, one.actor, one.kind, one.subject, one.org, one.why) for one in entries] == [
        ("org.create", "ann", "local", "acme", "acme", "new"),
        ("org.update", "admin", "local", "acme", "acme", ""),
        ("org.delete", "admin", "local", "acme", "acme", "left us"),
    ]
    assert entries[0].diff == {"name": (None, "acme"), "enabled": (None, True)}
    assert entries[1].diff == {"enabled": (True, False)}
    assert entries[2].diff == {"name": ("acme", None), "enabled": (False, None)}


async def test_one_with_teams_or_keys_stays(api: Api) -> None:
    await api.ask("POST", "/orgs", {"name": "acme"})
    await api.ask("POST", "/teams?org=acme", {"name": "web"})
    key = (await api.ask("POST", "/keys?org=acme", {"team": "web"})).body["id"]
    for path in ("/orgs/acme", "/teams/web?org=acme"):
        got = await api.ask("DELETE", path)
        assert (got.status, got.code) == (409, "in_use")
    assert (await api.ask("DELETE", f"/keys/{key}")).status == 200
    assert (await api.ask("DELETE", "/orgs/acme")).code == "in_use"
    for path in ("/teams/web?org=acme", "/orgs/acme"):
        assert (await api.ask("DELETE", path)).status == 200


async def test_one_that_a_token_is_for_stays(api: Api) -> None:
    """Else it would be for whoever takes the name next."""
    await api.ask("POST", "/orgs", {"name": "acme"})
    await api.token("root", "owner")
    one = await api.token("of acme", "viewer", org="acme")
    got = await api.ask("DELETE", "/orgs/acme", {}, "root")
    assert (got.status, got.code) == (409, "in_use")
    assert one in got.body["detail"]
    await api.ask("POST", f"/tokens/{one}/revoke", {}, "root")
    assert (await api.ask("DELETE", "/orgs/acme", {}, "root")).status == 200


async def test_pages(api: Api) -> None:
    """In the order of names; what comes or goes in between moves nothing else."""
    for number in range(5):
        await api.ask("POST", "/orgs", {"name": f"org-{number}"})
    first = (await api.ask("GET", "/orgs?limit=2")).body
    assert [one["name"] for one in first["items"]] == ["org-0", "org-1"]
    await api.ask("DELETE", "/orgs/org-1")
    await api.ask("POST", "/orgs", {"name": "org-05"})
    second = (await api.ask("GET", f"/orgs?limit=2&cursor={first['next']}")).body
    assert [one["name"] for one in second["items"]] == ["org-2", "org-3"]
    last = (await api.ask("GET", f"/orgs?limit=2&cursor={second['next']}")).body
    assert ([one["name"] for one in last["items"]], last["next"]) == (["org-4"], None)


@pytest.mark.parametrize("name", ["", "Acme", "a b", "a/b", "_registry", "{a}", "a\n", "é", "x" * 64, "-a", "a\udcff"])
async def test_names_that_are_none(api: Api, name: str) -> None:
    got = await api.ask("POST", "/orgs", {"name": name})
    assert (got.status, got.body["param"]) == (400, "name")


@pytest.mark.parametrize("name", ["%FF", "%00", "a%2Fb", "a%0Ab", "%7Ba%7D", "..%2F..%2Ftokens", "x" * 300, "%20"])
@pytest.mark.parametrize("kind", ["orgs", "teams", "keys"])
async def test_odd_names_are_of_nothing(api: Api, kind: str, name: str) -> None:
    for method, body in (("GET", None), ("PATCH", {"enabled": True}), ("DELETE", {})):
        got = await api.ask(method, f"/{kind}/{name}", body)
        assert (got.status, got.code) == (404, "not_found"), got.body


async def test_a_token_for_one_sees_that_one(api: Api) -> None:
    for name in ("acme", "globex"):
        await api.ask("POST", "/orgs", {"name": name})
    await api.token("root", "owner")
    await api.token("of acme", "owner", org="acme")
    listed = await api.ask("GET", "/orgs", None, "of acme")
    assert [one["name"] for one in listed.body["items"]] == ["acme"]
    assert (await api.ask("GET", "/orgs/acme", None, "of acme")).status == 200
    for name in ("globex", "none"):  # no telling which there are
        assert (await api.ask("GET", f"/orgs/{name}", None, "of acme")).code == "other_org"
    got = await api.ask("PATCH", "/orgs/acme", {"enabled": True}, "of acme")  # whoever was switched off stays so
    assert got.code == "other_org"
