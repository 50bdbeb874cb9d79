"""Erasing in the admin API: what must be said, what the audit keeps. Who may: `tests/http/test_roles.py`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

import pytest

from guardproxy.http import erasing
from guardproxy.store.redis import Store
from tests.http import admin_api
from tests.http.admin_api import Api
from tests.store.filling import PAYER
from tests.store.kit import Agent


@pytest.fixture
async def api(store: Store, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    monkeypatch.setattr(erasing, "WAIT_S", 0)
    monkeypatch.setattr(erasing, "GRACE_S", 0)
    async with admin_api.serving(store) as made:
        await made.fill()
        agent = Agent(store, session="anns", head="b" * 32)
        await agent.begin(payer=PAYER)
        await agent.settle(charge=(1, 2))
        yield made


async def test_a_run(api: Api) -> None:
    got = await api.ask("POST", "/erase", {"session": "run-1", "by": "ann", "why": "asked to"})
    assert (got.status, got.body["runs"], got.body["usage_rows"]) == (200, 1, 0)
    assert (await api.ask("GET", "/sessions/run-1")).status == 404
    (entry,) = await api.entries(what="erase")
    assert (entry.what, entry.subject, entry.actor, entry.org, entry.why) == (
        "erase.session", "run-1", "ann", "acme", "asked to",
    )  # fmt: skip
    assert entry.diff == {"runs": (1, 0), "entries": (got.body["entries"], 0)}


async def test_the_audit_does_not_name_the_user(api: Api) -> None:
    got = await api.ask("POST", "/erase", {"user": "ann", "by": "root"})
    assert (got.status, got.body["runs"], got.body["usage_rows"]) == (200, 1, 1)
    (entry,) = await api.entries(what="erase")
    assert "ann" not in json.dumps(asdict(entry)).replace("planted", "")
    assert entry.subject.startswith("user ")
    usage = (await api.ask("GET", "/usage?by=user")).body
    assert [(one["user"], one["requests"]) for one in usage["items"]] == [("(erased)", 1)]


async def test_an_organisation(api: Api) -> None:
    for body, path in (
        ({"org": "acme"}, "/erase?org=other"),
        ({"org": "other"}, "/erase"),
        ({"org": "other"}, "/erase?org=acme"),
    ):
        got = await api.ask("POST", path, body)
        assert (got.status, got.body["param"]) == (400, "org"), path
    await api.token("root", "owner")
    one = await api.token("of acme", "owner", org="acme")
    assert (await api.ask("POST", "/erase?org=acme", {"org": "acme"}, "of acme")).code == "other_org"
    assert (await api.ask("POST", "/erase?org=acme", {"org": "acme"}, "root")).code == "in_use"
    assert (await api.ask("POST", f"/tokens/{one}/revoke", {}, "root")).status == 200
    got = await api.ask("POST", "/erase?org=acme", {"org": "acme"}, "root")
    assert (got.status, got.body["virtual_keys"]) == (200, 1)
    assert (await api.ask("GET", "/orgs/acme", None, "root")).status == 404
    assert [entry.subject for entry in await api.entries(what="erase.org")] == ["acme"]


async def test_an_organisations_own_owner_erases_its_runs(api: Api) -> None:
    await api.token("of acme", "owner", org="acme")
    await api.token("of other", "owner", org="other")
    assert (await api.ask("POST", "/erase", {"session": "run-1"}, "of other")).status == 404
    assert (await api.ask("POST", "/erase", {"session": "run-1"}, "of acme")).status == 200


WRONG: list[tuple[Any, str | None]] = [
    ({}, "session"),
    ({"session": "run-1", "user": "ann"}, "session"),
    ({"session": ""}, "session"),
    ({"session": 1}, "session"),
    ({"user": "x" * 501}, "user"),
    ({"user": "\ud800"}, "user"),
    ({"everything": True}, "everything"),
    ([], None),
]


@pytest.mark.parametrize(("body", "param"), WRONG)
async def test_what_is_said_wrong_erases_nothing(api: Api, body: Any, param: str | None) -> None:
    got = await api.ask("POST", "/erase", body)
    assert (got.status, got.body.get("param")) == (400, param)
    assert (await api.ask("GET", "/sessions/run-1")).status == 200
    assert await api.entries(what="erase") == []


@pytest.mark.parametrize("text", ["a\x00b", "*", "␟", "../x", "[a-z]*", "%s{}"])
async def test_odd_names_are_names(api: Api, text: str) -> None:
    for what in ("session", "user"):
        got = await api.ask("POST", "/erase", {what: text})
        assert (got.status, got.code) == (404, "not_found")
    assert (await api.ask("GET", "/sessions/run-1")).status == 200
