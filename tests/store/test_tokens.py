"""Tokens of operators in the store: by hash, once, with an end, and never the last owner's away."""

from __future__ import annotations

import asyncio

import pytest

from guardproxy.errors import GuardError
from guardproxy.store.audit import Entry
from guardproxy.store.redis import Store
from guardproxy.store.tokens import Found, Token

MADE = Entry("ann", "token.create")
GONE = Entry("ann", "token.revoke")


async def make(
    store: Store, name: str, role: str = "owner", for_ms: int = 0, first: bool = False, org: str = ""
) -> Token:
    return await store.tokens.create(f"hash of {name}", Token(name, name, role, org), for_ms, MADE, first=first)


async def refused(work: object) -> tuple[int, str]:
    with pytest.raises(GuardError) as caught:
        await work  # type: ignore[misc]
    return caught.value.status, caught.value.code


async def test_from_made_to_taken_back(store: Store) -> None:
    assert await store.tokens.find("hash of a") == Found(any=False, token=None, live=False)
    made = await make(store, "a")
    await make(store, "b", "viewer", 60_000, org="acme")
    found = await store.tokens.find("hash of b")

    assert (found.any, found.live) == (True, True)
    assert found.token
    assert (found.token.role, found.token.org) == ("viewer", "acme")
    assert found.token.expires_ms == found.token.at_ms + 60_000
    assert [one.name for one in await store.tokens.every()] == ["b", "a"]
    gone = await store.tokens.revoke("b", "ann", GONE)
    assert gone.revoked_ms >= made.at_ms
    assert gone.revoked_by == "ann"
    assert gone.version != found.token.version
    found = await store.tokens.find("hash of b")
    assert (found.any, found.token, found.live) == (True, gone, False)
    entries, _ = await store.audit.read(10)
    assert [one.what for one in entries] == ["token.revoke", "token.create", "token.create"]


async def test_a_token_ends(store: Store) -> None:
    await make(store, "a", for_ms=30)
    assert (await store.tokens.find("hash of a")).live
    await asyncio.sleep(0.05)
    assert not (await store.tokens.find("hash of a")).live


async def test_the_first_owner(store: Store) -> None:
    """One start of many; and again only when no owner is live any more, whatever else there is."""
    await make(store, "looker", "viewer")
    await make(store, "of one", "owner", org="acme")
    got = await asyncio.gather(
        *(make(store, f"o{n}", for_ms=500, first=True) for n in range(5)), return_exceptions=True
    )
    assert [getattr(one, "code", "made") for one in got].count("made") == 1
    assert {getattr(one, "code", "") for one in got} == {"", "owned"}
    await asyncio.sleep(0.55)
    assert (await make(store, "again", first=True)).role == "owner"


async def test_what_is_refused(store: Store) -> None:
    await make(store, "a")
    await make(store, "v", "viewer")
    assert await refused(make(store, "a", "viewer")) == (409, "taken")
    assert await refused(store.tokens.revoke("a", "ann", GONE)) == (409, "last_owner")
    assert await refused(store.tokens.revoke("x", "ann", GONE)) == (404, "not_found")
    assert await refused(store.tokens.revoke("v", "ann", GONE, "v-9")) == (412, "stale")
    assert (await store.tokens.revoke("v", "ann", GONE, "v-0")).revoked_ms
    assert await refused(store.tokens.revoke("v", "ann", GONE)) == (409, "already_revoked")
    await make(store, "b")
    assert (await store.tokens.revoke("a", "ann", GONE)).name == "a"
    assert (await make(store, "v", "viewer")).name == "v"  # a name is free when its token is gone
    assert len((await store.audit.read(50))[0]) == 6


async def test_two_owners_are_not_both_taken_back(store: Store) -> None:
    await make(store, "a")
    await make(store, "b")
    got = await asyncio.gather(*(store.tokens.revoke(one, "x", GONE) for one in "ab"), return_exceptions=True)

    assert sorted(getattr(one, "code", "done") for one in got) == ["done", "last_owner"]


async def test_a_thousand_at_most(store: Store) -> None:
    await make(store, "a")
    raw = await store._client.command("HGET", "gp:admin{admin}:tokens", "hash of a")
    pairs = [word for n in range(999) for word in (f"h{n}", raw)]
    await store._client.command("HSET", "gp:admin{admin}:tokens", *pairs)  # type: ignore[arg-type]

    assert await refused(make(store, "b")) == (409, "full")


async def test_sent_twice_is_done_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer was lost, so it is sent again with the same `once`."""
    run = store.tokens._client.run
    replies = []

    async def twice(script: str, key: bytes, words: tuple[bytes, ...]) -> object:
        replies.append([await run(script, key, words) for _ in range(2)])
        return replies[-1][1]

    monkeypatch.setattr(store.tokens._client, "run", twice)
    assert (await make(store, "a")).name == "a"
    await make(store, "b")
    assert (await store.tokens.revoke("b", "ann", GONE)).revoked_by == "ann"
    await store.audit.note(Entry("ann", "panic.set"))
    monkeypatch.undo()

    assert all(first == second for first, second in replies)
    assert len((await store.audit.read(50))[0]) == 4
