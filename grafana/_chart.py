"""A panel as data, and the handful of query shapes that all of them are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ORG = 'guardproxy_org_id=~"$org"'
"""What the variable of the same name picks."""
AGENT = 'gen_ai_agent_name=~"$agent"'
"""What the variable of the same name picks."""
MODEL = 'gen_ai_request_model=~"$model"'
"""What the variable of the same name picks."""
ENDED_BY_US = 'guardproxy_outcome=~"finalized|cut|denied"'
"""Runs that guardproxy cut off; the others ended by themselves."""


@dataclass(frozen=True)
class Chart:
    """A panel. `queries` are (PromQL, legend), or (TraceQL, "") of kind traces; `text` says why it is there.

    `kind`: stat, lines, bars, share (bars of percents), top (table of one query, whose numbers are called `column`),
    table (columns of several), heatmap, traces, words (`text` is the panel). `width` in columns of 24. `links`: (column
    of a table, title, url) to click on. `exemplars`: dots that open the trace behind a value. `red`: from which value
    on it is shown in red.
    """

    title: str
    kind: str
    queries: tuple[tuple[str, str], ...]
    text: str
    unit: str = "short"
    width: int = 8
    height: int = 8
    links: tuple[tuple[str, str, str], ...] = ()
    exemplars: bool = False
    column: str = "count"
    red: float | None = None


@dataclass(frozen=True)
class Board:
    """A dashboard: its rows by title, and the variables it has beside the data sources (see `build`).

    `folded`: rows that are closed when it is opened. `traces`: whether any panel asks Tempo.
    """

    uid: str
    title: str
    text: str
    rows: Mapping[str, tuple[Chart, ...]]
    variables: tuple[str, ...] = ()
    folded: frozenset[str] = frozenset()
    traces: bool = False

    @property
    def charts(self) -> list[Chart]:
        """All panels, in their order."""
        return [chart for charts in self.rows.values() for chart in charts]

    def promql(self) -> list[tuple[str, str]]:
        """(title, expression) of every PromQL query, with Grafana's macros and variables still in it."""
        return [(one.title, query) for one in self.charts if one.kind != "traces" for query, _ in one.queries]

    def traceql(self) -> list[tuple[str, str]]:
        """(title, query) of every TraceQL query."""
        return [(one.title, query) for one in self.charts if one.kind == "traces" for query, _ in one.queries]


def figure(title: str, query: str, text: str, unit: str = "short", red: float | None = None) -> Chart:
    """One number, a sixth of the width."""
    return Chart(title, "stat", ((query, ""),), text, unit, width=4, height=4, red=red)


def braces(*where: str) -> str:
    """A selector of labels, or nothing."""
    said = ",".join(one for one in where if one)
    return f"{{{said}}}" if said else ""


def per_interval(metric: str, by: str, *where: str) -> str:
    """How much a counter rose in each interval of the graph, by a label."""
    return f"sum by ({by}) (increase({metric}{braces(*where)}[$__rate_interval]))"


def per_second(metric: str, by: str, *where: str) -> str:
    """How fast a counter rises, by a label."""
    return f"sum by ({by}) (rate({metric}{braces(*where)}[$__rate_interval]))"


def or_zero(expression: str) -> str:
    """0 where nothing was counted yet: a metric of something rare is not there before it happens."""
    return f"({expression} or vector(0))"


def in_range(metric: str, *where: str) -> str:
    """How much a counter rose in the time range shown; 0 instead of nothing."""
    return or_zero(f"sum(increase({metric}{braces(*where)}[$__range]))")


def share(metric: str, part: str, *where: str) -> str:
    """The part of a counter's rise that is `part`, from 0 to 1."""
    return f"{in_range(metric, *where, part)} / clamp_min({in_range(metric, *where)}, 1)"


def top(metric: str, by: str, *where: str) -> str:
    """The label sets with the largest rise in the time range shown."""
    return f"topk(20, sum by ({by}) (increase({metric}{braces(*where)}[$__range])) > 0)"


def quantile(part: float, metric: str, by: str = "", *where: str) -> str:
    """A quantile of a histogram over each interval."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({part}, sum by ({labels}) (rate({metric}_bucket{braces(*where)}[$__rate_interval])))"


def quantiles(metric: str, by: str = "", *where: str) -> tuple[tuple[str, str], ...]:
    """The middle and the tail, with legends."""
    legend = f"{{{{{by}}}}} " if by else ""
    return tuple(
        (quantile(part, metric, by, *where), f"{legend}{name}") for part, name in ((0.5, "half"), (0.99, "99 %"))
    )


def mean(metric: str, *where: str) -> str:
    """The mean of a histogram over the time range shown; nothing where nothing was observed."""
    both = (f"sum(increase({metric}_{part}{braces(*where)}[$__range]))" for part in ("sum", "count"))
    return " / ".join(both)


def heat(metric: str, *where: str) -> str:
    """A histogram as a heat map wants it."""
    return f"sum by (le) (increase({metric}_bucket{braces(*where)}[$__rate_interval]))"


def legend(*labels: str) -> str:
    """The values of labels, one beside the other."""
    return " ".join(f"{{{{{label}}}}}" for label in labels)


def metric_names(expression: str) -> set[str]:
    """Names in an expression that could be ours."""
    bare = re.sub(r"\{[^}]*\}|(?:by|without|on|ignoring|group_left) ?\([^)]*\)", "", expression)
    return set(re.findall(r"\b(?:guardproxy|gen_ai|http)_\w+", bare))


def label_names(expression: str) -> set[str]:
    """Label names in selectors and groupings."""
    selectors = " ".join(re.findall(r"\{([^}]*)\}", expression))
    groupings = ",".join(re.findall(r"(?:by|without|on|ignoring|group_left) ?\(([^)]*)\)", expression))
    return set(re.findall(r"(\w+)\s*[=!]", re.sub(r'"[^"]*"', "", selectors))) | set(re.findall(r"\w+", groupings))


def filled(expression: str, values: Iterable[tuple[str, str]] = ()) -> str:
    """The expression as Grafana sends it, with everything picked."""
    usual = (("$__rate_interval", "10s"), ("$__range", "1m"), ("$org", ".*"), ("$agent", ".*"), ("$model", ".*"))
    for name, value in (*values, *usual, ("$turns", "10"), ("$session", "s-1")):
        expression = expression.replace(name, value)
    return expression
