"""One trace a run, as ready spans (building them by the SDK's tracer costs several times as much).

    invoke_agent {agent}                INTERNAL  root; sent when the run ends, under the id the others named before
    |- POST /v1/chat/completions        SERVER    one a turn
    |  |- guardproxy.intervene {action} INTERNAL  when something was done, or would have been: one for the request's
    |  |                                          side, one a call that the agent did not get
    |  `- chat {model}                  CLIENT    one an upstream attempt
    `- execute_tool {tool}              INTERNAL  made up from a call and its result; linked to the chat span

The trace of the session's first request is adopted when it brings one; its agent is then traced by others, so that
tool spans are left out and the summary is `guardproxy.session {agent}` below the caller's span. No content, unless the
owner has it captured (`content`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from guardproxy.core.model import Kind, Step
from guardproxy.telemetry import semconv as s
from guardproxy.telemetry._attributes import Attributes, Value, clean, flat, of_attempt, of_objected, of_run, of_turn
from guardproxy.telemetry._ids import WHOLE, Caller, Segment, read_segment, read_traceparent, run_ids, sampled
from guardproxy.telemetry._rounds import Recent, Round
from guardproxy.telemetry.content import Redactor, Said, of_advice, of_chat, of_tool
from guardproxy.telemetry.ending import RunEnd
from guardproxy.telemetry.metrics import tool_outcome
from guardproxy.telemetry.report import MOST_OBJECTED, Attempt, TurnReport

_CALL = Kind.CALL  # by name it costs a third of a microsecond
_SCOPE = InstrumentationScope(s.SCOPE)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSET, _ERROR = Status(StatusCode.UNSET), Status(StatusCode.ERROR)
_REMEMBERED = 8192  # runs whose ids are kept ready
NOTHING_SAID = Said()
"""Of a turn whose texts are not captured."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The trace of a run, or of a stretch of it: its id, the context of its root, the caller whose trace it is, and
    whether it is sent: the same for all segments of a run.
    """

    id: int
    root: SpanContext
    caller: Caller | None
    sent: bool
    segment: Segment = WHOLE
    told: str = ""
    began_ns: int = 0  # when the request came that opened the run, where this process has seen it


class Spans:
    """Turns reports into spans and hands them to `emit`. `ratio`: share of runs that are traced. `redact`: with the
    texts, as it leaves them.
    """

    def __init__(
        self,
        key: bytes,
        resource: Resource,
        ratio: float,
        emit: Callable[[ReadableSpan], None],
        redact: Redactor | None = None,
    ) -> None:
        self._redact = redact
        self._key = key
        self._resource = resource
        self._ratio = ratio
        self._emit = emit
        self._traces: Recent[Trace] = Recent(_REMEMBERED)
        self._random = random.Random()  # noqa: S311 - span ids must be unequal, not secret

    def trace(self, org: str, session: str, started_ms: int, told: str) -> Trace:
        """The trace of a run. `told`: what the store says of it, or the header that its first request brought."""
        known = self._traces.get((org, session, started_ms))
        if known is not None and told in ("", known.told):  # while the store is away it says nothing
            return known
        return replace(self._trace(org, session, started_ms, read_segment(told)), told=told)

    def _trace(self, org: str, session: str, started_ms: int, segment: Segment) -> Trace:
        trace_id, root_id = run_ids(self._key, org, session, started_ms, segment.number)
        caller = read_traceparent(segment.caller)
        if caller is not None:
            return Trace(caller.trace_id, _context(caller.trace_id, root_id), caller, caller.sampled, segment)
        first = trace_id if not segment.number else run_ids(self._key, org, session, started_ms)[0]
        return Trace(trace_id, _context(trace_id, root_id), None, sampled(first, self._ratio), segment)

    def turn(self, report: TurnReport, before: Round | None) -> tuple[int, int]:
        """Send the spans of a turn; `before` is the answer whose results it brings. (trace, last chat span) ids."""
        trace = self._trace_of(report)
        if not trace.sent:
            return trace.id, 0
        base = flat(report, trace.segment.number)
        said = report.said() if self._redact is not None and report.said is not None else NOTHING_SAID
        if trace.caller is None:
            for index, step in enumerate(report.steps):
                if step.kind is _CALL:
                    more = of_tool(said, index, step.tool, self._redact) if self._redact is not None else {}
                    self._tool(report, index, step, before, trace, base | more if more else base)
        turn = self._turn(report, trace, base)
        action, mode = report.intervention
        if action:
            more = of_advice(said, self._redact) if self._redact is not None else {}
            self._intervention(report, action, mode, turn, base | more)
        if report.objected:
            self._objected(report, turn, base)
        operation, last = s.OPERATIONS.get(report.surface), 0
        if operation is not None:
            for number, attempt in enumerate(report.attempts, 1):
                if self._redact is not None and number == len(report.attempts):
                    base = base | of_chat(said, self._redact)
                last = self._chat(report, attempt, number, operation, turn, base)
        return trace.id, last

    def run(self, run: RunEnd) -> tuple[int, str, str] | None:
        """Send the root span of a run that has ended, or of a stretch of it; when (ns), and its ids, if it was sent."""
        segment = Segment(run.traceparent, run.segment, run.segment_ms)
        known = self._traces.get((run.org, run.session, run.started_ms))
        if known is not None and known.segment.number == run.segment:
            trace = known
        else:
            trace = self._trace(run.org, run.session, run.started_ms, segment)
        if not trace.sent:
            return None
        base = flat(run, run.segment)
        name, parent, attributes = "guardproxy.session", None, of_run(run, base)
        if trace.caller is None:
            name = "invoke_agent"
            attributes[s.GEN_AI_OPERATION] = name
            self._abandoned(run, trace, base)
        else:
            parent = _context(trace.caller.trace_id, trace.caller.span_id, remote=True)
        start = (run.segment_ms or run.started_ms) * 1_000_000  # by the store's clock, when it was asked
        times = (min(start, trace.began_ns or start), run.ended_ms * 1_000_000)
        status = _ERROR if run.outcome == "cut" else _UNSET
        name = f"{name} {clean(run.agent)}".rstrip()
        links = self._previous(run.org, run.session, run.started_ms, segment)
        self._send(name, SpanKind.INTERNAL, trace.root, parent, times, attributes, status, links)
        return times[1], f"{trace.id:032x}", f"{trace.root.span_id:016x}"

    def _abandoned(self, run: RunEnd, trace: Trace, base: Attributes) -> None:
        """Calls of the last answer whose results never came: without a length, since nobody saw them run."""
        at = run.ended_ms * 1_000_000
        for tool in run.abandoned[:MOST_OBJECTED]:
            attributes = base | {
                s.GEN_AI_OPERATION: "execute_tool",
                s.GEN_AI_TOOL: clean(tool),
                s.GEN_AI_TOOL_TYPE: "function",
                s.TOOL_OUTCOME: "abandoned",
                s.TOOL_TIMING: "unknown",
                s.SYNTHETIC: True,
            }
            name = f"execute_tool {clean(tool)}".rstrip()
            self._send(name, SpanKind.INTERNAL, self._below(trace.root), trace.root, (at, at), attributes)

    def _previous(self, org: str, session: str, started_ms: int, segment: Segment) -> list[Link]:
        """Where the run was before, told by the root of a segment and by its first turn."""
        if not segment.number:
            return []
        before = self._trace(org, session, started_ms, Segment(segment.caller, segment.number - 1))
        return [Link(before.root, {s.LINK_TYPE: "previous_segment"})]

    def _trace_of(self, report: TurnReport) -> Trace:
        born, told = report.view.session_started_ms, report.trace
        session = report.session or f"{self._random.getrandbits(64):x}"
        trace = self.trace(report.org, session, born, told)
        if report.session:
            if report.view.new_session:
                trace = replace(trace, began_ns=report.started_ns)
            self._traces.keep((report.org, session, born), trace)
        return trace

    def _turn(self, report: TurnReport, trace: Trace, base: Attributes) -> SpanContext:
        context = _context(trace.id, self._random.getrandbits(64) or 1)
        caller = read_traceparent(report.traceparent)
        parent, links = trace.root if report.session else None, []
        if caller is not None:
            remote = _context(caller.trace_id, caller.span_id, remote=True)
            if caller.trace_id == trace.id:
                parent = remote
            else:
                links.append(Link(remote, {s.LINK_TYPE: "caller"}))
        if trace.segment.number and trace.segment.begins(report.view.turn, report.view.now_ms):
            links += self._previous(report.org, report.session, report.view.session_started_ms, trace.segment)
        status = _ERROR if report.status >= 500 else _UNSET
        name = f"{report.method} {report.route}"
        times = (report.started_ns, report.ended_ns)
        self._send(name, SpanKind.SERVER, context, parent, times, of_turn(report, base), status, links)
        return context

    def _intervention(self, report: TurnReport, action: str, mode: str, turn: SpanContext, base: Attributes) -> None:
        decision = report.decision
        attributes = base | {s.ACTION: action, s.MODE: mode, s.RULE: decision.rule, s.COUNT: decision.count}
        if decision.refused is not None:
            line = decision.refused
            attributes |= {s.SCOPE_OF_BUDGET: line.scope, s.DIMENSION: line.dimension, s.LIMIT: line.limit}
        end = report.attempts[0].started_ns if report.attempts else report.ended_ns
        times = (min(report.started_ns + report.begin_ns, end), end)
        name = f"guardproxy.intervene {action}"
        self._send(name, SpanKind.INTERNAL, self._below(turn), turn, times, attributes)

    def _objected(self, report: TurnReport, turn: SpanContext, base: Attributes) -> None:
        """Without a length, at the end of the attempt that proposed the call."""
        attempts = report.attempts
        for one in report.objected[:MOST_OBJECTED]:
            place = one.attempt if 0 < one.attempt <= len(attempts) else len(attempts)
            at = attempts[place - 1].ended_ns if attempts else report.ended_ns
            name = f"guardproxy.intervene {one.action}"
            self._send(name, SpanKind.INTERNAL, self._below(turn), turn, (at, at), of_objected(one, base))

    def _chat(
        self, report: TurnReport, attempt: Attempt, number: int, operation: str, turn: SpanContext, base: Attributes
    ) -> int:
        context = self._below(turn)
        attributes = of_attempt(report, attempt, number, operation, base)
        status = _ERROR if attempt.error_type or attempt.status >= 400 else _UNSET
        name = f"{operation} {clean(report.model)}".rstrip()
        times = (attempt.started_ns, attempt.ended_ns)
        self._send(name, SpanKind.CLIENT, context, turn, times, attributes, status)
        return context.span_id

    def _tool(
        self, report: TurnReport, index: int, step: Step, before: Round | None, trace: Trace, base: Attributes
    ) -> None:
        known = before is not None and step.call in before.calls
        since_ns = report.view.since_ms * 1_000_000  # another worker gave the answer: the store knows when
        attributes = base | {
            s.GEN_AI_OPERATION: "execute_tool",
            s.GEN_AI_TOOL: clean(step.tool),
            s.GEN_AI_TOOL_TYPE: "function",
            s.FP_CALL: step.call.hex(),
            s.FP_RESULT: step.result.hex(),
            s.TOOL_OUTCOME: tool_outcome(step),
            s.TOOL_TIMING: "proxy_observed" if known or since_ns else "unknown",
            s.SYNTHETIC: True,
        }
        repeats = report.repeats(index)
        if repeats:
            attributes |= {s.REPEAT_COUNT: repeats, s.RULE: report.decision.rule}
        start, links = report.started_ns - since_ns, []
        if before is not None and known:
            start = before.ended_ns
            if before.calls[step.call]:
                attributes[s.GEN_AI_TOOL_CALL_ID] = clean(before.calls[step.call])
            if before.span_id and before.trace_id == trace.id:
                links.append(Link(_context(trace.id, before.span_id), {s.LINK_TYPE: "call"}))
        status = _ERROR if attributes[s.TOOL_OUTCOME] == "error" else _UNSET
        if report.late and step.tool in report.late:
            attributes |= {s.TOOL_LATE: True, s.ERROR_TYPE: "deadline_exceeded"}
            status = _ERROR
        name, times = f"execute_tool {clean(step.tool)}".rstrip(), (start, report.started_ns)
        self._send(name, SpanKind.INTERNAL, self._below(trace.root), trace.root, times, attributes, status, links)

    def _below(self, parent: SpanContext) -> SpanContext:
        return _context(parent.trace_id, self._random.getrandbits(64) or 1)

    def _send(
        self,
        name: str,
        kind: SpanKind,
        context: SpanContext,
        parent: SpanContext | None,
        times: tuple[int, int],
        attributes: Mapping[str, Value],
        status: Status = _UNSET,
        links: list[Link] | tuple[()] = (),
    ) -> None:
        span = ReadableSpan(
            name=name,
            context=context,
            parent=parent,
            resource=self._resource,
            attributes=attributes,
            links=links,
            kind=kind,
            status=status,
            start_time=times[0],
            end_time=max(times),  # two machines' clocks may disagree
            instrumentation_scope=_SCOPE,
        )
        self._emit(span)


def _context(trace_id: int, span_id: int, *, remote: bool = False) -> SpanContext:
    return SpanContext(trace_id, span_id, remote, _SAMPLED)
