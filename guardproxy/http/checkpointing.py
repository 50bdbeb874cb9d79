"""Keeps the last request of a run, sealed, for an agent that crashed: opt-in (`policy.checkpoints`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guardproxy.errors import StoreError
from guardproxy.http.sealed import CHECKPOINT

if TYPE_CHECKING:
    from guardproxy.http.turn import Turn


def wanted(turn: Turn) -> bool:
    """Whether this request is one to keep: of the run itself and not of a sub-agent, and not too large."""
    terms, view = turn.chosen.policy.checkpoints, turn.seen
    return terms.enabled and view.admitted and view.main and view.counted and len(turn.ask.body) <= terms.max_kb << 10


async def keep(turn: Turn) -> None:
    """Put it into the store in the place of the one before. The turn does not wait for it, nor fail with it."""
    proxy, view = turn.proxy, turn.seen
    content = proxy.sealer.seal(CHECKPOINT, view.session, turn.surface.raw_messages(turn.ask))
    try:
        ttl_s = round(turn.chosen.policy.checkpoints.ttl_seconds)
        await proxy.books.checkpoints.put(turn.opening.org, view.session, content, ttl_s, turn.offset_ms)
    except StoreError:
        return  # the next request brings the next one
