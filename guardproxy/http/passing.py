"""Every `/v1/*` route that is no surface: passed on as it is, both ways, and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import ClientError, web

from guardproxy import api
from guardproxy.errors import BadAsk, GuardError, UpstreamError
from guardproxy.http.upstream import response_headers

if TYPE_CHECKING:
    from guardproxy.http.app import Proxy


async def forward(proxy: Proxy, request: web.BaseRequest, path: str) -> web.StreamResponse:
    """The provider's answer to a route that guardproxy does not read. Neither body is held in memory."""
    route = path.partition("?")[0]
    if not route.startswith("/v1/"):
        message = f"{route} is not served here; point the client's base URL at this address with /v1 at its end"
        return _error(BadAsk(message, status=404, code="not_found"))
    if request.headers.get("Upgrade", "").lower() == "websocket":
        message = "WebSocket is not spoken here; use POST"
        return _error(BadAsk(message, status=426, code="upgrade_required"))
    proxy.telemetry.count("passthrough", {"method": request.method}, 1)
    headers = proxy.upstream.request_headers(request.headers, identity=False, plain=False)
    body = None
    if request.body_exists:
        body = request.content
        if request.content_length is not None:
            headers.append(("Content-Length", str(request.content_length)))
    try:
        return await _relay(proxy, request, path, headers, body)
    except GuardError as error:
        return _error(error)


async def _relay(
    proxy: Proxy, request: web.BaseRequest, path: str, headers: list[tuple[str, str]], body: object
) -> web.StreamResponse:
    async with proxy.upstream.send(request.method, path, body, headers) as answer:  # type: ignore[arg-type]
        response = web.StreamResponse(status=answer.status, headers=[*response_headers(answer)])
        if answer.headers.get("Content-Length") is not None:
            response.content_length = int(answer.headers["Content-Length"])
        response.headers["x-guardproxy-verdict"] = "pass"
        await response.prepare(request)
        try:
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
        except ConnectionResetError:
            return response
        except (ClientError, TimeoutError):
            if request.transport is not None:
                request.transport.abort()  # too late for an error: let the client see that the answer is not whole
            return response
        await response.write_eof()
        return response


def _error(error: GuardError) -> web.Response:
    kind = [("Content-Type", "application/json")]
    if not isinstance(error, UpstreamError):
        kind.append(("x-should-retry", "false"))
    return web.Response(status=error.status, body=api.SURFACES["passthrough"].error(error, {}), headers=kind)
