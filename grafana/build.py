"""Writes the Grafana dashboards: `python -m grafana.build`. The JSON is committed; a test regenerates and compares it.

Classic v1 JSON, which Grafana 10 to 13 load. Data sources are variables, so nothing is tied to one installation.
Metric names are checked against guardproxy's own table, and every query is run against a real Prometheus.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from grafana.panels import CUT_OFF_RUNS, RUNS, Chart

with warnings.catch_warnings():  # the SDK would rather have us write v2, which only Grafana 12 and later load
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, tempo, timeseries
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.common import (
        DataSourceRef,
        GraphDrawStyle,
        LegendDisplayMode,
        LegendPlacement,
        StackingMode,
    )
    from grafana_foundation_sdk.models.dashboard import (
        DashboardCursorSync,
        DataTransformerConfig,
        VariableOption,
        VariableRefresh,
    )
    from grafana_foundation_sdk.models.prometheus import PromQueryFormat
    from grafana_foundation_sdk.models.tempo import SearchTableType

HERE = Path(__file__).parent
METRICS = DataSourceRef(type_val="prometheus", uid="${datasource}")
TRACES = DataSourceRef(type_val="tempo", uid="${tempo}")


def _queries(chart: Chart, panel: stat.Panel | timeseries.Panel | table.Panel) -> None:
    for number, (expression, legend) in enumerate(chart.queries):
        query = prometheus.Dataquery().expr(expression).ref_id(chr(ord("A") + number)).datasource(METRICS)
        if chart.kind in ("stat", "top"):
            query = query.instant()
        if chart.kind == "top":
            query = query.format(PromQueryFormat.TABLE)
        panel.with_target(query.legend_format(legend) if legend else query)


def _panel(chart: Chart) -> stat.Panel | timeseries.Panel | table.Panel:
    panel: stat.Panel | timeseries.Panel | table.Panel
    if chart.kind == "stat":
        reduce = common.ReduceDataOptions().calcs(["lastNotNull"])
        panel = stat.Panel().height(4).reduce_options(reduce)
    elif chart.kind == "top":
        hidden = DataTransformerConfig(id_val="organize", options={"excludeByName": {"Time": True}})
        panel = table.Panel().height(8).with_transformation(hidden)
    else:
        legend = common.VizLegendOptions().show_legend(True)
        legend = legend.display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
        panel = timeseries.Panel().height(8).legend(legend)
        if chart.kind == "bars":
            panel = panel.draw_style(GraphDrawStyle.BARS).fill_opacity(60)
            panel = panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    panel = panel.title(chart.title).description(chart.text).datasource(METRICS).span(chart.width).unit(chart.unit)
    _queries(chart, panel)
    return panel


def _variables(board: dashboard.Dashboard) -> dashboard.Dashboard:
    everything = VariableOption(selected=True, text="All", value="$__all")
    return (
        board.with_variable(dashboard.DatasourceVariable("datasource").label("Metrics").type("prometheus"))
        .with_variable(dashboard.DatasourceVariable("tempo").label("Traces").type("tempo"))
        .with_variable(
            dashboard.QueryVariable("org")
            .label("Organisation")
            .datasource(METRICS)
            .query("label_values(guardproxy_turns_total, guardproxy_org_id)")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
            .all_value(".*")
            .current(everything)
        )
    )


def _cut_off_table() -> table.Panel:
    query = (
        tempo.Dataquery()
        .query(CUT_OFF_RUNS)
        .query_type("traceql")
        .table_type(SearchTableType.SPANS)
        .limit(50)
        .ref_id("A")
        .datasource(TRACES)
    )
    return (
        table.Panel()
        .title("Runs cut off")
        .description("The latest runs that guardproxy ended; the link opens the trace.")
        .datasource(TRACES)
        .span(24)
        .height(9)
        .with_target(query)
    )


def runs() -> str:
    """The *Runs* dashboard as JSON."""
    board = (
        dashboard.Dashboard("guardproxy: runs")
        .uid("guardproxy-runs")
        .description("Agent runs behind guardproxy: how they ended, what was done about them, what they cost.")
        .tags(["guardproxy"])
        .time("now-6h", "now")
        .refresh("30s")
        .timezone("browser")
        .editable()
        .tooltip(DashboardCursorSync.CROSSHAIR)
    )
    board = _variables(board)
    for row, charts in RUNS.items():
        board = board.with_row(dashboard.Row(row))
        for chart in charts:
            board = board.with_panel(_panel(chart))
    board = board.with_row(dashboard.Row("Traces")).with_panel(_cut_off_table())
    return JSONEncoder(sort_keys=True, indent=2).encode(board.build()) + "\n"


if __name__ == "__main__":
    (HERE / "runs.json").write_text(runs(), encoding="utf-8")
    sys.stdout.write("grafana/runs.json written\n")
