"""Prometheus text format 0.0.4 of a snapshot. Pure: snapshot in, text out."""

from __future__ import annotations

from itertools import accumulate

from guardproxy.telemetry._instruments import TABLE, Instrument
from guardproxy.telemetry._snapshot import Labels, Series, Snapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""To be sent with it."""

_ESCAPE = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_ESCAPE_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})


def render(snapshot: Snapshot) -> str:
    """Every instrument that has a series, in the table's order."""
    lines: list[str] = []
    for instrument in TABLE:
        rows = snapshot.series.get(instrument.name)
        if rows:
            lines += (
                f"# HELP {instrument.prometheus} {instrument.help.translate(_ESCAPE_HELP)}",
                f"# TYPE {instrument.prometheus} {instrument.kind}",
            )
            lines += _histogram(instrument, rows) if instrument.kind == "histogram" else _plain(instrument, rows)
    return "\n".join(lines) + "\n" if lines else ""


def _plain(instrument: Instrument, rows: Series) -> list[str]:
    name = instrument.prometheus
    return [f"{name}{_braces(_pairs(instrument, labels))} {_number(values[0])}" for labels, values in rows.items()]


def _histogram(instrument: Instrument, rows: Series) -> list[str]:
    name, lines = instrument.prometheus, []
    bounds = [*map(_number, instrument.buckets), "+Inf"]
    for labels, (total, *counts) in rows.items():
        pairs = _pairs(instrument, labels)
        running = list(accumulate(counts))
        for bound, count in zip(bounds, running, strict=True):
            lines.append(f"{name}_bucket{_braces([*pairs, _pair('le', bound)])} {_number(count)}")
        lines.append(f"{name}_sum{_braces(pairs)} {_number(total)}")
        lines.append(f"{name}_count{_braces(pairs)} {_number(running[-1])}")
    return lines


def _pairs(instrument: Instrument, labels: Labels) -> list[str]:
    return [_pair(key.replace(".", "_"), value) for key, value in zip(instrument.labels, labels, strict=True)]


def _pair(key: str, value: str) -> str:
    return f'{key}="{value.translate(_ESCAPE)}"'


def _braces(pairs: list[str]) -> str:
    return "{" + ",".join(pairs) + "}" if pairs else ""


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
