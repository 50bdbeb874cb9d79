"""Room for a request: what it holds, and where there is none for it: a moment of waiting, or less output.

A rate has room again in a moment, so a request waits for it, if that moment is near; a hard limit is asked once more
where the policy lets answers become shorter (`shrink_to_fit`). Each time it is one atomic `begin`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from guardproxy import _zones
from guardproxy.core import budget, pricing, tenant_budget
from guardproxy.core.budget import Need
from guardproxy.core.edit import LimitOutput
from guardproxy.core.memo import Memo
from guardproxy.core.model import Line
from guardproxy.core.tenant import Tenant
from guardproxy.core.tenant_budget import Due
from guardproxy.core.windows import CONCURRENT, Budget

if TYPE_CHECKING:
    from guardproxy.http.books import Books
    from guardproxy.http.turn import Turn

WAIT_S = 2.0
"""Seconds that a request waits for a rate (DESIGN section 7); then it is told when to come again."""

POLL_MS, SLOWEST_MS = 50, 400
"""Milliseconds between two looks, at first and at last: each is a trip to the store."""

KEPT = 2000
"""Tenants with a model whose budgets are remembered, up to twice as many; about a kilobyte each."""


class Budgets:
    """Which budgets a request counts against. `common`: those that the configuration gives the org `org`."""

    def __init__(self, common: Iterable[Budget] = (), org: str = "default") -> None:
        self._file = self._common = tuple(common)
        self._org = org
        self._known = Memo[tuple[Tenant, str], tuple[tuple[Due, ...], int]](KEPT)
        self._crossings = Memo[str, bool](KEPT)

    async def look(self, books: Books) -> None:
        """What the org's own document says now, beside the file: without keys of ours nobody else would say it."""
        found = await books.budgets_of(self._org)
        if found is None:
            return
        common = (*self._file, *found)
        if common != self._common:
            self._common = common
            self._known = Memo[tuple[Tenant, str], tuple[tuple[Due, ...], int]](KEPT)

    def of(self, tenant: Tenant, model: str, now_ms: int) -> tuple[Due, ...]:
        """The budgets of a tenant for a model, with their windows at this moment."""
        if not (self._common or tenant.budgets):
            return ()
        known = self._known[tenant, model]
        if known is not None and (not known[1] or now_ms < known[1]):
            return known[0]
        common = self._common if tenant.org == self._org else ()
        made = tenant_budget.dues((*common, *tenant.budgets), tenant, model, now_ms, _zones.zone)
        return self._known.keep((tenant, model), made)[0]

    def crossing(self, window: str) -> bool:
        """Whether this worker sees a soft limit passed for the first time; the store says if another one did."""
        return not self._crossings[window] and self._crossings.keep(window, True)

    def forget(self, window: str) -> None:
        """A crossing that could not be told is one that is still to come."""
        self._crossings.pop(window, None)

    def meter(self, tenant: Tenant, but: Container[str] = ()) -> bool:
        """Whether a tenant has budgets, of other dimensions than those: what they limit must be counted.

        So is what certain models may do, where the model is not known.
        """
        common = self._common if tenant.org == self._org else ()
        found = (*common, *tenant.budgets)
        return any(one.dimension not in but or (one.scope == "model" and one.match != "*") for one in found)


def need(turn: Turn) -> Need:
    """What the turn's first attempt may use at most."""
    ask = turn.ask
    hold = turn.chosen.policy.default_output_hold
    most = hold if ask.max_tokens is None else ask.max_tokens if ask.background else min(ask.max_tokens, hold)
    return _need(turn, 0, min(most * max(1, ask.choices), pricing.MOST))


def more(turn: Turn, size: int) -> tuple[Line, ...]:
    """The lines to hold for one more attempt, whose request is `size` bytes longer."""
    return lines(turn, _need(turn, size, turn.need.output_tokens))


def _need(turn: Turn, more: int, output: int) -> Need:
    estimate = pricing.estimate_input(len(turn.body.plain) + more, turn.proxy.factor(weighed(turn)))
    estimate += turn.ask.held_tokens
    return Need(estimate, output, pricing.hold(turn.rates, estimate, output))


def weighed(turn: Turn) -> str:
    """Whose requests weigh alike: a key's for a model. What one sends (pictures, code) must not make holds of others
    larger, nor smaller.
    """
    return f"{turn.tenant.key} {turn.ask.model}"


def hides(turn: Turn) -> bool:
    """Whether a stream is to say nothing of its usage, though budgets of money or tokens count it: then it is asked for
    all the same, and kept from the client. What a model thinks is seen nowhere else.
    """
    ask = turn.ask
    if not ask.stream or ask.wants_usage or not isinstance(ask.parsed.get("stream_options"), dict):
        return False
    return any(one.budget.dimension not in PIECES for one in turn.dues)


PIECES = frozenset({"requests", CONCURRENT})
"""Dimensions that no usage is needed for."""


def lines(turn: Turn, need: Need) -> tuple[Line, ...]:
    """The lines to hold: the session's limits, and the tenant's where there are any."""
    policy = turn.chosen.policy
    found = budget.price(policy.stored, need)
    if not turn.dues:
        return found
    return (*found, *tenant_budget.lines(turn.dues, need, enforce=turn.proxy.policies.budgets_hold))


async def make(turn: Turn) -> None:
    """Look for room where the first `begin` found none. The turn's view is the last answer."""
    until = time.monotonic() + WAIT_S
    poll_ms, shrinks = POLL_MS, turn.chosen.policy.shrink_to_fit
    while _lacks(turn):
        if any(tenant_budget.is_hard(line) for line in turn.seen.short):
            if not shrinks or not _shrink(turn):
                return
            shrinks = False
        else:
            wait_s = tenant_budget.wait_ms(turn.seen, poll_ms) / 1000
            if time.monotonic() + wait_s > until:
                return
            await asyncio.sleep(wait_s)
            poll_ms = min(SLOWEST_MS, 2 * poll_ms)
        await turn.begin_again()


def _lacks(turn: Turn) -> bool:
    view = turn.seen
    return bool(view.short) and not (view.admitted or view.closed or view.paused)


def _shrink(turn: Turn) -> bool:
    """Ask for as much output as there is room for. False: it would be too little, or is not what is lacking."""
    choices = max(1, turn.ask.choices)
    most = tenant_budget.fitting(turn.seen, turn.need, turn.rates, choices)
    if not most:
        return False
    turn.need = _need(turn, 0, most * choices)
    turn.opening = replace(turn.opening, lines=lines(turn, turn.need))
    turn.shrunk = (LimitOutput(most),)
    return True


def spent(turn: Turn) -> Mapping[str, int]:
    """What only tenants have limits of: a request counts if it was sent."""
    return {"requests": int(turn.outcome.asked)}
