"""Requests that are not read: they count in the tenant's rates and budgets of requests, and are refused like others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from guardproxy.core.view import View
from guardproxy.errors import StoreError
from guardproxy.store.redis import Store
from tests.http.test_room import at, budget, counters, who
from tests.live import Answer, Json, Live, Said, live

PATH = "/v1/rerank"
RED = {"x-test-team": "red", "x-test-key": "k1"}


async def get(running: Live, path: str = "/v1/models") -> int:
    async with running.client.get(running.url + path, headers={"Authorization": "Bearer k"}) as answer:
        return answer.status


async def pass_on(running: Live, headers: Mapping[str, str] | None = None, path: str = PATH) -> Answer:
    answer = await running.post({"model": "m", "input": "x"}, headers, path=path)
    await running.proxy.quiet()
    return answer


UPSTREAMS = [{"name": "other", "url": "http://127.0.0.1:9/v1", "models": ["nobody"]}]


@pytest.mark.parametrize("several", [False, True], ids=["one upstream", "several"])
async def test_they_are_counted_and_denied_where_the_tenants_requests_are_used_up(store: Store, several: bool) -> None:
    budgets = [
        budget("team", "requests", 2, timezone="Europe/Berlin"),
        budget("org", "concurrent_requests", 5, None),
        budget("model", "requests", 99),
    ]
    async with live(store, budgets=budgets, upstreams=UPSTREAMS if several else []) as running:
        who(running)
        running.offset_ms = at("2026-03-29T12:00:00+00:00")
        assert [(await pass_on(running, RED)).status for _ in range(2)] == [200, 200]
        found = await counters(store)
        assert found == {
            "d:team:red:Europe/Berlin:2026-03-29 requests": (2, 0),
            "n:org: concurrent_requests": (0, 0),
            "d:model:*:UTC:2026-03-29 requests": (2, 0),
        }
        denied = await pass_on(running, RED)
        assert (denied.status, denied.json["error"]["code"], denied.rule) == (400, "budget_exceeded", "budget.requests")
        assert denied.json["error"]["budget"] == {
            "scope": "team",
            "kind": "requests",
            "limit": 2,
            "used": 2,
            "held": 0,
            "hold": 1,
            "window": "day",
            "timezone": "Europe/Berlin",
            "resets_at": "2026-03-29T22:00:00Z",
            "how": ["wait until 2026-03-29T22:00:00Z", "have the limit of the team raised by whoever governs it"],
        }
        assert denied.headers["x-should-retry"] == "false"
        assert "Retry-After" not in denied.headers
        assert await counters(store) == found
        assert (await running.post({"model": "m", "messages": [{"role": "user", "content": "hi"}]}, RED)).status == 400
        assert (await pass_on(running, {"x-test-team": "blue"})).status == 200
        assert await get(running) == 200  # looking is no request of a day
        assert len(running.provider.got) == 4


async def test_a_rate_holds_for_all_methods_and_is_worth_a_retry(store: Store) -> None:
    async with live(store, budgets=[budget("org", "requests", 2, "minute")]) as running:
        running.offset_ms = at("2026-11-30T10:00:20+00:00")
        assert (await get(running), (await pass_on(running)).status) == (200, 200)
        late = await pass_on(running)
        assert (late.status, late.json["error"]["code"], late.rule) == (429, "rate_limit_exceeded", "rate.requests")
        assert 36 <= int(late.headers["Retry-After"]) <= 40
        assert "x-should-retry" not in late.headers
        assert await get(running) == 429
        running.offset_ms = at("2026-11-30T10:01:00+00:00")
        assert (await pass_on(running)).status == 200


async def test_one_waits_for_the_place_of_the_other(store: Store) -> None:
    async with live(store, budgets=[budget("org", "concurrent_requests", 1, None)]) as running:
        most = [0, 0]

        async def busy() -> None:
            most[0] += 1
            most[1] = max(most)
            await asyncio.sleep(0.05)
            most[0] -= 1

        running.provider.script = lambda _got: Said("ok", wait=busy())
        answers = await asyncio.gather(*(running.post({"model": "m"}, path=PATH) for _ in range(3)))
        assert [answer.status for answer in answers] == [200] * 3
        assert most[1] == 1
        await running.proxy.quiet()
        assert await counters(store) == {"n:org: concurrent_requests": (0, 0)}


@pytest.mark.parametrize("several", [False, True], ids=["one upstream", "several"])
async def test_what_was_not_sent_does_not_count(store: Store, several: bool) -> None:
    nobody: Json = {"url": "http://127.0.0.1:9/v1"}
    more = {"upstreams": UPSTREAMS} if several else {}
    async with live(store, budgets=[budget("org", "requests", 1)], upstream=nobody, **more) as running:
        assert [(await pass_on(running)).status for _ in range(2)] == [502, 502]
        assert {*(await counters(store)).values()} == {(0, 0)}


async def test_a_client_that_leaves_gives_its_place_back(store: Store) -> None:
    async with live(store, budgets=[budget("org", "concurrent_requests", 1, None)]) as running:
        never = asyncio.Event()
        running.provider.script = lambda _got: Said("never", wait=never.wait())
        asking = asyncio.ensure_future(running.post({"model": "m"}, path=PATH))
        while not running.provider.got:
            await asyncio.sleep(0.01)
        assert await counters(store) == {"n:org: concurrent_requests": (0, 1)}
        await running.proxy.books.renew(60_000)  # a long call keeps its place, and makes no session
        assert await store.idle_sessions(-60_000) == []
        asking.cancel()
        async with asyncio.timeout(5):
            while (await counters(store)) != {"n:org: concurrent_requests": (0, 0)}:
                await asyncio.sleep(0.01)
        never.set()
        assert (await pass_on(running)).status == 200


@pytest.mark.parametrize("closed", [False, True])
async def test_without_the_store(store: Store, closed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_args: object) -> None:
        await asyncio.sleep(0)
        raise StoreError("away")

    monkeypatch.setattr(store.meter, "hold", away)
    async with live(store, budgets=[budget("org", "requests", 1)]) as running:
        running.proxy.books._on_failure = "closed" if closed else "open"
        answer = await pass_on(running)
        assert answer.status == (503 if closed else 200)
        assert answer.headers.get("Retry-After") == ("1" if closed else None)


@pytest.mark.parametrize("on_failure", ["by_budget", "open"])
async def test_without_the_store_where_money_is_limited(
    store: Store, on_failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is passed on unread spends too: the same holds for it as for turns."""
    hold, away = store.meter.hold, True

    async def at_times(*args: Any) -> View:
        if away:
            raise StoreError("away")
        return await hold(*args)

    monkeypatch.setattr(store.meter, "hold", at_times)
    async with live(store, budgets=[budget("org", "cost_usd", 1)], policy={"unmetered": "pass"}) as running:
        running.proxy.books._on_failure = on_failure
        answers = [(await pass_on(running)).status for _ in range(2)]
        assert answers == [503 if on_failure == "by_budget" else 200] * 2
        assert len(running.provider.got) == answers.count(200)
        away = False
        assert (await pass_on(running)).status == 200
        once = max(await counters(store), default="")
        used, held = (await counters(store))[once]
        await running.proxy.books.pay()
        assert (await counters(store))[once] == (used * (1 + answers.count(200)), held)
        assert (used > 0, held) == (True, 0)


async def test_a_panic_and_a_policy_that_observes_refuse_nothing(store: Store) -> None:
    budgets = [budget("org", "requests", 1), budget("org", "cost_usd", 1)]
    async with live(store, budgets=budgets, policy={"mode": "observe"}) as running:
        assert [(await pass_on(running)).status for _ in range(2)] == [200, 200]
        assert sorted((await counters(store)).values()) == [(2, 0), (210, 0)]  # the cost is read in their answers
    async with live(store, budgets=budgets[:1]) as running:
        assert (await pass_on(running)).status == 400
        await store.panic(True)
        assert (await pass_on(running)).status == 200
