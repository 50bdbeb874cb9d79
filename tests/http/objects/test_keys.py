"""Virtual keys in the admin API: made once, shown once, changed by one at a time. Who may what: `test_roles.py`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from guardproxy.http import virtual_key
from guardproxy.store.redis import Store
from tests.http import admin_api
from tests.http.admin_api import KEY, Api
from tests.http.test_roles import everything


@pytest.fixture
async def api(store: Store) -> AsyncIterator[Api]:
    async with admin_api.serving(store) as made:
        await made.ask("POST", "/orgs", {"name": "acme"})
        await made.ask("POST", "/orgs", {"name": "globex"})
        yield made


async def test_a_life(api: Api) -> None:
    await api.ask("POST", "/teams", {"name": "web"})
    made = await api.ask("POST", "/keys", {"name": "ci", "team": "web", "models": ["gpt-*"], "expires": "90d"})
    secret, key = made.body["secret"], made.body["id"]
    assert (made.status, made.body["team"], made.body["models"]) == (201, "web", ["gpt-*"])
    assert virtual_key.genuine(KEY, secret)
    assert made.body["secrets"] == [{"shown": virtual_key.shown(secret), "until_ms": None}]
    seen = await api.ask("GET", f"/keys/{key}")
    assert seen.body == {name: said for name, said in made.body.items() if name != "secret"}
    changed = await api.ask("PATCH", f"/keys/{key}", {"models": [], "routes": ["/v1/files"], "user_header": "X-User"})
    assert (changed.body["models"], changed.body["routes"], changed.body["user_header"], changed.body["name"]) == (
        [],
        ["/v1/files"],
        "x-user",
        "ci",
    )
    rotated = await api.ask("POST", f"/keys/{key}/rotate", {"overlap_seconds": 60})
    assert rotated.body["secret"] != secret
    new, old = rotated.body["secrets"]
    assert (new["until_ms"], old["shown"]) == (None, virtual_key.shown(secret))
    assert old["until_ms"] > 0
    assert (await api.ask("DELETE", f"/keys/{key}")).status == 200
    assert (await api.ask("GET", f"/keys/{key}")).status == 404
    entries = await api.entries(what="key")
    assert [(one.what, one.subject, one.org) for one in entries] == [
        (f"key.{what}", key, "acme") for what in ("create", "update", "rotate", "delete")
    ]
    assert entries[1].diff == {
        "models": (["gpt-*"], []),
        "routes": ([], ["/v1/files"]),
        "user_header": (None, "x-user"),
    }
    assert list(entries[2].diff) == ["secrets"]


async def test_a_secret_is_nowhere_but_in_its_answer(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    made = await api.ask("POST", "/keys", {"name": "ci"})
    rotated = await api.ask("POST", f"/keys/{made.body['id']}/rotate", {})
    seen = [await api.ask("GET", path) for path in ("/keys", f"/keys/{made.body['id']}", "/audit")]
    heap = repr([(one.body, dict(one.headers)) for one in seen]) + caplog.text
    heap += made.headers["ETag"] + rotated.headers["ETag"] + (await everything(api.store)).decode("latin-1")
    for secret in (made.body["secret"], rotated.body["secret"]):
        assert secret not in heap
        assert secret[virtual_key.SHOWN + len(virtual_key.PREFIX) : -virtual_key.SHOWN] not in heap
        digest = virtual_key.digest(KEY, secret)  # its hash is the store's alone
        assert digest not in repr([(one.body, dict(one.headers)) for one in seen]) + caplog.text


SECRET = "gp-" + "a" * 42
PLANTED: list[tuple[str, Any]] = [
    ("name", SECRET),
    ("policy", f"x{SECRET}"),
    ("models", [SECRET]),
    ("upstreams", ["a", SECRET]),
    ("user_header", SECRET),
]


@pytest.mark.parametrize(("field", "value"), PLANTED)
async def test_a_secret_that_is_put_where_all_see_it(api: Api, field: str, value: Any) -> None:
    got = await api.ask("POST", "/keys", {field: value})
    assert (got.status, got.body["param"]) == (400, field)
    assert SECRET not in str(got.body)


@pytest.mark.parametrize("secret", [SECRET, "gpa-" + "b" * 43])
async def test_a_secret_in_a_reason_is_not_written_down(api: Api, secret: str) -> None:
    key = (await api.ask("POST", "/keys", {"by": f"ann {secret}"})).body["id"]
    await api.ask("PATCH", f"/keys/{key}", {"enabled": False, "why": f"{secret} leaked"})
    assert secret not in (await everything(api.store)).decode("latin-1")
    assert (await api.entries(what="key.update"))[0].why.endswith("leaked")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"models": ["a b"]}, "models"),
    ({"models": "gpt"}, "models"),
    ({"models": ["x"] * 65}, "models"),
    ({"models": ["m"], "routes": ["/v1/files"]}, "routes"),
    ({"expires": "soon"}, "expires"),
    ({"expires": "0d"}, "expires"),
    ({"expires": "999999w"}, "expires"),
    ({"expires": "9999-12-31T23:59:59-12:00"}, "expires"),
    ({"expires": "0001-01-01T00:00:00+14:00"}, "expires"),
    ({"team": "a/b"}, "team"),
    ({"budgets": []}, "budgets"),
    ({"secrets": []}, "secrets"),
    ({"id": "k1"}, "id"),
    ({"org": "globex"}, "org"),
]


@pytest.mark.parametrize(("body", "param"), WRONG, ids=str)
async def test_what_is_no_key(api: Api, body: dict[str, Any], param: str) -> None:
    got = await api.ask("POST", "/keys", body)
    assert (got.status, str(got.body["param"]).partition(".")[0]) == (400, param), got.body
    assert (await api.ask("GET", "/keys")).body["items"] == []


async def test_two_owners_at_once(api: Api) -> None:
    """With an etag one of ten changes it; without one all do, each on top of the others, and none is lost."""
    made = await api.ask("POST", "/keys", {"name": "ci"})
    path, etag = f"/keys/{made.body['id']}", made.headers["ETag"]
    asked = [api.ask("PATCH", path, {"name": f"n{n}"}, If_Match=etag) for n in range(10)]
    assert sorted(one.status for one in await asyncio.gather(*asked)) == [200] + [412] * 9
    fields = (
        {"enabled": False},
        {"policy": "watched"},
        {"models": ["m"]},
        {"user_header": "x-user"},
        {"expires": "1d"},
    )
    got = await asyncio.gather(*(api.ask("PATCH", path, one) for one in fields))
    assert {one.status for one in got} == {200}
    now = (await api.ask("GET", path)).body
    assert (now["enabled"], now["policy"], now["models"], now["user_header"]) == (False, "watched", ["m"], "x-user")
    entries = await api.entries(what="key.update")
    assert len(entries) == 6
    told = sorted(name for one in entries[1:] for name in one.diff)
    assert told == ["enabled", "expires_ms", "models", "policy", "user_header"]


async def test_what_changes_nothing_is_not_written_down(api: Api) -> None:
    made = await api.ask("POST", "/keys", {"name": "ci"})
    got = await api.ask("PATCH", f"/keys/{made.body['id']}", {"name": "ci", "enabled": True, "models": None})
    assert (got.status, got.headers["ETag"]) == (200, made.headers["ETag"])
    assert await api.entries(what="key.update") == []


async def test_ten_rotations_at_once(api: Api) -> None:
    """Every secret that was answered is one of the key's, as many as it may have; none is of nobody."""
    made = await api.ask("POST", "/keys", {})
    path = f"/keys/{made.body['id']}"
    got = await asyncio.gather(*(api.ask("POST", f"{path}/rotate", {"overlap_seconds": 60}) for _ in range(6)))
    assert {one.status for one in got} == {200}
    secrets = [made.body["secret"], *(one.body["secret"] for one in got)]
    found = [(await api.store.registry.find(virtual_key.digest(KEY, one))).key for one in secrets]
    assert [one.id if one else None for one in found] == [made.body["id"]] * 7


async def test_a_key_made_while_its_org_is_forgotten(api: Api) -> None:
    """Either the org stays, or there is no key: never a key of nobody."""
    for _ in range(10):
        await api.ask("POST", "/orgs", {"name": "short"})
        made, gone = await asyncio.gather(api.ask("POST", "/keys?org=short", {}), api.ask("DELETE", "/orgs/short"))
        assert (made.status, gone.status) in ((201, 409), (404, 200)), (made.body, gone.body)
        if made.status == 201:
            await api.ask("DELETE", f"/keys/{made.body['id']}")
            await api.ask("DELETE", "/orgs/short")


async def test_an_owner_of_one_organisation(api: Api) -> None:
    await api.token("root", "owner")
    await api.token("of globex", "owner", org="globex")
    theirs = (await api.ask("POST", "/keys", {}, "of globex")).body
    ours = (await api.ask("POST", "/keys?org=acme", {}, "root")).body
    assert (theirs["org"], ours["org"]) == ("globex", "acme")
    said = {}
    for key in (ours["id"], "k" + "0" * 12):
        for method, verb in (("GET", ""), ("PATCH", ""), ("POST", "/rotate"), ("DELETE", "")):
            got = await api.ask(method, f"/keys/{key}{verb}", None if method == "GET" else {}, "of globex")
            assert got.status == 404
            said[key] = got.body["detail"].replace(key, "")
    assert len(set(said.values())) == 1  # no telling which there are
    assert (await api.ask("PATCH", f"/keys/{theirs['id']}", {"enabled": False}, "of globex")).status == 200
    assert [one["id"] for one in (await api.ask("GET", "/keys", None, "of globex")).body["items"]] == [theirs["id"]]


async def test_pages_of_a_team(api: Api) -> None:
    await api.ask("POST", "/teams", {"name": "web"})
    made = [(await api.ask("POST", "/keys", {"team": "web"} if n % 2 else {})).body["id"] for n in range(8)]
    found: list[str] = []
    cursor = ""
    while cursor is not None:
        page = (await api.ask("GET", f"/keys?team=web&limit=3{f'&cursor={cursor}' if cursor else ''}")).body
        found += [one["id"] for one in page["items"]]
        cursor = page["next"]
    assert sorted(found) == sorted(made[1::2])
    assert re.fullmatch(r"k[0-9a-f]{12}", found[0])
