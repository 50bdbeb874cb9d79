"""The panic switch in the admin API. Who may throw it: `tests/http/test_roles.py`."""

from __future__ import annotations

import pytest

from guardproxy.errors import StoreError
from guardproxy.store.redis import Store
from tests.http import admin_api


async def test_on_and_off(store: Store) -> None:
    async with admin_api.serving(store) as api:
        seen = []
        for on in (None, True, None, False, None):
            got = await (api.ask("GET", "/panic") if on is None else api.ask("PUT", "/panic", {"on": on}))
            seen.append((got.status, got.body, got.headers["ETag"], await store.panic()))
        entries = await api.entries(what="panic")

    said = [
        (200, {"on": on, "pending": False}, '"on"' if on else '"off"', on) for on in (False, True, True, False, False)
    ]
    assert seen == said
    assert [dict(one.diff)["on"] for one in entries] == [(False, True), (True, False)]


async def test_while_the_store_is_away(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """202: it holds as soon as the store answers; the entry is written then."""

    async def away(*_: object) -> bool:
        raise StoreError("away")

    async with admin_api.serving(store) as api:
        monkeypatch.setattr(store, "panic", away)
        got = await api.ask("PUT", "/panic", {"on": True})
        seen = await api.ask("GET", "/panic")

    assert (got.status, got.body) == (202, {"on": True, "pending": True})
    assert (seen.status, seen.body) == (202, {"on": True, "pending": True})


@pytest.mark.parametrize("body", [{}, {"on": 1}, {"on": "true"}, {"on": None}, {"on": True, "why": "x"}, {"off": True}])
async def test_no_state_of_a_switch(body: object, store: Store) -> None:
    async with admin_api.serving(store) as api:
        got = await api.ask("PUT", "/panic", body)

    assert (got.status, await store.panic()) == (400, False)
