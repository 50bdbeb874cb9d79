"""The operator's listener over HTTP, with the parent's answers made up."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from guardproxy.errors import ConfigError, StoreError
from guardproxy.http.admin import Admin, Sight
from guardproxy.telemetry import Snapshot


@asynccontextmanager
async def admin(**given: Any) -> AsyncIterator[Callable[..., Any]]:
    """A client's `request` for an admin listener; `given` replaces what the parent says."""
    switch = {"on": False}

    async def fit() -> None:
        if given.get("store"):
            raise StoreError(given["store"])
        if given.get("evicts"):
            raise ConfigError(given["evicts"])

    async def metrics() -> Snapshot:
        return Snapshot(1, 2, {"guardproxy.build_info": {("1", "x"): [1.0]}})

    async def panic(on: bool | None) -> tuple[bool, bool]:
        switch["on"] = switch["on"] if on is None else on
        return switch["on"], given.get("pending", False)

    sight = Sight(
        workers=lambda: given.get("workers", 1),
        draining=lambda: given.get("draining", False),
        refused=lambda: given.get("refused", False),
        upstreams=lambda: given["upstreams"] if "upstreams" in given else {"default": given["upstream"]},
        store=fit,
        store_needed=lambda: given.get("needed", False),
        metrics=metrics,
        panic=panic,
    )
    runner = web.AppRunner(Admin(sight).application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    given.setdefault("upstream", f"http://127.0.0.1:{runner.addresses[0][1]}/v1")
    async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as session:
        yield session.request
    await runner.cleanup()


def _closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


REFUSED = "the last one was refused (see the log), the one before holds"

READY = {
    "all well": ({}, 200, {"ready": True, **dict.fromkeys(["workers", "config", "store", "upstream", "state"], "ok")}),
    "no worker": ({"workers": 0}, 503, {"workers": "none serves"}),
    "draining": ({"draining": True}, 503, {"state": "draining"}),
    "store away, open": ({"store": "gone"}, 200, {"store": "gone", "ready": True}),
    "store away, closed": ({"store": "gone", "needed": True}, 503, {"store": "gone", "ready": False}),
    "store evicts, open": ({"evicts": "allkeys-lru"}, 503, {"store": "allkeys-lru", "ready": False}),
    "store evicts, closed": ({"evicts": "allkeys-lru", "needed": True}, 503, {"store": "allkeys-lru"}),
    "configuration refused": ({"refused": True}, 200, {"config": REFUSED, "ready": True}),
    "no address": ({"upstream": "http://nowhere.invalid/v1"}, 503, {"ready": False, "store": "ok"}),
    "no provider": ({"upstream": f"http://127.0.0.1:{_closed_port()}/v1"}, 503, {"ready": False, "store": "ok"}),
}


@pytest.mark.parametrize(("given", "status", "told"), READY.values(), ids=READY.keys())
async def test_readyz(given: dict[str, Any], status: int, told: dict[str, Any]) -> None:
    async with admin(**given) as request, request("GET", "/readyz") as answer:
        body = await answer.json()

    assert answer.status == status
    assert body.items() >= told.items()


SEVERAL = {
    # which of two answer: status, what is said
    "both": ("oo", 200, {"ready": True, "upstream": "ok"}, "ok", "ok"),
    "one": ("ox", 200, {"ready": True, "upstream": "ok"}, "ok", "does not answer"),
    "none": ("xx", 503, {"ready": False}, "does not answer", "does not answer"),
}


@pytest.mark.parametrize(("answer", "status", "told", "first", "second"), SEVERAL.values(), ids=SEVERAL.keys())
async def test_readyz_knows_all_upstreams(
    answer: str, status: int, told: dict[str, Any], first: str, second: str
) -> None:
    given: dict[str, Any] = {"upstreams": {}}
    async with admin(**given) as request:
        for name, sign in zip("ab", answer, strict=True):
            port = _closed_port() if sign == "x" else request.__self__._base_url.port
            given["upstreams"][name] = f"http://127.0.0.1:{port}/v1"
        async with request("GET", "/readyz") as found:
            body = await found.json()

    assert found.status == status
    assert body.items() >= told.items()
    assert first in body["upstreams"]["a"]
    assert second in body["upstreams"]["b"]
    assert (body["upstream"] == "ok") is body["ready"]


async def test_a_name_without_an_address_is_said() -> None:
    async with admin(upstream="http://nowhere.invalid/v1") as request, request("GET", "/readyz") as answer:
        assert (await answer.json())["upstream"].startswith("nowhere.invalid has no address (")


async def test_the_provider_is_not_asked_at_every_probe() -> None:
    given: dict[str, Any] = {}
    async with admin(**given) as request:
        seen = []
        for _ in range(2):
            async with request("GET", "/readyz") as answer:
                seen.append((await answer.json())["upstream"])

    assert seen == ["ok", "ok"]


async def test_healthz_and_metrics() -> None:
    async with admin(workers=0, store="gone") as request:
        async with request("GET", "/healthz") as alive:
            assert (alive.status, await alive.text()) == (200, "ok\n")
        async with request("GET", "/metrics") as metrics:
            assert metrics.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert "\nguardproxy_build_info{" in await metrics.text()
        accept = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"}
        async with request("GET", "/metrics", headers=accept) as metrics:
            assert metrics.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
            assert (await metrics.text()).endswith("\n# EOF\n")


PANIC = [
    ("GET", None, 200, {"on": False}),
    ("PUT", b'{"on": true}', 200, {"on": True}),
    ("GET", None, 200, {"on": True}),
    ("PUT", b'{"on": 1}', 400, "on"),
    ("PUT", b"{", 400, "on"),
    ("PUT", b"[]", 400, "on"),
    ("PUT", b"x" * 5000, 413, None),
    ("POST", b'{"on": true}', 405, None),
    ("GET", None, 200, {"on": True}),
    ("PUT", b'{"on": false}', 200, {"on": False}),
]


async def test_panic() -> None:
    async with admin() as request:
        for method, body, status, told in PANIC:
            async with request(method, "/panic", data=body) as answer:
                said = await answer.json()
            assert answer.status == status, (method, body, said)
            if isinstance(told, dict):
                assert said == told
            else:
                assert said["error"]["param"] == told


@pytest.mark.parametrize("head", [{"X-Forwarded-For": "10.0.0.7"}, {"Host": "proxy:8788"}])
async def test_without_tokens_nobody_from_elsewhere_may_panic(head: dict[str, str]) -> None:
    """An agent in the same network could switch off what watches it."""
    async with admin() as request:
        async with request("PUT", "/panic", data=b'{"on": true}', headers=head) as answer:
            assert answer.status == 403
        async with request("GET", "/panic", headers=head) as answer:
            assert (answer.status, await answer.json()) == (200, {"on": False})


async def test_panic_that_the_store_has_yet_to_hear_of() -> None:
    async with admin(pending=True) as request, request("PUT", "/panic", data=b'{"on": true}') as answer:
        assert (answer.status, await answer.json()) == (202, {"on": True, "pending": True})


async def test_unknown_path_names_the_known_ones() -> None:
    async with admin() as request, request("GET", "/v1/models") as answer:
        body = await answer.json()

    assert (answer.status, body["error"]["code"]) == (404, "not_found")
    assert "/healthz, /readyz, /metrics, /panic" in body["error"]["message"]
