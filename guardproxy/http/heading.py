"""What is said around an answer: the `x-guardproxy-*` headers, and errors in the surface's own form."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from guardproxy.core import budget, denial
from guardproxy.core.edit import (
    AppendText,
    DropCalls,
    Edit,
    ForbidTools,
    LimitOutput,
    PutBack,
    ReplaceText,
    Reply,
    SpliceUsage,
)
from guardproxy.errors import BadAsk, GuardError
from guardproxy.http import deciding, soft_limits
from guardproxy.http.whole import Whole

if TYPE_CHECKING:
    from guardproxy.core.view import View
    from guardproxy.http.turn import Turn

NOT_APPENDED = "answer-not-appended"
"""Says in `x-guardproxy-notice` that the model's last answer is missing in the history: the agent forgets to append."""

HISTORY = "history"
"""Says in `x-guardproxy-edit` that the request goes on with an answer which the provider does not know as given."""

NAMES = {
    AppendText: "advice",
    ReplaceText: "results",
    PutBack: "rounds",
    ForbidTools: "tools",
    DropCalls: "calls",
    LimitOutput: "max_tokens",
    SpliceUsage: "usage",
    Reply: "reply",
}
"""Names of edits in the header `x-guardproxy-edit`."""


def headers(turn: Turn) -> list[tuple[str, str]]:
    """The `x-guardproxy-*` headers of the answer (DESIGN section 5)."""
    decision, view = turn.decision, turn.view
    found = [("x-guardproxy-verdict", decision.action)]
    if decision.rule:
        found.append(("x-guardproxy-rule", decision.rule))
    if view:
        found.append(("x-guardproxy-session-id", view.session))
        found.append(("x-guardproxy-trace-id", _trace(turn, view)))
        found.append(("x-guardproxy-turn", str(view.turn)))
        found.append(("x-guardproxy-budget-remaining", budget.remaining(view)))
        if turn.crossed:
            found.append(("x-guardproxy-budget-soft", soft_limits.header(turn.crossed)))
        if said := [*([NOT_APPENDED] if view.missing else ()), *turn.outcome.notices]:
            found.append(("x-guardproxy-notice", ", ".join(said)))
    if turn.outcome.upstream is not None and turn.outcome.upstream_status:
        found.append(("x-guardproxy-upstream", turn.outcome.upstream.name))
    if turn.outcome.verification:
        found.append(("x-guardproxy-verification", turn.outcome.verification))
    named = names(turn.edits)
    if turn.before and turn.ask.parsed.before:
        named = (*named, HISTORY)
    if named:
        found.append(("x-guardproxy-edit", ",".join(named)))
    return found


def _trace(turn: Turn, view: View) -> str:
    opening = turn.opening
    told = view.traceparent or (opening.traceparent if view.new_session else "")
    return turn.proxy.telemetry.trace_id(view.session, view.session_started_ms, opening.org, told)


def whose(turn: Turn) -> dict[str, str]:
    """Session and trace of a turn, once they are known."""
    view = turn.view
    return {"session": view.session, "trace_id": _trace(turn, view)} if view else {}


def names(edits: Sequence[Edit]) -> tuple[str, ...]:
    """What was changed in the request or its answer, each name once."""
    return tuple(dict.fromkeys(NAMES[type(edit)] for edit in edits if type(edit) in NAMES))


def plain_error(surface: ModuleType, error: GuardError, headers: Sequence[tuple[str, str]] | None = None) -> Whole:
    """An error outside of any turn, in the surface's form."""
    kind = ("Content-Type", "application/json")
    more = [] if error.status >= 500 else [("x-should-retry", "false")]
    return Whole(error.status, [kind, *more, *(headers or [])], surface.error(error, {}))


def error(turn: Turn, wrong: GuardError) -> Whole:
    """An error of ours or of the way to the provider, as the client's own SDK reads it."""
    extra: dict[str, object] = {"rule": turn.decision.rule} if turn.decision.rule else {}
    said = headers(turn)
    if isinstance(wrong, BadAsk) and turn.decision.action == "pass":  # nothing passed: it was refused undecided
        said = [(name, value) for name, value in said if name != "x-guardproxy-verdict"]
    known = dict(said)
    for name in ("session_id", "trace_id"):
        value = known.get(f"x-guardproxy-{name.replace('_', '-')}")
        extra |= {name: value} if value else {}
    if turn.decision.refused is not None and turn.view is not None:
        output = turn.need.output_tokens // max(1, turn.ask.choices)
        extra["budget"] = denial.facts(turn.decision.refused, turn.view, deciding.where(turn), output)
    if turn.decision.rule.startswith(denial.RATE):
        said.append(("Retry-After", str(denial.retry_after(turn.seen))))
    elif wrong.status == 503:
        said.append(("Retry-After", "1"))
    elif wrong.status < 500:
        said.append(("x-should-retry", "false"))
    said.append(("Content-Type", "application/json"))
    turn.outcome.status = wrong.status
    return Whole(wrong.status, said, turn.surface.error(wrong, extra))
