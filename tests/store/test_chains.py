"""What is remembered of responses: under a name, in an org, for a while."""

from __future__ import annotations

from guardproxy.store import erasures
from guardproxy.store.redis import Store
from tests.live import unique


async def test_kept_and_found(store: Store) -> None:
    org, name = unique("org"), unique("resp")
    assert await store.chains.get(org, name) is None
    await store.chains.keep(org, name, b"one", 60)
    assert await store.chains.get(org, name) == b"one"
    assert store.chains.keep_soon(org, name, b"two", 60)
    assert await store.chains.get(org, name) == b"two", "what was sent before is there before"
    assert await store.chains.get(unique("other"), name) is None
    left = await store._client.command("TTL", f"gp:{{{org}}}:chain:{name}")
    assert isinstance(left, int)
    assert 0 < left <= 60


async def test_whose_it_is_stands_beside_it(store: Store) -> None:
    """So that a run is erased with its answers; what an earlier version kept is read, and goes with the org alone."""
    org, names = unique("org"), [unique("resp") for _ in range(4)]
    await store.chains.keep(org, names[0], b"run\0one", 60, "run-\u00fc")
    assert store.chains.keep_soon(org, names[1], b"two", 60, "run-\u00fc2")
    await store.chains.keep(org, names[2], b"", 60)
    await store._client.command("SET", f"gp:{{{org}}}:chain:{names[3]}", b"old", "EX", 60)
    assert [await store.chains.get(org, one) for one in names] == [b"run\0one", b"two", b"", b"old"]
    assert await store.erasures.wipe(org, ["run-\u00fc"]) == 1
    assert [await store.chains.get(org, one) for one in names] == [None, b"two", b"", b"old"]
    assert await store.erasures.wipe(org, erasures.EVERYBODY) == 3


async def test_without_a_connection_it_is_said(store: Store) -> None:
    await store.close()
    assert not store.chains.keep_soon("org", "name", b"x", 60)
