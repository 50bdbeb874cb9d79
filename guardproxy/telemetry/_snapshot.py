"""All metric values at one moment: merged over workers, carried as JSON, read by both exporters.

A series is a list of numbers: `[value]`, or `[sum, count of bucket 0, ..., count above the last]` for a histogram. A
histogram may say in which trace the newest value of a bucket was seen.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from guardproxy.telemetry._bounds import Bounds
from guardproxy.telemetry._instruments import BY_NAME, GAUGES, Instrument

Labels = tuple[str, ...]
Series = dict[Labels, list[float]]
Exemplar = tuple[float, int, str, str]
"""Value, when (ns), trace and span in hex."""
Exemplars = dict[Labels, dict[int, Exemplar]]
"""By labels and bucket."""
_FORMAT = 1


def bucket_of(buckets: tuple[float, ...], value: float) -> int:
    """The place of the bucket that `value` falls into."""
    return bisect_left(buckets, value)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`series` by instrument name and label values. `started_ns`: since when it counts; `taken_ns`: until when."""

    started_ns: int = 0
    taken_ns: int = 0
    series: Mapping[str, Series] = field(default_factory=dict)
    exemplars: Mapping[str, Exemplars] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """As bytes for another process."""
        series = {name: [[labels, values] for labels, values in rows.items()] for name, rows in self.series.items()}
        seen = {
            name: [[labels, bucket, *one] for labels, found in rows.items() for bucket, one in found.items()]
            for name, rows in self.exemplars.items()
        }
        tree = {"v": _FORMAT, "started_ns": self.started_ns, "taken_ns": self.taken_ns}
        return orjson.dumps(tree | {"series": series, "exemplars": seen})

    @classmethod
    def from_json(cls, data: bytes) -> Snapshot:
        """Read `to_json`'s bytes. Raises ValueError when they are not that."""
        try:
            tree = orjson.loads(data)
            if tree["v"] != _FORMAT:
                raise ValueError(f"snapshot format {tree['v']!r} is not {_FORMAT}")
            series = {
                str(name): {tuple(map(str, labels)): [float(v) for v in values] for labels, values in rows}
                for name, rows in tree["series"].items()
            }
            seen = {str(name): _exemplars(rows) for name, rows in tree.get("exemplars", {}).items()}
            return cls(int(tree["started_ns"]), int(tree["taken_ns"]), series, seen)
        except (KeyError, TypeError, AttributeError) as wrong:
            raise ValueError(f"not a snapshot: {wrong!r}") from wrong


def _exemplars(rows: list[list[Any]]) -> Exemplars:
    found: Exemplars = {}
    for labels, bucket, value, at_ns, trace_id, span_id in rows:
        one = float(value), int(at_ns), str(trace_id), str(span_id)
        found.setdefault(tuple(map(str, labels)), {})[int(bucket)] = one
    return found


def merge(snapshots: Iterable[Snapshot], bounds: Bounds | None = None) -> Snapshot:
    """One snapshot of many: counters and histograms add up, gauges as their instrument says.

    `bounds`: those of the sum. With the same ones each time, a series keeps its name once it has one.
    """
    parts = list(snapshots)
    bounds = bounds or Bounds()
    total: dict[str, Series] = {}
    seen: dict[str, Exemplars] = {}
    for part in parts:
        for name, rows in part.series.items():
            instrument = BY_NAME.get(name)
            if instrument is not None:  # a worker of another version may know names that we do not
                _fold(total.setdefault(name, {}), rows, instrument, bounds)
                _newest(seen, part.exemplars.get(name, {}), instrument, bounds)
    started = min((part.started_ns for part in parts), default=0)
    return Snapshot(started, max((part.taken_ns for part in parts), default=0), total, seen)


def _fold(into: Series, rows: Series, instrument: Instrument, bounds: Bounds) -> None:
    pick = max if instrument.merge == "max" else operator.add
    for labels, values in rows.items():
        if len(labels) != len(instrument.labels) or len(values) != instrument.width:
            continue  # other labels or buckets: a worker of another version
        key = bounds.key(instrument, labels)
        known = into.get(key)
        into[key] = list(values) if known is None else [pick(a, b) for a, b in zip(known, values, strict=True)]


def _newest(into: dict[str, Exemplars], rows: Exemplars, instrument: Instrument, bounds: Bounds) -> None:
    for labels, found in rows.items():
        if len(labels) != len(instrument.labels):
            continue
        known = into.setdefault(instrument.name, {}).setdefault(bounds.key(instrument, labels), {})
        for bucket, one in found.items():
            if bucket not in known or known[bucket][1] < one[1]:
                known[bucket] = one


@dataclass(slots=True)
class Fleet:
    """The parent's sum over its workers. What a dead worker had counted stays, so that no counter falls."""

    _live: dict[str, Snapshot] = field(default_factory=dict)
    _gone: Snapshot = field(default_factory=Snapshot)
    _bounds: Bounds = field(default_factory=Bounds)

    def put(self, worker: str, snapshot: Snapshot) -> None:
        """The newest snapshot of `worker`; its name must change when it is started anew."""
        self._live[worker] = snapshot

    def retire(self, worker: str) -> None:
        """`worker` is dead: keep its counts, forget its gauges."""
        last = self._live.pop(worker, None)
        if last is not None:
            lasting = {name: rows for name, rows in last.series.items() if name not in GAUGES}
            parts = [Snapshot(last.started_ns, last.taken_ns, lasting, last.exemplars), self._gone]
            self._gone = merge((part for part in parts if part.series), self._bounds)

    def total(self, *more: Snapshot) -> Snapshot:
        """All of it, with `more` (the parent's own) added."""
        parts = [self._gone, *self._live.values(), *more]
        return merge((part for part in parts if part.series), self._bounds)
