"""Requests without a report are counted, too: by their route, the status that the client got, and why."""

from __future__ import annotations

import asyncio

import pytest

from guardproxy.errors import StoreError
from guardproxy.store.redis import Store
from guardproxy.telemetry import Telemetry
from tests.live import Said, live
from tests.telemetry.reports import settings

CHAT = "/v1/chat/completions"


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry(settings(), b"k" * 32, "test")


def counted(telemetry: Telemetry, name: str = "http.server.request.duration") -> dict[tuple[str, ...], float]:
    return {labels: sum(cell[1:]) for labels, cell in telemetry.snapshot().series.get(name, {}).items()}


async def test_each_request_is_counted_once(store: Store, telemetry: Telemetry) -> None:
    async with live(store, telemetry) as running:
        running.settled = True
        running.provider.script = lambda got: Said("ok", status=418 if got.path.endswith("teapot") else 200)
        ask = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        assert (await running.post(ask)).status == 200
        assert (await running.post(b"{")).status == 400
        assert (await running.post(ask, path="/v1/teapot")).status == 418
        assert (await running.post(ask, path="/v1/files")).status == 200
        assert (await running.post(ask, path="/elsewhere")).status == 404
        error = (await running.post(b"{")).json["error"]["code"]

    assert counted(telemetry) == {
        ("POST", CHAT, "200", ""): 1,
        ("POST", CHAT, "400", error): 2,
        ("POST", "/v1/*", "418", "418"): 1,
        ("POST", "/v1/*", "200", ""): 1,
        ("POST", "/v1/*", "404", "404"): 1,
    }
    assert telemetry.snapshot().series["guardproxy.turns"]["default", ""] == [1]


async def test_a_store_that_is_away_under_the_policy_closed(
    store: Store, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(_opening: object) -> None:
        raise StoreError("gone")

    monkeypatch.setattr(store, "begin", away)
    ask = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    async with live(store, telemetry, store={"on_failure": "closed"}) as running:
        assert (await running.post(ask)).status == 503

    assert counted(telemetry) == {("POST", CHAT, "503", "store_unavailable"): 1}
    assert telemetry.snapshot().series["guardproxy.store.fallbacks"] == {("open",): [0], ("closed",): [1]}


async def test_a_client_that_leaves_before_its_body_is_there(store: Store, telemetry: Telemetry) -> None:
    async with live(store, telemetry) as running:
        host, port = running.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{{"
        writer.write(head.encode())
        await writer.drain()
        while not running.proxy.arriving:
            await asyncio.sleep(0.01)
        writer.close()
        while running.proxy.arriving:
            await asyncio.sleep(0.01)
        await running.proxy.quiet()

    assert counted(telemetry) == {}
