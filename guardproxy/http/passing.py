"""Every `/v1/*` route that is no surface: passed on as it is, both ways, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from guardproxy._upstreams import RESERVED
from guardproxy.errors import BadAsk, GuardError, UpstreamError
from guardproxy.http import by_model, fetching, intake, metering
from guardproxy.http.handing_on import error_of, hand_on
from guardproxy.http.intake import malformed, too_slow
from guardproxy.http.request import MalformedBody
from guardproxy.http.tenancy import outward

if TYPE_CHECKING:
    from guardproxy.core.tenant import Tenant
    from guardproxy.http.app import Proxy
    from guardproxy.http.request import Request
    from guardproxy.http.route import Target
    from guardproxy.http.streamed import Response
    from guardproxy.http.upstream import Upstream
    from guardproxy.http.whole import Whole


ECHOING = frozenset({"TRACE", "TRACK", "CONNECT"})
"""Methods whose answer is the request, the operator's key in it (RFC 9110, section 9.3.8), or that ask for a tunnel."""


async def forward(proxy: Proxy, request: Request, target: Target, tenant: Tenant) -> Response:
    """The provider's answer to a route that guardproxy does not read. Neither body is held in memory."""
    route = target.route
    if not route.startswith("/v1/"):
        message = f"{route} is not served here; point the client's base URL at this address with /v1 at its end"
        return error_of(BadAsk(message, status=404, code="not_found"))
    if request.method in ECHOING:
        message = f"{request.method} is not passed on"
        return error_of(BadAsk(message, status=405, code="method_not_allowed"))
    if websocket(request):
        message = "WebSocket is not spoken here; use POST"
        return error_of(BadAsk(message, status=426, code="upgrade_required"))
    fetch = await fetching.sought(proxy, request, target, tenant)
    if fetch is None:
        tenant.may_pass(request.method, route)
    if target.model:
        tenant.may_ask(target.model)
    try:
        async with metering.held(proxy, request, tenant, route, target.model, fetch) as place:
            return await _forward(proxy, request, target, tenant, place)
    except metering.Denied as denied:
        return _closed(request, denied.response)


async def _forward(proxy: Proxy, request: Request, target: Target, tenant: Tenant, place: metering.Place) -> Response:
    proxy.telemetry.count("passthrough", {"method": request.method}, 1)
    received, upstream = outward(proxy.tenancy, request.headers), proxy.upstream
    if proxy.upstreams is not None:
        if by_model.applies(request) and place.fetch is None:
            ask = by_model.Ask(request, target, received, tenant.upstreams)
            return await by_model.forward(proxy, proxy.upstreams, ask, place)
        model, made_by = (place.fetch.model, place.fetch.made_by) if place.fetch is not None else (target.model, "")
        group = proxy.upstreams.group(model, tenant.upstreams)
        upstream = next((one for one in group if one.name == made_by), group[0]).upstream
    else:
        tenant.may_reach(RESERVED)
    headers = upstream.request_headers(received, target.path, identity=place.fetch is not None, plain=False)
    body = None
    if request.body_exists:
        body = Upload(proxy, request, place)
        if request.length is not None:
            headers.append(("Content-Length", str(request.length)))
    try:
        return await _relay(upstream, request, target.path, headers, body, place)
    except GuardError as error:
        place.sent = isinstance(error, UpstreamError) and not error.unsent
        response = error_of(body.wrong if body is not None and body.wrong else error)
        return response if body is None else _closed(request, response)
    finally:
        if body is not None:
            body.over()


def websocket(request: Request) -> bool:
    """Whether the client wants a WebSocket. Codex does, and falls back to POST at 426 alone, without a delay."""
    return request.method == "GET" and request.headers.get("Upgrade", "").lower() == "websocket"


def _closed(request: Request, response: Whole) -> Whole:
    """The answer to a request whose body is not read to its end: what comes of it must not be read as a request."""
    if not request.arrived:
        response.force_close()
    return response


class Upload:
    """A body on its way through. While it comes its request is not counted as under way; it must keep coming."""

    def __init__(self, proxy: Proxy, request: Request, place: metering.Place) -> None:
        self._place = place
        self._proxy = proxy
        self._request = request
        self._coming = True
        self.wrong: BadAsk | None = None
        proxy.in_flight -= 1
        proxy.arriving += 1

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Its pieces."""
        request = self._request
        if not request.arrived:
            request.go_on()
        while True:
            try:
                async with asyncio.timeout(intake.IDLE_S):
                    chunk = await request.part()
            except TimeoutError:
                self.wrong = too_slow()
                raise
            except MalformedBody:
                self.wrong = malformed()
                raise
            if not chunk:
                break
            self._place.sees(chunk)
            yield chunk
        self.over()

    def over(self) -> None:
        """It is there, or nobody waits for it any longer."""
        if self._coming:
            self._coming = False
            self._proxy.in_flight += 1
            self._proxy.arriving -= 1


async def _relay(
    upstream: Upstream,
    request: Request,
    path: str,
    headers: list[tuple[str, str]],
    body: Upload | None,
    place: metering.Place,
) -> Response:
    async with upstream.send(request.method, path, body, headers) as answer:
        return await hand_on(request, answer, upstream.name, place.reads)
