"""An OTLP/HTTP receiver for tests: decodes what arrives with the protocol's own classes."""

from __future__ import annotations

import gzip
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


def plain(value):
    """An AnyValue as a Python value."""
    kind = value.WhichOneof("value")
    found = getattr(value, kind) if kind else None
    return [plain(item) for item in found.values] if kind == "array_value" else found


def attributes(item) -> dict[str, object]:
    return {pair.key: plain(pair.value) for pair in item.attributes}


@dataclass
class Sink:
    url: str = ""
    status: int = 200
    bodies: list[bytes] = field(default_factory=list)
    traces: list[ExportTraceServiceRequest] = field(default_factory=list)
    metrics: list[ExportMetricsServiceRequest] = field(default_factory=list)

    def take(self, path: str, body: bytes) -> None:
        self.bodies.append(body)
        if path == "/v1/traces":
            self.traces.append(ExportTraceServiceRequest.FromString(body))
        else:
            self.metrics.append(ExportMetricsServiceRequest.FromString(body))

    @property
    def spans(self) -> list[Span]:
        return [span for t in self.traces for r in t.resource_spans for scope in r.scope_spans for span in scope.spans]

    def points(self, name: str) -> list[tuple[dict[str, object], object]]:
        """(attributes, data point) of a metric in the last push that had it."""
        for request in reversed(self.metrics):
            for metric in (m for r in request.resource_metrics for scope in r.scope_metrics for m in scope.metrics):
                if metric.name == name:
                    data = getattr(metric, metric.WhichOneof("data"))
                    return [(attributes(point), point) for point in data.data_points]
        return []


@contextmanager
def otlp_sink(status: int = 200):
    """A running sink; `status` is what it answers."""
    sink = Sink(status=status)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            body = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
            if sink.status == 200:
                sink.take(self.path, body)
            self.send_response(sink.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    sink.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield sink
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
