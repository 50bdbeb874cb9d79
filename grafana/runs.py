"""*Runs*: which runs are cut off and why, what was done about loops, how long and how dear runs are.

Read from the top by whoever was paged: how many, whose and by which rule; then one of them; then letting it go on.
"""

from __future__ import annotations

from grafana import traces
from grafana._chart import (
    AGENT,
    ENDED_BY_US,
    ORG,
    Board,
    Chart,
    figure,
    heat,
    in_range,
    legend,
    mean,
    or_zero,
    per_interval,
    quantile,
    share,
    top,
)

SESSIONS, INTERVENTIONS = "guardproxy_sessions_total", "guardproxy_interventions_total"
LOOPS = 'guardproxy_outcome=~"finalized|cut",guardproxy_rule!~"budget.*|operator"'
OUTCOME = "guardproxy_outcome"

TURNS_SAVED = 6
"""Half of 62 recorded loops that a person had marked went on for 6 more calls or longer, a quarter for 12."""

SAME = "/d/guardproxy-runs?${datasource:queryparam}&${tempo:queryparam}&${org:queryparam}&${__url_time_range}"
"""This dashboard with what is picked; the rest of the address picks more."""
TO_AGENT = SAME + "&var-agent=${__value.raw:percentencode}"
TO_SESSION = SAME + "&${agent:queryparam}&var-session=${__value.raw:percentencode}"
THIS_RUN = (("guardproxy.session.id", "Show this run below", TO_SESSION),)

GO_ON = """\
Pick a run above: its id is put into *Run*, and the panels below show it. Then, where guardproxy runs (with the
`--config` or `--data-dir` of its `serve`; another org: `--org NAME`):

| to | type |
|---|---|
| see it turn by turn, with the reason and what the model was told | `guardproxy trace '$session'` |
| see how it stands, and who did what | `guardproxy sessions show '$session'` |
| let it go on: it was paused, or no loop | `guardproxy sessions resume '$session' --why "…"` |
| say that the rule was wrong, for this agent, for 7 d | `guardproxy false-alarm '$session' --scope agent --note "…"` |
| raise the limit that ended it | `guardproxy sessions extend '$session' --turns 50 --cost 5` |
| stop every intervention of this proxy, now | `guardproxy panic on` |

It goes on with the next request that its agent sends. A run that is *finalized* was only made to answer: with the next
message of its user it goes on by itself.
"""

_COST_OF_A_TURN = (
    'sum(increase(guardproxy_session_cost_usd_sum{guardproxy_outcome=~"finalized|cut"}[$__range]))'
    ' / clamp_min(sum(increase(guardproxy_session_turns_sum{guardproxy_outcome=~"finalized|cut"}[$__range])), 1)'
)

NOW = (
    figure(
        "Cut off",
        in_range(SESSIONS, ORG, AGENT, ENDED_BY_US),
        "Runs that guardproxy ended: made to answer (finalized), cut as a loop, denied by a budget.",
    ),
    figure(
        "Share cut off",
        share(SESSIONS, ENDED_BY_US, ORG, AGENT),
        "Of the runs that ended. A sudden rise is a change in an agent, in a model or in the policy.",
        unit="percentunit",
        red=0.3,
    ),
    figure(
        "Runs ended",
        in_range(SESSIONS, ORG, AGENT),
        "All runs that ended. One that nobody ended counts a quarter of an hour after its last turn.",
    ),
    figure(
        "Active",
        or_zero('max(guardproxy_sessions_active{guardproxy_state="active"})'),
        "Runs with a turn in the last quarter of an hour, of all organisations. Every replica says the same number.",
    ),
    figure(
        "Waiting for people",
        or_zero('sum(max by (guardproxy_state) (guardproxy_sessions_active{guardproxy_state!="active"}))'),
        "Paused, with a question, or waiting for a late result. guardproxy sessions list names them.",
    ),
    figure(
        "Not spent, by estimate",
        or_zero(f"sum(increase({SESSIONS}{{{ORG},{AGENT},{LOOPS}}}[$__range])) * $turns * {_COST_OF_A_TURN}"),
        "Runs ended as loops, times the cost of a turn of such runs, times the turns that a loop would have gone on: "
        "*Turns saved*, which you may set (half of the loops that we have recordings of went on for 6 or more).",
        unit="currencyUSD",
    ),
)

WHICH = (
    Chart(
        "Cut off, by agent and rule",
        "top",
        (
            (
                top(SESSIONS, "gen_ai_agent_name, guardproxy_outcome, guardproxy_rule", ORG, AGENT, ENDED_BY_US),
                "",
            ),
        ),
        "Whose runs, and which rule ended them. A click on an agent picks it. Rules: docs/detectors.md.",
        width=12,
        links=(("gen_ai_agent_name", "Only this agent", TO_AGENT),),
        column="runs",
    ),
    Chart(
        "Cut off over time, by rule",
        "bars",
        ((per_interval(SESSIONS, "guardproxy_rule", ORG, AGENT, ENDED_BY_US), legend("guardproxy_rule")),),
        "When it began, and whether it is one rule or all: one rule is one kind of loop.",
        width=12,
    ),
    Chart(
        "Runs cut off",
        "traces",
        ((traces.CUT_OFF, ""),),
        "The newest. The trace id opens the trace; the session id shows the run below.",
        width=24,
        height=9,
        links=THIS_RUN,
    ),
)

ONE = (
    Chart("Let a run go on", "words", (), GO_ON, width=24, height=9),
    Chart(
        "The run, turn by turn",
        "traces",
        ((traces.ONE_RUN, ""),),
        "All spans of the run that *Run* names: turns, model calls, tool calls, what was done.",
        width=24,
        height=9,
    ),
)

LOOP = (
    Chart(
        "Top repeating tools",
        "top",
        ((top("guardproxy_tool_repeats_total", "gen_ai_tool_name, guardproxy_rule"), ""),),
        "Calls that a rule counts as repetition, of all agents.",
    ),
    Chart(
        "Repeated calls",
        "traces",
        ((traces.REPEATED, ""),),
        "Calls that were the third of their kind or later; the trace shows the loop.",
        width=16,
        links=THIS_RUN,
    ),
    Chart(
        "Interventions by action and rule",
        "bars",
        (
            (
                per_interval(INTERVENTIONS, "guardproxy_action, guardproxy_rule", ORG, 'guardproxy_mode="enforce"'),
                legend("guardproxy_action", "guardproxy_rule"),
            ),
        ),
        "What was really done, step by step up the ladder: nudge, firm, refuse, finalize, cut.",
    ),
    Chart(
        "Observe and enforce",
        "bars",
        (
            (
                per_interval(INTERVENTIONS, "guardproxy_mode, guardproxy_action", ORG),
                legend("guardproxy_mode", "guardproxy_action"),
            ),
        ),
        "What observe mode would have done, beside what enforce mode did.",
    ),
    Chart(
        "Not spent, at least",
        "bars",
        ((per_interval("guardproxy_saved_usd_total", "guardproxy_mode", ORG), legend("guardproxy_mode")),),
        "What the input of requests would have cost that were answered here; observe: what those cost that enforce "
        "mode would not have sent. The turns that a loop would have gone on for are not in it.",
        unit="currencyUSD",
    ),
    Chart(
        "What was done",
        "traces",
        ((traces.DONE, ""),),
        "The newest interventions of the agents picked; those of observe mode, too.",
        links=THIS_RUN,
    ),
)

SHAPE = (
    Chart(
        "Runs by outcome",
        "bars",
        ((per_interval(SESSIONS, OUTCOME, ORG, AGENT), legend(OUTCOME)),),
        "Runs that ended, by how.",
    ),
    Chart(
        "Turns",
        "stat",
        ((in_range("guardproxy_turns_total", ORG, AGENT), ""),),
        "Turns served in the range; retries and side requests apart.",
        width=4,
    ),
    Chart(
        "Mean cost of a run",
        "stat",
        ((or_zero(mean("guardproxy_session_cost_usd")), ""),),
        "Of all organisations: what a run costs has no label but its outcome.",
        unit="currencyUSD",
        width=4,
    ),
    Chart(
        "Turns by agent",
        "lines",
        ((per_interval("guardproxy_turns_total", "gen_ai_agent_name", ORG, AGENT), legend("gen_ai_agent_name")),),
        "How busy each agent is.",
    ),
    Chart(
        "Turns per run",
        "heatmap",
        ((heat("guardproxy_session_turns"), "{{le}}"),),
        "A tail that grows is a loop that is not yet caught. A dot opens the run's trace.",
        exemplars=True,
    ),
    Chart(
        "Cost per run",
        "heatmap",
        ((heat("guardproxy_session_cost_usd"), "{{le}}"),),
        "Dollars.",
        unit="currencyUSD",
        exemplars=True,
    ),
    Chart(
        "Duration per run",
        "heatmap",
        ((heat("guardproxy_session_duration_seconds"), "{{le}}"),),
        "From a run's first request to its end.",
        unit="s",
        exemplars=True,
    ),
    Chart(
        "Turns per run, by outcome",
        "lines",
        ((quantile(0.95, "guardproxy_session_turns", OUTCOME), f"{legend(OUTCOME)} 95 %"),),
        "Runs that are cut should be shorter than those that finish. A dot opens the run's trace.",
        exemplars=True,
    ),
    Chart(
        "Cost per run, by outcome",
        "lines",
        ((quantile(0.95, "guardproxy_session_cost_usd", OUTCOME), f"{legend(OUTCOME)} 95 %"),),
        "Dollars. A dot opens the run's trace.",
        unit="currencyUSD",
        exemplars=True,
    ),
    Chart(
        "Tool calls per run, by outcome",
        "lines",
        ((quantile(0.95, "guardproxy_session_tool_calls", OUTCOME), f"{legend(OUTCOME)} 95 %"),),
        "A dot opens the run's trace.",
        exemplars=True,
    ),
)

TOOLS = (
    Chart(
        "Tool calls by outcome",
        "bars",
        ((per_interval("guardproxy_tool_calls_total", "guardproxy_tool_outcome"), legend("guardproxy_tool_outcome")),),
        "Calls whose result was seen.",
    ),
    Chart(
        "Failing tools",
        "top",
        ((top("guardproxy_tool_calls_total", "gen_ai_tool_name", 'guardproxy_tool_outcome!="ok"'), ""),),
        "Calls with an error for a result, or without any.",
    ),
    Chart(
        "Tool round trip, 95 %",
        "lines",
        (
            (
                quantile(0.95, "guardproxy_tool_roundtrip_duration_seconds", "gen_ai_tool_name"),
                legend("gen_ai_tool_name"),
            ),
        ),
        "From a call's last byte to its result: an upper bound, the agent's own time is in it.",
        unit="s",
    ),
    Chart(
        "Late tools",
        "top",
        ((top("guardproxy_tool_late_total", "gen_ai_tool_name"), ""),),
        "Calls without a result before the deadline of their tool.",
    ),
    Chart(
        "Results tidied",
        "bars",
        (
            (
                per_interval("guardproxy_hygiene_total", "guardproxy_hygiene, guardproxy_mode"),
                legend("guardproxy_hygiene", "guardproxy_mode"),
            ),
        ),
        "Tool results that were cut, explained or classified on their way to the model.",
    ),
    Chart(
        "Lost answers",
        "bars",
        (
            (
                per_interval("guardproxy_answers_missing_total", "gen_ai_agent_name", ORG, AGENT),
                legend("gen_ai_agent_name"),
            ),
        ),
        "Turns whose client did not append the model's last answer: a bug of that agent.",
    ),
)

CHECKED = (
    Chart(
        "Asked again",
        "bars",
        (
            (
                per_interval("guardproxy_reasks_total", "guardproxy_attempt_reason", ORG),
                legend("guardproxy_attempt_reason"),
            ),
        ),
        "Attempts after the first of a turn: calls refused or mended, answers that failed a check.",
    ),
    Chart(
        "Final answers checked",
        "bars",
        (
            (
                per_interval("guardproxy_verifications_total", "guardproxy_verification", ORG),
                legend("guardproxy_verification"),
            ),
            (
                per_interval("guardproxy_verification_failures_total", "guardproxy_check", ORG),
                f"by {legend('guardproxy_check')}",
            ),
        ),
        "Answers by their verification, and which checks failed.",
    ),
    Chart(
        "Approvals",
        "bars",
        (
            (
                per_interval("guardproxy_approvals_total", "guardproxy_approval_state", ORG),
                legend("guardproxy_approval_state"),
            ),
        ),
        "Asked for (pending), and decided.",
    ),
)

BOARD = Board(
    "guardproxy-runs",
    "guardproxy: runs",
    "Agent runs behind guardproxy: which were cut off and why, what was done about loops, how long and dear they are.",
    {
        "How many": NOW,
        "Whose, and by which rule": WHICH,
        "One run": ONE,
        "Loops, and what was done about them": LOOP,
        "Length and cost of runs": SHAPE,
        "Tools": TOOLS,
        "Calls kept back, answers checked": CHECKED,
    },
    variables=("org", "agent", "turns", "session"),
    traces=True,
)
"""The dashboard."""
