"""What a turn has used, told to the store while it waits for a person: its answer is there, its end is not.

Then it holds no more than that, so that others find the rest; and should this worker die meanwhile, it is charged with
that, and not as it was held.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from guardproxy.core import pricing
from guardproxy.core.budget import Need
from guardproxy.core.usage import Charge
from guardproxy.errors import StoreError
from guardproxy.http import background, room

if TYPE_CHECKING:
    from guardproxy.http.look import Look
    from guardproxy.http.turn import Turn


async def tell(turn: Turn, look: Look) -> None:
    """Tell it of an answer whose usage its provider has stated. Without the store nothing changes."""
    usage, need, done = look.watcher.usage, turn.need, turn.outcome
    if usage is None or turn.seen.degraded:
        return
    cost = pricing.cost(turn.rates, usage)
    less = Need(
        min(0, usage.input - need.input_tokens),
        min(0, usage.output - need.output_tokens),
        min(0, cost - need.cost_microusd),
    )
    lines = [line._replace(limit=-1) for line in room.lines(turn, less)]
    with suppress(StoreError):
        await turn.proxy.books.stretch(turn.opening, lines)
    earlier = [one.used(need) for one in done.earlier]
    whole = pricing.together([*earlier, usage])
    cost += sum(pricing.cost(turn.rates, one) for one in earlier)
    token = turn.opening.token
    told = background.Settled(
        turn.opening.org, token, background.spent(whole, cost), Charge(1, whole, cost).numbers(), cost, turn.offset_ms
    )
    turn.proxy.books.background.known(token, told)
