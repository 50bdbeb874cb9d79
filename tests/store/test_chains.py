"""What is remembered of responses: under a name, in an org, for a while."""

from __future__ import annotations

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


async def test_without_a_connection_it_is_said(store: Store) -> None:
    await store.close()
    assert not store.chains.keep_soon("org", "name", b"x", 60)
