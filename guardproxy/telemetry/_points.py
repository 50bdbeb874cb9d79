"""A snapshot in the SDK's own data classes: cumulative, dotted names, exemplars. Imported only to push metrics."""

from __future__ import annotations

import time

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from guardproxy.telemetry import semconv as s
from guardproxy.telemetry._instruments import TABLE, Instrument
from guardproxy.telemetry._snapshot import Exemplars, Series, Snapshot

_CUMULATIVE = AggregationTemporality.CUMULATIVE


def metrics_data(snapshot: Snapshot, who: Resource) -> MetricsData:
    """The SDK's own form of a snapshot: cumulative, dotted names."""
    taken = snapshot.taken_ns or time.time_ns()
    metrics = [
        Metric(instrument.name, instrument.help, instrument.unit, _data(instrument, rows, snapshot, taken))
        for instrument in TABLE
        if (rows := snapshot.series.get(instrument.name))
    ]
    scope = ScopeMetrics(InstrumentationScope(s.SCOPE), metrics, "")
    return MetricsData([ResourceMetrics(who, [scope], "")])


def _data(instrument: Instrument, rows: Series, snapshot: Snapshot, end: int) -> Sum | Gauge | Histogram:
    start = snapshot.started_ns
    if instrument.kind == "histogram":
        seen = snapshot.exemplars.get(instrument.name, {})
        return Histogram([_bucketed(instrument, key, rows[key], seen, start, end) for key in rows], _CUMULATIVE)
    numbers = [
        NumberDataPoint(_attributes(instrument, labels), start, end, values[0]) for labels, values in rows.items()
    ]
    return Gauge(numbers) if instrument.kind == "gauge" else Sum(numbers, _CUMULATIVE, True)


def _bucketed(
    instrument: Instrument, labels: tuple[str, ...], values: list[float], seen: Exemplars, start: int, end: int
) -> HistogramDataPoint:
    counts = [int(value) for value in values[1:]]
    return HistogramDataPoint(
        attributes=_attributes(instrument, labels),
        start_time_unix_nano=start,
        time_unix_nano=end,
        count=sum(counts),
        sum=values[0],
        bucket_counts=counts,
        explicit_bounds=instrument.buckets,
        min=None,  # type: ignore[arg-type]  # not kept; the encoder leaves None out, 0 would be a claim
        max=None,  # type: ignore[arg-type]  # the SDK takes None for unknown
        exemplars=[
            Exemplar({}, float(value), at_ns, int(span_id, 16), int(trace_id, 16))
            for _, (value, at_ns, trace_id, span_id) in sorted(seen.get(labels, {}).items())
        ],
    )


def _attributes(instrument: Instrument, labels: tuple[str, ...]) -> dict[str, str]:
    return {key: value for key, value in zip(instrument.labels, labels, strict=True) if value}
