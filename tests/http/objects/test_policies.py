"""Policies in the admin API: checked before they are kept, revisions, and those of the file, which it cannot change."""

from __future__ import annotations

import asyncio
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


async def test_a_life(api: Api) -> None:
    written = {
        "preset": "strict",
        "limits": {"session": {"cost_usd": 5}},
        "agents": ["ci-*"],
        "tools": {"deny": ["rm"]},
    }
    made = await api.ask("PUT", "/policies/careful", {"document": written, "by": "ann", "why": "new"})
    assert (made.status, made.body["revision"], made.body["agents"], made.body["by"]) == (201, 1, ["ci-*"], "ann")
    assert made.body["document"] == written
    seen = await api.ask("GET", "/policies/careful")
    assert ({name: seen.body[name] for name in made.body}, seen.headers["ETag"]) == (made.body, '"1"')
    assert seen.body["in_force_revision"] == 1
    assert {"limit of a session: cost_usd $5", "tools.deny: rm (enforce)"} <= {*seen.body["in_force"]}
    then = await api.ask("PUT", "/policies/careful", {"document": {"mode": "observe"}}, If_Match='"1"')
    assert (then.status, then.body["revision"], then.body["mode"], then.body["agents"]) == (200, 2, "observe", [])
    assert then.body["version"] != made.body["version"]
    back = await api.ask("PUT", "/policies/careful", {"document": written})
    assert back.body["version"] == made.body["version"]  # the same policy is the same version
    kept = (await api.ask("GET", "/policies/careful/revisions")).body["items"]
    assert [(one["revision"], one["version"]) for one in kept] == [
        (3, made.body["version"]),
        (2, then.body["version"]),
        (1, made.body["version"]),
    ]
    assert (await api.ask("DELETE", "/policies/careful", {})).status == 200
    assert (await api.ask("GET", "/policies/careful")).status == 404
    assert len((await api.ask("GET", "/policies/careful/revisions")).body["items"]) == 3
    entries = await api.entries(what="policy")
    assert [(one.what, one.actor, one.subject, one.why) for one in entries] == [
        ("policy.set", "ann", "careful", "new"),
        ("policy.set", "admin", "careful", ""),
        ("policy.set", "admin", "careful", ""),
        ("policy.delete", "admin", "careful", ""),
    ]
    assert entries[1].diff["mode"] == (None, "observe")
    assert entries[1].diff["preset"] == ("strict", None)


async def test_those_of_the_file(api: Api) -> None:
    listed = (await api.ask("GET", "/policies")).body["items"]
    assert [(one["name"], one["origin"], one["mode"], one["models"]) for one in listed] == [
        ("default", "file", "enforce", []),
        ("watched", "file", "observe", ["gpt-*"]),
    ]
    for name in ("default", "watched"):
        for method, body in (("PUT", {"document": {}}), ("DELETE", {})):
            got = await api.ask(method, f"/policies/{name}", body)
            assert (got.status, got.code) == (409, "in_file")


WRONG: dict[str, tuple[str, Any, str, str]] = {
    "an unknown key": ("a", {"mod": "observe"}, "document.mod", "did you mean 'mode'?"),
    "two at once": ("a", {"mode": "x", "limits": {"session": {"turns": -1}}}, "document.mode", "limits.session.turns"),
    "a value of another kind": ("a", {"limits": "none"}, "document.limits", "must be a mapping"),
    "a rule for no tool": ("a", {"tools": {"deny": [{"tool": ""}]}}, "document.tools.deny.0.tool", "empty pattern"),
    "knowledge about tools": ("a", {"tools": {"read_only": ["x"]}}, "document.tools.read_only", "unknown key"),
    "a verifier": ("a", {"verifier": {"url": "http://169.254.169.254/"}}, "document.verifier", "configuration file"),
    "a name": ("Acme Inc", {}, "id", "must be 1 to 63"),
    "a name of dots": ("..a", {}, "id", "must be 1 to 63"),
    "a line end": ("a", {"models": ["a\nb"]}, "document.models.0", "line break"),
    "no mapping": ("a", [], "document", "must be a mapping"),
    "too much": ("a", {"models": ["x" * 200] * 400}, "document", "at most"),
    "a reference": ("a", {"mode": "${HOME}"}, "document.mode", "'enforce' or 'observe'"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_what_is_no_policy(api: Api, case: str) -> None:
    """Refused with all that is wrong; what was there stays in force."""
    name, written, param, word = WRONG[case]
    await api.ask("PUT", "/policies/a", {"document": {"mode": "observe"}})
    before = (await api.ask("GET", "/policies")).body
    got = await api.ask("PUT", f"/policies/{name}", {"document": written})
    assert (got.status, got.body["param"]) == (400, param), got.body
    assert word in got.body["detail"]
    assert (await api.ask("GET", "/policies")).body == before
    assert len(await api.entries(what="policy")) == 1


async def test_a_policy_that_a_key_is_for_stays(api: Api) -> None:
    await api.ask("PUT", "/policies/careful", {"document": {}})
    await api.ask("POST", "/orgs", {"name": "acme"})
    assert (await api.ask("POST", "/keys", {"policy": "nowhere"})).body["param"] == "policy"
    key = (await api.ask("POST", "/keys", {"policy": "careful"})).body["id"]
    for name in ("nowhere", "Careful"):
        assert (await api.ask("PATCH", f"/keys/{key}", {"policy": name})).body["param"] == "policy"
    got = await api.ask("DELETE", "/policies/careful", {})
    assert (got.status, got.code) == (409, "in_use")
    assert key in got.body["detail"]
    for name in ("default", "watched", ""):
        assert (await api.ask("PATCH", f"/keys/{key}", {"policy": name})).status == 200
    assert (await api.ask("DELETE", "/policies/careful", {})).status == 200


async def test_the_owner_of_one_organisation_may_only_tighten(api: Api) -> None:
    await api.ask("POST", "/orgs", {"name": "globex"})
    await api.ask("PUT", "/policies/careful", {"document": {"preset": "strict"}})
    await api.token("root", "owner")
    await api.token("of globex", "owner", org="globex")
    got = await api.ask("POST", "/keys", {"policy": "watched"}, "of globex")
    assert (got.status, got.code, got.body["param"]) == (403, "policy_not_tighter", "policy")
    assert "mode" in got.body["detail"]
    key = (await api.ask("POST", "/keys", {"policy": "careful"}, "of globex")).body["id"]
    assert (await api.ask("PATCH", f"/keys/{key}", {"policy": "watched"}, "of globex")).code == "policy_not_tighter"
    assert (await api.ask("PATCH", f"/keys/{key}", {"policy": "default"}, "of globex")).status == 200
    assert (await api.ask("PATCH", f"/keys/{key}", {"policy": "watched"}, "root")).status == 200
    assert (await api.ask("GET", "/policies", None, "of globex")).code == "other_org"


async def test_of_ten_who_saw_the_same_one_changes_it(api: Api) -> None:
    await api.ask("PUT", "/policies/careful", {"document": {}})
    asked = [
        api.ask("PUT", "/policies/careful", {"document": {"default_output_hold": n + 1}}, If_Match='"1"')
        for n in range(10)
    ]
    assert sorted(one.status for one in await asyncio.gather(*asked)) == [200] + [412] * 9
    assert len(await api.entries(what="policy")) == 2
