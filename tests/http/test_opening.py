"""The beginning of a turn: what the store is asked, and that nothing stays held if the client leaves meanwhile."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from guardproxy.core.view import Opening, View
from guardproxy.errors import StoreError
from guardproxy.http import opening
from guardproxy.http.outcome import Outcome
from guardproxy.store.redis import Store
from guardproxy.telemetry import Telemetry
from tests.http.test_room import PRICES, body, budget, counters
from tests.live import Json, config_of, live
from tests.telemetry.sink import otlp_sink


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
        running.proxy.books._on_failure = "closed"
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


HEADER = f"01-{'1' * 32}-{'2' * 16}-01"  # a later version than 00, which may say more at its end
ANYBODY = {"auth": {"mode": "none", "anyone": True}, "listen": {"host": "0.0.0.0"}}
INCOMING: dict[str, tuple[Json, str, str]] = {
    "on the loopback it is joined": ({}, HEADER, "1" * 32),
    "where anybody may ask it is linked": (ANYBODY, "", ""),
    "linked, as configured": ({"telemetry": {"incoming": "link"}}, "", ""),
    "ignored, as configured": ({"telemetry": {"incoming": "ignore"}}, "", ""),
}


@pytest.mark.parametrize(("sections", "kept", "trace"), INCOMING.values(), ids=INCOMING.keys())
async def test_a_client_s_trace(store: Store, sections: Json, kept: str, trace: str) -> None:
    """What the session keeps of it, what the answer's header names, and whether the turn's span links to it."""
    slow = Slow(store)
    slow.go.set()
    with otlp_sink() as sink:
        told = Telemetry(config_of(telemetry={"otlp_endpoint": sink.url}).telemetry, b"k" * 32, "test")
        async with live(slow, told, **sections) as running:
            answer = await running.post(body(), {"traceparent": f"{HEADER}-more;9;9;9;s"})
            broken = await running.post(body(), {"traceparent": "00-x;9;9;9;s"})
        await told.shutdown(5)
    (server, _) = sorted(
        [span for span in sink.spans if span.name.startswith("POST")], key=lambda span: span.start_time_unix_nano
    )
    ignored = sections.get("telemetry", {}).get("incoming") == "ignore"

    assert [opening.traceparent for opening in slow.asked] == [kept, ""]
    assert (answer.headers["x-guardproxy-trace-id"] == "1" * 32) == bool(trace)
    assert broken.status == 200
    assert (server.parent_span_id.hex() == "2" * 16) == bool(trace)
    assert [link.span_id.hex() for link in server.links] == ([] if trace or ignored else ["2" * 16])


async def test_who_left_while_the_store_was_away_leaves_no_hold() -> None:
    """The store may have heard of the first `begin`, though the second one was never sent."""

    async def away(*_: object) -> None:
        raise StoreError("away")

    let_go: list[tuple[str, str]] = []
    books = SimpleNamespace(begin=away, disown=lambda org, token: let_go.append((org, token)))
    of = SimpleNamespace(org="acme", token="t1")
    turn = SimpleNamespace(outcome=Outcome(), proxy=SimpleNamespace(books=books), opening=of)
    await opening._take_back(turn)  # type: ignore[arg-type]  # all that it looks at
    assert let_go == [("acme", "t1")]
