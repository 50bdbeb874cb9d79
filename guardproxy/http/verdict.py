"""What became of a call that a person was asked about: its content, as edited, and what the model is told of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from guardproxy.core import advice
from guardproxy.core.model import Call
from guardproxy.core.tool_rules import ToolRule, first
from guardproxy.errors import StoreError
from guardproxy.http import sealed
from guardproxy.http.sealed import Held
from guardproxy.store.approvals import Approval

if TYPE_CHECKING:
    from guardproxy.core.policy import Policy
    from guardproxy.http.turn import Turn


FORBIDDEN = "tools.deny"
"""By whom an approval is denied whose call a rule forbids, as a person has changed it or as the rules are now."""


CLIENT = "the client's next message"
"""Who has answered a question where the user simply went on: these words are the answer."""


def forbidden(policy: Policy) -> tuple[ToolRule, ...]:
    """The rules for calls that are refused whoever allows them."""
    settings = policy.proposals.get("deny")
    return policy.tools.deny if getattr(settings, "mode", "") == "enforce" else ()


async def found(turn: Turn, name: str) -> tuple[Approval | None, Held | None]:
    """The approval and its content, edited where a person did."""
    try:
        approval = await turn.proxy.books.approvals.get(turn.opening.org, name, turn.offset_ms)
    except StoreError:
        return None, None
    if approval is None:
        return None, None
    held = turn.proxy.sealer.open_held(name, approval.sealed)
    edited = turn.proxy.sealer.open_held(name, approval.edited, sealed.EDITED) if approval.edited else None
    if held is not None and edited is not None:
        message = _edited(turn, held, edited.arguments) if edited.arguments else held.message
        held = replace(held, message=message, arguments=edited.arguments or held.arguments, answer=edited.answer)
    if held is not None and approval.state == "approved" and not turn.seen.panic:
        rule = first(forbidden(turn.chosen.policy), Call(held.tool, held.arguments))
        if rule is not None:
            try:
                approval = await turn.proxy.books.approvals.forbid(
                    turn.opening.org, name, FORBIDDEN, rule.reason, turn.offset_ms
                )
            except StoreError:
                return None, None
    return approval, held


def _edited(turn: Turn, held: Held, arguments: str) -> bytes:
    """The message with the call as a person has changed it."""
    message: bytes = turn.surface.with_arguments(held.message, _asked(turn, held), arguments)
    return message


def _asked(turn: Turn, held: Held) -> int:
    """The place of the call that a person was asked about among those of its message."""
    if held.position >= 0:
        return held.position
    calls = turn.surface.read_message(held.message).calls
    asked = (held.tool, held.arguments)
    return next((at for at, call in enumerate(calls) if (call.name, call.arguments) == asked), 0)


def results(turn: Turn, approval: Approval, held: Held, count: int) -> list[str]:
    """What the model gets for the calls of a message that was not released: the others may be proposed again."""
    calls, asked = turn.surface.read_message(held.message).calls, _asked(turn, held)
    names = [call.name for call in calls] + [""] * count
    own = told(turn, approval, held)
    return [own if at == asked else advice.one_at_a_time(turn.language, names[at]) for at in range(count)]


def told(turn: Turn, approval: Approval | None, held: Held | None) -> str:
    """What the model gets as the result of the call."""
    if held is not None and held.answer:
        return advice.answered_below(turn.language) if approval and approval.by == CLIENT else held.answer
    if approval is not None and (approval.state, approval.by) == ("denied", FORBIDDEN):
        return advice.denied(turn.language, approval.tool, approval.why)
    why = approval.why if approval is not None and approval.state == "denied" else ""
    expired = approval is None or approval.state == "expired"
    tool, asked = (held.tool, bool(held.question)) if held else ("", False)
    return advice.declined(turn.language, tool, why, expired=expired, asked=asked)
