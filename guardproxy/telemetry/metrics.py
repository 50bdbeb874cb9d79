"""Counters and histograms in plain Python (the SDK's own cost several times as much), all derived from reports.

Labels and series are bounded (`_bounds`). Each event goes through `Meter.add` or `Meter.observe`, in the order of the
table's labels.
"""

from __future__ import annotations

from collections.abc import Mapping

from guardproxy.core.budget import DIMENSIONS
from guardproxy.core.model import Flag, Kind, Step
from guardproxy.errors import StoreError
from guardproxy.telemetry import semconv as s
from guardproxy.telemetry._bounds import Bounds
from guardproxy.telemetry._instruments import BY_NAME, FAST, HTTP, STORE, TABLE, D, Instrument, T
from guardproxy.telemetry._row import MAX_ROWS, Cell, Key, Row, key_of, put
from guardproxy.telemetry._snapshot import Exemplar, Exemplars, Series, Snapshot, bucket_of
from guardproxy.telemetry.ending import RunEnd
from guardproxy.telemetry.report import Attempt, TurnReport

__all__ = ["BY_NAME", "TABLE", "Meter", "RunMetrics", "tool_outcome"]

_CALL = Kind.CALL  # by name it costs a third of a microsecond
_FAILED, _UNANSWERED = int(Flag.FAILED), int(Flag.UNANSWERED)  # as plain numbers: an enum's `&` costs a microsecond
_MAX_ALIASES = 4096  # raw label tuples remembered for speed, per instrument


class _Cells:
    """The series of one instrument; `alias` finds a series by the raw label values without bounding them again."""

    __slots__ = ("alias", "buckets", "exemplars", "instrument", "series")

    def __init__(self, instrument: Instrument) -> None:
        self.instrument = instrument
        self.buckets = instrument.buckets
        self.series: Series = {}
        self.exemplars: Exemplars = {}
        self.alias: dict[tuple[object, ...], list[float]] = {}


class Meter:
    """All instruments of one process. Not locked: written by the event loop's thread only, read by any."""

    def __init__(self, started_ns: int = 0) -> None:
        self._started_ns = started_ns
        self._cells = {instrument.name: _Cells(instrument) for instrument in TABLE}
        self._bounds = Bounds()

    def add(self, name: str, labels: tuple[object, ...], value: float = 1.0) -> None:
        """Raise a counter. `labels` in the order of the table; KeyError or ValueError for what is not in it."""
        cells = self._cells[name]
        (cells.alias.get(labels) or self._cell(cells, labels))[0] += value

    def observe(self, name: str, labels: tuple[object, ...], value: float) -> None:
        """Put `value` into a histogram."""
        cells = self._cells[name]
        put(cells.alias.get(labels) or self._cell(cells, labels), cells.buckets, value)

    def series(self, name: str, labels: tuple[object, ...]) -> Cell:
        """The numbers of a series, to be written to directly."""
        cells = self._cells[name]
        return cells.alias.get(labels) or self._cell(cells, labels)

    def put(self, name: str, labels: tuple[object, ...], value: float) -> None:
        """Set a gauge."""
        cells = self._cells[name]
        (cells.alias.get(labels) or self._cell(cells, labels))[0] = value

    def replace(self, name: str, rows: Mapping[tuple[str, ...], float]) -> None:
        """Set every series of a gauge; one that is not named is gone."""
        cells = self._cells[name]
        fresh: Series = {}
        for labels, value in rows.items():
            fresh.setdefault(self._bounds.key(cells.instrument, labels), [value])[0] = value
        cells.alias, cells.series = {}, fresh

    def event(self, name: str, labels: Mapping[str, object], value: float) -> None:
        """Count, set or observe, as `name` is; `guardproxy.` may be left out. `labels` by name or its last word.

        KeyError, ValueError: there is none of that name, or a label that it does not have.
        """
        instrument = BY_NAME.get(name) or BY_NAME[f"guardproxy.{name}"]
        row = tuple(labels.get(label, labels.get(label.rpartition(".")[2], "")) for label in instrument.labels)
        if labels.keys() - {*instrument.labels, *(label.rpartition(".")[2] for label in instrument.labels)}:
            raise ValueError(f"{name} has the labels {instrument.labels}, not {tuple(labels)}")
        kinds = {"counter": self.add, "gauge": self.put, "histogram": self.observe}
        kinds[instrument.kind](instrument.name, row, value)

    def exemplify(self, name: str, labels: tuple[object, ...], value: float, where: Exemplar) -> None:
        """Remember in which trace a value of a histogram was seen: the newest of its bucket."""
        cells = self._cells[name]
        key = self._bounds.key(cells.instrument, labels)
        cells.exemplars.setdefault(key, {})[bucket_of(cells.buckets, value)] = where

    def snapshot(self, now_ns: int) -> Snapshot:
        """A copy of everything that has been counted."""
        used = [(name, cells) for name, cells in self._cells.items() if cells.series]
        series = {name: {labels: list(cell) for labels, cell in list(cells.series.items())} for name, cells in used}
        seen = {
            name: {labels: dict(found) for labels, found in list(cells.exemplars.items())}
            for name, cells in used
            if cells.exemplars
        }
        return Snapshot(self._started_ns, now_ns, series, seen)

    def _cell(self, cells: _Cells, labels: tuple[object, ...]) -> list[float]:
        key = self._bounds.key(cells.instrument, labels)
        cell = cells.series.setdefault(key, [0.0] * cells.instrument.width)
        if len(cells.alias) >= _MAX_ALIASES:
            cells.alias.clear()
        cells.alias[labels] = cell
        return cell


def tool_outcome(step: Step) -> str:
    """ok, error or abandoned: what became of a call, for metrics and spans."""
    flags = int(step.flags)
    if flags & _UNANSWERED:
        return "abandoned"
    return "error" if flags & _FAILED else "ok"


class RunMetrics:
    """Derives every metric from reports. `latest`: those of the newest GenAI conventions, too (see `_latest`)."""

    def __init__(self, meter: Meter, *, latest: bool = False) -> None:
        self._meter = meter
        self._latest = latest
        self._rows: dict[Key, Row] = {}

    def turn(self, report: TurnReport, trips: tuple[float, ...]) -> None:
        """Count one turn. `trips`: seconds each new step took from call to result, negative where not known."""
        row = self._rows.get(key_of(report)) or self._row(report)
        put(row.request or row.open("request"), HTTP, (report.ended_ns - report.started_ns) / 1e9)
        self._own_work(report, row)
        if not report.session:
            return
        if report.counted:
            (row.turns or row.open("turns"))[0] += 1.0
        if report.surface in s.OPERATIONS:
            for attempt in report.attempts:
                self._attempt(report, attempt, row)
        self._spending(report, row)
        if report.decision.action != "pass" or report.decision.would:
            self._judgement(report)
        if report.steps:
            self._tools(report, trips)
        if report.eventful:
            self._events(report)

    def run(self, run: RunEnd, *, adopted: bool, seen: tuple[int, str, str] | None = None) -> None:
        """Count the end of a run. `adopted`: its agent is traced by others, who count model and tool calls too.

        `seen`: when (ns), and the trace and root span that show it.
        """
        meter, outcome = self._meter, (run.outcome,)
        seconds = max(0, run.ended_ms - run.started_ms) / 1e3
        meter.add("guardproxy.sessions", (run.org, run.agent, run.outcome, run.rule))
        amounts = (
            ("guardproxy.session.duration", seconds),
            ("guardproxy.session.turns", run.turns),
            ("guardproxy.session.tool_calls", run.tool_calls),
            ("guardproxy.session.cost.usd", run.cost_microusd / 1e6),
        )
        for name, amount in amounts:
            meter.observe(name, outcome, amount)
            if seen is not None:
                meter.exemplify(name, outcome, amount, (amount, *seen))
        if not adopted:
            meter.observe("gen_ai.invoke_agent.inference_calls", (run.agent,), run.turns)
            meter.observe("gen_ai.invoke_agent.tool_calls", (run.agent,), run.tool_calls)
            if self._latest:
                meter.observe("gen_ai.invoke_agent.duration", (run.agent,), seconds)

    def exemplify(self, report: TurnReport, trace_id: str, span_id: str) -> None:
        """The turn's trace shows what its request and its last attempt took."""
        row = self._rows.get(key_of(report)) or self._row(report)
        seconds = (report.ended_ns - report.started_ns) / 1e9
        name, labels = row.where["request"]
        self._meter.exemplify(name, labels, seconds, (seconds, report.ended_ns, trace_id, span_id))
        last = report.attempts[-1] if report.attempts else None
        if last is not None and not last.error_type and report.surface in s.OPERATIONS:
            seconds = (last.ended_ns - last.started_ns) / 1e9
            name, labels = row.where["duration"]
            self._meter.exemplify(name, labels, seconds, (seconds, last.ended_ns, trace_id, span_id))

    def _row(self, report: TurnReport) -> Row:
        if len(self._rows) >= MAX_ROWS:
            self._rows.clear()
        key = key_of(report)
        row = self._rows[key] = Row(key, self._meter.series)
        return row

    def _own_work(self, report: TurnReport, row: Row) -> None:
        if report.overhead_request_ns:
            put(row.before or row.open("before"), FAST, report.overhead_request_ns / 1e9)
        if report.overhead_response_ns:
            put(row.after or row.open("after"), FAST, report.overhead_response_ns / 1e9)
        if report.view.degraded:  # the trip failed; there was no second one
            self._meter.add("guardproxy.store.fallbacks", ("open",))
            name, (operation, _) = row.where["begin"]
            self._meter.observe(name, (operation, StoreError.code), report.begin_ns / 1e9)
            return
        if report.begin_ns:
            put(row.begin or row.open("begin"), STORE, report.begin_ns / 1e9)
        if report.settle_ns:
            put(row.settle or row.open("settle"), STORE, report.settle_ns / 1e9)

    def _attempt(self, report: TurnReport, attempt: Attempt, row: Row) -> None:
        seconds = (attempt.ended_ns - attempt.started_ns) / 1e9
        if attempt.error_type:  # a failed call has no tokens and no first chunk; zeros would be made up
            name, labels = row.where["duration"]
            where = attempt.server.address if attempt.server else labels[-2]
            self._meter.observe(name, (*labels[:-2], where, attempt.error_type), seconds)
            return
        put(row.duration or row.open("duration"), D, seconds)
        if report.stream and attempt.first_chunk_ns:
            put(row.first_chunk or row.open("first_chunk"), D, (attempt.first_chunk_ns - attempt.started_ns) / 1e9)
        put(row.input_size or row.open("input_size"), T, attempt.usage.input)
        put(row.output_size or row.open("output_size"), T, attempt.usage.output)

    def _spending(self, report: TurnReport, row: Row) -> None:
        usage = report.usage
        if usage.input:
            (row.input or row.open("input"))[0] += usage.input
        if usage.output:
            (row.output or row.open("output"))[0] += usage.output
        if usage.cached or usage.cache_write or usage.reasoning:
            for amount, kind in (
                (usage.cached, "cache_read"),
                (usage.cache_write, "cache_write"),
                (usage.reasoning, "reasoning"),
            ):
                if amount:
                    self._meter.add("guardproxy.tokens", (report.org, report.model, kind), amount)
                    if self._latest:
                        self._latest_tokens(row, kind, amount)
        if report.cost_microusd:
            (row.cost or row.open("cost"))[0] += report.cost_microusd / 1e6

    def _latest_tokens(self, row: Row, kind: str, amount: int) -> None:
        client = row.where["first_chunk"][1]
        if client[0] in s.INFERENCE:
            side = "output" if kind == "reasoning" else "input"
            self._meter.add(f"gen_ai.client.inference.usage.{kind}.{side}_tokens", (*client, "unknown"), amount)

    def _judgement(self, report: TurnReport) -> None:
        action, mode = report.intervention
        if action:
            row = (report.org, action, report.decision.rule, mode)
            self._meter.add("guardproxy.interventions", row)
        for amount, of in zip(report.saved_microusd, ("enforce", "observe"), strict=True):
            if amount:
                self._meter.add("guardproxy.saved.usd", (report.org, of), amount / 1e6)
        refused = report.decision.refused
        if refused is not None and action == "deny" and mode == "enforce":
            self._meter.add("guardproxy.budget.rejections", (refused.scope, DIMENSIONS[refused.dimension].setting))

    def _events(self, report: TurnReport) -> None:
        add, org = self._meter.add, report.org
        for one in report.objected:
            add("guardproxy.interventions", (org, one.action, one.rule, one.mode))
        for reason in report.asked:
            add("guardproxy.reasks", (org, reason))
        if report.verification:
            add("guardproxy.verifications", (org, report.verification))
        for check in report.failed_checks:
            add("guardproxy.verification.failures", (org, check))
        for name, mode, _ in report.hygiene:
            add("guardproxy.hygiene", (name, mode))
        for tool in report.late:
            add("guardproxy.tool.late", (tool,))
        if report.missing:
            add("guardproxy.answers.missing", (org, report.agent))
        if report.approval[0]:
            self._approval(report)

    def _approval(self, report: TurnReport) -> None:
        """A pending one is counted by the turn that asks, a decided one by the turn that goes on after it."""
        state = report.approval[1]
        if any(one.action == "pause" and one.mode == "enforce" for one in report.objected):
            self._meter.add("guardproxy.approvals", (report.org, "pending"))
        if state != "pending" and not report.view.retry:
            self._meter.add("guardproxy.approvals", (report.org, state))

    def _tools(self, report: TurnReport, trips: tuple[float, ...]) -> None:
        meter = self._meter
        for index, step in enumerate(report.steps):
            if step.kind is not _CALL:
                continue
            outcome = tool_outcome(step)
            meter.add("guardproxy.tool.calls", (step.tool, outcome))
            if index < len(trips) and trips[index] >= 0:
                meter.observe("guardproxy.tool.roundtrip.duration", (step.tool, outcome), trips[index])
            if report.decision.finding is not None and report.repeats(index):
                meter.add("guardproxy.tool.repeats", (step.tool, report.decision.rule))
