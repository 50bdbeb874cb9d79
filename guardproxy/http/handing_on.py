"""The provider's answer to a route that guardproxy does not read, handed on as it comes; and errors there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import aiohttp
from aiohttp import ClientError, web

from guardproxy import api
from guardproxy.errors import GuardError, UpstreamError
from guardproxy.http.headers import response_headers

Reads = Callable[[str, str, int], Callable[[bytes], None] | None]
"""What looks at an answer on its way, by its media type, its encoding and its status; it says who gets the pieces."""


async def hand_on(
    request: web.BaseRequest, answer: aiohttp.ClientResponse, name: str, reads: Reads
) -> web.StreamResponse:
    """The answer, to its end. `name`: of the upstream, where there are several."""
    sees = reads(answer.headers.get("Content-Type", ""), answer.headers.get("Content-Encoding", ""), answer.status)
    response = web.StreamResponse(
        status=answer.status, headers=response_headers(answer.headers.items(), answer.headers.get("Connection", ""))
    )
    if answer.headers.get("Content-Length") is not None:
        response.content_length = int(answer.headers["Content-Length"])
    response.headers["x-guardproxy-verdict"] = "pass"
    if name:
        response.headers["x-guardproxy-upstream"] = name
    await response.prepare(request)
    try:
        async for chunk in answer.content.iter_any():
            if sees is not None:
                sees(chunk)
            await response.write(chunk)
    except ConnectionResetError:
        return response
    except (ClientError, TimeoutError):
        if request.transport is not None:
            request.transport.abort()  # too late for an error: let the client see that the answer is not whole
        return response
    await response.write_eof()
    return response


def error_of(error: GuardError, extra: Mapping[str, object] | None = None) -> web.Response:
    """An error of ours, or of the way to the provider. `extra` stands in `error` beside the sentence."""
    kind = [("Content-Type", "application/json")]
    if not isinstance(error, UpstreamError):
        kind.append(("x-should-retry", "false"))
    return web.Response(status=error.status, body=api.SURFACES["passthrough"].error(error, extra or {}), headers=kind)
