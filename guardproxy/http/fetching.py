"""Answers that were made in the background, fetched: what they used is settled, before the client has all of it.

The routes are passed on unread like others. Those of an answer that this tenant asked for are open to its key whatever
that says, and fetching or stopping it is refused by no budget: it uses nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from guardproxy import api
from guardproxy.core import pricing
from guardproxy.core.model import Ask, Usage
from guardproxy.errors import BadAsk
from guardproxy.http import background, route as routing
from guardproxy.http.background import About
from guardproxy.http.outcome import NO_USAGE, UNDER_WAY
from guardproxy.http.upstream import Inflater
from guardproxy.telemetry import semconv

if TYPE_CHECKING:
    from guardproxy.api._watcher import Seen, Watcher
    from guardproxy.core.tenant import Tenant
    from guardproxy.http.app import Proxy
    from guardproxy.http.request import Request
    from guardproxy.http.route import Target

ROUTE = re.compile(r"/v1/(?:responses/([^/]+)(/cancel|/input_items)?|chat/deferred-completion/([^/]+))")
"""Routes of an answer that was asked for before: OpenAI's and Azure's, xAI's."""

METHODS = {None: ("GET", "DELETE"), "/cancel": ("POST",), "/input_items": ("GET",)}
"""By the rest of the route. The body of none of them asks for anything more."""


def answer_of(method: str, path: str) -> str:
    """The id of the answer that a request is about, by its path in one spelling; "" = it is about none."""
    found = ROUTE.fullmatch(path)
    if found is None or method not in METHODS[found[2]]:
        return ""
    return found[1] or (found[3] if method == "GET" else "")


async def sought(proxy: Proxy, request: Request, target: Target, tenant: Tenant) -> Fetch | None:
    """The answer that a request is about, where it is one that the tenant asked for; else None."""
    path = routing.canonical(target.path.partition("?")[0])
    answer = answer_of(request.method, path)
    if not answer:
        return None
    name = background.name_of(proxy.printer, tenant, answer)
    found = await proxy.books.background.look(tenant.org, name)
    if found is None:
        return None
    state, about = found
    says = request.method == ("POST" if path.endswith("/cancel") else "GET") and not path.endswith("/input_items")
    offset_ms = proxy.clock_offset(request.lower)
    return Fetch(proxy, tenant.org, name, background.read(about), owed=says and state != "settled", offset_ms=offset_ms)


class Fetch:
    """A look at one answer on its way to its client. `owed`: what it used is not known yet."""

    def __init__(self, proxy: Proxy, org: str, name: str, about: About | None, *, owed: bool, offset_ms: int) -> None:
        self._proxy = proxy
        self._offset_ms = offset_ms
        self._org = org
        self._name = name
        self._owed = about if owed else None
        self.model = about.model if about else ""
        self.made_by = about.upstream if about else ""
        """The upstream that makes it, where there are several: no other one has it."""

    def reads(self, content_type: str, encoding: str, status: int) -> Callable[[bytes], None] | None:
        """Who gets its pieces, each before the client has it."""
        surface = api.SURFACES.get(self._owed.surface) if self._owed is not None else None
        if surface is None or status >= 400:
            return None
        watcher: Watcher = surface.watch(_nothing(surface.SURFACE), status=status, content_type=content_type)
        stream = "event-stream" in content_type.lower()
        encoding = encoding.strip().lower()
        inflater = None if encoding in ("", "identity") else Inflater(encoding, self._proxy.limits.max_expanded)

        def see(chunk: bytes) -> None:
            watcher.feed(chunk if inflater is None else inflater.feed(chunk))
            if self._owed is not None and (watcher.ended if stream else watcher.complete or watcher.failed):
                self._over(self._owed, watcher)

        return see

    def _over(self, about: About, watcher: Watcher) -> None:
        """The answer is there, and says how it stands. One that says nothing of what it used stays charged in full
        where it failed, or was stopped: what was made of it until then nobody knows.
        """
        seen: Seen = watcher.seen()
        if seen.finish_reason in UNDER_WAY:
            return
        usage = seen.usage
        if usage is None or (usage == NO_USAGE and seen.produced_chars):
            if seen.failed:
                return
            usage = Usage(input=about.given, output=pricing.estimate_output(seen.produced_chars), estimated=True)
        try:
            rates = self._proxy.prices.rates(about.model, about.tier or None)
        except BadAsk:  # a model that nobody can price any longer
            return
        self._owed = None
        usage = pricing.searched(usage, [call.name for call, _ in watcher.hosted])
        told = background.settled(self._org, self._name, about, usage, rates, self._offset_ms)
        self._proxy.books.background.settle(told, lambda: self._counted(about, told.cost))

    def _counted(self, about: About, cost: int) -> None:
        count, org = self._proxy.telemetry.count, self._org
        count("guardproxy.background", {"guardproxy.org.id": org, "guardproxy.state": "settled"})
        if about.charged < 0:
            return  # charged by the sweeper, in no worker's figures
        whose = {semconv.ORG: org, semconv.TEAM: about.team, semconv.GEN_AI_REQUEST_MODEL: about.model}
        more = (cost - about.charged) / 1e6
        if more > 0:
            count("guardproxy.cost.usd", whose, more)
        else:
            count("guardproxy.background.returned.usd", whose, -more)


def _nothing(surface: str) -> Ask:
    """A request of which nothing is known, for a watcher that reads and changes nothing."""
    return Ask(surface, "", False, b"", 0, (), (), 0)  # no stream
