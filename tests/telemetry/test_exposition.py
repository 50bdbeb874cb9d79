"""The Prometheus text, read back by a small parser of the format."""

from __future__ import annotations

import re

from hypothesis import given, strategies as st

from guardproxy.telemetry.exposition import accepted, render, render_open
from guardproxy.telemetry.metrics import Meter, RunMetrics
from tests.telemetry.reports import life

SAMPLE = re.compile(r'^([a-z_]\w*)(?:\{((?:\w+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)$')
PAIR = re.compile(r'(\w+)="((?:[^"\\\n]|\\.)*)"')
UNESCAPE = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def parse(text: str) -> tuple[dict[str, str], dict[tuple[str, frozenset], float]]:
    """(type by metric, value by name and labels)."""
    types, samples = {}, {}
    for line in text.split("\n")[:-1]:
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types
            types[name] = kind
        elif not line.startswith("# HELP "):
            found = SAMPLE.match(line)
            assert found, line
            pairs = {
                (key, re.sub(r"\\.", lambda m: UNESCAPE[m[0]], value)) for key, value in PAIR.findall(found[2] or "")
            }
            key = (found[1], frozenset(pairs))
            assert key not in samples
            samples[key] = float(found[3])
    return types, samples


def meter() -> Meter:
    counted = Meter()
    for report in life():
        RunMetrics(counted).turn(report, (8.0,))
    return counted


def test_nothing_counted_is_nothing():
    assert render(Meter().snapshot(1)) == ""


def test_types_and_values():
    types, samples = parse(render(meter().snapshot(1)))

    assert types["guardproxy_turns_total"] == "counter"
    assert types["guardproxy_overhead_duration_seconds"] == "histogram"
    labels = frozenset({("guardproxy_org_id", "acme"), ("gen_ai_agent_name", "codex")})
    assert samples["guardproxy_turns_total", labels] == 7


def test_histograms_are_cumulative_and_whole():
    types, samples = parse(render(meter().snapshot(1)))

    for name in [name for name, kind in types.items() if kind == "histogram"]:
        rows: dict[frozenset, list[tuple[float, float]]] = {}
        for (sample, labels), count in samples.items():
            if sample == f"{name}_bucket":
                (bound,) = [value for key, value in labels if key == "le"]
                plain = frozenset(pair for pair in labels if pair[0] != "le")
                rows.setdefault(plain, []).append((float(bound), count))
        for labels, buckets in rows.items():
            counts = [count for _, count in sorted(buckets)]
            assert counts == sorted(counts)
            assert max(buckets) == (float("inf"), samples[f"{name}_count", labels])
            assert samples[f"{name}_sum", labels] >= 0


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=90))
def test_any_label_value_survives(text):
    counted = Meter()
    counted.add("guardproxy.turns", ("acme", text))
    _, samples = parse(render(counted.snapshot(1)))

    assert [dict(labels)["gen_ai_agent_name"] for _, labels in samples] == [text]


TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_open_metrics_shows_the_traces_of_buckets_and_ends():
    counted = meter()
    labels = ("cut",)
    counted.observe("guardproxy.session.turns", labels, 40)
    counted.exemplify("guardproxy.session.turns", labels, 40, (40.0, 1_800_000_000_500_000_000, TRACE, SPAN))
    snapshot = counted.snapshot(1)
    text = render_open(snapshot)
    plain = [line.split(" # ")[0] for line in text.splitlines()]

    shown = f'le="64.0"}} 1 # {{trace_id="{TRACE}",span_id="{SPAN}"}} 40 1800000000.500'
    assert [line for line in text.splitlines() if " # {" in line] == [
        'guardproxy_session_turns_bucket{guardproxy_outcome="cut",' + shown
    ]
    assert plain[-1] == "# EOF"
    assert "# TYPE guardproxy_turns counter" in plain
    assert "TYPE guardproxy_turns_total" not in text
    _, samples = parse("\n".join(plain[:-1]) + "\n")
    _, before = parse(render(snapshot))
    assert {(name, value) for (name, _), value in samples.items()} == {(n, v) for (n, _), v in before.items()}
    assert "# {" not in render(snapshot)


def test_it_is_given_to_whoever_asks_for_it():
    prometheus = (
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,*/*;q=0.1"
    )

    assert [accepted(header) for header in (prometheus, "text/plain", "", "*/*")] == [True, False, False, False]
