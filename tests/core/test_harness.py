"""Who wrote a `user` text: a program around the agent, or a person."""

from __future__ import annotations

import pytest

from guardproxy.core.harness import is_harness


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
