"""What the dashboards show: rows of charts, each with its queries and why it is there. Drawn by `build.py`."""

from __future__ import annotations

import re
from dataclasses import dataclass

ORG = 'guardproxy_org_id=~"$org"'
ENDED_BY_US = 'guardproxy_outcome=~"finalized|cut|denied"'


@dataclass(frozen=True)
class Chart:
    """A panel: `kind` is stat, lines, bars or top; `queries` are (PromQL, legend). `width` in columns of 24."""

    title: str
    kind: str
    queries: tuple[tuple[str, str], ...]
    text: str
    unit: str = "short"
    width: int = 8


def per_interval(metric: str, by: str, where: str = ORG) -> str:
    """How much a counter rose in each interval of the graph, by a label."""
    return f"sum by ({by}) (increase({metric}{{{where}}}[$__rate_interval]))"


def in_range(metric: str, where: str = ORG) -> str:
    """How much a counter rose in the time range shown; 0 instead of nothing."""
    return f"(sum(increase({metric}{{{where}}}[$__range])) or vector(0))"


def share(metric: str, where: str) -> str:
    """The part of a counter's rise that is `where`, from 0 to 1."""
    return f"{in_range(metric, where)} / clamp_min({in_range(metric)}, 1)"


def top(metric: str, by: str) -> str:
    """The ten label sets with the largest rise in the time range shown."""
    return f"topk(10, sum by ({by}) (increase({metric}[$__range])))"


def quantile(part: float, metric: str, by: str = "") -> str:
    """A quantile of a histogram over each interval."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({part}, sum by ({labels}) (rate({metric}_bucket[$__rate_interval])))"


RUNS: dict[str, tuple[Chart, ...]] = {
    "Now": (
        Chart(
            "Runs ended",
            "stat",
            ((in_range("guardproxy_sessions_total"), ""),),
            "Runs that ended in the time range.",
            width=4,
        ),
        Chart(
            "Cut off",
            "stat",
            ((in_range("guardproxy_sessions_total", f"{ORG},{ENDED_BY_US}"), ""),),
            "Runs that guardproxy ended: finalized, cut or denied.",
            width=4,
        ),
        Chart(
            "Share cut off",
            "stat",
            (
                (
                    share("guardproxy_sessions_total", f"{ORG},{ENDED_BY_US}"),
                    "",
                ),
            ),
            "Of the runs that ended. A sudden rise is a change in an agent, in a model or in the policy.",
            unit="percentunit",
            width=4,
        ),
        Chart(
            "Active runs",
            "stat",
            (("max(guardproxy_sessions_active) or vector(0)", ""),),
            "Runs that have not ended. One number for all instances, so the largest is taken.",
            width=4,
        ),
        Chart("Turns", "stat", ((in_range("guardproxy_turns_total"), ""),), "Turns served in the range.", width=4),
        Chart(
            "Cost",
            "stat",
            ((in_range("guardproxy_cost_usd_total"), ""),),
            "Money spent upstream in the range.",
            unit="currencyUSD",
            width=4,
        ),
    ),
    "Runs and what was done to them": (
        Chart(
            "Runs by outcome",
            "bars",
            ((per_interval("guardproxy_sessions_total", "guardproxy_outcome"), "{{guardproxy_outcome}}"),),
            "Runs that ended, by how.",
        ),
        Chart(
            "Interventions by action and rule",
            "bars",
            (
                (
                    per_interval(
                        "guardproxy_interventions_total",
                        "guardproxy_action, guardproxy_rule",
                        f'{ORG},guardproxy_mode="enforce"',
                    ),
                    "{{guardproxy_action}} {{guardproxy_rule}}",
                ),
            ),
            "What was really done.",
        ),
        Chart(
            "Observe and enforce",
            "bars",
            (
                (
                    per_interval("guardproxy_interventions_total", "guardproxy_mode, guardproxy_action"),
                    "{{guardproxy_mode}} {{guardproxy_action}}",
                ),
            ),
            "What observe mode would have done, beside what enforce mode did.",
        ),
    ),
    "Calls kept back, answers checked": (
        Chart(
            "Asked again",
            "bars",
            ((per_interval("guardproxy_reasks_total", "guardproxy_attempt_reason"), "{{guardproxy_attempt_reason}}"),),
            "Attempts after the first of a turn: calls refused or mended, answers that failed a check.",
        ),
        Chart(
            "Final answers checked",
            "bars",
            (
                (
                    per_interval("guardproxy_verifications_total", "guardproxy_verification"),
                    "{{guardproxy_verification}}",
                ),
                (per_interval("guardproxy_verification_failures_total", "guardproxy_check"), "by {{guardproxy_check}}"),
            ),
            "Answers by their verification, and which checks failed.",
        ),
        Chart(
            "Approvals",
            "bars",
            (
                (
                    per_interval("guardproxy_approvals_total", "guardproxy_approval_state"),
                    "{{guardproxy_approval_state}}",
                ),
            ),
            "Asked for (pending), and decided.",
        ),
        Chart(
            "Results tidied",
            "bars",
            (
                (
                    per_interval(
                        "guardproxy_hygiene_total", "guardproxy_hygiene, guardproxy_mode", 'guardproxy_mode!="off"'
                    ),
                    "{{guardproxy_hygiene}} {{guardproxy_mode}}",
                ),
            ),
            "Tool results that were cut, explained or classified on their way to the model.",
        ),
        Chart(
            "Late tools",
            "top",
            ((top("guardproxy_tool_late_total", "gen_ai_tool_name"), "{{gen_ai_tool_name}}"),),
            "Calls without a result before the deadline of their tool.",
        ),
        Chart(
            "Lost answers",
            "bars",
            ((per_interval("guardproxy_answers_missing_total", "gen_ai_agent_name"), "{{gen_ai_agent_name}}"),),
            "Turns whose client did not append the model's last answer: a bug of that agent.",
        ),
    ),
    "How long and how dear runs are": (
        Chart(
            "Turns per run",
            "lines",
            (
                (quantile(0.5, "guardproxy_session_turns"), "half of the runs"),
                (quantile(0.95, "guardproxy_session_turns"), "95 %"),
            ),
            "A tail that grows is a loop that is not yet caught.",
        ),
        Chart(
            "Cost per run",
            "lines",
            (
                (quantile(0.5, "guardproxy_session_cost_usd"), "half of the runs"),
                (quantile(0.95, "guardproxy_session_cost_usd"), "95 %"),
            ),
            "Dollars, from the buckets of a histogram.",
            unit="currencyUSD",
        ),
        Chart(
            "Duration of runs by outcome",
            "lines",
            (
                (
                    quantile(0.95, "guardproxy_session_duration_seconds", "guardproxy_outcome"),
                    "{{guardproxy_outcome}} 95 %",
                ),
            ),
            "From a run's first request to its end.",
            unit="s",
        ),
    ),
    "Tools": (
        Chart(
            "Top repeating tools",
            "top",
            (
                (
                    top("guardproxy_tool_repeats_total", "gen_ai_tool_name, guardproxy_rule"),
                    "",
                ),
            ),
            "Calls that a rule counts as repetition.",
        ),
        Chart(
            "Tool calls by outcome",
            "bars",
            (
                (
                    per_interval("guardproxy_tool_calls_total", "guardproxy_tool_outcome", ""),
                    "{{guardproxy_tool_outcome}}",
                ),
            ),
            "Calls whose result was seen.",
        ),
        Chart(
            "Tool round trip, 95 %",
            "lines",
            (
                (
                    quantile(0.95, "guardproxy_tool_roundtrip_duration_seconds", "gen_ai_tool_name"),
                    "{{gen_ai_tool_name}}",
                ),
            ),
            "From a call's last byte to its result: an upper bound, the agent's own time is in it.",
            unit="s",
        ),
    ),
    "The proxy itself": (
        Chart(
            "Overhead",
            "lines",
            tuple(
                (
                    quantile(part, "guardproxy_overhead_duration_seconds", "guardproxy_phase"),
                    f"{{{{guardproxy_phase}}}} {name}",
                )
                for part, name in ((0.5, "half"), (0.99, "99 %"))
            ),
            "guardproxy's own share of a turn, store included.",
            unit="s",
        ),
        Chart(
            "Store trips, 99 %",
            "lines",
            (
                (
                    quantile(0.99, "guardproxy_store_operation_duration_seconds", "guardproxy_store_operation"),
                    "{{guardproxy_store_operation}}",
                ),
            ),
            "Two trips a turn.",
            unit="s",
        ),
        Chart(
            "Model calls, 95 %",
            "lines",
            (
                (
                    quantile(0.95, "gen_ai_client_operation_duration_seconds", "gen_ai_request_model"),
                    "{{gen_ai_request_model}}",
                ),
            ),
            "Time of one upstream attempt.",
            unit="s",
        ),
    ),
}
"""Rows of the *Runs* dashboard."""

CUT_OFF_RUNS = (
    '{ name =~ "(invoke_agent|guardproxy.session).*" && span.guardproxy.outcome =~ "finalized|cut|denied" }'
    " | select(span.guardproxy.session.id, span.guardproxy.outcome, span.guardproxy.rule,"
    " span.guardproxy.session.turns, span.guardproxy.session.cost_usd, span.gen_ai.agent.name)"
)
"""TraceQL, one span at a time: a run's spans lie in several blocks, and structural operators see only one."""


def expressions() -> list[str]:
    """Every PromQL expression of the dashboard, with Grafana's macros still in it."""
    return [expression for charts in RUNS.values() for chart in charts for expression, _ in chart.queries]


def metric_names(expression: str) -> set[str]:
    """Names in an expression that could be ours."""
    bare = re.sub(r"\{[^}]*\}|by \([^)]*\)", "", expression)
    return set(re.findall(r"\b(?:guardproxy|gen_ai|http)_\w+", bare))
