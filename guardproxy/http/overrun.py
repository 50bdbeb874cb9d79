"""Streams that become longer than what was held for them. Beside the stream, which waits for nothing.

More is held then, so that others find less room (`policy.on_overrun: finish`); or, where there is no room for more, the
answer ends in the middle, in our words (`end`). A whole answer is not known before it is there, and paid for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from guardproxy.core import pricing
from guardproxy.core.budget import DIMENSIONS, Need
from guardproxy.core.denial import ELASTIC
from guardproxy.core.model import Decision, Line, Rung
from guardproxy.errors import StoreError
from guardproxy.http import room

if TYPE_CHECKING:
    from guardproxy.http.turn import Turn


async def look(running: Iterable[Turn]) -> None:
    """Hold more for the streams that need it, or end them."""
    for turn in running:
        watcher = turn.look.watcher if turn.look is not None and turn.response is not None else None
        if watcher is None or turn.settled or not turn.seen.admitted or turn.seen.degraded:
            continue
        made = pricing.estimate_output(watcher.produced_chars)
        if made > turn.need.output_tokens + turn.stretched:
            await _stretch(turn, made)


async def _stretch(turn: Turn, made: int) -> None:
    """Hold as much again, and at least what was made."""
    held = turn.need.output_tokens + turn.stretched
    more = max(turn.need.output_tokens, made - held)
    cost = _cost(turn, held + more) - _cost(turn, held)
    lines = room.lines(turn, Need(0, more, cost))
    ends = turn.chosen.policy.on_overrun == "end"
    wanted = tuple([line._replace(limit=line.limit if ends and line.dimension in ELASTIC else -1) for line in lines])
    try:
        short = await turn.proxy.books.stretch(turn.opening, wanted)
    except StoreError:
        return
    if short is None:
        turn.stretched += more
    elif isinstance(short, Line) and not turn.settled:
        turn.overrun = _decision(short)
        turn.stop(turn.overrun.reason)


def _cost(turn: Turn, output: int) -> int:
    return pricing.hold(turn.rates, turn.need.input_tokens, output)


def _decision(line: Line) -> Decision:
    """The answer is ended, not the run: its next request finds out whether there is room again."""
    row = DIMENSIONS[line.dimension]
    reason = f"limit {row.setting} ({line.scope}) of {row.show(line.limit)} is reached: this answer became longer than "
    reason += "what was held for it"
    return Decision("deny", Rung.FINALIZE, f"budget.{row.setting}", line.limit, reason, refused=line)
