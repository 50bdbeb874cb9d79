"""Routes that guardproxy does not read, where there are several upstreams: the model in a JSON body says which.

Such a body is taken whole, so that it can be sent again. Everything else goes to the default, in pieces (`passing`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple

import aiohttp

from guardproxy.api.passthrough import model_of, one_model, renamed
from guardproxy.errors import GuardError, UpstreamError
from guardproxy.http import intake, route as routing
from guardproxy.http.failover import count
from guardproxy.http.handing_on import error_of, hand_on
from guardproxy.http.intake import Intake
from guardproxy.http.upstreams import Member, Upstreams
from guardproxy.telemetry.report import FAILOVER, FIRST

if TYPE_CHECKING:
    from guardproxy.http.app import Proxy
    from guardproxy.http.metering import Place
    from guardproxy.http.request import Request
    from guardproxy.http.route import Target
    from guardproxy.http.streamed import Response


PIECE = 256 << 10
"""Bytes that are written at once."""


def applies(request: Request) -> bool:
    """Whether it brings JSON."""
    kind = request.content_type
    return request.body_exists and (kind == "application/json" or kind.endswith("+json"))


class Ask(NamedTuple):
    """A request to be passed on. `received`: its headers that may go on; `allowed`: see `Upstreams`."""

    request: Request
    target: Target
    received: Mapping[str, str]
    allowed: Sequence[str] = ()


async def forward(proxy: Proxy, upstreams: Upstreams, ask: Ask, place: Place) -> Response:
    """The answer of the first upstream for the body's model that does not fail, else of the last one asked."""
    request = ask.request
    try:
        body = await _taken(proxy, request)
        one_model(body.plain, model_of(body.plain))
        place.sees(body.plain, plain=True)
        return await _relay(proxy, upstreams, ask, body, place)
    except GuardError as error:
        place.sent = isinstance(error, UpstreamError) and not error.unsent
        response = error_of(error)
        if not request.arrived:
            response.force_close()  # what comes of the body later must not be read as a request
        return response


async def _taken(proxy: Proxy, request: Request) -> Intake:
    """The whole body. While it comes its request is not counted as under way."""
    proxy.in_flight -= 1
    proxy.arriving += 1
    try:
        limits = proxy.limits
        return await intake.take(request, max_body=limits.max_body, max_expanded=limits.max_expanded)
    finally:
        proxy.in_flight += 1
        proxy.arriving -= 1


async def _relay(proxy: Proxy, upstreams: Upstreams, ask: Ask, body: Intake, place: Place) -> Response:
    model = ask.target.model or model_of(body.plain)
    group = upstreams.group(model, ask.allowed)
    member, reason = upstreams.first(group), FIRST
    asked = [member]
    while True:
        async with AsyncExitStack() as stack:
            try:
                with upstreams.trying(member):
                    answer = await stack.enter_async_context(_send(member, ask, body, model))
            except UpstreamError as error:
                upstreams.failed(member, error.code)
                count(proxy, member, reason, 0, error.code)
                following = upstreams.following(group, asked) if error.unsent else None
                if following is None:
                    raise
            else:
                count(proxy, member, reason, answer.status, "")
                failed = upstreams.answered(member, answer.status, answer.headers.get("Retry-After", ""))
                following = upstreams.following(group, asked) if failed else None
                if following is None:
                    return await hand_on(ask.request, answer, member.name, place.reads)
        member, reason = following, FAILOVER
        asked.append(member)


def _send(member: Member, ask: Ask, body: Intake, model: str) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
    upstream, name = member.upstream, member.named(model) if model else ""
    path = routing.deployed(ask.target.path, name) if name and ask.target.model else ask.target.path
    headers = upstream.request_headers(ask.received, path, identity=False, plain=bool(name))
    sent = renamed(body.plain, model, name) if name else body.raw
    size = ("Content-Length", str(len(sent)))
    return upstream.send(ask.request.method, path, _pieces(sent), [*headers, size])


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """A long body is not written in one go: the loop has other things to do."""
    for at in range(0, len(body), PIECE):
        yield body[at : at + PIECE]
