"""The provider's answer to a route that guardproxy does not read, handed on as it comes; and errors there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from aiohttp import ClientError

from guardproxy import api
from guardproxy.errors import GuardError, UpstreamError
from guardproxy.http.headers import response_headers
from guardproxy.http.streamed import Streamed
from guardproxy.http.whole import Whole

if TYPE_CHECKING:
    import aiohttp

    from guardproxy.http.request import Request
    from guardproxy.http.streamed import Response

Reads = Callable[[str, str, int], Callable[[bytes], None] | None]
"""What looks at an answer on its way, by its media type, its encoding and its status; it says who gets the pieces."""


async def hand_on(request: Request, answer: aiohttp.ClientResponse, name: str, reads: Reads) -> Response:
    """The answer, to its end. `name`: of the upstream, where there are several."""
    sees = reads(answer.headers.get("Content-Type", ""), answer.headers.get("Content-Encoding", ""), answer.status)
    headers = response_headers(answer.headers.items(), answer.headers.get("Connection", ""))
    size = answer.headers.get("Content-Length")
    if size is not None:
        headers.append(("Content-Length", size))
    headers.append(("x-guardproxy-verdict", "pass"))
    if name:
        headers.append(("x-guardproxy-upstream", name))
    response = Streamed(answer.status, headers)
    response.prepare(request)
    try:
        async for chunk in answer.content.iter_any():
            if sees is not None:
                sees(chunk)
            await response.write(chunk)
    except ConnectionResetError:
        return response
    except (ClientError, TimeoutError):
        request.abort()  # too late for an error: let the client see that the answer is not whole
        return response
    await response.write_eof()
    return response


def error_of(error: GuardError, extra: Mapping[str, object] | None = None) -> Whole:
    """An error of ours, or of the way to the provider. `extra` stands in `error` beside the sentence."""
    kind = [("Content-Type", "application/json")]
    if not isinstance(error, UpstreamError):
        kind.append(("x-should-retry", "false"))
    return Whole(error.status, kind, api.SURFACES["passthrough"].error(error, extra or {}))
