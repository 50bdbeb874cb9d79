"""Writes the Grafana dashboards: `python -m grafana.build`. The JSON is committed; a test regenerates and compares it.

Classic v1 JSON, which Grafana 10 to 13 load. Data sources are variables, so nothing is tied to one installation.
Metric names are checked against guardproxy's own table, and every query is run against a real Prometheus.
"""

from __future__ import annotations

import sys
import warnings
from itertools import count
from pathlib import Path

from grafana import alerts, health, runs, spend
from grafana._chart import Board, Chart

with warnings.catch_warnings():  # the SDK would rather have us write v2, which only Grafana 12 and later load
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.builders import (
        bargauge,
        common,
        dashboard,
        heatmap,
        prometheus,
        stat,
        table,
        tempo,
        text,
        timeseries,
    )
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.common import (
        BarGaugeDisplayMode,
        DataSourceRef,
        GraphDrawStyle,
        LegendDisplayMode,
        LegendPlacement,
        StackingMode,
        VizOrientation,
    )
    from grafana_foundation_sdk.models.dashboard import (
        DashboardCursorSync,
        DashboardLinkType,
        DataTransformerConfig,
        DynamicConfigValue,
        Threshold,
        ThresholdsMode,
        VariableOption,
        VariableRefresh,
    )
    from grafana_foundation_sdk.models.prometheus import PromQueryFormat
    from grafana_foundation_sdk.models.tempo import SearchTableType
    from grafana_foundation_sdk.models.text import TextMode

HERE = Path(__file__).parent
BOARDS: dict[str, Board] = {"runs.json": runs.BOARD, "spend.json": spend.BOARD, "health.json": health.BOARD}
"""Dashboards by file."""
METRICS = DataSourceRef(type_val="prometheus", uid="${datasource}")
TRACES = DataSourceRef(type_val="tempo", uid="${tempo}")

QUERIED = {
    "org": ("Organisation", "label_values(guardproxy_turns_total, guardproxy_org_id)"),
    "agent": ("Agent", "label_values(guardproxy_turns_total, gen_ai_agent_name)"),
    "model": ("Model", "label_values(guardproxy_tokens_total, gen_ai_request_model)"),
}
"""Variables whose values Prometheus knows: label, and where they come from."""
TYPED = {"turns": ("Turns saved", str(runs.TURNS_SAVED)), "session": ("Run", "")}
"""Variables that people fill in: label and first value."""

Panel = (
    stat.Panel | timeseries.Panel | table.Panel | heatmap.Panel | bargauge.Panel | text.Panel
)  # what the SDK draws of it


def _series(chart: Chart) -> timeseries.Panel:
    legend = common.VizLegendOptions().show_legend(True)
    legend = legend.display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    panel = timeseries.Panel().legend(legend)
    if chart.kind == "bars":
        panel = panel.draw_style(GraphDrawStyle.BARS).fill_opacity(60)
        panel = panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    return panel


def _shape(chart: Chart) -> Panel:
    last = common.ReduceDataOptions().calcs(["lastNotNull"])
    match chart.kind:
        case "stat":
            return stat.Panel().reduce_options(last)
        case "share":
            lying = bargauge.Panel().reduce_options(last).orientation(VizOrientation.HORIZONTAL)
            return lying.display_mode(BarGaugeDisplayMode.BASIC).min(0).max(1)
        case "heatmap":
            return heatmap.Panel().exemplars_color("rgba(255,0,255,0.7)")
        case "top":
            hidden = DataTransformerConfig(id_val="organize", options={"excludeByName": {"Time": True}})
            return table.Panel().with_transformation(hidden)
        case "table":
            joined = DataTransformerConfig(id_val="merge", options={})
            hidden = DataTransformerConfig(id_val="organize", options={"excludeByName": {"Time": True}})
            return table.Panel().with_transformation(joined).with_transformation(hidden)
        case "traces":
            return table.Panel()
        case "words":
            return text.Panel().mode(TextMode.MARKDOWN).content(chart.text)
        case _:
            return _series(chart)


def _queries(chart: Chart, panel: Panel) -> None:
    for number, (expression, legend) in enumerate(chart.queries):
        ref = chr(ord("A") + number)
        if chart.kind == "traces":
            search = tempo.Dataquery().query(expression).query_type("traceql").table_type(SearchTableType.SPANS)
            panel.with_target(search.limit(50).ref_id(ref).datasource(TRACES))
            continue
        query = prometheus.Dataquery().expr(expression).ref_id(ref).datasource(METRICS)
        if chart.kind in ("stat", "share", "top", "table"):
            query = query.instant()
        if chart.kind in ("top", "table"):
            query = query.format(PromQueryFormat.TABLE)
        if chart.kind == "heatmap":
            query = query.format(PromQueryFormat.HEATMAP)
        if chart.exemplars:
            query = query.exemplar(True)
        panel.with_target(query.legend_format(legend) if legend else query)


def _panel(chart: Chart) -> Panel:
    panel = _shape(chart).title(chart.title).height(chart.height).span(chart.width)
    if chart.kind == "words":
        return panel
    panel = panel.description(chart.text).datasource(TRACES if chart.kind == "traces" else METRICS).unit(chart.unit)
    if chart.red is not None:
        steps = [Threshold(value=None, color="green"), Threshold(value=chart.red, color="red")]
        panel = panel.thresholds(dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
    if chart.kind == "table":
        names = {f"Value #{chr(ord('A') + place)}": legend for place, (_, legend) in enumerate(chart.queries)}
        for column, legend in names.items():
            panel = panel.override_by_name(column, [DynamicConfigValue(id_val="displayName", value=legend)])
    if chart.kind == "top":
        panel = panel.override_by_name("Value", [DynamicConfigValue(id_val="displayName", value=chart.column)])
    for column, title, url in chart.links:
        link = {"title": title, "url": url}
        panel = panel.override_by_name(column, [DynamicConfigValue(id_val="links", value=[link])])
    _queries(chart, panel)
    return panel


def _variables(board: Board, drawn: dashboard.Dashboard) -> dashboard.Dashboard:
    everything = VariableOption(selected=True, text="All", value="$__all")
    drawn = drawn.with_variable(dashboard.DatasourceVariable("datasource").label("Metrics").type("prometheus"))
    if board.traces:
        drawn = drawn.with_variable(dashboard.DatasourceVariable("tempo").label("Traces").type("tempo"))
    for name in board.variables:
        if name in TYPED:
            label, first = TYPED[name]
            drawn = drawn.with_variable(dashboard.TextBoxVariable(name).label(label).default_value(first))
            continue
        label, query = QUERIED[name]
        drawn = drawn.with_variable(
            dashboard.QueryVariable(name)
            .label(label)
            .datasource(METRICS)
            .query(query)
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
            .all_value(".*")
            .current(everything)
        )
    return drawn


def _others() -> dashboard.DashboardLink:
    """Links to the other two, with the same time and picks."""
    link = dashboard.DashboardLink("guardproxy").type(DashboardLinkType.DASHBOARDS).tags(["guardproxy"])
    return link.include_vars(True).keep_time(True)


def drawn(board: Board) -> str:
    """A dashboard as JSON."""
    made = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.text)
        .tags(["guardproxy"])
        .time("now-6h", "now")
        .refresh("30s")
        .timezone("browser")
        .editable()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(_others())
    )
    made = _variables(board, made)
    number = count(1)  # ids of our own, so that links to a panel last
    for title, charts in board.rows.items():
        row = dashboard.Row(title).id(next(number))
        if title in board.folded:
            row = row.collapsed(True)
            for chart in charts:
                row = row.with_panel(_panel(chart).id(next(number)))
            made = made.with_row(row)
            continue
        made = made.with_row(row)
        for chart in charts:
            made = made.with_panel(_panel(chart).id(next(number)))
    return JSONEncoder(sort_keys=True, indent=2).encode(made.build()) + "\n"


if __name__ == "__main__":
    for file, one in BOARDS.items():
        (HERE / file).write_text(drawn(one), encoding="utf-8")
    alerts.FILE.write_text(alerts.drawn(), encoding="utf-8")
    sys.stdout.write(f"{', '.join(BOARDS)} and {alerts.FILE.name} written\n")
