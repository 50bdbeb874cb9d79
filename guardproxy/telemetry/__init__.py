"""Telemetry's front: built once a process, told of turns, runs and rare events, asked for a snapshot, shut down.

Nothing here raises, waits or does IO on the caller's time: exports run in threads. OpenTelemetry is only imported
where an endpoint is configured.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from guardproxy._telemetry import TelemetrySection
from guardproxy.errors import GuardError
from guardproxy.telemetry import log, semconv
from guardproxy.telemetry._ids import read_traceparent, trace_of
from guardproxy.telemetry._instruments import FROM_THE_START, OF_SPANS
from guardproxy.telemetry._latest import latest
from guardproxy.telemetry._rounds import Recent, Round
from guardproxy.telemetry._snapshot import Fleet, Snapshot, merge
from guardproxy.telemetry.content import Redactor
from guardproxy.telemetry.ending import RunEnd, run_end, segment_end
from guardproxy.telemetry.metrics import Meter, RunMetrics
from guardproxy.telemetry.report import CLOSING, Attempt, Objected, TurnReport

if TYPE_CHECKING:
    from guardproxy.telemetry.otlp import MetricPush, SpanPush
    from guardproxy.telemetry.spans import Spans

__all__ = ["Attempt", "Fleet", "Objected", "RunEnd", "Snapshot", "Telemetry", "TurnReport", "merge"]

BATCH = 32
"""Turns that are counted, traced and logged in a row: the first of them costs as much as the ten after it."""

DELAY_SECONDS = 0.2
"""How long a turn waits for that at most; a process that is killed loses so much of its log."""

SHUTDOWN_SECONDS = 4.0
"""What a collector that does not answer may cost at the end; orchestrators kill 30 s after they asked."""

CLAIM_SECONDS = 1.0
"""What the last claims may take at the end: four times what a store has to answer."""

_REMEMBERED = 8192  # threads whose last calls, runs whose end, and runs whose trace id are kept in mind
_log = logging.getLogger(__name__)


class Telemetry:
    """One a process. `secret` keys the trace ids; `service_instance` must differ between processes."""

    def __init__(self, settings: TelemetrySection, secret: bytes, service_instance: str) -> None:
        log.setup(settings.log_level, settings.log_format)
        self._secret = secret
        self._meter = Meter(time.time_ns())
        self._latest = settings.genai_metrics == "both"
        self._metrics = RunMetrics(self._meter, latest=self._latest)
        self._watched: dict[str, Callable[[], float]] = {}
        self._seen: tuple[TurnReport, int, int] | None = None  # the newest turn that is in a trace
        self._rounds: Recent[Round] = Recent(_REMEMBERED)
        self._ended: Recent[str] = Recent(_REMEMBERED)
        self._ids: Recent[tuple[str, str]] = Recent(_REMEMBERED)
        self.claim: Callable[[RunEnd], Awaitable[bool]] | None = None
        """Asked, if it is there, before a run's end is told: of all workers and machines one may. May raise."""
        self._claiming: set[asyncio.Task[None]] = set()
        self._waiting: list[TurnReport] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._raised: set[str] = set()
        self._spans: Spans | None = None
        self._closers: list[SpanPush | MetricPush] = []
        release = _release()
        self._meter.put("guardproxy.build_info", (release, semconv.VERSION_OF_GENAI), 1.0)
        for name, labels in FROM_THE_START:
            self._meter.add(name, labels, 0.0)
        if settings.otlp_endpoint:
            self._export(settings, settings.otlp_endpoint, service_instance, release)

    def report(self, report: TurnReport, *, settle_ns: int = 0) -> None:
        """Everything about a turn that is over. `settle_ns` may be given apart, as it is known last. Never raises.

        On a running loop it waits a moment, so that several turns are done in a row: a third of the price, since caches
        are warm then. Where others listen for the decision line it does not.
        """
        try:
            if settle_ns:
                report = replace(report, settle_ns=settle_ns)
            self._waiting.append(report)
            if len(self._waiting) >= BATCH or not self._later():
                self._catch_up()
        except Exception:  # noqa: BLE001 - a fault in telemetry is counted, never passed on
            self._fault("report")

    def close_run(self, run: RunEnd) -> None:
        """A run has ended: its metrics and its root span, once. Never raises."""
        self._catch_up()
        try:
            self._close(run)
        except Exception:  # noqa: BLE001  # telemetry is never the cause of a failed request
            self._fault("close_run")

    def trace_id(self, session: str, started_ms: int, org: str, told: str = "") -> str:
        """The run's trace id in hex, for the response header. `told`: what the store says of its trace, or the header
        that the session's first request brought.
        """
        key = (org, session, started_ms)
        known = self._ids.get(key)
        if known is not None and told in ("", known[0]):  # while the store is away it says nothing
            return known[1]
        try:
            if self._spans is not None:
                trace_id = self._spans.trace(org, session, started_ms, told).id
            else:
                trace_id = trace_of(self._secret, org, session, started_ms, told)
            self._ids.keep(key, (told, found := f"{trace_id:032x}"))
            return found
        except Exception:  # noqa: BLE001  # telemetry is never the cause of a failed request
            self._fault("trace_id")
            return ""

    def count(self, name: str, labels: Mapping[str, object] | None = None, value: float = 1.0) -> None:
        """A rare event, or a gauge: any instrument of the table. Labels that are not given are empty. Never raises."""
        try:
            self._meter.event(name, labels or {}, value)
        except Exception:  # noqa: BLE001  # telemetry is never the cause of a failed request
            self._fault("count")

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Have a gauge without labels read whenever somebody looks. `read` is called in any thread."""
        self._meter.put(name, (), read())
        self._watched[name] = read

    def standing(self, name: str, rows: Mapping[tuple[str, ...], float]) -> None:
        """All that a gauge shows from now on, by labels in the order of the table: what is not in it is gone."""
        try:
            self._meter.replace(name, rows)
        except Exception:  # noqa: BLE001  # telemetry is never the cause of a failed request
            self._fault("standing")

    def snapshot(self) -> Snapshot:
        """All metrics of this process until now."""
        self._catch_up()
        return self._counted()

    def _counted(self) -> Snapshot:
        """As `snapshot`, from any thread: the turns of the last moment may be missing."""
        for name, read in self._watched.items():
            self._meter.put(name, (), read())
        counted = self._meter.snapshot(time.time_ns())
        return latest(counted) if self._latest else counted

    async def shutdown(self, seconds: float = SHUTDOWN_SECONDS) -> None:
        """Send what is left, in at most `seconds`; a second call does nothing."""
        self._catch_up()
        if self._claiming:
            await asyncio.wait(self._claiming, timeout=CLAIM_SECONDS)
        closers, self._closers = self._closers, []
        threads = [threading.Thread(target=closer.close, daemon=True) for closer in closers]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + seconds
        while any(thread.is_alive() for thread in threads):
            if time.monotonic() > deadline:
                _log.warning("telemetry was not all sent within %.0f s", seconds)
                for closer in closers:
                    closer.abandon()
                return
            await asyncio.sleep(0.01)

    def _later(self) -> bool:
        """Whether the running loop will see to what waits. Not where there is none, or where others listen."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        if self._timer is not None and loop is self._loop:
            return True
        if log.shared():
            return False
        if self._timer is not None:  # of a loop that is gone
            self._timer.cancel()
        self._loop, self._timer = loop, loop.call_later(DELAY_SECONDS, self._on_time)
        return True

    def _on_time(self) -> None:
        self._timer = None
        self._catch_up()

    def _catch_up(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        said = [report for report in self._each(self._report, waiting) if report.session]
        if self._seen is not None:  # one of them stands for all: each would cost as much as the counting
            self._each(self._exemplify, [self._seen[0]])
        if not log.decision_lines(said):
            self._each(log.decision_record, said)

    def _each(self, work: Callable[[TurnReport], None], reports: list[TurnReport]) -> list[TurnReport]:
        """Do `work` on each; one that fails does not take the others with it. Answers those that did not fail."""
        done = []
        for report in reports:
            try:
                work(report)
                done.append(report)
            except Exception:  # noqa: BLE001  # telemetry is never the cause of a failed request
                self._fault("report")
        return done

    def _report(self, report: TurnReport) -> None:
        key = (report.org, report.session, report.thread)
        if report.session:
            born = report.view.session_started_ms
            report.trace_id = self.trace_id(report.session, born, report.org, report.trace)
        before = self._rounds.pop(key, None) if report.session else None
        if before is not None and report.view.since_ms and before.older(report.view.since_ms, report.started_ns):
            before = None  # another worker gave the last answer
        since = report.view.since_ms / 1000 if report.view.since_ms else -1.0
        trips = tuple([since if before is None else before.seconds(step, report.started_ns) for step in report.steps])
        self._metrics.turn(report, trips)
        trace_id, span_id = self._spans.turn(report, before) if self._spans is not None else (0, 0)
        if span_id:
            self._seen = (report, trace_id, span_id)
        if report.session and report.attempts and report.given:
            calls = {fingerprint: call_id for _, call_id, fingerprint in report.given}
            self._rounds.keep(key, Round(report.attempts[-1].ended_ns, calls, trace_id, span_id))
        if ";" in report.view.traceparent and (ended := segment_end(report)) is not None:
            self._end(ended)  # the store told this turn alone
        if report.outcome in CLOSING:
            self._close(run_end(report))

    def _exemplify(self, report: TurnReport) -> None:
        seen, self._seen = self._seen, None
        if seen is not None:
            self._metrics.exemplify(report, f"{seen[1]:032x}", f"{seen[2]:016x}")

    def _close(self, run: RunEnd) -> None:
        key = (run.org, run.session, f"{run.started_ms} {run.segment}")
        if key in self._ended:  # a cut is answered three times
            return
        self._ended.keep(key, run.outcome)
        try:
            loop = asyncio.get_running_loop() if self.claim is not None else None
        except RuntimeError:
            loop = None
        if loop is None:
            self._end(run)
            return
        task = loop.create_task(self._claimed(run))
        self._claiming.add(task)
        task.add_done_callback(self._claiming.discard)

    async def _claimed(self, run: RunEnd) -> None:
        try:
            told = self.claim is None or await self.claim(run)
        except GuardError:  # the store is away: a root that is sent twice is one that is there
            told = True
        try:
            if told:
                self._end(run)
        except Exception:  # noqa: BLE001  # telemetry is never the cause of a failed request
            self._fault("close_run")

    def _end(self, run: RunEnd) -> None:
        seen = self._spans.run(run) if self._spans is not None else None
        if run.outcome:
            self._metrics.run(run, adopted=read_traceparent(run.traceparent) is not None, seen=seen)

    def _export(self, settings: TelemetrySection, endpoint: str, instance: str, release: str) -> None:
        from guardproxy.telemetry import otlp  # noqa: PLC0415 - 7 MB and 0.2 s, of no use without an endpoint
        from guardproxy.telemetry.spans import Spans  # noqa: PLC0415  # loaded only with an endpoint

        def count(result: str, number: int) -> None:
            self._meter.add("guardproxy.telemetry.spans", (result,), number)

        for result in OF_SPANS:
            count(result, 0)
        who = otlp.resource(settings.service_name, instance, release)
        pusher = otlp.SpanPush(endpoint, count)
        redact = Redactor(settings.redact) if settings.captures else None
        self._spans = Spans(self._secret, who, settings.sample_ratio, pusher.emit, redact)
        self._closers = [pusher, otlp.MetricPush(endpoint, who, self._counted)]

    def _fault(self, reason: str) -> None:
        self._meter.add("guardproxy.telemetry.errors", (reason,))
        if reason not in self._raised:  # the first one says why; the rest are counted
            self._raised.add(reason)
            _log.exception("telemetry failed in %s; further ones are only counted", reason)


def _release() -> str:
    try:
        return version("guardproxy")
    except PackageNotFoundError:
        return "0"
