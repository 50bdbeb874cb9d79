"""Attributes of spans, read off a report. Names come from `semconv`; no value holds content."""

from __future__ import annotations

from guardproxy.core.model import NO_FP
from guardproxy.telemetry import semconv as s
from guardproxy.telemetry.ending import RunEnd
from guardproxy.telemetry.report import ACTIVE, Attempt, Objected, TurnReport

Value = str | int | float | bool | tuple[str, ...]
Attributes = dict[str, Value]

_MAX_CHARS = 256  # of a text that a client chose


def clean(text: str) -> str:
    """Fit for protobuf, which refuses lone surrogates, and no longer than is useful."""
    return text[:_MAX_CHARS] if text.isascii() else text[:_MAX_CHARS].encode(errors="replace").decode()


def flat(of: TurnReport | RunEnd, segment: int) -> Attributes:
    """What every span says of its run: a search that looks at one span only then finds all of them."""
    found: Attributes = {s.ORG: of.org}
    if of.team:
        found[s.TEAM] = clean(of.team)
    if of.key:
        found[s.KEY] = clean(of.key)
    if not of.session:
        return found
    found[s.SESSION] = found[s.SESSION_ID] = name = clean(of.session)
    found[s.SEGMENT] = segment
    if of.declared:  # never for an id that we derived: the conventions forbid a made-up one
        found[s.GEN_AI_CONVERSATION] = name
    if of.agent:
        found[s.GEN_AI_AGENT] = clean(of.agent)
    return found


def of_turn(report: TurnReport, base: Attributes) -> Attributes:
    """`base` and what only the span of a turn says."""
    found, decision, view = base.copy(), report.decision, report.view
    found[s.HTTP_METHOD] = report.method
    found[s.HTTP_ROUTE] = report.route
    found[s.HTTP_STATUS] = report.status
    if report.error_type:
        found[s.ERROR_TYPE] = report.error_type
    if not report.session:
        return found
    found[s.THREAD] = clean(report.thread)
    found[s.TURN] = report.turn or view.turn
    found[s.ACTION] = decision.action
    if report.policy:
        found[s.POLICY] = report.policy
    if decision.rule:
        found[s.RULE] = decision.rule
        found[s.COUNT] = decision.count
        found[s.MODE] = report.intervention[1] or decision.mode
    if decision.spared:
        found[s.SPARED] = tuple([str(one) for one in decision.spared])
    if decision.exempted:  # ids of labels: why nothing was done
        found[s.EXEMPTED] = decision.exempted
    if report.cost_microusd:
        found[s.COST] = report.cost_microusd / 1e6
    if report.outcome:
        found[s.OUTCOME] = report.outcome
    if view.retry:
        found[s.RETRY] = True
    if view.degraded:
        found[s.DEGRADED] = True
    if report.edits:
        found[s.EDITS] = report.edits
    if report.user:
        found[s.USER] = clean(report.user)
    if report.labels:
        found[s.LABELS] = tuple([clean(f"{name}={value}") for name, value in report.labels])
    if report.overhead_request_ns or report.overhead_response_ns:
        found[s.OVERHEAD] = (report.overhead_request_ns + report.overhead_response_ns) / 1e9
    if report.eventful:
        _events(report, found)
    return found


def _events(report: TurnReport, found: Attributes) -> None:
    if report.verification:
        found[s.VERIFICATION] = report.verification
    if report.failed_checks:
        found[s.FAILED_CHECKS] = report.failed_checks
    if report.hygiene:
        done = [name if mode == "enforce" else f"{name} ({mode})" for name, mode, _ in report.hygiene]
        found[s.HYGIENE] = tuple(dict.fromkeys(done))
    if report.approval[0]:
        found[s.APPROVAL], found[s.APPROVAL_STATE] = clean(report.approval[0]), report.approval[1]
    if report.missing:
        found[s.MISSING] = True
    if report.state not in ACTIVE:
        found[s.STATE] = report.state


def of_objected(one: Objected, base: Attributes) -> Attributes:
    """`base` and what the span of a call says that the agent did not get."""
    found = base | {s.ACTION: one.action, s.MODE: one.mode, s.RULE: one.rule, s.GEN_AI_TOOL: clean(one.tool)}
    if one.count:
        found[s.COUNT] = one.count
    if one.call != NO_FP:
        found[s.FP_CALL] = one.call.hex()
    if one.attempt:
        found[s.ATTEMPT] = one.attempt
    if one.mode == "enforce" and one.action != "repair":
        found[s.TOOL_OUTCOME] = "blocked"
    return found


def of_run(run: RunEnd, base: Attributes) -> Attributes:
    """`base` and what only the root says: sums of the run so far."""
    found = base | {
        s.SESSION_TURNS: run.turns,
        s.SESSION_TOOL_CALLS: run.tool_calls,
        s.SESSION_INPUT: run.input_tokens,
        s.SESSION_OUTPUT: run.output_tokens,
        s.SESSION_COST: run.cost_microusd / 1e6,
    }
    if run.outcome:
        found[s.OUTCOME] = run.outcome
    if run.interventions >= 0:
        found[s.SESSION_INTERVENTIONS] = run.interventions
    if run.rule:
        found[s.RULE] = run.rule
    if run.outcome == "cut":
        found[s.ERROR_TYPE] = "guardproxy.cut"
    return found


def of_attempt(report: TurnReport, attempt: Attempt, number: int, operation: str, base: Attributes) -> Attributes:
    """`base` and what only the span of an upstream attempt says; tokens only of one that did not fail."""
    found, usage = base.copy(), attempt.usage
    found[s.GEN_AI_OPERATION] = operation
    found[s.GEN_AI_PROVIDER] = report.provider
    found[s.PEER_SERVICE] = report.provider
    found[s.GEN_AI_REQUEST_MODEL] = clean(report.model)
    found[s.ATTEMPT] = number
    found[s.ATTEMPT_REASON] = attempt.reason
    if (server := attempt.server) is not None:
        found[s.UPSTREAM] = server.name
        found[s.SERVER_ADDRESS] = server.address
        found[s.SERVER_PORT] = server.port
        if attempt.status:
            found[s.HTTP_STATUS] = attempt.status
    elif report.server_address:
        found[s.SERVER_ADDRESS] = report.server_address
        found[s.SERVER_PORT] = report.server_port
    if report.stream:
        found[s.GEN_AI_REQUEST_STREAM] = True
    if attempt.error_type:
        found[s.ERROR_TYPE] = attempt.error_type
        return found
    found[s.GEN_AI_RESPONSE_MODEL] = clean(attempt.response_model or report.response_model)
    found[s.GEN_AI_RESPONSE_ID] = clean(attempt.response_id or report.response_id)
    found[s.GEN_AI_FINISH_REASONS] = (clean(attempt.finish_reason) or "error",)
    if report.stream and attempt.first_chunk_ns:
        found[s.GEN_AI_FIRST_CHUNK] = (attempt.first_chunk_ns - attempt.started_ns) / 1e9
    found[s.GEN_AI_INPUT] = usage.input
    found[s.GEN_AI_OUTPUT] = usage.output
    for key, amount in (
        (s.GEN_AI_CACHE_READ, usage.cached),
        (s.GEN_AI_CACHE_WRITE, usage.cache_write),
        (s.GEN_AI_REASONING, usage.reasoning),
    ):
        if amount:
            found[key] = amount
    if usage.estimated:
        found[s.ESTIMATED] = True
    return found
