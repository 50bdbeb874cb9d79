"""The audit in the admin API: pages, filters, and what a token for one organisation sees of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from guardproxy.http.auditing import Actor
from guardproxy.store.redis import Store
from tests.http import admin_api
from tests.http.admin_api import Api


@pytest.fixture
async def api(store: Store) -> AsyncIterator[Api]:
    async with admin_api.serving(store) as made:
        for n in range(7):
            await store.audit.note(
                Actor("ann").did(
                    f"thing.{'ab'[n % 2]}", f"s{n}", org="acme" if n < 3 else "other", diff={"n": (None, n)}
                )
            )
        yield made


async def test_pages(api: Api) -> None:
    found, cursor = [], ""
    for _ in range(3):
        got = await api.ask("GET", f"/audit?limit=3&cursor={cursor}")
        found += [one["subject"] for one in got.body["items"]]
        cursor = got.body["next"]

    assert (found, cursor) == ([f"s{n}" for n in range(6, -1, -1)], None)
    assert got.body["items"][0].items() >= {"actor": "ann", "diff": {"n": {"before": None, "after": 0}}}.items()


QUERIES = {
    "what=thing.a": "0246",
    "what=thing": "0123456",
    "subject=s3": "3",
    "actor=bob": "",
    "org=acme": "012",
    "org=acme&what=thing.b": "1",
    "since_ms=99999999999999": "",
    "until_ms=1": "",
}


@pytest.mark.parametrize("query", QUERIES)
async def test_filters(query: str, api: Api) -> None:
    got = await api.ask("GET", f"/audit?{query}")

    assert "".join(sorted(one["subject"][1:] for one in got.body["items"])) == QUERIES[query]


async def test_a_token_for_one_organisation(api: Api) -> None:
    await api.token("root", "owner")
    await api.token("bot", "viewer", org="acme")
    got = await api.ask("GET", "/audit", None, "bot")

    assert [one["subject"] for one in got.body["items"][1:]] == ["s2", "s1", "s0"]
    assert got.body["items"][0]["what"] == "token.create"
    assert (await api.ask("GET", "/audit?org=other", None, "bot")).code == "other_org"
    assert len((await api.ask("GET", "/audit", None, "root")).body["items"]) == 9


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=201", "limit=x", "cursor=x", "since_ms=-1", "who=ann", "limit=1&limit=2"]
)
async def test_what_is_refused(query: str, api: Api) -> None:
    got = await api.ask("GET", f"/audit?{query}")

    assert (got.status, got.body["param"]) == (400, query.partition("=")[0])
