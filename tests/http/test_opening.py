"""The beginning of a turn: what the store is asked, and that nothing stays held if the client leaves meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from guardproxy.core.view import Opening, View
from guardproxy.errors import StoreError
from guardproxy.store.redis import Store
from tests.http.test_room import PRICES, body, budget, counters
from tests.live import live


class Slow:
    """A store whose answer to the first `begin` comes late."""

    def __init__(self, store: Store) -> None:
        self._store, self.begun, self.go = store, asyncio.Event(), asyncio.Event()
        self.asked: list[Opening] = []
        self.gone = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def begin(self, opening: Opening) -> View:
        self.asked.append(opening)
        if self.gone and len(self.asked) > 1:
            raise StoreError("away")
        view = await self._store.begin(opening)
        self.begun.set()
        await self.go.wait()
        return view


@pytest.mark.parametrize("gone", [False, True])
async def test_a_client_that_leaves_before_the_store_has_answered(store: Store, gone: bool) -> None:
    slow = Slow(store)
    slow.gone = gone
    async with live(slow, budgets=[budget("org", "requests", 5, "total")]) as running:  # type: ignore[arg-type]
        running.proxy.books._closed = True
        asking = asyncio.ensure_future(running.post(body()))
        await slow.begun.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        async with asyncio.timeout(5):
            while len(slow.asked) < 2:
                await asyncio.sleep(0.005)
        slow.go.set()
        await running.proxy.quiet()
        assert len({opening.token for opening in slow.asked}) == 1
        assert await counters(store) == {"t:org: requests": (0, int(gone))}  # of a store that is gone the lease ends it
        assert not running.provider.got


async def test_what_the_store_is_asked(store: Store) -> None:
    slow = Slow(store)
    slow.go.set()
    budgets = [budget("org", "cost_usd", 5), budget("team", "requests", 5)]
    async with live(slow, budgets=budgets, prices=PRICES) as running:  # type: ignore[arg-type]
        running.offset_ms = 86_400_000
        answer = await running.post(body(max_tokens=100), {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"})
        assert answer.status == 200
    (opening,) = slow.asked
    (cost,) = [line for line in opening.lines if line.key]
    assert (opening.org, opening.offset_ms, opening.tooled) == ("default", 86_400_000, False)
    assert opening.traceparent.startswith("00-111")
    assert (cost.scope, cost.dimension, cost.limit) == ("org", "cost_microusd", 5_000_000)
    assert 100 * 100 < cost.hold < 100 * 100 + 1000
