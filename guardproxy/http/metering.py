"""Requests that guardproxy passes on unread: they are counted, in the tenant's rates and budgets of requests.

What they cost is not known. So a route that spends is refused where money or tokens are limited (`policy.unmetered`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from guardproxy.core import denial, tenant_budget
from guardproxy.core.advice import limits
from guardproxy.core.budget import Need
from guardproxy.core.interventions.deny import BUSY
from guardproxy.core.tenant_budget import Due
from guardproxy.core.usage import Charge, payer
from guardproxy.core.view import Closing, View
from guardproxy.core.windows import CONCURRENT, is_rate
from guardproxy.errors import BadAsk, StoreError
from guardproxy.http import intake, room
from guardproxy.http.handing_on import error_of

if TYPE_CHECKING:
    from guardproxy.core.model import Line
    from guardproxy.core.policy import Policy
    from guardproxy.core.tenant import Tenant
    from guardproxy.http.app import Proxy

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that only look: lists of models and files. They count in rates, which protect the provider, alone."""

COUNTED = frozenset({"requests", CONCURRENT})
"""Dimensions that can be counted of a request that is not read."""


class Denied(Exception):
    """There is no room. `response` is what the client is told."""

    def __init__(self, response: web.Response) -> None:
        super().__init__("no room")
        self.response = response


class Place:
    """The place that a request holds. `sent`: it counts; False where nothing of it has left."""

    sent = True


@asynccontextmanager
async def held(proxy: Proxy, request: web.BaseRequest, tenant: Tenant, route: str) -> AsyncIterator[Place]:
    """While a request is under way it holds its place. `Denied`: there is none, or it may not be used at all."""
    place, policy = Place(), proxy.policies.at(tenant).policy
    offset_ms = proxy.clock_offset(intake.lower(request.headers))
    due = proxy.budgets.of(tenant, "", time.time_ns() // 1_000_000 + offset_ms) if proxy.budgets.meter(tenant) else ()
    if request.method in SAFE:
        due = tuple([one for one in due if is_rate(one.key)])
    elif policy.unmetered == "refuse" and proxy.policies.budgets_hold and proxy.budgets.meter(tenant, but=COUNTED):
        message = f"{route} is not counted, and there are budgets here that it would pass by (policy.unmetered)"
        raise Denied(error_of(BadAsk(message, code="route_not_metered")))
    due = tuple([one for one in due if one.budget.dimension in COUNTED])
    token = await _admitted(proxy, tenant, policy, due, offset_ms) if due else ""
    try:
        yield place
    finally:
        if place.sent and request.method not in SAFE:
            _note(proxy, tenant, Charge(requests=1))
        if token:
            _settle(proxy, tenant, token, offset_ms, int(place.sent))


def _note(proxy: Proxy, tenant: Tenant, charge: Charge) -> None:
    """Note a request in the ledger of usage: what it cost is not known, nor which model it was for."""
    proxy.books.charge(tenant.org, payer((tenant.team, tenant.key, tenant.user, "", "")), charge.numbers())


async def _admitted(proxy: Proxy, tenant: Tenant, policy: Policy, due: Sequence[Due], offset_ms: int) -> str:
    """The token of the hold; "" where nothing is counted, since the store is away."""
    lines = tenant_budget.lines(due, Need(0, 0, 0), enforce=proxy.policies.budgets_hold)
    until, poll_ms = time.monotonic() + room.WAIT_S, room.POLL_MS
    while True:
        token = proxy.token()
        view = await _hold(proxy, tenant, token, lines, offset_ms)
        if view is None:
            return ""
        if view.admitted:
            return token
        wait_s = tenant_budget.wait_ms(view, poll_ms) / 1000
        if any(tenant_budget.is_hard(line) for line in view.short) or time.monotonic() + wait_s > until:
            _note(proxy, tenant, Charge(interventions=1, denied=1))
            raise Denied(_refusal(policy, view, proxy.where))
        await asyncio.sleep(wait_s)
        poll_ms = min(room.SLOWEST_MS, 2 * poll_ms)


async def _hold(proxy: Proxy, tenant: Tenant, token: str, lines: Sequence[Line], offset_ms: int) -> View | None:
    """One trip. A client that leaves meanwhile must not leave a hold behind."""
    try:
        return await proxy.books.meter(tenant.org, token, lines, proxy.lease_ms, offset_ms)
    except asyncio.CancelledError:
        _settle(proxy, tenant, token, offset_ms, 0)
        raise
    except StoreError as error:
        response = error_of(error)
        response.headers["Retry-After"] = "1"
        raise Denied(response) from error


def _settle(proxy: Proxy, tenant: Tenant, token: str, offset_ms: int, requests: int) -> None:
    told = Closing(token, tenant.org, "", "", "answered", "", {"requests": requests}, offset_ms=offset_ms)
    proxy.spawn(proxy.books.settle(told))


def _refusal(policy: Policy, view: View, where: str) -> web.Response:
    decision = denial.denied(view)
    extra: dict[str, object] = {"rule": decision.rule}
    if decision.refused is not None:
        extra["budget"] = denial.facts(decision.refused, view, where)
    language = "en" if policy.language == "auto" else policy.language
    if decision.rule.startswith(denial.RATE):
        error = BadAsk(limits.rate_reached(language, decision), status=BUSY, code="rate_limit_exceeded")
        response = error_of(error, extra)
        del response.headers["x-should-retry"]
        response.headers["Retry-After"] = str(denial.retry_after(view))
    else:
        error = BadAsk(decision.reason, status=policy.deny_status, code="budget_exceeded")
        response = error_of(error, extra)
    response.headers["x-guardproxy-verdict"], response.headers["x-guardproxy-rule"] = "deny", decision.rule
    return response
