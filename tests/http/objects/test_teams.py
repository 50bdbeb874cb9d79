"""Teams in the admin API. Who may what: `tests/http/test_roles.py`; that one with keys stays: `test_orgs.py`."""

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
    assert (await api.ask("POST", "/teams?org=globex", {"name": "web"})).status == 404
    await api.ask("POST", "/orgs", {"name": "globex"})
    made = await api.ask("POST", "/teams?org=globex", {"name": "web"})
    assert (made.status, made.body["org"], made.body["enabled"]) == (201, "globex", True)
    assert (await api.ask("POST", "/teams?org=globex", {"name": "web"})).code == "already_exists"
    off = await api.ask("PATCH", "/teams/web?org=globex", {"enabled": False, "why": "over"})
    assert off.body["enabled"] is False
    assert (await api.ask("GET", "/teams/web?org=acme")).status == 404
    assert (await api.ask("GET", "/teams?org=globex")).body == {"items": [off.body], "next": None}
    assert (await api.ask("DELETE", "/teams/web?org=globex")).status == 200
    assert (await api.ask("GET", "/teams?org=globex")).body["items"] == []
    entries = await api.entries(what="team")
    assert [(one.what, one.subject, one.org, one.why) for one in entries] == [
        ("team.create", "web", "globex", ""),
        ("team.update", "web", "globex", "over"),
        ("team.delete", "web", "globex", ""),
    ]
    assert entries[1].diff == {"enabled": (True, False)}


async def test_an_owner_of_one_organisation_makes_its_teams(api: Api) -> None:
    await api.ask("POST", "/orgs", {"name": "acme"})
    await api.ask("POST", "/orgs", {"name": "globex"})
    await api.token("root", "owner")
    await api.token("of globex", "owner", org="globex")
    made = await api.ask("POST", "/teams", {"name": "web"}, "of globex")
    assert (made.status, made.body["org"]) == (201, "globex")
    assert (await api.ask("POST", "/teams?org=acme", {"name": "web"}, "of globex")).code == "other_org"
    (entry,) = await api.entries(what="team")
    assert (entry.actor, entry.kind, entry.org) == ("of globex", "token", "globex")
