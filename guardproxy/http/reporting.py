"""Turns what happened to a request into the one value that telemetry understands. No IO, no judgement."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from guardproxy.core import pricing, scoped_exemption, session
from guardproxy.core.edit import AppendText
from guardproxy.core.model import Kind, Rung, Step, Usage
from guardproxy.core.view import View
from guardproxy.http import closing, heading
from guardproxy.telemetry.report import Attempt, Objected, Server, TurnReport

if TYPE_CHECKING:
    from guardproxy.http.outcome import Outcome
    from guardproxy.http.turn import Turn
    from guardproxy.http.upstream import Upstream

_CALL = Kind.CALL  # by name it costs a third of a microsecond


def report_of(turn: Turn, view: View) -> TurnReport:
    """The report of a turn whose answer is complete, or whose client left."""
    ask, done, opening, proxy = turn.ask, turn.outcome, turn.opening, turn.proxy
    declared = ask.declared
    last = done.usage_or_estimate(turn.need)
    usage = done.total(turn.need) if done.earlier else last
    facts = _new_facts(turn, view)
    ended_ns = done.ended_ns or time.time_ns()
    begun_ns = (done.earlier[0].started_ns if done.earlier else done.upstream_started_ns) or ended_ns
    upstream = done.upstream or proxy.upstream
    return TurnReport(
        org=opening.org,
        session=view.session,
        thread=view.thread,
        view=view,
        decision=turn.decision,
        started_ns=turn.started_ns,
        ended_ns=ended_ns,
        turn=view.turn,
        agent=declared.agent,
        declared=bool(declared.session),
        surface=ask.surface,
        route=turn.route,
        method=turn.request.method,
        model=ask.model,
        response_model=done.response_model,
        response_id=done.response_id,
        provider=proxy.provider,
        server_address=upstream.address,
        server_port=upstream.port,
        stream=ask.stream,
        status=done.status or 499,
        error_type=done.error_type,
        traceparent=opening.traceparent,
        first_chunk_ns=done.first_chunk_ns,
        attempts=_attempts(turn, last, ended_ns),
        usage=usage,
        cost_microusd=_cost(turn, last),
        edits=heading.names(turn.edits) if turn.edits else (),
        advice=_advice(turn) if turn.new_advice else "",
        steps=_steps(facts) if facts else (),
        facts=facts,
        outcome=_outcome(turn, view),
        prompt=scoped_exemption.agent_of(ask, proxy.printer) if turn.decision.rule else "",
        overhead_request_ns=begun_ns - turn.started_ns if begun_ns > turn.started_ns else 0,
        begin_ns=done.begin_ns,
        objected=_objected(turn) if done.objected else (),
        verification=done.verification,
        failed_checks=done.failed_checks,
        hygiene=done.hygiene,
        approval=done.approval,
        late=done.late,
        missing=view.missing,
        state=_state(turn),
        user=declared.user,
        labels=declared.labels,
        policy=turn.chosen.label,
    )


def _cost(turn: Turn, last: Usage) -> int:
    """Micro-dollars of all attempts, each at the tier of its own input."""
    rates, earlier = turn.rates, turn.outcome.earlier
    cost = pricing.cost(rates, last)
    return cost + sum(pricing.cost(rates, one.used(turn.need)) for one in earlier) if earlier else cost


def _attempts(turn: Turn, last: Usage, ended_ns: int) -> tuple[Attempt, ...]:
    done = turn.outcome
    if not done.earlier:
        return (_attempt(turn, last, ended_ns),) if done.sent else ()
    fingerprint = turn.proxy.printer.call
    earlier = tuple(
        Attempt(
            started_ns=one.started_ns,
            ended_ns=one.ended_ns,
            first_chunk_ns=one.first_chunk_ns,
            status=one.status,
            error_type=one.error_type,
            usage=one.used(turn.need),
            calls=tuple([(call.name, call.id, fingerprint(call)) for call in one.calls]),
            finish_reason=one.finish_reason,
            reason=one.reason,
            server=_server(one.upstream),
        )
        for one in done.earlier
    )
    return (*earlier, _attempt(turn, last, ended_ns)) if done.sent else earlier


def _objected(turn: Turn) -> tuple[Objected, ...]:
    fingerprint = turn.proxy.printer.call
    return tuple(
        Objected(one.rule, call.name, one.action, one.mode, one.count, fingerprint(call), attempt)
        for one, call, attempt in turn.outcome.objected
    )


def _state(turn: Turn) -> str:
    """What the run waits for from now on."""
    if turn.outcome.waits_for or turn.seen.paused or closing.paused_by(turn):
        return "need_human" if turn.outcome.status_after == "need_human" else "paused"
    return closing.status_after(turn)


def finish(report: TurnReport, done: Outcome) -> TurnReport:
    """The same report with the times that were not known when the turn was settled."""
    report.ended_ns = now = time.time_ns()
    report.settle_ns = done.settle_ns
    report.overhead_response_ns = max(0, now - (done.ended_ns or now))
    return report


def _attempt(turn: Turn, usage: Usage, ended_ns: int) -> Attempt:
    done, fingerprint = turn.outcome, turn.proxy.printer.call
    calls = done.calls or done.written or done.dropped  # never two of them
    return Attempt(
        started_ns=done.upstream_started_ns,
        ended_ns=ended_ns,
        first_chunk_ns=done.first_chunk_ns,
        status=done.upstream_status,
        error_type=done.error_type,
        usage=usage,
        calls=tuple([(call.name, call.id, fingerprint(call)) for call in calls]) if calls else (),
        finish_reason=done.finish_reason,
        reason=done.reason,
        server=_server(done.upstream) if done.upstream else None,
    )


def _server(upstream: Upstream | None) -> Server | None:
    """Whom an attempt asked, where there are several."""
    return Server(upstream.name, upstream.address, upstream.port) if upstream else None


def _advice(turn: Turn) -> str:
    return "\n\n".join(edit.text for edit in turn.new_advice if isinstance(edit, AppendText))


def _new_facts(turn: Turn, view: View) -> tuple[bytes, ...]:
    """The facts that this request brought: those of its last round, unless it is a retry or was not admitted."""
    rounds = turn.opening.fact.rounds
    stale = view.retry or view.closed or not view.admitted or not rounds or view.equal
    return () if stale else rounds[-1].facts


def _steps(facts: tuple[bytes, ...]) -> tuple[Step, ...]:
    return tuple([step for step in session.unpack_all(facts) if step.kind is _CALL])


def _outcome(turn: Turn, view: View) -> str:
    """What the turn makes of its run, "" while it goes on."""
    decision, done = turn.decision, turn.outcome
    if not view.main and decision.action != "deny":
        return ""  # a sub-agent's end is not its session's
    if decision.action in ("cut", "deny"):
        if decision.rung < Rung.CUT:
            return ""  # an answer was cut short, not the run
        return {"cut": "cut", "deny": "denied"}[decision.action]
    if decision.action == "finalize" and decision.rung is Rung.FINALIZE and done.outcome == "answered":
        return "finalized"
    if done.outcome == "answered" and done.answer == "text":
        return "finished"
    return ""
