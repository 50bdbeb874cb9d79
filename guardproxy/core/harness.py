"""Texts that agent programs, not people, write as `user`: observations, format errors, reminders, summaries."""

from __future__ import annotations

import re

_HARNESS = re.compile(
    r"\s*(?:Observation:|Error:\s|Tool call error|<task-notification>|<environment_context>|<subagent_notification>|"
    r"<system-reminder>|<user_instructions>|<environment_details>|<conversation>|Your tool call was malformed|"
    r"Your previous response (?:failed|reached)|\d+ validation errors?\b|Validation feedback|"
    r"CRITICAL: Respond with TEXT ONLY|The conversation history before this point|What did we do so far\?|"
    r"Summarize conversation chunk|The previous request exceeded|# \d+ SEARCH/REPLACE block|"
    r"The result of executing that last command|No \S+(?: \S+)? (?:was|were) found in your (?:last )?response|"
    r"Please always provide (?:EXACTLY )?one action)",
    re.IGNORECASE,
)


def is_harness(text: str) -> bool:
    """Whether a `user` text is one that agent programs write by themselves (clients: smolagents, mini-swe-agent, …)."""
    return _HARNESS.match(text) is not None
