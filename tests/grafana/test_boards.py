"""Dashboards and alert rules: generated as committed, tied to no installation, about what exists."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from grafana import alerts, build, traces
from grafana._chart import Board, label_names, metric_names
from guardproxy.telemetry import semconv
from guardproxy.telemetry._instruments import LATEST, TABLE

SCRAPED = {
    instrument.prometheus + suffix
    for instrument in TABLE
    for suffix in (("_bucket", "_sum", "_count") if instrument.kind == "histogram" else ("",))
}
OF_PROMETHEUS = {"le", "job", "instance", "__name__"}
LABELS = {label.replace(".", "_") for instrument in TABLE for label in instrument.labels} | OF_PROMETHEUS
BOARDS = pytest.mark.parametrize(("file", "board"), build.BOARDS.items(), ids=list(build.BOARDS))
RULES = alerts.rules()
PANELS = [(title, query) for board in build.BOARDS.values() for title, query in board.promql()]
QUERIES = PANELS + [(rule["alert"], rule["expr"]) for rule in RULES]
TRACEQL = [one for board in build.BOARDS.values() for one in board.traceql()] + list(traces.SAYINGS.items())
LABELS_OF = {
    name: {label.replace(".", "_") for label in one.labels} | OF_PROMETHEUS
    for one in TABLE
    for name in (one.prometheus, *(f"{one.prometheus}_{part}" for part in ("bucket", "sum", "count")))
}


def panels(board: dict) -> list[dict]:
    """All panels, those in folded rows too."""
    return [one for panel in board["panels"] for one in ([panel, *panel.get("panels", ())])]


@BOARDS
def test_the_committed_dashboard_is_the_generated_one(file: str, board: Board) -> None:
    assert (build.HERE / file).read_text() == build.drawn(board), "run: python -m grafana.build"


def test_the_committed_alert_rules_are_the_generated_ones() -> None:
    assert alerts.FILE.read_text() == alerts.drawn(), "run: python -m grafana.build"


@BOARDS
def test_it_is_tied_to_no_installation(file: str, board: Board) -> None:
    made = json.loads(build.drawn(board))
    shown = [panel for panel in panels(made) if panel["type"] not in ("row", "text")]
    sources = {target["datasource"]["uid"] for panel in shown for target in panel["targets"]}
    asked = {variable["datasource"]["uid"] for variable in made["templating"]["list"] if variable.get("datasource")}

    assert made.get("id") is None
    assert sources <= {"${datasource}", "${tempo}"}
    assert asked <= {"${datasource}"}
    assert (made["uid"], made["schemaVersion"] >= 36) == (board.uid, True)
    assert len({panel["title"] for panel in panels(made)}) == len(panels(made))
    assert all(panel["description"] for panel in shown)
    assert all(panel["targets"] for panel in shown)


@BOARDS
def test_the_variables_that_are_used_are_there(file: str, board: Board) -> None:
    text = build.drawn(board)
    made = {variable["name"] for variable in json.loads(text)["templating"]["list"]}
    used = set(re.findall(r"\$(?:\{)?([a-z]+)\b", text)) - {"__data"}

    assert used <= made
    assert made - used == set()


@BOARDS
def test_the_sdk_reads_what_it_wrote(file: str, board: Board) -> None:
    from grafana_foundation_sdk.models.dashboard import (
        Dashboard,
    )  # `build` has silenced what it says when it is first read

    made = json.loads(build.drawn(board))
    again = json.loads(build.JSONEncoder(sort_keys=True, indent=2).encode(Dashboard.from_json(made)))
    ids = [panel["id"] for panel in panels(made)]

    assert again == made
    assert len(set(ids)) == len(ids)


def test_panels_do_not_overlap() -> None:
    for board in build.BOARDS.values():
        taken: set[tuple[int, int]] = set()
        for panel in json.loads(build.drawn(board))["panels"]:
            at = panel["gridPos"]
            cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
            assert not cells & taken, panel["title"]
            assert at["x"] + at["w"] <= 24
            taken |= cells


@pytest.mark.parametrize(("title", "expression"), QUERIES)
def test_what_is_queried_exists(title: str, expression: str) -> None:
    names = metric_names(expression)

    assert names <= SCRAPED
    assert names or re.search(r"\bup\{|\bscrape_\w+\{|__name__", expression)
    for name in names:  # each label of an expression about one metric is one of that metric
        assert label_names(expression) <= (LABELS_OF[name] if len(names) == 1 else LABELS)


@pytest.mark.parametrize("name", ["guardproxy_no_such_total", "guardproxy_session_turns"])
def test_a_wrong_name_would_be_found(name: str) -> None:
    assert not metric_names(f"sum by (le) (rate({name}[5m]))") <= SCRAPED


def test_every_metric_is_shown_or_alerted_on() -> None:
    used = {name for _, query in QUERIES for name in metric_names(query)}
    unseen = [
        one.name
        for one in TABLE
        if not {one.prometheus, *(f"{one.prometheus}_{part}" for part in ("bucket", "sum", "count"))} & used
    ]

    assert set(unseen) - LATEST == {
        "gen_ai.client.token.usage",  # for the dashboards of others; ours is guardproxy.tokens
        "gen_ai.invoke_agent.inference_calls",
        "gen_ai.invoke_agent.tool_calls",
    }


@pytest.mark.parametrize(("title", "query"), TRACEQL)
def test_trace_queries_name_attributes_that_spans_have(title: str, query: str) -> None:
    names = set(re.findall(r"\b(?:span|resource)\.([\w.]+)", query))

    assert names <= semconv.SPAN_ATTRIBUTES
    assert names or "name =~" in query
    assert not re.search(r">>|<<|\bcount\(\)|[^\d]\.\d", query)  # one block only; the grammar wants 0.5


def test_each_alert_says_who_is_woken_and_where_to_look() -> None:
    uids = {board.uid for board in build.BOARDS.values()}
    names = [rule["alert"] for rule in RULES]

    assert len(names) == len(set(names))
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
        found = re.findall(r"/d/([\w-]+)", rule["annotations"].get("dashboard", ""))
        assert set(found) <= uids
        used = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert used <= label_names(rule["expr"]) | {"guardproxy_budget_dimension", "guardproxy_org_id"} | {
            "guardproxy_team_id",
            "guardproxy_budget_window",
        }


def test_grafanas_rules_are_the_same_alerts() -> None:
    (group,) = yaml.safe_load(alerts.FILE.read_text())["groups"]
    made = group["rules"]

    assert [one["title"] for one in made] == [rule["alert"] for rule in RULES]
    assert [one["for"] for one in made] == [rule.get("for", "0s") for rule in RULES]
    assert len({one["uid"] for one in made}) == len(made)
    assert all(re.fullmatch(r"[a-z-]{4,40}", one["uid"]) for one in made)
    assert all(one["condition"] in {step["refId"] for step in one["data"]} for one in made)


def test_the_provisioned_sources_open_traces() -> None:
    file = alerts.DEPLOY / "grafana/provisioning/datasources/guardproxy.yaml"
    prometheus, tempo = yaml.safe_load(file.read_text())["datasources"]
    to_metrics = tempo["jsonData"]["tracesToMetrics"]

    assert prometheus["uid"] == to_metrics["datasourceUid"] == alerts.SOURCE
    assert {one["datasourceUid"] for one in prometheus["jsonData"]["exemplarTraceIdDestinations"]} == {tempo["uid"]}
    assert {one["key"] for one in to_metrics["tags"]} <= semconv.SPAN_ATTRIBUTES
    assert {one["key"].replace(".", "_") for one in to_metrics["tags"]} == {one["value"] for one in to_metrics["tags"]}
    for query in to_metrics["queries"]:
        assert metric_names(query["query"].replace("$$__tags", "")) <= SCRAPED
        assert "{$$__tags}" in query["query"]


def test_all_dashboards_are_mounted() -> None:
    assert "- ../grafana:/etc/grafana/dashboards:ro\n" in (alerts.DEPLOY / "compose.yaml").read_text()
