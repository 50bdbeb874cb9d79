"""Who releases an approved call: one turn, also where the store's answer to its claim is lost.

A claim whose answer did not come may have been a yes. The turn then goes on without the call, and gives the claim back
as soon as the store answers, so that a later turn can release the call. DESIGN section 7.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from guardproxy.errors import StoreError

if TYPE_CHECKING:
    from guardproxy.http.turn import Turn

CLAIMS, PAUSE_S = 4, 0.25
"""Times that a call is claimed for a turn while the store does not answer, and seconds between them."""

RETURNS, RETURN_S = 50, 0.5
"""Times that a claim is given back while the store does not answer, and seconds between them."""


async def claimed(turn: Turn, name: str) -> bool:
    """Whether this turn is the one that releases the call."""
    approvals, org, token = turn.proxy.books.approvals, turn.opening.org, turn.opening.token
    for _ in range(CLAIMS):
        with suppress(StoreError):
            return await approvals.claim(org, name, token, turn.offset_ms)
        await asyncio.sleep(PAUSE_S)
    turn.proxy.spawn(give_back(turn, name))
    return False


async def give_back(turn: Turn, name: str) -> None:
    """Take the claim back, once the store answers: this turn has released nothing. Last of all, its settle is sent."""
    for _ in range(RETURNS):
        await asyncio.sleep(RETURN_S)
        with suppress(StoreError):
            await turn.proxy.books.approvals.unclaim(turn.opening.org, name, turn.opening.token, turn.offset_ms)
            if turn.settled:
                return
