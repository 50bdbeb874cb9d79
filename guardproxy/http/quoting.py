"""The texts of a turn, where the owner has them captured on spans. Made when a span is sent, not with every turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guardproxy.core.edit import AppendText
from guardproxy.core.model import Message
from guardproxy.telemetry.content import Said, answered

if TYPE_CHECKING:
    from guardproxy.http.turn import Turn


def said(turn: Turn) -> Said:
    """What the request brought since the newest answer, and what the model answered."""
    ask, done = turn.ask, turn.outcome
    first = turn.view is not None and turn.view.new_session
    newest = next((at for at in range(len(ask.tail) - 1, -1, -1) if ask.tail[at].role == "assistant"), -1)
    since = ask.tail[newest + 1 :] or (ask.head if newest < 0 else ())
    brought = tuple([message for message in since if message.role != "system"])
    calls = done.calls or done.written or done.dropped
    return Said(
        system=tuple([one.text for one in ask.head if one.role == "system"]) if first else (),
        input=brought,
        output=Message("assistant", done.text, calls) if done.text or calls else None,
        finish=done.finish_reason,
        tools=ask.tools if first else (),
        advice="\n\n".join(edit.text for edit in turn.new_advice if isinstance(edit, AppendText)),
        answered=answered(ask.tail),
    )
