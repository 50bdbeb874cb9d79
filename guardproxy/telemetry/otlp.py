"""Sends metrics and spans over OTLP/HTTP, from threads of its own. Imported only where an endpoint is configured.

Spans: the SDK's batch processor. Metrics: the SDK's data classes, filled from a snapshot. Headers, certificates and
timeouts come from the usual `OTEL_EXPORTER_OTLP_*` variables.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from guardproxy.telemetry._encode import encode_spans
from guardproxy.telemetry._points import metrics_data
from guardproxy.telemetry._snapshot import Snapshot

PERIOD_SECONDS = 15.0
"""Between two pushes of metrics: Prometheus' usual scrape interval."""
QUEUE = 16384
"""Spans waiting at most, those under way included: a few seconds of a busy worker. What does not fit is dropped."""
EXPORT_SECONDS = 10
"""One export, retries included: the SDK's default."""

_log = logging.getLogger(__name__)


def resource(service: str, instance: str, version: str) -> Resource:
    """Who is sending."""
    return Resource(
        {
            "service.name": service,
            "service.instance.id": instance,
            "service.version": version,
            "telemetry.sdk.language": "python",
            "telemetry.sdk.name": "opentelemetry",
        }
    )


class _Health:
    """One line when exports begin to fail and one when they work again; the counters say how many."""

    def __init__(self, what: str, endpoint: str) -> None:
        self._what = f"{what} cannot be sent to {endpoint}"
        self._failing = False

    def tell(self, *, sent: bool) -> None:
        """What became of one export."""
        if self._failing == sent:
            self._failing = not sent
            _log.warning("%s%s", self._what, ": over, they are sent again" if sent else " (log_level: debug says why)")


class SpanPush:
    """Queue for finished spans. `count(result, n)` is told what became of them."""

    def __init__(self, endpoint: str, count: Callable[[str, int], None]) -> None:
        self._count = count
        self._taken = self._told = 0  # each is written by one thread only
        self._exporter = SpanSender(endpoint=endpoint.rstrip("/") + "/v1/traces", timeout=EXPORT_SECONDS)
        told = _Counted(self._exporter, self._tell, _Health("spans", endpoint))
        self._processor = BatchSpanProcessor(told, max_queue_size=QUEUE)

    def emit(self, span: ReadableSpan) -> None:
        """Take a finished span; never blocks, drops it where too many wait. The SDK's queue alone would not say so."""
        if self._taken - self._told >= QUEUE:
            self._count("dropped", 1)
            return
        self._taken += 1
        self._count("queued", 1)
        self._processor.on_end(span)

    def _tell(self, result: str, number: int) -> None:
        self._told += number
        self._count(result, number)

    def close(self) -> None:
        """Send what is left. Blocks; bounded by the caller."""
        self._processor.shutdown()  # type: ignore[no-untyped-call]  # the SDK has no types here

    def abandon(self) -> None:
        """Time is up: end a retry that is waiting."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # the SDK has no types here


class SpanSender(OTLPSpanExporter):
    """The SDK's exporter with our encoder. Its HTTP client is not public: a version without it goes its own way."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send one batch."""
        client = getattr(self, "_client", None)
        if client is None or self._shutdown:
            return super().export(spans)
        sent = client.export(encode_spans(spans))
        return SpanExportResult.SUCCESS if sent.success else SpanExportResult.FAILURE


class _Counted(SpanExporter):
    """Says how many spans were sent and how many not: the SDK keeps that to itself by default."""

    def __init__(self, exporter: SpanExporter, count: Callable[[str, int], None], health: _Health) -> None:
        self._exporter = exporter
        self._count = count
        self._health = health

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send one batch."""
        sent = False
        try:
            result = self._exporter.export(spans)
            sent = result is SpanExportResult.SUCCESS
        finally:
            self._count("exported" if sent else "failed", len(spans))
            self._health.tell(sent=sent)
        return result

    def shutdown(self) -> None:
        """Close the connection; ends a retry that is waiting."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing is kept here."""
        return self._exporter.force_flush(timeout_millis)


class MetricPush:
    """Sends a snapshot every `PERIOD_SECONDS` and once more at the end."""

    def __init__(self, endpoint: str, who: Resource, snapshot: Callable[[], Snapshot]) -> None:
        self._exporter = OTLPMetricExporter(endpoint=endpoint.rstrip("/") + "/v1/metrics", timeout=EXPORT_SECONDS)
        self._health = _Health("metrics", endpoint)
        self._resource = who
        self._snapshot = snapshot
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="guardproxy-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send the last values. Blocks; bounded by the caller."""
        self._stop.set()
        self._thread.join()
        self._exporter.shutdown()

    def abandon(self) -> None:
        """Time is up: end a retry that is waiting."""
        self._exporter.shutdown()

    def _loop(self) -> None:
        last = False
        while not last:  # what one push did not carry, the next one does: totals only grow
            last = self._stop.wait(PERIOD_SECONDS)
            try:
                self._push()
            except Exception:  # noqa: BLE001 - telemetry must not end its own thread
                _log.exception("metrics could not be pushed")

    def _push(self) -> None:
        data = metrics_data(self._snapshot(), self._resource)
        self._health.tell(sent=self._exporter.export(data) is MetricExportResult.SUCCESS)
