"""*Spend and budgets*: who spends what on which model, how budgets stand, when they will be gone, what loops cost."""

from __future__ import annotations

from grafana import traces
from grafana._chart import (
    ENDED_BY_US,
    MODEL,
    ORG,
    Board,
    Chart,
    braces,
    figure,
    in_range,
    legend,
    or_zero,
    per_interval,
    top,
)

COST, TOKENS = "guardproxy_cost_usd_total", "guardproxy_tokens_total"
BUDGET = "guardproxy_org_id, guardproxy_team_id, guardproxy_budget_scope, guardproxy_budget_dimension,"
BUDGET += " guardproxy_budget_window"
BY_BUDGET = f"max by ({BUDGET})"
NAMED = legend(
    "guardproxy_org_id",
    "guardproxy_team_id",
    "guardproxy_budget_scope",
    "guardproxy_budget_dimension",
    "guardproxy_budget_window",
)
USED, LIMIT = f"{BY_BUDGET} (guardproxy_budget_used{{{ORG}}})", f"{BY_BUDGET} (guardproxy_budget_limit{{{ORG}}})"
SPEED = f"{BY_BUDGET} (deriv(guardproxy_budget_used{{{ORG}}}[1h]))"
LEFT = f"(({BY_BUDGET} (guardproxy_budget_window_end_seconds{{{ORG}}})) - time() > 0)"


def _of_type(kind: str) -> str:
    where = braces(ORG, MODEL, f'guardproxy_token_type="{kind}"')
    rise = f"increase({TOKENS}{where}[$__range])"
    return f"sum by (gen_ai_request_model) ({rise})"


NOW = (
    figure("Cost", in_range(COST, ORG, MODEL), "Spent upstream.", unit="currencyUSD"),
    figure(
        "Cost an hour",
        or_zero(f"sum(rate({COST}{{{ORG},{MODEL}}}[$__range])) * 3600"),
        "The mean of the range.",
        unit="currencyUSD",
    ),
    figure("Input tokens", in_range(TOKENS, ORG, MODEL, 'guardproxy_token_type="input"'), "Cached ones are in it."),
    figure(
        "Output tokens", in_range(TOKENS, ORG, MODEL, 'guardproxy_token_type="output"'), "Those of reasoning are in it."
    ),
    figure(
        "Cost of runs cut off",
        in_range("guardproxy_session_cost_usd_sum", ENDED_BY_US),
        "What they had spent by then, of all organisations: the price of loops and of budgets that were too small.",
        unit="currencyUSD",
    ),
    figure(
        "Returned of background answers",
        in_range("guardproxy_background_returned_usd_total"),
        "Charged as they were held, and given back once they were fetched: not in the cost of the time before.",
        unit="currencyUSD",
    ),
    figure(
        "Background answers",
        in_range("guardproxy_background_total"),
        "Charged, or settled, of all organisations.",
    ),
    figure(
        "Denied",
        in_range("guardproxy_budget_rejections_total"),
        "Requests without room in a budget, of all organisations.",
    ),
)

SPEND = (
    Chart(
        "Cost by organisation",
        "bars",
        ((per_interval(COST, "guardproxy_org_id", ORG, MODEL), legend("guardproxy_org_id")),),
        "Dollars in each interval.",
        unit="currencyUSD",
    ),
    Chart(
        "Cost by team",
        "bars",
        ((per_interval(COST, "guardproxy_team_id", ORG, MODEL), legend("guardproxy_team_id")),),
        "Dollars in each interval; without a name: keys of no team.",
        unit="currencyUSD",
    ),
    Chart(
        "Cost by model",
        "bars",
        ((per_interval(COST, "gen_ai_request_model", ORG, MODEL), legend("gen_ai_request_model")),),
        "Dollars in each interval.",
        unit="currencyUSD",
    ),
    Chart(
        "Who spends most",
        "top",
        ((top(COST, "guardproxy_org_id, guardproxy_team_id, gen_ai_request_model", ORG, MODEL), ""),),
        "In the time range. Keys and users are in no metric: guardproxy usage has them.",
        unit="currencyUSD",
        width=12,
        column="cost",
    ),
    Chart(
        "Dear runs",
        "traces",
        ((traces.DEAR, ""),),
        "The newest runs that cost more than a dollar.",
        width=12,
    ),
)

TOKEN = (
    Chart(
        "Tokens by type",
        "bars",
        ((per_interval(TOKENS, "guardproxy_token_type", ORG, MODEL), legend("guardproxy_token_type")),),
        "cache_read and cache_write are parts of input, reasoning is a part of output.",
    ),
    Chart(
        "Tokens by model",
        "bars",
        (
            (
                per_interval(TOKENS, "gen_ai_request_model", ORG, MODEL, 'guardproxy_token_type=~"input|output"'),
                legend("gen_ai_request_model"),
            ),
        ),
        "Input and output.",
    ),
    Chart(
        "Share of input from a cache",
        "lines",
        (
            (
                f"{_of_type('cache_read')} / {_of_type('input')}",
                legend("gen_ai_request_model"),
            ),
        ),
        "A fall means that prefixes change: a prompt with a clock in it, or a gateway that reorders tools.",
        unit="percentunit",
    ),
    Chart(
        "Models without a price",
        "top",
        ((top("guardproxy_prices_unknown_total", "gen_ai_request_model"), ""),),
        "Counted with prices.unknown: alert. They are charged at prices.default.",
    ),
)

BUDGETS = (
    Chart(
        "Used of each budget",
        "share",
        ((f"{USED} / ({LIMIT} > 0)", NAMED),),
        "Of organisations and teams; those of keys and users: guardproxy budgets list.",
        unit="percentunit",
        width=12,
        red=0.9,
    ),
    Chart(
        "At this speed, used when the window ends",
        "share",
        ((f"({USED} + clamp_min({SPEED}, 0) * {LEFT}) / ({LIMIT} > 0)", NAMED),),
        "At the speed of the last hour. Above 100 %: it will not last.",
        unit="percentunit",
        width=12,
        red=1.0,
    ),
    Chart(
        "Limits",
        "table",
        ((LIMIT, "limit"), (USED, "used"), (f"({LIMIT} - {USED}) / ({SPEED} > 0)", "seconds left")),
        "In the unit of each: dollars, tokens, requests. Seconds left: at the speed of the last hour.",
        width=12,
    ),
    Chart(
        "Denied, by budget",
        "bars",
        (
            (
                per_interval(
                    "guardproxy_budget_rejections_total", "guardproxy_budget_scope, guardproxy_budget_dimension"
                ),
                legend("guardproxy_budget_scope", "guardproxy_budget_dimension"),
            ),
        ),
        "Requests without room. span and session are limits of runs, the others budgets of tenants.",
        width=12,
    ),
)

BOARD = Board(
    "guardproxy-spend",
    "guardproxy: spend and budgets",
    "What agents cost, by organisation, team and model; how budgets stand and when they will be gone.",
    {"Now": NOW, "Spend": SPEND, "Budgets": BUDGETS, "Tokens": TOKEN},
    variables=("org", "model"),
    traces=True,
)
"""The dashboard."""
