"""Requests that guardproxy passes on unread: they are counted, in the tenant's rates and budgets of requests.

What they cost is not known before it is spent, and of many never. So a route that spends is refused where money or
tokens are limited (`policy.unmetered`). Where it is passed on all the same, what its answer says was used is counted
there, so that what follows finds less room.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from guardproxy.api.passthrough import Named, Seen
from guardproxy.core import denial, pricing, tenant_budget
from guardproxy.core.advice import limits
from guardproxy.core.budget import Need
from guardproxy.core.interventions.deny import BUSY
from guardproxy.core.model import Usage
from guardproxy.core.tenant_budget import Due
from guardproxy.core.usage import Charge, payer
from guardproxy.core.view import Closing, View
from guardproxy.core.windows import CONCURRENT, is_rate
from guardproxy.errors import BadAsk, StoreError
from guardproxy.http import room
from guardproxy.http.handing_on import error_of
from guardproxy.http.outcome import NO_USAGE
from guardproxy.http.upstream import Inflater

if TYPE_CHECKING:
    from guardproxy.core.model import Line
    from guardproxy.core.policy import Policy
    from guardproxy.core.tenant import Tenant
    from guardproxy.http.app import Proxy
    from guardproxy.http.fetching import Fetch
    from guardproxy.http.prices import Prices
    from guardproxy.http.request import Request
    from guardproxy.http.whole import Whole

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that only look: lists of models and files. They count in rates, which protect the provider, alone."""

COUNTED = frozenset({"requests", CONCURRENT})
"""Dimensions that can be counted of a request that is not read."""

ASKING = frozenset({"/v1/messages/count_tokens", "/v1/responses/input_tokens"})
"""Routes that say how many tokens a request would have, and use none: Anthropic's and OpenAI's. Agents ask often."""

PLAIN = frozenset({"", "identity"})
"""Content encodings that are none."""

LOOKED_AT = 4 * 1024 * 1024
"""Bytes to which a request's encoded body is decoded for a look at it."""


class Denied(Exception):
    """There is no room. `response` is what the client is told."""

    def __init__(self, response: Whole) -> None:
        super().__init__("no room")
        self.response = response


CANCEL = "/cancel"
"""Ends routes whose answer tells of what was asked, and paid, before."""


class Place:
    """The place that a request holds. `sent`: it counts; False where nothing of it has left. `model`: if known."""

    sent = True
    model = ""
    fetch: Fetch | None = None
    """The answer made in the background that it is about."""

    def __init__(self, request: Request, route: str, most: int) -> None:
        self._reads = request.method == "POST" and not route.endswith(CANCEL)
        self._most = most
        self._named = Named(request.headers.get("Content-Type", ""))
        encoding = request.headers.get("Content-Encoding", "").strip().lower()
        self._inflater = Inflater(encoding, min(most, LOOKED_AT)) if encoding not in PLAIN else None
        self._seen: Seen | None = None

    def sees(self, chunk: bytes, *, plain: bool = False) -> None:
        """A piece of the request, on its way. `plain`: it is decoded already."""
        if self._reads:
            self._named.feed(chunk if plain or self._inflater is None else self._inflater.feed(chunk))

    def reads(self, content_type: str, encoding: str, status: int) -> Callable[[bytes], None] | None:
        """What looks at the answer, if it may say what was used."""
        if self.fetch is not None:
            return self.fetch.reads(content_type, encoding, status)
        seen = Seen(content_type)
        if not (self._reads and seen.reads and status < 400):
            return None
        self._seen, encoding = seen, encoding.strip().lower()
        if encoding in PLAIN:
            return seen.feed
        inflater = Inflater(encoding, self._most)
        return lambda chunk: seen.feed(inflater.feed(chunk))

    def used(self, prices: Prices) -> tuple[Usage, int]:
        """What the answer says was used, once it is over, and what that cost: by the dearest of the models that were
        named, the answer's own among them where its price is known. `model` is that one.
        """
        seen, self._seen = self._seen, None
        if seen is None:
            return NO_USAGE, 0
        seen.over()
        if seen.usage is None:
            return NO_USAGE, 0
        named = [self.model] if self.model else [*self._named.models()]
        if seen.model and seen.model not in named and (not named or _known(prices, seen.model)):
            named.append(seen.model)
        usage = seen.usage
        cost, at = max(((_cost(prices, name, usage), -at) for at, name in enumerate(named)), default=(None, 0))
        self.model = named[-at] if named else ""
        return usage, _cost(prices, "", usage) if cost is None else cost


@asynccontextmanager
async def held(
    proxy: Proxy, request: Request, tenant: Tenant, route: str, model: str = "", fetch: Fetch | None = None
) -> AsyncIterator[Place]:
    """While a request is under way it holds its place. `Denied`: there is none, or it may not be used at all.

    `model`: where the path names it. `fetch`: the answer asked for before which it is about.
    """
    place, policy = Place(request, route, proxy.limits.max_expanded), proxy.policies.at(tenant).policy
    offset_ms = proxy.clock_offset(request.lower)
    due = (
        proxy.budgets.of(tenant, model, time.time_ns() // 1_000_000 + offset_ms) if proxy.budgets.meter(tenant) else ()
    )
    place.model, place.fetch = model, fetch
    if request.method in SAFE:
        due = tuple([one for one in due if is_rate(one.key) and one.budget.dimension in COUNTED])
    elif fetch is None and route not in ASKING and _refuses(proxy, policy, tenant):
        message = f"{route} is not counted, and there are budgets here that it would pass by (policy.unmetered)"
        raise Denied(error_of(BadAsk(message, code="route_not_metered")))
    token = await _admitted(proxy, tenant, policy, due, offset_ms) if due else ""
    try:
        yield place
    finally:
        usage, cost = place.used(proxy.prices)
        if place.sent and request.method not in SAFE:
            _note(proxy, tenant, Charge(requests=1, usage=usage, cost=cost), place.model)
        if token:
            _settle(proxy, tenant, token, offset_ms, _spent(int(place.sent), usage, cost))


def _refuses(proxy: Proxy, policy: Policy, tenant: Tenant) -> bool:
    """Whether what costs money or tokens that nobody counts has no place here."""
    held = policy.unmetered == "refuse" and proxy.policies.budgets_hold
    return held and proxy.budgets.meter(tenant, but=COUNTED)


def _cost(prices: Prices, model: str, usage: Usage) -> int:
    """What it cost, by the price of its model; where the policy blocks models without a price, by none."""
    try:
        return pricing.cost(prices.rates(model), usage)
    except BadAsk:
        return 0


def _known(prices: Prices, model: str) -> bool:
    try:
        return prices.rates(model).known
    except BadAsk:
        return False


def _spent(requests: int, usage: Usage = NO_USAGE, cost: int = 0) -> dict[str, int]:
    total = usage.input + usage.output
    spent = {"requests": requests, "cost_microusd": cost, "total_tokens": total}
    return {**spent, "input_tokens": usage.input, "output_tokens": usage.output}


def _note(proxy: Proxy, tenant: Tenant, charge: Charge, model: str = "") -> None:
    """Note a request in the ledger of usage; the model only where it is known what it used."""
    proxy.books.charge(tenant.org, payer((tenant.team, tenant.key, tenant.user, model, "")), charge.numbers())


async def _admitted(proxy: Proxy, tenant: Tenant, policy: Policy, due: Sequence[Due], offset_ms: int) -> str:
    """The token of the hold, or of what is told to the store once it is back."""
    made = tenant_budget.lines(due, Need(0, 0, 0), enforce=proxy.policies.budgets_hold)
    lines = [
        one if one.dimension in COUNTED else one._replace(limit=-1) for one in made
    ]  # held is none of it: it counts
    until, poll_ms = time.monotonic() + room.WAIT_S, room.POLL_MS
    while True:
        token = proxy.token()
        view = await _hold(proxy, tenant, token, lines, made, offset_ms)
        if view is None or view.admitted:
            return token
        wait_s = tenant_budget.wait_ms(view, poll_ms) / 1000
        if any(tenant_budget.is_hard(line) for line in view.short) or time.monotonic() + wait_s > until:
            _note(proxy, tenant, Charge(interventions=1, denied=1))
            raise Denied(_refusal(policy, view, proxy.where))
        await asyncio.sleep(wait_s)
        poll_ms = min(room.SLOWEST_MS, 2 * poll_ms)


async def _hold(
    proxy: Proxy, tenant: Tenant, token: str, lines: Sequence[Line], under: Sequence[Line], offset_ms: int
) -> View | None:
    """One trip. A client that leaves meanwhile must not leave a hold behind."""
    try:
        return await proxy.books.meter(tenant.org, token, lines, proxy.lease_ms, offset_ms, under=under)
    except asyncio.CancelledError:
        _settle(proxy, tenant, token, offset_ms, _spent(0))
        raise
    except StoreError as error:
        response = error_of(error)
        response.headers["Retry-After"] = "1"
        raise Denied(response) from error


def _settle(proxy: Proxy, tenant: Tenant, token: str, offset_ms: int, spent: Mapping[str, int]) -> None:
    told = Closing(token, tenant.org, "", "", "answered", "", spent, offset_ms=offset_ms)
    proxy.spawn(proxy.books.settle(told))


def _refusal(policy: Policy, view: View, where: str) -> Whole:
    decision = denial.denied(view, policy.default_output_hold)
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
