"""Turns what happened to a request into the one value that telemetry understands. No IO, no judgement."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from guardproxy.core import pricing, scoped_exemption
from guardproxy.core.edit import AppendText
from guardproxy.core.fact import unpack_all
from guardproxy.core.model import Kind, Rung, Step, Usage
from guardproxy.core.view import View
from guardproxy.http import closing, heading, quoting
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
    # the rest is set by hand: forty keywords would cost three times that
    report = TurnReport(opening.org, view.session, view.thread, view, turn.decision, turn.started_ns, ended_ns)
    report.turn = view.turn
    report.agent = declared.agent
    report.declared = bool(declared.session)
    report.surface = ask.surface
    report.route = turn.route
    report.method = turn.request.method
    report.model = ask.model
    report.response_model = done.response_model
    report.response_id = done.response_id
    report.provider = proxy.provider
    report.server_address = upstream.address
    report.server_port = upstream.port
    report.stream = ask.stream
    report.status = done.status or 499
    report.error_type = done.error_type
    if proxy.incoming != "ignore":
        report.traceparent = turn.headers.get("traceparent", "")
        report.adopted = proxy.incoming == "adopt"
    report.first_chunk_ns = done.first_chunk_ns
    report.attempts = _attempts(turn, last, ended_ns)
    report.usage = usage
    report.cost_microusd = _cost(turn, last)
    report.steps = _steps(facts) if facts else ()
    report.facts = facts
    report.overhead_request_ns = begun_ns - turn.started_ns if begun_ns > turn.started_ns else 0
    report.begin_ns = done.begin_ns
    _more(report, turn, view)
    return report


def _more(report: TurnReport, turn: Turn, view: View) -> None:
    """What most turns have nothing of."""
    ask, done, decision = turn.ask, turn.outcome, turn.decision
    report.edits = heading.names(turn.edits) if turn.edits else ()
    report.advice = _advice(turn) if turn.new_advice or done.objected else ""
    report.outcome = _outcome(turn, view)
    report.prompt = scoped_exemption.agent_of(ask, turn.proxy.printer) if decision.rule else ""
    report.objected = _objected(turn) if done.objected else ()
    report.verification = done.verification
    report.failed_checks = done.failed_checks
    report.hygiene = done.hygiene
    report.approval = done.approval
    if done.message:
        report.released = tuple([(call.name, call.id, turn.proxy.printer.call(call)) for call in done.calls])
    report.late = done.late
    report.missing = view.missing
    report.state = _state(turn)
    report.user = ask.declared.user
    report.labels = ask.declared.labels
    report.policy = turn.chosen.label
    if turn.proxy.captures:
        report.said = partial(quoting.said, turn)
    report.team = turn.tenant.team
    report.key = turn.tenant.key


def _cost(turn: Turn, last: Usage) -> int:
    """Micro-dollars of all attempts, each at the tier of its own input."""
    earlier, hosted = turn.outcome.earlier, turn.outcome.hosted
    cost = _cost_of(turn, pricing.searched(last, [call.name for call, _ in hosted]) if hosted else last)
    return cost + sum(_cost_of(turn, one.used(turn.need)) for one in earlier) if earlier else cost


def _cost_of(turn: Turn, usage: Usage) -> int:
    """Micro-dollars of one attempt; what a dearer model used in it costs that much more."""
    rates, cost = turn.rates, pricing.cost(turn.rates, usage)
    for model, part in usage.others:
        cost += max(0, pricing.cost(turn.proxy.prices.known(model, rates), part) - pricing.cost(rates, part))
    return cost


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
            kept_back=True,
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
    done = turn.outcome
    if done.waits_for or turn.seen.paused or closing.paused_by(turn):
        return "need_human" if done.status_after == "need_human" else "paused"
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
    told = [(call.name, call.id, fingerprint(call)) for call in calls] if calls else ()
    return Attempt(
        done.upstream_started_ns,
        ended_ns,
        done.first_chunk_ns,
        done.upstream_status,
        done.error_type,
        usage,
        tuple(told),
        done.finish_reason,
        done.reason,
        server=_server(done.upstream) if done.upstream else None,
        kept_back=bool(calls) and _kept_back(turn),
    )


def _kept_back(turn: Turn) -> bool:
    """Whether the calls of the last answer were taken out, or our words stand in its place."""
    done, look = turn.outcome, turn.look
    return bool(done.dropped) or done.answer == "own" or (look is not None and look.drop is not None)


def _server(upstream: Upstream | None) -> Server | None:
    """Whom an attempt asked, where there are several."""
    return Server(upstream.name, upstream.address, upstream.port) if upstream else None


def _advice(turn: Turn) -> str:
    """What the model was told: with the request, and in the place of results of calls that nobody carried out."""
    said = [edit.text for edit in turn.new_advice if isinstance(edit, AppendText)]
    said += [one.text for one, _, _ in turn.outcome.objected if one.mode == "enforce" and one.text]
    return "\n\n".join(dict.fromkeys(text.strip() for text in said))


def _new_facts(turn: Turn, view: View) -> tuple[bytes, ...]:
    """The facts that this request brought: those of its last round, unless it is a retry or was not admitted."""
    rounds = turn.opening.fact.rounds
    stale = view.retry or view.closed or not view.admitted or not rounds or view.equal
    return () if stale else rounds[-1].facts


def _steps(facts: tuple[bytes, ...]) -> tuple[Step, ...]:
    steps = unpack_all(facts)
    for step in steps:
        if step.kind is not _CALL:
            return tuple([one for one in steps if one.kind is _CALL])
    return tuple(steps)


def _outcome(turn: Turn, view: View) -> str:
    """What the turn makes of its run, "" while it goes on."""
    decision, done = turn.decision, turn.outcome
    if turn.ask.aside:
        return ""  # no turn makes nothing of its run
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
