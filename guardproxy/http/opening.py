"""The beginning of a turn: what the store is asked about it, and that nothing stays held if the client leaves then."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from guardproxy.api import served
from guardproxy.api.chat import SURFACE as CHAT
from guardproxy.core import session
from guardproxy.core.tenant import SEPARATOR
from guardproxy.core.view import Opening, TurnFact, View
from guardproxy.errors import StoreError
from guardproxy.http import background, charging, remembering, room
from guardproxy.telemetry._ids import adoptable

if TYPE_CHECKING:
    from guardproxy.core.model import Ask
    from guardproxy.http.turn import Turn


ASIDE = "aside "
"""Begins the name of a session that has nothing but one request which is no turn. With a blank in it no client can name
it so, and nothing of it is kept once the request is settled (`store/settle.lua`).
"""


def opening_of(turn: Turn) -> Opening:
    """What the store is asked. The turn learns its prices on the way, what it may need, and whose budgets those are."""
    proxy, ask, tenant = turn.proxy, turn.ask, turn.tenant
    identity = session.identify(ask, proxy.printer, scope(turn), tenant.owner)
    if identity.thread and ask.surface != CHAT:
        identity = replace(identity, thread=f"{identity.thread}{SEPARATOR}{ask.surface}")
    identity, token = remembering.identity(turn, identity), proxy.token()
    if ask.aside and not identity.session:
        identity = replace(identity, session=f"{tenant.owner}{ASIDE}{token}")
    if not identity.fresh and not proxy.knows(identity):
        ask = turn.ask = turn.surface.widen(ask)
    turn.rates = proxy.prices.rates(ask.model, served(ask.parsed))
    turn.need = room.need(turn)
    turn.dues = proxy.budgets.of(tenant, ask.model, _now_ms(turn))
    background.refuse(turn)
    return Opening(
        token=token,
        org=tenant.org,
        identity=identity,
        fact=_observed(turn, ask),
        lines=room.lines(turn, turn.need),
        lease_ms=proxy.lease_ms,
        tooled=bool(ask.tools),
        offset_ms=turn.offset_ms,
        aside=ask.aside,
        traceparent=_adopted(turn),
        payer=charging.payer(turn),
        need=(turn.need.input_tokens, turn.need.output_tokens, turn.need.cost_microusd),
    )


def _adopted(turn: Turn) -> str:
    """The trace that the session is to have, if this request begins it."""
    told = turn.headers.get("traceparent", "")
    return adoptable(told) if told and turn.proxy.incoming == "adopt" else ""


def scope(turn: Turn) -> str:
    """What the digests of the conversation are made with. One that goes on over another surface is a thread of its own:
    what is put back, and a call that waits for a person, is kept in the surface's own form.
    """
    tenant, surface = turn.tenant.scope, turn.ask.surface
    return tenant if surface == CHAT else f"{tenant}/{surface}"


def _now_ms(turn: Turn) -> int:
    return turn.started_ns // 1_000_000 + turn.offset_ms


def _observed(turn: Turn, ask: Ask) -> TurnFact:
    shared = turn.tenant.key or ask.surface != CHAT
    return session.observe(ask, turn.proxy.printer, _now_ms(turn), scope(turn) if shared else "")


def _whole(turn: Turn) -> Opening:
    """The opening with all facts of the window, for a memory that has none of them."""
    return replace(turn.opening, fact=_observed(turn, turn.surface.widen(turn.ask)))


async def begin(turn: Turn) -> View:
    """Trip 1. A client that leaves meanwhile must not leave a hold behind."""
    try:
        return await turn.proxy.books.begin(turn.opening, lambda: _whole(turn))
    except asyncio.CancelledError:
        turn.taken_back = True
        turn.proxy.spawn(_take_back(turn))
        raise


async def _take_back(turn: Turn) -> None:
    """Give back what an interrupted `begin` may hold: asked again by its token, the store answers the same."""
    turn.outcome.outcome = "abandoned"
    try:
        turn.view = await turn.proxy.books.begin(turn.opening, lambda: _whole(turn))
    except StoreError:
        turn.proxy.books.disown(turn.opening.org, turn.opening.token)
        return
    turn.settle()
