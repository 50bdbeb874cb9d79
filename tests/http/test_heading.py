"""What is said around an answer: the headers in each case, the names of edits, errors in the surface's form."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from guardproxy.api import chat
from guardproxy.core import edit as edits
from guardproxy.core.edit import (
    AppendText,
    DropCalls,
    ForbidTools,
    LimitOutput,
    PutBack,
    Reject,
    ReplaceText,
    Reply,
    SpliceUsage,
)
from guardproxy.core.model import Decision, Line, Rung
from guardproxy.core.tenant_budget import Crossed, Due
from guardproxy.core.view import Spent
from guardproxy.core.windows import Budget
from guardproxy.errors import BadAsk, GuardError, Overloaded, StoreError, UpstreamError
from guardproxy.http import heading
from guardproxy.http.outcome import Outcome
from tests.core.talk import view_of

CUT = Decision("cut", Rung.CUT, "repeated_call", 6)


def turn(decision: Decision = CUT, *, begun: bool = True, **changes: Any) -> Any:
    """As much of a turn as is said of it."""
    view = view_of((), turn=3, **changes.pop("view", {})) if begun else None
    given = {"traceparent": "00-client", "org": "default"}
    trace = lambda session, _started, _org, first: f"trace of {session} {first}".strip()  # noqa: E731
    made = SimpleNamespace(
        decision=decision,
        view=view,
        opening=SimpleNamespace(**given),
        proxy=SimpleNamespace(telemetry=SimpleNamespace(trace_id=trace), where=""),
        outcome=Outcome(),
        edits=(),
        before=[],
        crossed=(),
        seen=view,
        surface=chat,
        need=SimpleNamespace(output_tokens=200),
        ask=SimpleNamespace(choices=2),
    )
    made.__dict__.update(changes)
    return made


ALWAYS = {"verdict", "session-id", "trace-id", "turn", "budget-remaining"}

HEADERS: dict[str, tuple[Any, dict[str, str], set[str]]] = {
    # a turn, what its headers say, which there are beside ALWAYS
    "a turn": (
        turn(Decision("pass")),
        {"verdict": "pass", "session-id": "s", "turn": "3", "trace-id": "trace of s"},
        set(),
    ),
    "a rule": (turn(), {"verdict": "cut", "rule": "repeated_call"}, {"rule"}),
    "the first of a session": (turn(view={"new_session": True}), {"trace-id": "trace of s 00-client"}, {"rule"}),
    "of a trace that was taken up": (turn(view={"traceparent": "00-x"}), {"trace-id": "trace of s 00-x"}, {"rule"}),
    "an agent that forgets to append": (
        turn(view={"missing": True}), {"notice": "answer-not-appended"}, {"rule", "notice"}),
    "a checked answer": (
        turn(outcome=Outcome(verification="failed")), {"verification": "failed"}, {"rule", "verification"}),
    "edits": (
        turn(edits=(AppendText(1, "a"), AppendText(2, "b"), SpliceUsage())),
        {"edit": "advice,usage"},
        {"rule", "edit"},
    ),
    "soft limits": (
        turn(crossed=(Crossed(Due(Budget("org", "cost_microusd", "day", 9), "d:org:"), 80, 8),)),
        {"budget-soft": "org cost_usd day=80%"},
        {"rule", "budget-soft"},
    ),
    "an error on purpose is no edit": (turn(edits=(Reject(400, "x", "y"),)), {}, {"rule"}),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_headers(name: str) -> None:
    made, expected, more = HEADERS[name]
    found = {key.removeprefix("x-guardproxy-"): value for key, value in heading.headers(made)}

    assert set(found) == ALWAYS | more
    assert found.items() >= expected.items()


def test_a_turn_that_was_not_begun_says_what_it_can() -> None:
    assert heading.headers(turn(Decision("pass"), begun=False)) == [("x-guardproxy-verdict", "pass")]


def test_every_edit_has_a_name() -> None:
    made = (
        AppendText(0, ""), ReplaceText(0, ""), PutBack(0), ForbidTools(), DropCalls(""), LimitOutput(9), SpliceUsage(),
        Reply(""),
    )  # fmt: skip

    assert heading.names(made) == ("advice", "results", "rounds", "tools", "calls", "max_tokens", "usage", "reply")
    kinds = {kind for kind in vars(edits).values() if isinstance(kind, type) and issubclass(kind, edits.Edit)}
    assert kinds - {edits.Edit, Reject} == set(heading.NAMES)


ERRORS: dict[str, tuple[GuardError, dict[str, str]]] = {
    "the client's": (BadAsk("no", param="model"), {"x-should-retry": "false"}),
    "the provider's": (UpstreamError("no", code="upstream_broken"), {}),
    "overload": (Overloaded("no"), {"Retry-After": "1"}),
    "the store's": (StoreError("no"), {"Retry-After": "1"}),
    "a budget's": (BadAsk("no", status=400, code="budget_exceeded"), {"x-should-retry": "false"}),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    wrong, expected = ERRORS[name]
    made = turn()
    answer = heading.error(made, wrong)
    assert isinstance(answer.body, bytes)
    said = json.loads(answer.body)["error"]

    assert (answer.status, made.outcome.status) == (wrong.status, wrong.status)
    assert (said["message"], said["rule"], said["session_id"]) == (wrong.message, "repeated_call", "s")
    assert said["trace_id"] == "trace of s"
    assert answer.headers["Content-Type"] == "application/json"
    told = {name: answer.headers[name] for name in ("x-should-retry", "Retry-After") if name in answer.headers}
    assert told == expected


def test_an_error_before_anything_was_begun() -> None:
    answer = heading.error(turn(Decision("pass"), begun=False), BadAsk("no"))
    assert isinstance(answer.body, bytes)

    assert {"rule", "session_id", "trace_id"}.isdisjoint(json.loads(answer.body)["error"])


LINES = {
    # what was refused, used, headers, the kind that is named
    "a budget": (Line("team", "cost_microusd", 5, 10, "t:team:red"), "budget.cost_usd", {"x-should-retry": "false"}),
    "a rate": (Line("org", "concurrent_requests", 1, 10, "n:org:"), "rate.concurrent_requests", {"Retry-After": "1"}),
}


@pytest.mark.parametrize("name", LINES)
def test_a_budget_says_whose_and_how_much_and_a_rate_when_to_come_again(name: str) -> None:
    line, rule, expected = LINES[name]
    view = {"short": (line,), "spent": (Spent(line, 8, 1),), "admitted": False}
    denied = turn(Decision("deny", Rung.CUT, rule, refused=line), view=view)
    answer = heading.error(denied, BadAsk("no", status=429))
    assert isinstance(answer.body, bytes)
    said = json.loads(answer.body)["error"]["budget"]

    assert (said["scope"], said["kind"]) == (line.scope, rule.partition(".")[2])
    assert "red" not in answer.body.decode()
    assert ("send a max_tokens below 100: this request holds less then" in said["how"]) is (name == "a budget")
    told = {name: answer.headers[name] for name in ("x-should-retry", "Retry-After") if name in answer.headers}
    assert told == expected
