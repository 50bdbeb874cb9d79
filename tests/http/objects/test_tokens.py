"""Tokens in the admin API. Who may make them: `tests/http/test_roles.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from guardproxy.store.redis import Store
from tests.http import admin_api
from tests.http.admin_api import Api


@pytest.fixture
async def api(store: Store) -> AsyncIterator[Api]:
    async with admin_api.serving(store) as made:
        yield made


async def test_the_first_token_begins_the_log_in(api: Api) -> None:
    made = await api.ask("POST", "/tokens", {"name": "root", "role": "owner"})
    assert (made.status, made.body["live"], made.body["expires_ms"]) == (201, True, None)
    assert (await api.ask("GET", "/sessions")).status == 401
    api.secrets["root"] = made.body["secret"]
    made = await api.ask(
        "POST", "/tokens", {"name": "bot", "role": "viewer", "org": "acme", "for_seconds": 60.0}, "root"
    )
    api.secrets["bot"] = made.body["secret"]

    assert made.body["expires_ms"] == made.body["at_ms"] + 60_000
    assert (await api.ask("GET", "/sessions", None, "bot")).status == 200
    listed = (await api.ask("GET", "/tokens", None, "root")).body["items"]
    assert [(one["name"], one["role"], one["org"], one["by"]) for one in listed] == [
        ("bot", "viewer", "acme", "root"),
        ("root", "owner", None, "admin"),
    ]
    assert "secret" not in listed[0]
    gone = await api.ask("POST", f"/tokens/{made.body['id']}/revoke", {"why": "left"}, "root")
    assert (gone.status, gone.body["live"], gone.body["revoked_by"]) == (200, False, "root")
    assert (await api.ask("GET", "/sessions", None, "bot")).code == "bad_token"
    entries = await api.entries()
    assert [(one.what, one.actor, one.kind, one.why) for one in entries] == [
        ("token.create", "admin", "local", ""),
        ("token.create", "root", "token", ""),
        ("token.revoke", "root", "token", "left"),
    ]
    assert entries[1].diff == {
        "name": (None, "bot"),
        "role": (None, "viewer"),
        "org": (None, "acme"),
        "for_seconds": (None, 60),
    }


async def test_an_owner_who_shuts_everybody_out(api: Api) -> None:
    mine = await api.token("root", "owner")
    await api.token("of acme", "owner", org="acme")  # cannot make any
    got = await api.ask("POST", f"/tokens/{mine}/revoke", {}, "root")
    assert (got.status, got.code) == (409, "last_owner")
    await api.token("second", "owner")
    assert (await api.ask("POST", f"/tokens/{mine}/revoke", {}, "root")).status == 200
    assert (await api.ask("GET", "/tokens", None, "root")).status == 401


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": ({}, "name"),
    "no role": ({"name": "a"}, "role"),
    "a role there is none of": ({"name": "a", "role": "root"}, "role"),
    "a name in a list": ({"name": ["a"], "role": "viewer"}, "name"),
    "a name over lines": ({"name": "a\nb", "role": "viewer"}, "name"),
    "a name of blanks": ({"name": " ", "role": "viewer"}, "name"),
    "a long one": ({"name": "a" * 61, "role": "viewer"}, "name"),
    "no time": ({"name": "a", "role": "viewer", "for_seconds": 0}, "for_seconds"),
    "half a second": ({"name": "a", "role": "viewer", "for_seconds": 0.5}, "for_seconds"),
    "true seconds": ({"name": "a", "role": "viewer", "for_seconds": True}, "for_seconds"),
    "a thousand years": ({"name": "a", "role": "viewer", "for_seconds": 10**11}, "for_seconds"),
    "no organisation": ({"name": "a", "role": "viewer", "org": ""}, "org"),
    "a secret of one's own": ({"name": "a", "role": "viewer", "secret": "x"}, "secret"),
}


@pytest.mark.parametrize("which", WRONG)
async def test_no_token_can_be_made_of(which: str, api: Api) -> None:
    body, param = WRONG[which]
    got = await api.ask("POST", "/tokens", body)

    assert (got.status, got.body.get("param")) == (400, param), got.body
    assert await api.store.tokens.every() == []


async def test_pages_and_one(api: Api) -> None:
    names = [f"t{n}" for n in range(5)]
    ids = {name: await api.token(name, "owner") for name in names}
    found, cursor = [], "0"
    while cursor:
        got = await api.ask("GET", f"/tokens?limit=2&cursor={cursor}", None, "t0")
        found += [one["name"] for one in got.body["items"]]
        cursor = got.body["next"]

    assert sorted(found) == names
    assert (await api.ask("GET", f"/tokens/{ids['t3']}", None, "t0")).body["name"] == "t3"
    assert (await api.ask("GET", "/tokens/none", None, "t0")).status == 404
    assert (await api.ask("POST", "/tokens", {"name": "t3", "role": "viewer"}, "t0")).code == "taken"
