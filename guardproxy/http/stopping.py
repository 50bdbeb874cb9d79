"""A turn that is ended while its answer is on the way, by a person or a limit: the provider's stream is closed, the
client is told why.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from guardproxy.api.chat import GAP
from guardproxy.core.model import Decision, Rung
from guardproxy.http import deciding, own_words
from guardproxy.http.outlet import behind, last
from guardproxy.http.whole import whole

if TYPE_CHECKING:
    from guardproxy.http.streamed import Response
    from guardproxy.http.turn import Turn

RULE = "operator"
"""The rule of what people end."""


async def end(turn: Turn) -> Response:
    """The end of the answer in our words, behind what the client has of it already."""
    before = turn.decision
    ended = turn.overrun or Decision("cut", Rung.CUT, RULE, 0, turn.stopped)
    turn.decision = replace(ended, findings=before.findings, spared=before.spared)
    look, done = turn.look, turn.outcome
    joint = turn.joint
    seen = look.watcher.seen() if look is not None else None
    if look is not None and seen is not None and (seen.produced_chars or seen.usage is not None or done.background):
        done.pass_over(seen)
        joint = look.watcher.joint()
    elif done.sent:  # charged as for a client that left: what nobody has seen may have been made
        done.usage = done.usage_or_estimate(turn.need)
    text = deciding.summary(turn)
    body = turn.surface.closing(
        turn.ask,
        joint if turn.response is not None else None,
        text,
        reply_id=turn.reply_id,
        created=time.time_ns() // 10**9,
    )
    flowed = joint.text if joint is not None and turn.response is not None else ""
    done.own(GAP.join(part for part in (flowed, text) if part))
    own_words.keep(turn, flowed=flowed)
    turn.settle()
    if turn.response is None:
        return whole(200, [("Content-Type", turn.content_type), *turn.guard_headers()], body)
    if look is not None and look.encoded:  # our words cannot stand in the provider's encoding
        turn.request.abort()
        return turn.response
    return await last(turn.response, behind(turn.response, turn.surface.comment(ended.action, ended.rule) + body))
