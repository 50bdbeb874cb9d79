"""What is told to telemetry at the end of a run: one value, made from the turn that ended it. No content."""

from __future__ import annotations

from dataclasses import dataclass, replace

from guardproxy.core.model import Decision
from guardproxy.telemetry._ids import read_segment
from guardproxy.telemetry.report import NO_USAGE, TurnReport


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The end of a run, or of a stretch of it, for the root span and the metrics of runs.

    `traceparent` is that of its first request. `outcome` "": the run goes on, in the next segment of its trace.
    `segment` counts them, `segment_ms` is when this one began, 0 = with the run. Sums are the run's so far.
    `interventions` -1: not counted. `abandoned`: tools whose calls of the last answer never had a result.
    """

    org: str
    session: str
    outcome: str
    started_ms: int
    ended_ms: int
    agent: str = ""
    declared: bool = False
    rule: str = ""
    turns: int = 0
    tool_calls: int = 0
    interventions: int = -1
    input_tokens: int = 0
    output_tokens: int = 0
    cost_microusd: int = 0
    traceparent: str = ""
    segment: int = 0
    segment_ms: int = 0
    team: str = ""
    key: str = ""
    abandoned: tuple[str, ...] = ()


def segment_end(report: TurnReport) -> RunEnd | None:
    """The stretch of a run that ended before this turn, where this turn has to tell of it."""
    segment, view = read_segment(report.view.traceparent), report.view
    if segment.ended is None or not segment.begins(view.turn, view.now_ms):
        return None
    since_ms, ended_ms = segment.ended
    before = replace(
        report, usage=NO_USAGE, cost_microusd=0, attempts=(), released=(), objected=(), decision=Decision("pass")
    )
    return replace(
        run_end(before),
        outcome="",
        rule="",
        turns=max(0, run_end(before).turns - 1),
        ended_ms=ended_ms,
        segment=segment.number - 1,
        segment_ms=since_ms,
    )


def run_end(report: TurnReport) -> RunEnd:
    """The run that `report` closes. Totals are what `begin` saw on the session's budget lines plus this turn."""
    segment = read_segment(report.trace)
    used = {spent.line.dimension: spent.used for spent in report.view.spent if spent.line.scope == "session"}
    calls = len(report.given)
    return RunEnd(
        org=report.org,
        session=report.session,
        outcome=report.outcome,
        started_ms=report.view.session_started_ms or report.started_ns // 1_000_000,
        ended_ms=report.ended_ns // 1_000_000,
        agent=report.agent,
        declared=report.declared,
        rule=report.decision.rule or report.view.closed_by,
        turns=report.turn or report.view.turn,
        tool_calls=used["tool_calls"] + calls if "tool_calls" in used else report.view.steps,
        interventions=used["interventions"] + report.interventions if "interventions" in used else -1,
        input_tokens=used.get("input_tokens", 0) + report.usage.input,
        output_tokens=used.get("output_tokens", 0) + report.usage.output,
        cost_microusd=used.get("cost_microusd", 0) + (report.cost_microusd or 0),
        traceparent=segment.caller,
        segment=segment.number,
        segment_ms=segment.since_ms,
        team=report.team,
        key=report.key,
    )
