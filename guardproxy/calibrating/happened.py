"""Runs as they happened, in figures: out of decision lines, out of the store's turn records, out of recordings.

A run is finished when its last answer was final. One that was recorded elsewhere is finished when its source calls it a
success, or says nothing and the last message is an answer without calls; its tokens are estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from guardproxy.api._messages import neutral
from guardproxy.core import pricing
from guardproxy.core.model import Message, Usage, value
from guardproxy.core.pricing import Rates
from guardproxy.replaying.told import SessionReport
from guardproxy.telemetry import reading
from guardproxy.telemetry.record import TurnRecord
from guardproxy.telemetry.report import ACTED

FINISHED = "finished"

UNNAMED = "(no name)"
"""Of an agent that says nothing of itself."""


@value
class Run:
    """One run. `seconds` of work, without what a person took between two requests, None = not known.

    `spent`: micro-dollars by turn. `estimated`: tokens, and so money, are. `heard`: rules of which the agent heard, or
    in observe mode would have.
    """

    id: str
    agent: str
    outcome: str
    turns: int
    tool_calls: int
    tokens: int
    seconds: float | None
    spent: tuple[int, ...]
    heard: frozenset[str] = frozenset()
    estimated: bool = False

    @property
    def finished(self) -> bool:
        """Whether it came to its end by itself."""
        return self.outcome == FINISHED

    @property
    def cost_microusd(self) -> int:
        """What all of it cost."""
        return sum(self.spent)


def of_records(name: str, records: Sequence[TurnRecord], spans: Sequence[int] = ()) -> Run:
    """A run out of its turns' records. `spans`: the number of each turn's request span, where they are known."""
    last, agent = records[-1], next((one["of"]["agent"] for one in records if "of" in one), "")
    upstream = [one for one in records if one["input_tokens"] or one["output_tokens"] or one["calls"]]
    return Run(
        id=name,
        agent=agent or UNNAMED,
        outcome=last["outcome"] or "abandoned",
        turns=len({one["turn"] for one in upstream}),
        tool_calls=sum(len(one["calls"]) for one in records),
        tokens=sum(one["input_tokens"] + one["output_tokens"] for one in records),
        seconds=_seconds(records, spans or [1] * len(records)),
        spent=tuple([one["cost_microusd"] for one in records]),
        heard=frozenset(one["rule"] for one in records if one["rule"] and _acts(one)),
    )


def of_lines(name: str, lines: Sequence[Mapping[str, Any]]) -> Run:
    """A run out of its decision lines."""
    records = [reading.record_of_line(line) for line in lines]
    return of_records(name, records, [int(line.get("span", 1)) for line in lines])


def of_recording(session: Mapping[str, Any], report: SessionReport, rates: Callable[[str], Rates]) -> Run:
    """A recorded run. `report`: what the policy in force says of it; `rates`: the prices of a model."""
    messages = [*map(neutral, session["messages"])]
    usages = list(_usages(messages))
    prices = rates(str(session.get("model") or ""))
    return Run(
        id=report.id,
        agent=str(session.get("agent") or session.get("source") or "").partition("@")[0] or UNNAMED,
        outcome=_outcome(session.get("success"), messages),
        turns=len(usages),
        tool_calls=report.steps,
        tokens=sum(one.input + one.output for one in usages),
        seconds=None,
        spent=tuple([pricing.cost(prices, one) for one in usages]),
        heard=frozenset(one.rule for one in report.decisions if one.heard),
        estimated=True,
    )


def turn_at(session: Mapping[str, Any], message: int) -> int:
    """Which turn of a recording a message belongs to: how many answers there are before it."""
    return sum(one.get("role") == "assistant" for one in session["messages"][:message])


def _acts(record: TurnRecord) -> bool:
    return (record["would"] or record["action"]) in ACTED


def _seconds(records: Sequence[TurnRecord], spans: Sequence[int]) -> float:
    """From each request's first turn to the end of its last answer, added up."""
    sides: dict[int, tuple[int, int]] = {}
    for record, span in zip(records, spans, strict=True):
        began, ended = record["at_ms"], record["at_ms"] + record["latency_ms"]
        first, last = sides.get(span, (began, ended))
        sides[span] = min(first, began), max(last, ended)
    return sum(last - first for first, last in sides.values()) / 1000


def _usages(messages: Sequence[Message]) -> Iterable[Usage]:
    """What each answer may have used: all before it as input."""
    size = 0
    for message in messages:
        own = len(message.text) + sum(len(call.arguments) for call in message.calls)
        if message.role == "assistant":
            yield Usage(pricing.estimate_input(size), pricing.estimate_output(own), estimated=True)
        size += own


def _outcome(success: object, messages: Sequence[Message]) -> str:
    if success is None:
        final = bool(messages) and messages[-1].role == "assistant" and not messages[-1].calls
        return FINISHED if final else "abandoned"
    return FINISHED if success is True else "failed"
