"""The registry: orgs, teams, keys and the hashes of their secrets, on the real servers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import orjson
import pytest

from guardproxy.core.windows import Budget
from guardproxy.errors import GuardError, StoreError
from guardproxy.store.redis import Store
from guardproxy.store.registry import ANY, NONE, Found, Key, Org, Secret, Team
from tests.store.kit import keys

DAY = Budget("key", "cost_microusd", "day", 5_000_000, "Europe/Berlin", (50, 80))
SECRET = Secret("a" * 64, "gp-abcd…wxyz")
KEY = Key(
    "k1", "acme", "web", "ci", True, 99, ("gpt-*",), (), ("main",), "strict", "x-user", (DAY,), (SECRET,), 7, "anna"
)


@pytest.fixture
async def acme(store: Store) -> Store:
    await store.registry.put(Org("acme", budgets=(DAY,)), NONE)
    await store.registry.put(Team("acme", "web"), NONE)
    return store


async def test_what_is_put_is_read_again_whole(acme: Store) -> None:
    registry = acme.registry
    kept = await registry.put(KEY, NONE)
    assert await registry.key("k1") == kept == KEY
    assert await registry.org("acme") == Org("acme", budgets=(DAY,))
    assert await registry.team("acme", "web") == Team("acme", "web")
    assert [await registry.orgs(), await registry.teams("acme"), await registry.keys("acme")] == [
        [Org("acme", budgets=(DAY,))],
        [Team("acme", "web")],
        [KEY],
    ]
    found = await registry.find(SECRET.digest)
    assert (found.key, found.org, found.team) == (KEY, Org("acme", budgets=(DAY,)), Team("acme", "web"))
    assert abs(found.now_ms - await registry.now_ms()) < 5000


async def test_nothing_is_found_where_nothing_is(acme: Store) -> None:
    registry = acme.registry
    await registry.put(KEY)
    for digest in ("b" * 64, "", "k1", "acme"):
        found = await registry.find(digest)
        assert found == Found(found.now_ms)
    assert await registry.key("k2") is None
    assert await registry.key(SECRET.digest) is None  # a digest is no id
    assert await registry.keys("globex") == []
    assert await registry.org("globex") is None
    assert await registry.team("globex", "web") is None


REFUSED: dict[str, tuple[Any, str, int, str]] = {
    "an org that is there": (Org("acme"), NONE, 409, "already_exists"),
    "a team that is there": (Team("acme", "web"), NONE, 409, "already_exists"),
    "a team of no org": (Team("globex", "web"), NONE, 404, "not_found"),
    "a key of no org": (replace(KEY, org="globex", team=""), NONE, 404, "not_found"),
    "a key of no team": (replace(KEY, team="mobile"), NONE, 404, "not_found"),
    "a key of a team of another org": (replace(KEY, org="default"), NONE, 404, "not_found"),
    "an org that was changed": (Org("acme"), "0" * 40, 409, "changed"),
    "an org that is gone": (Org("globex"), "0" * 40, 404, "not_found"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_cannot_be_put(acme: Store, case: str) -> None:
    one, expected, status, code = REFUSED[case]
    before = await keys(acme)
    with pytest.raises(GuardError) as told:
        await acme.registry.put(one, expected)
    assert (told.value.status, told.value.code) == (status, code)
    assert {name for name in await keys(acme) if ":once:" not in name} == {n for n in before if ":once:" not in n}


async def test_of_two_writers_who_read_the_same_one_is_told(acme: Store) -> None:
    registry = acme.registry
    read = await registry.put(KEY, NONE)
    answers = await asyncio.gather(
        registry.put(replace(read, name="one"), read.etag),
        registry.put(replace(read, name="two"), read.etag),
        return_exceptions=True,
    )
    assert sorted(type(answer).__name__ for answer in answers) == ["GuardError", "Key"]
    again = await registry.key("k1")
    assert again
    assert (await registry.put(replace(again, name="three"), again.etag)).name == "three"
    assert (await registry.put(replace(again, name="four"), ANY)).name == "four"


async def test_secrets_come_and_go(acme: Store) -> None:
    registry = acme.registry
    await registry.put(KEY)
    new = Secret("b" * 64, "gp-new")
    await registry.put(replace(KEY, secrets=(new, SECRET)))
    assert [(await registry.find(one.digest)).key is not None for one in (new, SECRET)] == [True, True]
    await registry.put(replace(KEY, secrets=(new,)), gone=[SECRET.digest])
    assert [(await registry.find(one.digest)).key is not None for one in (new, SECRET)] == [True, False]
    await registry.delete(replace(KEY, secrets=(new,)))
    assert (await registry.find(new.digest)).key is None
    assert await registry.key("k1") is None


async def test_a_key_moves_to_another_team(acme: Store) -> None:
    registry = acme.registry
    await registry.put(KEY)
    await registry.put(Team("acme", "mobile"))
    await registry.put(replace(KEY, team="mobile"))
    found = await registry.find(SECRET.digest)
    assert found.team == Team("acme", "mobile")


async def test_what_is_in_use_is_not_forgotten(acme: Store) -> None:
    registry = acme.registry
    await registry.put(KEY)
    for one in (Org("acme"), Team("acme", "web")):
        with pytest.raises(GuardError) as told:
            await registry.delete(one)
        assert (told.value.status, told.value.code) == (409, "in_use")
    await registry.delete(KEY)
    await registry.delete(Team("acme", "web"))
    await registry.delete(Org("acme"))
    with pytest.raises(GuardError) as told:
        await registry.delete(Org("acme"))
    assert told.value.status == 404
    assert {name for name in await keys(acme) if ":once:" not in name} == set()


async def test_the_default_org_needs_not_be_made(store: Store) -> None:
    await store.registry.put(replace(KEY, org="default", team=""), NONE)
    found = await store.registry.find(SECRET.digest)
    assert found.key
    assert found.org is None


@pytest.mark.parametrize("act", ["put", "delete"])
async def test_a_call_that_is_sent_twice_is_answered_twice_and_done_once(
    acme: Store, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer was lost on the way, and the client sends the same bytes again."""
    registry, run = acme.registry, acme._client.run
    if act == "delete":
        await registry.put(KEY, NONE)

    async def twice(script: str, key: bytes, arguments: tuple[bytes, ...]) -> object:
        await run(script, key, arguments)
        return await run(script, key, arguments)

    monkeypatch.setattr(acme._client, "run", twice)
    if act == "put":
        await registry.put(KEY, NONE)
        assert await registry.key("k1") == KEY
    else:
        await registry.delete(KEY)
        assert await registry.key("k1") is None


async def test_all_of_it_lies_in_one_slot_that_no_org_has(acme: Store) -> None:
    await acme.registry.put(KEY)
    assert {name.partition("}")[0] for name in await keys(acme)} == {"gp:{_registry"}


async def test_documents_of_other_versions(acme: Store) -> None:
    registry, run = acme.registry, acme._client.command
    await registry.put(KEY)
    place = "gp:{_registry}:keys:acme"
    raw: Any = await run("HGET", place, "k1")
    kept = orjson.loads(raw)
    later = kept | {"colour": "red", "budgets": [kept["budgets"][0] | {"mood": "good"}]}
    await run("HSET", place, "k1", orjson.dumps(later))
    assert await registry.key("k1") == KEY
    earlier = {name: kept[name] for name in ("id", "org", "secrets")}
    await run("HSET", place, "k1", orjson.dumps(earlier))
    assert await registry.key("k1") == Key("k1", "acme", secrets=(SECRET,))
    for broken in (b"{", b"[]", b'{"id":"k1"', b'{"id":"k1","budgets":[1]}', b'{"name":"no id"}'):
        await run("HSET", place, "k1", broken)
        with pytest.raises(StoreError):
            await registry.key("k1")
