"""Where sessions were served: per org, session and choice; the newest counts, for a day."""

from __future__ import annotations

from guardproxy.store.redis import Store
from guardproxy.store.stays import KEPT_MS
from tests.store.kit import ORG, keys


async def test_the_newest_is_kept(store: Store) -> None:
    stays = store.stays
    assert await stays.get(ORG, "s", "a,b") == ""
    await stays.keep(ORG, "s", "a,b", "b")
    await stays.keep(ORG, "s", "a,c", "c")
    assert await stays.get(ORG, "s", "a,b") == "b"
    assert await stays.get(ORG, "s", "a,c") == "c"
    assert await stays.get(ORG, "t", "a,b") == await stays.get("other", "s", "a,b") == ""
    await stays.keep(ORG, "s", "a,b", "a")
    assert await stays.get(ORG, "s", "a,b") == "a"


async def test_it_is_forgotten_after_a_day(store: Store) -> None:
    await store.stays.keep(ORG, "é:{s}", "a,b", "b")
    assert await store.stays.get(ORG, "é:{s}", "a,b") == "b"
    (key,) = [one for one in await keys(store) if ":stay:" in one]
    left = await store._client.command("PTTL", key)
    assert KEPT_MS - 10_000 < left <= KEPT_MS  # type: ignore[operator]
