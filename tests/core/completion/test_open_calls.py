"""Open calls: what waits for an approval or has no result, unless the answer says so or it cannot be told."""

from __future__ import annotations

from typing import Any

import pytest

from guardproxy.core.completion import CHECKS, Candidate
from tests.core.completion.finals import Did, final, judged, whole
from tests.core.talk import Json, called, result, said, user

HALF: list[Json] = [user("do it"), called(("f", "{}", "1"), ("g", "{}", "2")), result("x", "1")]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (HALF, "no result yet: g."),
        ([*HALF, result("y", "2")], ""),
        ([*HALF, user("never mind")], ""),  # a person has taken over
        ([*HALF, said("ok"), user("go on"), called(("f", "{}", "3")), result("x", "3")], ""),  # long ago
        ([user("do it"), called(("f", "{}", "1"))], ""),  # nothing answered: the provider's own tools have no results
        ([user("do it")], ""),
        ([user("do it"), called(("f", "{}", "1"), ("g", "{}", "1")), result("x", "1"), result("y", "1")], ""),  # B49
    ],
)
def test_unanswered(messages: list[Json], expected: str) -> None:
    found = judged("open_calls", Candidate("All is done.", (), whole(*messages)))

    assert expected in found
    assert bool(found) == bool(expected)


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("The mail has been sent.", True),
        ("邮件已发送。", True),
        ("I have asked for approval; the mail goes out once it is there.", False),
        ("The mail is waiting for your approval.", False),
        ("It is still running.", False),
        ("邮件正在等待批准。", False),
        ("The deployment was started in the background.", False),
    ],
)
def test_an_answer_that_says_that_something_is_open_is_fine(text: str, failed: bool) -> None:
    candidate = final(text, waits_for=("send_mail",))

    assert ("send_mail" in judged("open_calls", candidate)) is failed


@pytest.mark.parametrize(
    ("acts", "settings", "failed"),
    [
        ([("deploy", {}, "status: queued")], {"tools": ("deploy",)}, True),
        ([("deploy", {}, "status: queued"), ("deploy", {}, "status: live")], {"tools": ("deploy",)}, False),
        ([("deploy", {}, "status: queued")], {}, False),
        ([("deploy", {}, "status: queued")], {"tools": ("other",)}, False),
        ([("deploy", {}, "status: queued"), ("user", "thanks, and 2+2?", None)], {"tools": ("deploy",)}, False),
        ([("bash", {"command": "cat log"}, "still running")], {"tools": ("*",)}, False),  # content
        ([("read_file", {"path": "a"}, "in progress")], {"tools": ("*",)}, False),
    ],
)
def test_a_result_that_is_not_ready(acts: list[Did], settings: dict[str, Any], failed: bool) -> None:
    assert bool(judged("open_calls", final("All is done.", *acts), **settings)) is failed


def test_an_empty_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match="tools: an empty pattern"):
        CHECKS["open_calls"].Settings(tools=("",))
