"""Attributes of spans, read off a report. Names come from `semconv`; no value holds content."""

from __future__ import annotations

from collections.abc import Iterator

from guardproxy.telemetry import semconv as s
from guardproxy.telemetry.report import Attempt, TurnReport

Value = str | int | float | bool | tuple[str, ...]
Attributes = dict[str, Value]

_MAX_CHARS = 256  # of a text that a client chose


def clean(text: str) -> str:
    """Fit for protobuf, which refuses lone surrogates, and no longer than is useful."""
    return text[:_MAX_CHARS] if text.isascii() else text[:_MAX_CHARS].encode(errors="replace").decode()


def flat(org: str, session: str, agent: str, *, declared: bool) -> Attributes:
    """What every span says of its run: a search that looks at one span only then finds all of them."""
    if not session:
        return {s.ORG: org}
    name = clean(session)
    found: Attributes = {s.SESSION: name, s.SESSION_ID: name, s.ORG: org}
    if declared:  # never for an id that we derived: the conventions forbid a made-up one
        found[s.GEN_AI_CONVERSATION] = name
    if agent:
        found[s.GEN_AI_AGENT] = clean(agent)
    return found


def of_turn(report: TurnReport) -> Iterator[tuple[str, Value]]:
    """What only the span of a turn says."""
    decision, view = report.decision, report.view
    yield s.HTTP_METHOD, report.method
    yield s.HTTP_ROUTE, report.route
    yield s.HTTP_STATUS, report.status
    if report.error_type:
        yield s.ERROR_TYPE, report.error_type
    if not report.session:
        return
    yield s.THREAD, clean(report.thread)
    yield s.TURN, report.turn or view.turn
    yield s.ACTION, decision.action
    if decision.rule:
        yield s.RULE, decision.rule
        yield s.COUNT, decision.count
        yield s.MODE, report.intervention[1] or decision.mode
    if report.outcome:
        yield s.OUTCOME, report.outcome
    if view.retry:
        yield s.RETRY, True
    if view.degraded:
        yield s.DEGRADED, True
    if report.edits:
        yield s.EDITS, report.edits
    if report.overhead_request_ns or report.overhead_response_ns:
        yield s.OVERHEAD, (report.overhead_request_ns + report.overhead_response_ns) / 1e9


def of_attempt(report: TurnReport, attempt: Attempt, number: int, operation: str) -> Iterator[tuple[str, Value]]:
    """What only the span of an upstream attempt says; tokens only of one that did not fail."""
    usage = attempt.usage
    yield s.GEN_AI_OPERATION, operation
    yield s.GEN_AI_PROVIDER, report.provider
    yield s.PEER_SERVICE, report.provider
    yield s.GEN_AI_REQUEST_MODEL, clean(report.model)
    yield s.ATTEMPT, number
    if report.server_address:
        yield s.SERVER_ADDRESS, report.server_address
        yield s.SERVER_PORT, report.server_port
    if report.stream:
        yield s.GEN_AI_REQUEST_STREAM, True
    if attempt.error_type:
        yield s.ERROR_TYPE, attempt.error_type
        return
    yield s.GEN_AI_RESPONSE_MODEL, clean(report.response_model)
    yield s.GEN_AI_RESPONSE_ID, clean(report.response_id)
    yield s.GEN_AI_FINISH_REASONS, (clean(attempt.finish_reason) or "error",)
    if report.stream and attempt.first_chunk_ns:
        yield s.GEN_AI_FIRST_CHUNK, (attempt.first_chunk_ns - attempt.started_ns) / 1e9
    yield s.GEN_AI_INPUT, usage.input
    yield s.GEN_AI_OUTPUT, usage.output
    for key, amount in (
        (s.GEN_AI_CACHE_READ, usage.cached),
        (s.GEN_AI_CACHE_WRITE, usage.cache_write),
        (s.GEN_AI_REASONING, usage.reasoning),
    ):
        if amount:
            yield key, amount
    if usage.estimated:
        yield s.ESTIMATED, True
