"""docs/metrics.md is the table of instruments in words. `python -m tests.test_metric_docs` writes it anew."""

from __future__ import annotations

from pathlib import Path

from grafana import traces
from grafana._chart import filled
from guardproxy.telemetry import _bounds
from guardproxy.telemetry._instruments import LATEST, TABLE, Instrument
from guardproxy.telemetry.semconv import GEN_AI_AGENT as AGENT, GEN_AI_TOOL as TOOL

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "metrics.md"

HEAD = f"""# Metrics

Written by `python -m tests.test_metric_docs` from the table in the code; a test compares.

Two ways to have them; use one:

- **Scraped**: `/metrics` of the operators' listener (port 8788) is the sum over all workers of one `guardproxy serve`.
  What a worker counted that has died stays in it, but for its last moments if it was killed (counts are fetched every
  five seconds and at each scrape). OpenMetrics with exemplars for whoever accepts it, as Prometheus does; else the text
  format. Prometheus keeps exemplars with `--enable-feature=exemplar-storage`.
- **Pushed** over OTLP/HTTP every 15 s, with `telemetry.otlp_endpoint`: each worker is an instance of its own
  (`service.instance.id`), names have dots, histograms have exemplars with the trace and the span.

An exemplar is the newest value of a bucket and the trace it was seen in: of every run that ended, and of one turn in a
batch of at most 32. There are none of runs that are not sampled (`telemetry.sample_ratio`) or without an endpoint.

What becomes of spans is in `guardproxy.telemetry.spans`, in place of the SDK's own `otel.sdk.*`: it counts what did not
fit, too.

In a scrape dots are underscores, counters end in `_total`, histograms in seconds have `_seconds` before `_bucket`,
`_sum` and `_count`. Labels are attribute names with underscores (`guardproxy.org.id` is `guardproxy_org_id`); the same
names are on spans. No session, user or key is ever a label: `guardproxy usage` has those who spend, traces those who
run.

## Dashboards and alerts

Three Grafana dashboards are in `grafana/` (*Runs*, *Spend and budgets*, *Proxy health*), alert rules for Prometheus in
`deploy/rules.yml`, the same for Grafana's own alerting in `deploy/grafana/alerting/`: use one of the two. The page
"runs of agent X are being cut off" links *Runs* with that agent picked: which rule, since when, the newest of these
runs with their traces; a click on a run shows it turn by turn, with the commands that let it go on
([people.md](people.md)).

All of it is made by `.venv/bin/python -m grafana.build`, in the development environment (`make lint` makes it); a test
compares. `make verify` runs every query and rule against a real
Prometheus that scrapes a real proxy, and reads every trace query with Grafana's own grammar.

## When a run is counted

`guardproxy.sessions` and the histograms of runs count the end of a stretch of a run once, as it first ended: at once
where it was made to answer (`finalized`), `cut` or `denied`, else after 15 minutes without a turn (`finished`,
`abandoned`). What has been counted is not taken back: an agent that asks on after a finalize, in the same request,
and is cut for it stays `finalized` here and in the root of the trace; the cut is in `guardproxy.interventions`, in
the log and in `guardproxy sessions list`. So whoever counts runs that were ended adds `finalized`, `cut` and
`denied`, as the dashboards and alerts do. What comes after a cut or a refusal, and after a finalize what the user
says next, is a new stretch, which is counted again.

## How many series

A proxy, with all its workers, shows **at most {_bounds.MAX_SAMPLES:,} time series** in a scrape, each bucket of a
histogram counted. A counter or gauge has at most {_bounds.MAX_SERIES:,} series, a histogram {_bounds.MAX_HISTOGRAMS}.
A label takes at most {_bounds.MAX_VALUES_ELSE} values; of organisations, teams and agents {_bounds.MAX_VALUES[AGENT]},
of models and tools {_bounds.MAX_VALUES[TOOL]}: the first ones, for as long as the proxy runs. What comes later is
counted as `_other`, so that sums stay right. 10,000 runs of 500 agents with 2,000 tools are well below the bound
(`tests/telemetry/test_bounds.py`); the alert `GuardproxyManySeries` comes at 45,000.

## The metrics

| metric | type, unit | labels | what it says |
|---|---|---|---|
"""

NEWER = """
## With `telemetry.genai_metrics: both`

The names of semantic-conventions-genai v0.1.0, beside those above that tools read today; also on with
`gen_ai_latest_experimental` in `OTEL_SEMCONV_STABILITY_OPT_IN`. Those of `gen_ai.client.inference.*` say the same as
`gen_ai.client.operation.*` and `gen_ai.client.token.usage`, embeddings left out, and cost nothing until somebody looks.
`gen_ai.token.modality` is always `unknown`: providers do not say it. `time_per_output_chunk` is not there: it would
cost a clock on every chunk. `gen_ai.server.*` is not ours: guardproxy is a client of the provider.

| metric | type, unit | labels | what it says |
|---|---|---|---|
"""

QUERIES = """
## TraceQL

The trace panels of the dashboards ask for one span at a time: the spans of a run lie in several blocks of Tempo, and
`>>` or `| count()` see one block only. By hand, in Explore:

```
"""


def row(one: Instrument) -> str:
    labels = ", ".join(f"`{label}`" for label in one.labels) or "–"
    return f"| `{one.name}` | {one.kind}, {one.unit} | {labels} | {one.help} |\n"


def page() -> str:
    usual = "".join(row(one) for one in TABLE if one.name not in LATEST)
    newer = "".join(row(one) for one in TABLE if one.name in LATEST)
    shipped = (traces.CUT_OFF, traces.ONE_RUN, traces.REPEATED, traces.DONE, traces.FAILED, *traces.SAYINGS.values())
    queries = "\n".join(filled(query) for query in shipped)
    return f"{HEAD}{usual}{NEWER}{newer}{QUERIES}{queries}\n```\n"


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text("utf-8") == page(), "type: python -m tests.test_metric_docs"


def test_every_metric_is_in_it() -> None:
    text = PAGE.read_text("utf-8")

    assert [one.name for one in TABLE if f"\n| `{one.name}` | {one.kind}, {one.unit} | " not in text] == []
    assert all(one.help.endswith(".") for one in TABLE)
    assert "| `guardproxy.turns` | counter, {turn} | `guardproxy.org.id`, `gen_ai.agent.name` | Turns served" in text


def test_the_readme_links_it() -> None:
    assert "(docs/metrics.md)" in (ROOT / "README.md").read_text("utf-8")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
