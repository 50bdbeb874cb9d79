"""Requests of which there is no report: passed on without being read, or failed before anything was known of them."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from guardproxy.errors import GuardError, StoreError

if TYPE_CHECKING:
    from guardproxy.http.app import Proxy
    from guardproxy.http.streamed import Response
    from guardproxy.http.turn import Turn

ROUTE = "/v1/*"
"""What their routes are called: clients make those up."""

LEFT = 499
"""The status of an answer that nobody waited for."""


async def timed(proxy: Proxy, method: str, answer: Awaitable[Response]) -> Response:
    """Hand on the answer to a request that is not read, and count it."""
    began, status, code = time.perf_counter(), LEFT, ""
    try:
        response = await answer
        status = response.status
        return response
    except GuardError as error:
        status, code = error.status, error.code
        raise
    finally:
        _count(proxy, method, ROUTE, status, code or (str(status) if status >= 400 else ""), began)


def failed(turn: Turn) -> None:
    """Count a turn that ended before the store was asked, or because it did not answer (policy `closed`)."""
    done, proxy = turn.outcome, turn.proxy
    seconds = (done.ended_ns - turn.started_ns) / 1e9
    _count(proxy, turn.request.method, turn.route, done.status or LEFT, done.error_type, time.perf_counter() - seconds)
    if done.error_type == StoreError.code:
        proxy.telemetry.count("store.fallbacks", {"mode": "closed"})


def _count(proxy: Proxy, method: str, route: str, status: int, error_type: str, began: float) -> None:
    labels = {"method": method, "route": route, "status_code": status, "error.type": error_type}
    proxy.telemetry.count("http.server.request.duration", labels, time.perf_counter() - began)
