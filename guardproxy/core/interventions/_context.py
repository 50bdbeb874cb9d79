"""What an intervention may know beside the decision, and what it tells: the place and the facts of its text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from guardproxy.core import advice, protocol, rounds, session
from guardproxy.core.advice import Facts, Progress, short
from guardproxy.core.edit import AppendText
from guardproxy.core.fingerprint import strip_own
from guardproxy.core.model import Ask, Call, Decision, Flag, Kind, Message, Rung, Step
from guardproxy.core.view import View


@dataclass(frozen=True, slots=True)
class Context:
    """`put_back`: earlier advice that stands in this request again. `language`: en or zh. `deny_status`: HTTP.

    `where`: options with which commands reach the store of this proxy.
    """

    view: View
    language: str
    put_back: tuple[AppendText, ...] = ()
    deny_status: int = 400
    where: str = ""


def place(ask: Ask) -> int | None:
    """Index of the message that carries a text: the last tool result, else the last user message.

    The one place that every provider accepts (DESIGN section 7). Only after the newest assistant message: what stands
    before it was answered already.
    """
    user: int | None = None
    for index in range(len(ask.tail) - 1, -1, -1):
        message = ask.tail[index]
        if message.role == "tool":
            return ask.tail_start + index
        if message.role == "user" and user is None:
            user = ask.tail_start + index
        if message.role == "assistant":
            break
    return user


def append(ask: Ask, text: str) -> tuple[AppendText, ...]:
    """The edit that adds `text` to the request, if there is a place for it."""
    index = place(ask)
    return () if index is None else (AppendText(index, f"\n\n{text}"),)


def facts(decision: Decision, ask: Ask, context: Context) -> Facts:
    """What the text says of the newest call of the finding: its tool, arguments and result in short, and how often."""
    trail = session.trail(context.view)
    evidence = decision.finding.evidence if decision.finding else ()
    back = max(0, trail.last - evidence[-1]) if evidence else 0
    call, result = _told(ask, back)
    newest = rounds.latest(ask)
    written = newest is not None and newest.written
    flags = trail.steps[-1 - back].flags if back < len(trail.steps) else Flag.NONE
    return Facts(
        tool=call.name if call else _remembered(trail.steps),
        arguments=short(call.arguments) if call else "",
        result=short(result.text) if result else "",
        count=decision.count,
        flags=flags,
        untried=tuple(tool for tool in ask.tools if call is None or tool != call.name)[:3],
        written=written,
        ending=protocol.ending(ask) if written else "",
    )


def _remembered(steps: Sequence[Step]) -> str:
    """The tool of the newest call that the store knows: a compacted conversation shows none."""
    return next((step.tool for step in reversed(steps) if step.kind is Kind.CALL), "")


def progress(ask: Ask, decision: Decision) -> Progress:
    """What the run has done as far as this request shows: calls per tool, and the newest results in short."""
    found = rounds.rounds(ask)
    tools = Counter(call.name for turn in found for call in turn.calls)
    newest = [
        (call.name, short(result.text))
        for turn in found[-4:]
        for call, result in zip(turn.calls, turn.results, strict=True)
        if result is not None
    ]
    said = next((said for turn in reversed(found) if (said := strip_own(turn.text).strip())), "")
    unique = list(dict.fromkeys(newest))[-3:]
    return Progress(steps=tools.total(), tools=tuple(tools.most_common(5)), found=tuple(unique), said=short(said))


def advise(rung: Rung, decision: Decision, ask: Ask, context: Context) -> tuple[AppendText, ...]:
    """The edit with a rung's text. A finding whose text cannot name a call gives no advice rather than a vague one."""
    if decision.finding is None:
        return ()
    try:
        text = advice.render(context.language, rung, decision.finding, facts(decision, ask, context))
    except ValueError:
        return ()
    return append(ask, text)


def _told(ask: Ask, back: int) -> tuple[Call | None, Message | None]:
    """The call that is `back` steps before the newest (parallel calls: the one the finding is about)."""
    pairs = [
        pair
        for turn in reversed(rounds.rounds(ask))
        for pair in zip(reversed(turn.calls), reversed(turn.results), strict=True)
    ]
    return pairs[min(back, len(pairs) - 1)] if pairs else (None, None)
