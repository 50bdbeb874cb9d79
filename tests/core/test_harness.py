"""Who wrote a `user` text: a program around the agent, or a person."""

from __future__ import annotations

import pytest

from guardproxy.core.harness import is_harness, is_observation, is_rejection, result_of
from tests.cheap import cheap


@pytest.mark.parametrize(
    "text",
    [
        "Observation:\nhello",
        "Error:\nError in code parsing:",
        "Tool call error:\n\n<error>",
        "<task-notification>\n<task-id>1",
        "<environment_context>\n  <cwd>",
        "<subagent_notification>\n{}",
        "<system-reminder>\nAs you answer",
        "Your tool call was malformed and could not be parsed. Please retry.",
        "Your previous response failed the application's validation",
        "1 validation error for Answer",
        "# 1 SEARCH/REPLACE block failed to match!",
        "What did we do so far?",
        "  \nObservation: x",
    ],
)
def test_texts_that_programs_write(text: str) -> None:
    assert is_harness(text)


@pytest.mark.parametrize("text", ["", "fix it", "I see an Error: what now?", "And again?", "Yes, please proceed"])
def test_texts_that_people_write(text: str) -> None:
    assert not is_harness(text)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("Observation: x", "x"),
        ("Observation:\n  x", "  x"),
        ("**Observation 2:** x", "x"),
        ("x\n<environment_details>\nnow", "x"),
        ("# 1 SEARCH/REPLACE block failed\n# *SEARCH/REPLACE block* Rules:\nmany", "# 1 SEARCH/REPLACE block failed"),
        ("x", "x"),
    ],
)
def test_the_result_in_an_observation(text: str, result: str) -> None:
    assert result_of(text) == result


@pytest.mark.parametrize(
    ("text", "observed", "rejected"),
    [
        ("Observation: x", True, False),
        ("<returncode>0</returncode>", True, False),
        ("EXECUTION RESULT of [run]:\nx", True, False),
        ("Command read returned: x", True, False),
        ('{"returncode": 0, "output": ""}', True, False),
        ("Error:\nf failed\nNow let's retry: take care", True, False),
        ("Error: f failed", False, False),
        ("Please always provide EXACTLY ONE action", False, True),
        ("No bash code was found in your last response.", False, True),
        ("Tool call error:\nx", False, True),
        ("Output:\nx", False, False),
        ("It works, thanks.", False, False),
    ],
)
def test_what_answers_a_call(text: str, observed: bool, rejected: bool) -> None:
    assert is_observation(text) is observed
    assert is_rejection(text) is rejected


@pytest.mark.parametrize("blank", [" ", "\n", "\t", "\u3000"])
def test_blanks_in_front_cost_nothing(blank: str) -> None:
    """One text of a megabyte of blanks stopped a worker for seconds."""
    text = blank * 1_000_000 + "x"
    with cheap(0.5):
        for asked in (is_harness, is_observation, is_rejection, result_of):
            asked(text)
