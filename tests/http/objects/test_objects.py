"""An object of the admin API is added by one file: served, guarded, written to the audit, and in the document."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from guardproxy.http import objects
from guardproxy.http.objects._openapi import document
from guardproxy.store.redis import Store
from tests.http import admin_api, conforming

GADGETS = '''
"""Gadgets."""
from guardproxy.http.objects._kinds import Model, Page, Signed, listing, paged
from guardproxy.http.objects._route import Call, Route, Told

KEPT = {}

class Gadget(Model):
    """A gadget."""
    id: str
    size: int

class Size(Signed):
    """How large it is to be."""
    size: int

Gadgets = listing(Gadget)

async def _list(call: Call) -> Told:
    """List them."""
    items = [Gadget(id=name, size=size) for (org, name), size in KEPT.items() if org == call.org]
    return Told(paged(Gadgets, items, call.query))

async def _set(call: Call) -> Told:
    """Make one, or change it."""
    name, before = call.path["id"], KEPT.get((call.org, call.path["id"]))
    call.unchanged(str(before))
    KEPT[call.org, name] = call.body.size
    entry = call.actor.did("gadget.set", name, org=call.org, why=call.why(), diff={"size": (before, call.body.size)})
    return Told(Gadget(id=name, size=call.body.size), etag=str(call.body.size), entry=entry)

ROUTES = (
    Route("GET", "/gadgets", "viewer", _list, Gadgets, query=Page),
    Route("PUT", "/gadgets/{id}", "operator", _set, Gadget, body=Size, etag=True, example={"size": 1}),
)
'''


@pytest.fixture
def one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "gadgets.py").write_text(GADGETS)
    monkeypatch.setattr(objects, "__path__", [*objects.__path__, str(tmp_path)])
    monkeypatch.setattr(objects, "OBJECTS", objects.found())
    monkeypatch.setattr(objects, "ROUTES", objects.routes(objects.OBJECTS))
    conforming.told.cache_clear()
    yield
    del sys.modules["guardproxy.http.objects.gadgets"], objects.gadgets
    conforming.told.cache_clear()


async def test_one_file(one_file: None, store: Store) -> None:
    async with admin_api.serving(store) as api:
        await api.token("looker", "viewer")
        await api.token("bot", "operator")
        await api.token("other", "operator", org="other")
        refused = await api.ask("PUT", "/gadgets/g", {"size": 3}, "looker")
        made = await api.ask("PUT", "/gadgets/g", {"size": 3, "why": "small"}, "bot")
        stale = await api.ask("PUT", "/gadgets/g", {"size": 4}, "bot", If_Match='"2"')
        wrong = await api.ask("PUT", "/gadgets/g", {"size": "4"}, "bot")
        seen = await api.ask("GET", "/gadgets", None, "looker")
        elsewhere = await api.ask("GET", "/gadgets", None, "other")
        (entry,) = await api.entries(what="gadget")

    assert (refused.status, made.status, stale.status, wrong.status) == (403, 200, 412, 400)
    assert (made.body, made.headers["ETag"]) == ({"id": "g", "size": 3}, '"3"')
    assert (seen.body["items"], elsewhere.body["items"]) == ([{"id": "g", "size": 3}], [])
    assert (entry.actor, entry.org, entry.why, entry.diff) == ("bot", "acme", "small", {"size": (None, 3)})
    assert {"Gadget", "GadgetPage", "Size"} <= document(objects.ROUTES)["components"]["schemas"].keys()


def test_the_objects() -> None:
    assert {"approvals", "audit", "panic", "sessions", "tokens"} <= objects.OBJECTS.keys()
    assert "gadgets" not in objects.OBJECTS
