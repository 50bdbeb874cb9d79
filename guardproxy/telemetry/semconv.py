"""Names of span attributes and metric labels, in one place.

Kept by hand: the Python package of OpenTelemetry marks every `gen_ai.*` name deprecated ("moved") and lacks the newer
ones. GenAI names follow semantic-conventions-genai v0.1.0, HTTP names the stable conventions. `guardproxy.*` names use
the project's own words (rule, action, mode, outcome). A span has no attribute that is not in `SPAN_ATTRIBUTES`.
"""

from __future__ import annotations

from typing import Final

SCOPE: Final = "guardproxy"
"""Instrumentation scope of everything we emit."""

OTHER: Final = "_other"
"""What a label value becomes once its label has taken as many values as it may."""

ERROR_TYPE: Final = "error.type"
PEER_SERVICE: Final = "peer.service"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
SESSION_ID: Final = "session.id"
USER: Final = "user.id"

HTTP_METHOD: Final = "http.request.method"
HTTP_ROUTE: Final = "http.route"
HTTP_STATUS: Final = "http.response.status_code"

GEN_AI_AGENT: Final = "gen_ai.agent.name"
GEN_AI_CONVERSATION: Final = "gen_ai.conversation.id"
GEN_AI_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
GEN_AI_OPERATION: Final = "gen_ai.operation.name"
GEN_AI_PROVIDER: Final = "gen_ai.provider.name"
GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
GEN_AI_REQUEST_STREAM: Final = "gen_ai.request.stream"
GEN_AI_RESPONSE_ID: Final = "gen_ai.response.id"
GEN_AI_RESPONSE_MODEL: Final = "gen_ai.response.model"
GEN_AI_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
GEN_AI_TOKEN_MODALITY: Final = "gen_ai.token.modality"
GEN_AI_TOKEN_TYPE: Final = "gen_ai.token.type"
GEN_AI_TOOL: Final = "gen_ai.tool.name"
GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
GEN_AI_TOOL_TYPE: Final = "gen_ai.tool.type"
GEN_AI_INPUT: Final = "gen_ai.usage.input_tokens"
GEN_AI_OUTPUT: Final = "gen_ai.usage.output_tokens"
GEN_AI_CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
GEN_AI_CACHE_WRITE: Final = "gen_ai.usage.cache_write.input_tokens"
GEN_AI_REASONING: Final = "gen_ai.usage.reasoning.output_tokens"

ACTION: Final = "guardproxy.action"
APPROVAL: Final = "guardproxy.approval.id"
APPROVAL_STATE: Final = "guardproxy.approval.state"
ATTEMPT: Final = "guardproxy.upstream.attempt"
ATTEMPT_REASON: Final = "guardproxy.attempt.reason"
COST: Final = "guardproxy.cost_usd"
COUNT: Final = "guardproxy.count"
DEGRADED: Final = "guardproxy.degraded"
DIMENSION: Final = "guardproxy.budget.dimension"
EDITS: Final = "guardproxy.edits"
ESTIMATED: Final = "guardproxy.usage.estimated"
EXEMPTED: Final = "guardproxy.exempted"
FAILED_CHECKS: Final = "guardproxy.verification.failed_checks"
FP_CALL: Final = "guardproxy.fingerprint.tool_arguments"
FP_RESULT: Final = "guardproxy.fingerprint.tool_result"
KEY: Final = "guardproxy.key.id"
HYGIENE: Final = "guardproxy.hygiene"
LABELS: Final = "guardproxy.labels"
LIMIT: Final = "guardproxy.budget.limit"
LINK_TYPE: Final = "guardproxy.link.type"
MISSING: Final = "guardproxy.answer_missing"
MODE: Final = "guardproxy.mode"
ORG: Final = "guardproxy.org.id"
OUTCOME: Final = "guardproxy.outcome"
POLICY: Final = "guardproxy.policy"
OVERHEAD: Final = "guardproxy.overhead"
REPEAT_COUNT: Final = "guardproxy.tool.repeat_count"
RETRY: Final = "guardproxy.retry"
RULE: Final = "guardproxy.rule"
SCOPE_OF_BUDGET: Final = "guardproxy.budget.scope"
SESSION: Final = "guardproxy.session.id"
SEGMENT: Final = "guardproxy.session.segment"
SESSION_COST: Final = "guardproxy.session.cost_usd"
SESSION_INPUT: Final = "guardproxy.session.input_tokens"
SESSION_INTERVENTIONS: Final = "guardproxy.session.interventions"
SESSION_OUTPUT: Final = "guardproxy.session.output_tokens"
SESSION_TOOL_CALLS: Final = "guardproxy.session.tool_calls"
SESSION_TURNS: Final = "guardproxy.session.turns"
SPARED: Final = "guardproxy.spared"
SYNTHETIC: Final = "guardproxy.synthetic"
STATE: Final = "guardproxy.state"
TEAM: Final = "guardproxy.team.id"
THREAD: Final = "guardproxy.thread.id"
TOOL_LATE: Final = "guardproxy.tool.late"
TOOL_OUTCOME: Final = "guardproxy.tool.outcome"
TOOL_TIMING: Final = "guardproxy.tool.timing"
TURN: Final = "guardproxy.turn"
UPSTREAM: Final = "guardproxy.upstream.name"
VERIFICATION: Final = "guardproxy.verification"

PHASE: Final = "guardproxy.phase"
STORE_OP: Final = "guardproxy.store.operation"
STORE_MODE: Final = "guardproxy.store.mode"
CHECK: Final = "guardproxy.check"
REASON: Final = "guardproxy.reason"
RESULT: Final = "guardproxy.result"
SEMCONV: Final = "guardproxy.semconv"
TOKEN_TYPE: Final = "guardproxy.token.type"
VERSION: Final = "guardproxy.version"
WINDOW: Final = "guardproxy.budget.window"

ADVICE: Final = "guardproxy.advice"
GEN_AI_INPUT_MESSAGES: Final = "gen_ai.input.messages"
GEN_AI_OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
GEN_AI_SYSTEM: Final = "gen_ai.system_instructions"
GEN_AI_TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
GEN_AI_TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
GEN_AI_TOOL_RESULT: Final = "gen_ai.tool.call.result"

CONTENT_ATTRIBUTES: Final = frozenset(
    {
        ADVICE,
        GEN_AI_INPUT_MESSAGES,
        GEN_AI_OUTPUT_MESSAGES,
        GEN_AI_SYSTEM,
        GEN_AI_TOOL_ARGUMENTS,
        GEN_AI_TOOL_DEFINITIONS,
        GEN_AI_TOOL_RESULT,
    }
)
"""What holds content: on spans only where it is captured (`telemetry.capture_content`)."""

METRIC_ONLY: Final = frozenset(
    {PHASE, STORE_OP, STORE_MODE, CHECK, REASON, RESULT, SEMCONV, TOKEN_TYPE, VERSION, WINDOW}
    | {GEN_AI_TOKEN_MODALITY, GEN_AI_TOKEN_TYPE}
)
"""Labels that never appear on a span."""

_NOT_NAMES = frozenset({SCOPE, OTHER})

SPAN_ATTRIBUTES: Final = frozenset(
    value for key, value in list(globals().items()) if key.isupper() and isinstance(value, str)
) - (METRIC_ONLY | _NOT_NAMES | CONTENT_ATTRIBUTES)
"""Every attribute a span may carry where content is not captured; none of them holds any."""

OPERATIONS: Final = {
    "chat": "chat",
    "responses": "chat",
    "messages": "chat",
    "completions": "text_completion",
    "embeddings": "embeddings",
}
"""API surface -> `gen_ai.operation.name`; a surface that is not here gets no `gen_ai` telemetry (pass-through)."""

INFERENCE: Final = frozenset({"chat", "text_completion"})
"""Operations that v0.1.0 calls inference; embeddings are none."""

VERSION_OF_GENAI: Final = "genai-0.1.0"
"""The conventions these names were taken from; shown by `guardproxy.build_info`."""
