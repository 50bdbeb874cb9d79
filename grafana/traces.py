"""TraceQL of the dashboards. One span at a time: a run's spans lie in several blocks, and structural operators see one.

The numbers of runs come from metrics: a search finds the newest, not all.
"""

from __future__ import annotations

RUN = 'name =~ "(invoke_agent|guardproxy.session).*"'
"""The span of a whole run."""

PICKED = 'span.guardproxy.org.id =~ "$org" && (span.gen_ai.agent.name =~ "$agent" || span.gen_ai.agent.name = nil)'
"""What the variables pick. A pattern never matches what is absent: runs whose agent has no name are always shown."""

CUT_OFF = (
    f'{{ {RUN} && span.guardproxy.outcome =~ "finalized|cut|denied" && {PICKED} }}'
    " | select(span.guardproxy.session.id, span.gen_ai.agent.name, span.guardproxy.outcome, span.guardproxy.rule,"
    " span.guardproxy.session.turns, span.guardproxy.session.tool_calls, span.guardproxy.session.cost_usd)"
)
"""Runs that guardproxy ended."""

REPEATED = (
    f"{{ {PICKED} && span.guardproxy.tool.repeat_count >= 3 }}"
    " | select(span.guardproxy.session.id, span.gen_ai.tool.name, span.guardproxy.tool.repeat_count,"
    " span.guardproxy.rule, span.guardproxy.tool.outcome)"
)
"""Tool calls that a rule counts as repetition."""

DONE = (
    f'{{ {PICKED} && name =~ "guardproxy.intervene.*" }}'
    " | select(span.guardproxy.session.id, span.guardproxy.action, span.guardproxy.rule, span.guardproxy.mode,"
    " span.guardproxy.count, span.gen_ai.tool.name)"
)
"""What was done to runs, or in observe mode would have been."""

ONE_RUN = (
    '{ span.guardproxy.session.id = "$session" }'
    " | select(span.guardproxy.turn, span.guardproxy.action, span.guardproxy.rule, span.guardproxy.outcome,"
    " span.gen_ai.tool.name, span.guardproxy.tool.repeat_count, span.gen_ai.usage.output_tokens)"
)
"""Everything of one run."""

DEAR = (
    f'{{ {RUN} && span.guardproxy.session.cost_usd > 1.0 && span.guardproxy.org.id =~ "$org" }}'
    " | select(span.guardproxy.session.id, span.gen_ai.agent.name, span.guardproxy.outcome,"
    " span.guardproxy.session.turns, span.guardproxy.session.cost_usd)"
)
"""Runs that cost more than a dollar."""

FAILED = (
    '{ span.gen_ai.operation.name = "chat" && span.error.type != nil }'
    " | select(span.guardproxy.session.id, span.gen_ai.request.model, span.error.type, span.server.address)"
)
"""Model calls that failed."""

SAYINGS = {
    "what was done, by action": "{ span.guardproxy.action != nil } | rate() by (span.guardproxy.action)",
    "runs by outcome": f"{{ {RUN} }} | count_over_time() by (span.guardproxy.outcome)",
    "model calls": '{ span.gen_ai.operation.name = "chat" } | quantile_over_time(duration, 0.5, 0.95)'
    " by (span.gen_ai.request.model)",
    "long runs": '{ name =~ "invoke_agent.*" && duration > 30m }',
    "what repeats": '{ span.gen_ai.operation.name = "execute_tool" && span.guardproxy.tool.repeat_count >= 3 }'
    " | rate() by (span.gen_ai.tool.name) | topk(10)",
}
"""For whoever searches by hand; in docs/metrics.md."""
