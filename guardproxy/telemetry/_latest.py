"""The metrics of semantic-conventions-genai v0.1.0 beside those that tools read today: `telemetry.genai_metrics: both`.

What only has another name there is made of the older metrics when somebody looks, so that no request pays for it.
`time_per_output_chunk` is not there: a stopwatch on every chunk of a stream would be its price.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from guardproxy.telemetry import semconv as s
from guardproxy.telemetry._snapshot import Exemplars, Series, Snapshot

SAME: Mapping[str, str] = {
    "gen_ai.client.inference.duration": "gen_ai.client.operation.duration",
    "gen_ai.client.inference.time_to_first_chunk": "gen_ai.client.operation.time_to_first_chunk",
}
"""New name -> old one with the same labels and buckets."""

SIDES = ("input", "output")
"""Values of `gen_ai.token.type` of which there is a metric each."""

_UNKNOWN = "unknown"  # text, image or audio: providers do not tell them apart in what we read


def latest(snapshot: Snapshot) -> Snapshot:
    """The snapshot with the newer names in it."""
    more: dict[str, Series] = {}
    seen: dict[str, Exemplars] = {}
    for new, old in SAME.items():
        more[new] = _inference(snapshot.series.get(old, {}))
        seen[new] = {key: found for key, found in snapshot.exemplars.get(old, {}).items() if key[0] in s.INFERENCE}
    sizes = _inference(snapshot.series.get("gen_ai.client.token.usage", {}))
    for side in SIDES:
        of_side = {labels[:-1]: cell for labels, cell in sizes.items() if labels[-1] == side}
        more[f"gen_ai.client.inference.operation.{side}_tokens"] = of_side
        totals = {(*labels, _UNKNOWN): [cell[0]] for labels, cell in of_side.items()}
        more[f"gen_ai.client.inference.usage.{side}_tokens"] = totals
    series = {**snapshot.series, **{name: rows for name, rows in more.items() if rows}}
    return replace(snapshot, series=series, exemplars={**snapshot.exemplars, **{k: v for k, v in seen.items() if v}})


def _inference(rows: Series) -> Series:
    """Those of operations that are called inference; what is over a bound has lost its operation."""
    return {labels: cell for labels, cell in rows.items() if labels[0] in s.INFERENCE}
