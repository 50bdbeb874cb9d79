"""A snapshot as Prometheus reads it: text format 0.0.4, or OpenMetrics 1.0 with exemplars. Snapshot in, text out."""

from __future__ import annotations

from itertools import accumulate

from guardproxy.telemetry._instruments import TABLE, Instrument
from guardproxy.telemetry._snapshot import Exemplar, Exemplars, Labels, Series, Snapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""To be sent with `render`'s text."""

OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""To be sent with `render_open`'s, to whoever accepts it: Prometheus does."""

_ESCAPE = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_ESCAPE_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})


def accepted(accept: str) -> bool:
    """Whether the header asks for OpenMetrics."""
    return "application/openmetrics-text" in accept


def render(snapshot: Snapshot) -> str:
    """Every instrument that has a series, in the table's order."""
    lines: list[str] = []
    for instrument, rows in _used(snapshot):
        lines += _head(instrument, instrument.prometheus)
        lines += _histogram(instrument, rows, {}) if instrument.kind == "histogram" else _plain(instrument, rows)
    return "\n".join(lines) + "\n" if lines else ""


def render_open(snapshot: Snapshot) -> str:
    """The same as OpenMetrics: buckets with a trace where one is known, and an end that shows that nothing is cut."""
    lines: list[str] = []
    for instrument, rows in _used(snapshot):
        lines += _head(instrument, instrument.family)
        if instrument.kind == "histogram":
            lines += _histogram(instrument, rows, snapshot.exemplars.get(instrument.name, {}), whole=".0")
        else:
            lines += _plain(instrument, rows)
    return "\n".join([*lines, "# EOF"]) + "\n"


def _used(snapshot: Snapshot) -> list[tuple[Instrument, Series]]:
    return [(one, rows) for one in TABLE if (rows := snapshot.series.get(one.name))]


def _head(instrument: Instrument, name: str) -> tuple[str, str]:
    return f"# HELP {name} {instrument.help.translate(_ESCAPE_HELP)}", f"# TYPE {name} {instrument.kind}"


def _plain(instrument: Instrument, rows: Series) -> list[str]:
    name = instrument.prometheus
    return [f"{name}{_braces(_pairs(instrument, labels))} {_number(values[0])}" for labels, values in rows.items()]


def _histogram(instrument: Instrument, rows: Series, seen: Exemplars, whole: str = "") -> list[str]:
    """`whole` stands behind bounds that are whole numbers: OpenMetrics wants `1.0`."""
    name, lines = instrument.prometheus, []
    bounds = [*(f"{text}{whole}" if text.isdecimal() else text for text in map(_number, instrument.buckets)), "+Inf"]
    for labels, (total, *counts) in rows.items():
        pairs, found = _pairs(instrument, labels), seen.get(labels, {})
        running = list(accumulate(counts))
        for place, (bound, count) in enumerate(zip(bounds, running, strict=True)):
            line = f"{name}_bucket{_braces([*pairs, _pair('le', bound)])} {_number(count)}"
            lines.append(line + _exemplar(found[place]) if place in found else line)
        lines.append(f"{name}_sum{_braces(pairs)} {_number(total)}")
        lines.append(f"{name}_count{_braces(pairs)} {_number(running[-1])}")
    return lines


def _exemplar(one: Exemplar) -> str:
    value, at_ns, trace_id, span_id = one
    return f' # {{trace_id="{trace_id}",span_id="{span_id}"}} {_number(value)} {at_ns / 1e9:.3f}'


def _pairs(instrument: Instrument, labels: Labels) -> list[str]:
    return [_pair(key.replace(".", "_"), value) for key, value in zip(instrument.labels, labels, strict=True)]


def _pair(key: str, value: str) -> str:
    return f'{key}="{value.translate(_ESCAPE)}"'


def _braces(pairs: list[str]) -> str:
    return "{" + ",".join(pairs) + "}" if pairs else ""


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
