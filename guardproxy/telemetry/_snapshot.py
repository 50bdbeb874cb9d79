"""All metric values at one moment: merged over workers, carried as JSON, read by both exporters.

A series is a list of numbers: `[value]`, or `[sum, count of bucket 0, ..., count above the last]` for a histogram.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import orjson

from guardproxy.telemetry._instruments import BY_NAME, GAUGES, Instrument

Labels = tuple[str, ...]
Series = dict[Labels, list[float]]
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`series` by instrument name and label values. `started_ns`: since when it counts; `taken_ns`: until when."""

    started_ns: int = 0
    taken_ns: int = 0
    series: Mapping[str, Series] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """As bytes for another process."""
        series = {name: [[labels, values] for labels, values in rows.items()] for name, rows in self.series.items()}
        return orjson.dumps({"v": _FORMAT, "started_ns": self.started_ns, "taken_ns": self.taken_ns, "series": series})

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
            return cls(int(tree["started_ns"]), int(tree["taken_ns"]), series)
        except (KeyError, TypeError, AttributeError) as wrong:
            raise ValueError(f"not a snapshot: {wrong!r}") from wrong


def merge(snapshots: Iterable[Snapshot]) -> Snapshot:
    """One snapshot of many: counters and histograms add up, gauges as their instrument says."""
    parts = list(snapshots)
    total: dict[str, Series] = {}
    for part in parts:
        for name, rows in part.series.items():
            instrument = BY_NAME.get(name)
            if instrument is not None:  # a worker of another version may know names that we do not
                _fold(total.setdefault(name, {}), rows, instrument)
    return Snapshot(
        min((part.started_ns for part in parts), default=0), max((part.taken_ns for part in parts), default=0), total
    )


def _fold(into: Series, rows: Series, instrument: Instrument) -> None:
    pick = max if instrument.merge == "max" else operator.add
    for labels, values in rows.items():
        if len(labels) != len(instrument.labels) or len(values) != instrument.width:
            continue  # other labels or buckets: a worker of another version
        known = into.get(labels)
        into[labels] = list(values) if known is None else [pick(a, b) for a, b in zip(known, values, strict=True)]


@dataclass(slots=True)
class Fleet:
    """The parent's sum over its workers. What a dead worker had counted stays, so that no counter falls."""

    _live: dict[str, Snapshot] = field(default_factory=dict)
    _gone: Snapshot = field(default_factory=Snapshot)

    def put(self, worker: str, snapshot: Snapshot) -> None:
        """The newest snapshot of `worker`; its name must change when it is started anew."""
        self._live[worker] = snapshot

    def retire(self, worker: str) -> None:
        """`worker` is dead: keep its counts, forget its gauges."""
        last = self._live.pop(worker, None)
        if last is not None:
            lasting = {name: rows for name, rows in last.series.items() if name not in GAUGES}
            parts = [Snapshot(last.started_ns, last.taken_ns, lasting), self._gone]
            self._gone = merge(part for part in parts if part.series)

    def total(self, *more: Snapshot) -> Snapshot:
        """All of it, with `more` (the parent's own) added."""
        parts = [*self._live.values(), self._gone, *more]
        return merge(part for part in parts if part.series)
