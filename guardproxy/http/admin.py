"""The operator's listener: alive, ready, metrics of all workers, the panic switch, the admin API. Runs in the parent.

It listens on the loopback by default. Where there are admin tokens, the panic switch and the admin API (`admin_v1`) ask
for one; without any, only the same machine may use them. Health and metrics ask for none. What changes something here
is a PUT, which no web page can send without being asked first.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import orjson
from aiohttp import web

from guardproxy.errors import ConfigError, GuardError, StoreError
from guardproxy.http.auditing import Notes
from guardproxy.http.gate import Gate
from guardproxy.http.switch import stood
from guardproxy.http.whereabouts import HEADER, NONCE, proof
from guardproxy.telemetry import Snapshot
from guardproxy.telemetry.exposition import CONTENT_TYPE, OPEN_METRICS, accepted, render, render_open

UPSTREAM_SECONDS = 10.0
"""How long a look at the provider is believed; probes come every few seconds."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What the parent lets the admin listener see and do.

    `store` raises StoreError when it is not there, ConfigError when it may forget what it is given. `upstreams`: where
    requests go, by name. `refused`: whether the file was read again and not taken. `panic` answers how the switch is
    and whether the store, where workers read it, has yet to be told.
    """

    workers: Callable[[], int]
    draining: Callable[[], bool]
    refused: Callable[[], bool]
    upstreams: Callable[[], Mapping[str, str]]
    store: Callable[[], Awaitable[None]]
    store_needed: Callable[[], bool]
    metrics: Callable[[], Awaitable[Snapshot]]
    panic: Callable[[bool | None], Awaitable[tuple[bool, bool]]]


class Admin:
    """The routes. Every answer is short; errors have the shape of the API's. `api`: what is at /admin/v1.

    `gate`: who may use the panic switch; without one everybody. `notes`: where it is written that they did. `mark`: by
    which commands know that it is this one.
    """

    def __init__(
        self,
        sight: Sight,
        api: web.Application | None = None,
        gate: Gate | None = None,
        notes: Notes | None = None,
        mark: str = "",
    ) -> None:
        self._sight = sight
        self._mark = mark
        self._api = api
        self._gate = gate or Gate(None)
        self._notes = notes
        self._upstreams_seen: dict[str, tuple[float, str]] = {}

    def application(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=4096, middlewares=[_plain_errors])
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/panic", self._panic)
        app.router.add_put("/panic", self._panic)
        if self._api is not None:
            app.add_subapp("/admin/v1", self._api)
        return app

    async def _healthz(self, request: web.Request) -> web.Response:
        nonce = request.headers.get(NONCE, "")
        return web.Response(text="ok\n", headers={HEADER: proof(self._mark, nonce)} if nonce and self._mark else None)

    async def _readyz(self, request: web.Request) -> web.Response:
        """503 while no request could be served as configured; the body says which part is missing.

        Of several upstreams one that answers is enough; "upstreams" then says how each is. A store that is away is
        missing where nothing may go on without it; one that evicts always is: budgets would be lost without a word.
        A configuration that was refused is said, and no more: the one before is whole.
        """
        sight = self._sight
        where = dict(sight.upstreams())
        looks = asyncio.gather(*(self._upstream(url) for url in where.values()))
        (store, missing), seen = await asyncio.gather(self._store(), looks)
        wrong = [said for said in seen if said != "ok"]
        parts = {
            "workers": "ok" if sight.workers() else "none serves",
            "config": "the last one was refused (see the log), the one before holds" if sight.refused() else "ok",
            "store": store,
            "upstream": "; ".join(wrong) if len(wrong) == len(seen) else "ok",
            "state": "draining" if sight.draining() else "ok",
        }
        borne = {"config"} if missing else {"config", "store"}
        lacking = [name for name, said in parts.items() if said != "ok" and name not in borne]
        more = {"upstreams": dict(zip(where, seen, strict=True))} if len(where) > 1 else {}
        return _json({"ready": not lacking, **parts, **more}, 503 if lacking else 200)

    async def _metrics(self, request: web.Request) -> web.Response:
        snapshot = await self._sight.metrics()
        if accepted(request.headers.get("Accept", "")):
            return web.Response(body=render_open(snapshot).encode(), headers={"Content-Type": OPEN_METRICS})
        return web.Response(body=render(snapshot).encode(), headers={"Content-Type": CONTENT_TYPE})

    async def _panic(self, request: web.Request) -> web.Response:
        """GET tells whether every intervention is switched off, PUT {"on": true} or {"on": false} changes it.

        202 with "pending": the store is away, so it holds as soon as that answers.
        """
        changes = request.method == "PUT"
        if changes and "Origin" in request.headers:  # a page, whatever name its host was given
            raise GuardError("no web page may use the panic switch", status=403, code="forbidden")
        actor = await self._gate.admit(request, "operator" if changes else "viewer", local=changes)
        if changes and actor.org:
            raise GuardError(f"this token is for {actor.org} alone", status=403, code="other_org")
        wanted = await _wanted(request) if changes else None
        before = await stood(self._sight.panic) if changes else None
        on, pending = await self._sight.panic(wanted)
        if changes and self._notes is not None:
            await self._notes.note(actor.did("panic.set", "panic", diff={"on": (before, on)}))
        return _json({"on": on, "pending": True}, 202) if pending else _json({"on": on}, 200)

    async def _store(self) -> tuple[str, bool]:
        """How it is, and whether that keeps requests from being served."""
        try:
            await self._sight.store()
        except StoreError as error:
            return error.message, self._sight.store_needed()
        except ConfigError as error:
            return error.message, True
        return "ok", False

    async def _upstream(self, url: str) -> str:
        """Whether the provider has an address and takes connections. No request is made: it might cost money."""
        until, said = self._upstreams_seen.get(url, (0.0, ""))
        if time.monotonic() < until:
            return said
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            async with asyncio.timeout(2):
                _, writer = await asyncio.open_connection(parts.hostname, port)
            writer.close()
            said = "ok"
        except socket.gaierror as error:
            said = f"{parts.hostname} has no address ({error.strerror})"
        except (OSError, TimeoutError) as error:
            said = f"{parts.hostname}:{port} does not answer ({str(error) or 'timed out'})"
        if len(self._upstreams_seen) > len(self._sight.upstreams()):
            self._upstreams_seen.clear()  # a reload has changed them
        self._upstreams_seen[url] = (time.monotonic() + UPSTREAM_SECONDS, said)
        return said


async def _wanted(request: web.Request) -> bool:
    try:
        body = orjson.loads(await request.read())
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict) or not isinstance(body.get("on"), bool):
        raise GuardError('send {"on": true} or {"on": false}', status=400, code="invalid_request", param="on")
    return bool(body["on"])


@web.middleware
async def _plain_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except GuardError as error:
        told = _json(_error(error.message, error.code, error.param), error.status)
        if error.status == 401:
            told.headers["WWW-Authenticate"] = 'Bearer realm="guardproxy"'
        return told
    except web.HTTPException as error:
        known = "/healthz, /readyz, /metrics, /panic, /admin/v1/openapi.json"
        said = f"{request.method} {request.path}: {error.reason.lower()}; here are {known}"
        return _json(_error(said, "not_found" if error.status == 404 else "invalid_request"), error.status)


def _error(message: str, code: str, param: str | None = None) -> dict[str, object]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code, "param": param}}


def _json(value: dict[str, object], status: int) -> web.Response:
    return web.Response(body=orjson.dumps(value) + b"\n", status=status, content_type="application/json")
