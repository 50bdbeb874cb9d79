"""Turns what happened to a request into the one value that telemetry understands. No IO, no judgement."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from guardproxy.core import pricing, session
from guardproxy.core.model import AppendText, Kind, Rung, Step
from guardproxy.core.view import View
from guardproxy.telemetry.report import Attempt, TurnReport

if TYPE_CHECKING:
    from guardproxy.http.turn import Turn


def report_of(turn: Turn, view: View) -> TurnReport:
    """The report of a turn whose answer is complete, or whose client left."""
    ask, done, decision = turn.ask, turn.outcome, turn.decision
    usage = done.usage_or_estimate(turn.need)
    advice = "\n\n".join(edit.text for edit in turn.new_advice if isinstance(edit, AppendText))
    ended_ns = time.time_ns()
    return TurnReport(
        org=turn.opening.org,
        session=view.session,
        thread=view.thread,
        view=view,
        decision=decision,
        started_ns=turn.started_ns,
        ended_ns=ended_ns,
        turn=view.turn,
        agent=ask.declared.agent,
        declared=bool(ask.declared.session),
        surface=ask.surface,
        route=turn.route,
        method=turn.request.method,
        model=ask.model,
        response_model=done.response_model,
        response_id=done.response_id,
        provider=turn.proxy.provider,
        server_address=turn.proxy.upstream.address,
        server_port=turn.proxy.upstream.port,
        stream=ask.stream,
        status=done.status or 499,
        error_type=done.error_type,
        traceparent=turn.opening.traceparent,
        first_chunk_ns=done.first_chunk_ns,
        attempts=_attempts(turn, ended_ns),
        usage=usage,
        cost_microusd=pricing.cost(turn.rates, usage),
        edits=turn.edit_names(),
        advice=advice,
        steps=_new_steps(turn, view),
        facts=_new_facts(turn, view),
        outcome=_outcome(turn, view),
        overhead_request_ns=_before_upstream(turn),
        begin_ns=done.begin_ns,
        hold={line.dimension: line.hold for line in turn.opening.lines if line.hold},
    )


def _attempts(turn: Turn, ended_ns: int) -> tuple[Attempt, ...]:
    done = turn.outcome
    if not done.sent:
        return ()
    printer = turn.proxy.printer
    calls = tuple((call.name, call.id, printer.call(call)) for call in (*done.calls, *done.dropped))
    attempt = Attempt(
        started_ns=done.upstream_started_ns,
        ended_ns=done.ended_ns or ended_ns,
        first_chunk_ns=done.first_chunk_ns,
        status=done.upstream_status,
        error_type=done.error_type,
        usage=done.usage_or_estimate(turn.need),
        calls=calls,
        finish_reason=done.finish_reason,
    )
    return (attempt,)


def _new_facts(turn: Turn, view: View) -> tuple[bytes, ...]:
    """The facts that this request brought: those of its last round, unless it is a retry or was not admitted."""
    rounds = turn.opening.fact.rounds
    stale = view.retry or view.closed or not view.admitted or not rounds or view.equal
    return () if stale else rounds[-1].facts


def _new_steps(turn: Turn, view: View) -> tuple[Step, ...]:
    return tuple(step for step in session.unpack_all(_new_facts(turn, view)) if step.kind is Kind.CALL)


def _outcome(turn: Turn, view: View) -> str:
    """What the turn makes of its run, "" while it goes on."""
    decision, done = turn.decision, turn.outcome
    if not view.main and decision.action != "deny":
        return ""  # a sub-agent's end is not its session's
    if decision.action in ("cut", "deny"):
        return {"cut": "cut", "deny": "denied"}[decision.action]
    if decision.action == "finalize" and decision.rung is Rung.FINALIZE and done.outcome == "answered":
        return "finalized"
    if done.outcome == "answered" and done.answer == "text":
        return "finished"
    return ""


def _before_upstream(turn: Turn) -> int:
    done = turn.outcome
    end = done.upstream_started_ns or done.ended_ns or time.time_ns()
    return max(0, end - turn.started_ns)
