"""Required tools: called with success, somewhere in what the conversation shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from guardproxy.core.completion import CHECKS, Candidate
from guardproxy.core.model import Call
from tests.core.completion.finals import Did, final, judged, sh
from tests.core.talk import step

OFFERED = ("f", "run_tests", "bash")
OK: Did = ("run_tests", {}, "12 passed")
BAD: Did = ("run_tests", {}, "Error: no such suite")


@pytest.mark.parametrize(
    ("acts", "settings", "expected"),
    [
        ([OK], {"tools": ("run_tests",)}, ""),
        ([OK], {"tools": ("RUN_*",)}, ""),
        ([BAD, OK], {"tools": ("run_tests",)}, ""),
        ([OK, BAD], {"tools": ("run_tests",)}, ""),  # it did succeed; what came later is another check's
        ([("run_tests", {}, None)], {"tools": ("run_tests",)}, ""),  # open, not failed
        ([("run_tests", {}, "[Old tool result content cleared]")], {"tools": ("run_tests",)}, ""),
        ([], {"tools": ("other_tool",)}, ""),  # the request does not offer it
        ([sh("python -m pytest -q")], {"tools": ("bash",), "arguments": {"bash": "*pytest*"}}, ""),
        ([], {"tools": ("run_tests",)}, "needs a result of `run_tests`"),
        ([("f", {}, "x")], {"tools": ("run_*",)}, "needs a result of `run_*`"),
        ([BAD, BAD], {"tools": ("run_tests",)}, "tried 2 times and failed each time, last with: Error: no such suite"),
        ([sh("ls")], {"tools": ("bash",), "arguments": {"bash": "*pytest*"}}, "`bash (*pytest*)`"),
        ([("f", {}, "x")], {"tools": ("f", "run_tests", "bash")}, "`run_tests`, which was not used. this task needs"),
    ],
)
def test_required(acts: list[Did], settings: dict[str, Any], expected: str) -> None:
    said = judged("required_tools", final("Done.", *acts, tools=OFFERED), **settings)

    assert expected in said
    assert bool(said) == bool(expected)


def test_the_final_call_itself_counts() -> None:
    handed = final("", calls=[Call("submit", "{}")], tools=("submit",))

    assert judged("required_tools", handed, tools=("submit",)) == ""
    assert judged("required_tools", final("Done.", tools=("submit",)), tools=("submit",))


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("Which of the two suites do you mean?", False),
        ("I found two suites. **Which one is it?**", False),
        ("您要运行哪一个?", False),
        ("Which one? Please tell me.", True),
        ("All done. Is there anything else?", True),
        ("The fix was added. Shall I commit it?", True),
        ("Can I help you with anything else?", True),
        ("任务已完成。还有其他问题吗?", True),
        ("Is it 5?", False),
        ("", True),
        ("?", False),
    ],
)
def test_a_question_to_the_user_is_no_end(text: str, failed: bool) -> None:
    assert bool(judged("required_tools", final(text, tools=OFFERED), tools=("run_tests",))) is failed
    assert bool(judged("evidence", final(text), pattern=r"ORD-\d+", least=1)) is failed


def candidates() -> list[tuple[str, Candidate]]:
    bare = final("Done.", tools=OFFERED)
    return [
        ("shortened", replace_init(bare, shortened=True)),
        ("the store knows more calls", replace_init(bare, remembered=(step("f"),))),
        ("cut off", replace_init(bare, ask=replace(bare.ask, tail_start=9))),
    ]


def replace_init(candidate: Candidate, **changes: Any) -> Candidate:
    given = {name: getattr(candidate, name) for name in ("text", "calls", "ask", "remembered", "shortened")}
    return Candidate(**{**given, **changes})


@pytest.mark.parametrize(("why", "candidate"), candidates(), ids=[why for why, _ in candidates()])
def test_what_is_not_shown_may_have_succeeded(why: str, candidate: Candidate) -> None:
    assert judged("required_tools", candidate, tools=("run_tests",)) == ""


@pytest.mark.parametrize(
    ("head", "expected"), [("Use run_tests at the end.", True), ("You have no such thing.", False)]
)
def test_a_request_without_tools_offers_what_its_instructions_name(head: str, expected: bool) -> None:
    candidate = final("Done.", head=head, tools=())

    assert bool(judged("required_tools", candidate, tools=("run_tests",))) is expected


def test_in_chinese() -> None:
    assert "需要 `run_tests`" in judged("required_tools", final("好", tools=OFFERED), "zh", tools=("run_tests",))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tools": ("a", " ")}, "tools: an empty pattern"),
        ({"tools": ("a",), "arguments": {"b": "*"}}, "arguments: 'b' is not in tools"),
    ],
)
def test_settings_that_cannot_be_meant(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CHECKS["required_tools"].Settings(**settings)
