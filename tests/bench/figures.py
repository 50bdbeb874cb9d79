"""From rows to the table: what each figure is, its bars (must and aim), and whether it is met."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.surfaces import OTHERS

from .cells import BARE_TWO, CELLS, OFF, ON, TWO, WRITTEN, Row
from .surfaces import NEIGHBOURS


@dataclass(frozen=True)
class Bar:
    """A figure's name, unit, bars and sense. `must` is what holds, `aim` where we are going; None: none."""

    name: str
    unit: str
    must: float | None
    aim: float | None
    at_least: bool = False

    def verdict(self, value: float | None) -> str:
        """aim, pass or FAIL; a figure that could not be taken, or that is only told, is "-"."""
        if value is None or self.must is None:
            return "-"
        sign = -1 if self.at_least else 1
        if sign * value > sign * self.must:
            return "FAIL"
        return "aim" if self.aim is not None and sign * value <= sign * self.aim else "pass"


BARS: dict[str, Bar] = {
    "cpu S": Bar("CPU per request ÷ bare, S", "×", 3.0, 1.3),
    "cpu M": Bar("CPU per request ÷ bare, M", "×", 3.0, 1.5),
    "cpu L": Bar("CPU per request ÷ bare, L", "×", 2.5, 1.5),
    "written S": Bar("the same, nothing compiled, S", "×", None, None),
    "written M": Bar("the same, nothing compiled, M", "×", None, None),
    "written L": Bar("the same, nothing compiled, L", "×", None, None),
    "traced S": Bar("compiled, every span exported, S", "×", 4.5, 2.2),
    "traced M": Bar("compiled, every span exported, M", "×", 4.2, 2.2),
    "traced L": Bar("compiled, every span exported, L", "×", 3.0, 1.8),
    "chunk": Bar("CPU per streamed chunk ÷ bare, paced", "×", 1.5, 1.1),
    "latency": Bar("added p50 latency, S, 1 connection", "ms", 1.0, 0.5),
    "first": Bar("added time to first chunk, p50", "ms", 1.0, 0.5),
    "growth": Bar("growth when the history doubles", "×", 1.1, 1.0),
    "workers": Bar("throughput, 2 workers ÷ 1, M", "×", 1.4, None, at_least=True),
    "bare workers": Bar("the same of bare, which shares no store", "×", None, None),
    "memory sessions": Bar("memory per worker after the sessions", "MB", 120, 80),
    "memory streams": Bar("memory per worker, 256 open streams", "MB", 160, 100),
    "trips": Bar("Redis trips a turn", "", 2, 2),
    "step": Bar("CPU per new step fingerprinted", "µs", 25, 10),
    "detectors": Bar("CPU per turn, all detectors", "µs", 120, 50),
}
for _name in OTHERS:
    BARS[f"{_name} M"] = Bar(f"CPU of reading requests, {_name} ÷ chat, M", "×", 3.0, 1.5)
    BARS[f"{_name} L"] = Bar(f"CPU of reading requests, {_name} ÷ chat, L", "×", 3.0, 1.5)
    BARS[f"{_name} chunk"] = Bar(f"CPU per streamed chunk, {_name} ÷ chat", "×", 2.0, 1.1)
for _name in NEIGHBOURS:
    BARS[f"{_name} read"] = Bar(f"CPU of reading a request, {_name} ÷ chat, 10 KB", "×", 3.0, 1.1)
BARS["completions chunk"] = Bar("CPU per streamed chunk, completions ÷ chat", "×", 2.5, 1.1)


def pairs(rows: Sequence[Row], cell: str, key: str, first: str, second: str) -> list[tuple[float, float]]:
    """The values of two targets, round by round, where both were measured."""
    found = {(row["target"], row["round"]): float(row[key]) for row in rows if row["cell"] == cell}
    rounds = sorted({number for _, number in found})
    return [(found[first, r], found[second, r]) for r in rounds if (first, r) in found and (second, r) in found]


def ratio(rows: Sequence[Row], cell: str, key: str, over: str, under: str = "bare") -> float | None:
    """Median over the rounds of one target's value divided by another's of the same round."""
    values = [a / b for a, b in pairs(rows, cell, key, over, under) if b]
    return statistics.median(values) if values else None


def added(rows: Sequence[Row], cell: str, key: str, over: str, under: str = "direct") -> float | None:
    """Median over the rounds of the difference, in ms."""
    values = [(a - b) / 1e3 for a, b in pairs(rows, cell, key, over, under)]
    return statistics.median(values) if values else None


def beyond_bare(rows: Sequence[Row], cell: str, parse_us: float) -> float | None:
    """What a request costs above bare and above parsing its JSON, in µs."""
    values = [a - b for a, b in pairs(rows, cell, "cpu_us", OFF, "bare")]
    return statistics.median(values) - parse_us if values else None


def growth(rows: Sequence[Row], parse: Mapping[str, float]) -> float | None:
    """How that cost grows when the history doubles beyond the detection window."""
    short, long = (beyond_bare(rows, cell, parse[CELLS[cell].shape]) for cell in ("G32", "GG32"))
    return long / short if short and long and short > 0 else None


def collect(
    rows: Sequence[Row], parse: Mapping[str, float], extra: Mapping[str, float | None]
) -> dict[str, float | None]:
    """All figures by their key in BARS."""
    out: dict[str, float | None] = {}
    for size in "SML":
        out[f"cpu {size}"] = ratio(rows, f"{size}32", "cpu_us", OFF)
        out[f"written {size}"] = ratio(rows, f"{size}32", "cpu_us", WRITTEN)
        out[f"traced {size}"] = ratio(rows, f"{size}32", "cpu_us", ON)
    out["chunk"] = ratio(rows, "P32", "chunk_us", OFF)
    out["latency"] = added(rows, "S1", "p50", OFF)
    out["first"] = added(rows, "B1", "first_p50", OFF)
    out["growth"] = growth(rows, parse)
    out["workers"] = ratio(rows, "M32", "rps", TWO, OFF)
    out["bare workers"] = ratio(rows, "M32", "rps", BARE_TWO)
    return {key: extra.get(key, out.get(key)) for key in BARS}


def number(value: float | None, unit: str = "") -> str:
    """A figure as people read it."""
    if value is None:
        return "-"
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return text + (unit if unit in ("×", "") else f" {unit}")


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their content, the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in (head, *lines)) for i in range(len(head))]
    rows = [head, ["-" * width for width in widths], *lines]
    padded = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows)
    return "\n".join("  ".join(row).rstrip() for row in padded)


def summary(values: Mapping[str, float | None]) -> str:
    """The table of figures with their bars."""
    lines = []
    for key, bar in BARS.items():
        sign, value = ("≥" if bar.at_least else "≤"), values.get(key)
        aim = "" if bar.aim is None else f"{sign} {bar.aim:g}"
        if bar.must is None and value is None:
            continue
        must = "" if bar.must is None else f"{sign} {bar.must:g}"
        lines.append((bar.name, number(value, bar.unit), must, aim, bar.verdict(value)))
    return table(("figure", "value", "must", "aim", ""), lines)


def details(rows: Sequence[Row]) -> str:
    """Medians of every cell and target."""
    keys = ("cpu_us", "store_us", "rps", "p50", "p99", "first_p50", "others")
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["cell"], row["target"]), []).append(row)
    lines = [
        (cell, target, *(number(statistics.median(r[key] for r in some)) for key in keys), number(chunk(some)))
        for (cell, target), some in groups.items()
    ]
    head = ("cell", "target", "CPU µs", "store µs", "req/s", "p50 µs", "p99 µs", "first p50", "others", "µs/chunk")
    return table(head, lines)


def chunk(rows: Sequence[Row]) -> float | None:
    """CPU a chunk where the answers are streams."""
    values = [r["chunk_us"] for r in rows if r["events"]]
    return statistics.median(values) if values else None


def failed(values: Mapping[str, float | None]) -> list[str]:
    """The names of the figures that miss their must."""
    return [bar.name for key, bar in BARS.items() if bar.verdict(values.get(key)) == "FAIL"]
