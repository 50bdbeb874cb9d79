"""Texts that agent programs, not people, write as `user`: observations, format errors, reminders, summaries."""

from __future__ import annotations

import re

_HARNESS = re.compile(
    r"\s*+(?:Observation:|Error:\s|Tool call error|<task-notification>|<environment_context>|<subagent_notification>|"
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


_OBSERVED = re.compile(
    r"\s*+(?:\**Observation(?: \d+)?\**:\**|<returncode>|<output>|<observation>|<tool_(?:response|result|output)>|"
    r"EXECUTION RESULT of \[|\[[a-z]+(?:_[a-z]+)*(?: for [^\n]*)?\] Result:|exitcode: -?\d+ \(|Command \w+ returned:|"
    r"The result of executing that last command|Tool (?:output|result|response)\b[^\n:]{0,60}:|Execution logs:|"
    r"I ran this command:|# \d+ SEARCH/REPLACE block|\{\"(?:returncode|exit_code|stdout)\":|"
    r"(?:Call id: [^\n]*\n)?Error:\n[\s\S]*\bNow let's retry)",
    re.IGNORECASE,
)
_REJECTED = re.compile(
    r"\s*+(?:No \S+(?: \S+)? (?:was|were) found in your (?:last )?response|"
    r"Please always provide (?:EXACTLY )?one action|Tool call error|Your (?:previous|last) (?:response|output|reply) |"
    r"\d+ validation errors?\b|Validation feedback|Your (?:output|response) was not (?:formatted|valid)|"
    r"(?:Error:\s*)?(?:Could not parse|Invalid format|Error while parsing)\b)",
    re.IGNORECASE,
)
_OBSERVATION = re.compile(r"\s*+\**Observation(?: \d+)?\**:\**[ \t]*\n?", re.IGNORECASE)
_SURROUNDINGS = ("\n<environment_details>", "\n<system-reminder>", "\n# *SEARCH/REPLACE block* Rules:")


def is_observation(text: str) -> bool:
    """Whether a `user` text is what a harness writes to hand over the result of a call that stood in a text."""
    return _OBSERVED.match(text) is not None


def is_rejection(text: str) -> bool:
    """Whether a `user` text says that the reply before it was in no form that the harness can carry out."""
    return _REJECTED.match(text) is not None


def result_of(text: str) -> str:
    """The result in an observation: without its label, and without what a client adds of its surroundings."""
    label = _OBSERVATION.match(text)
    plain = text[label.end() :] if label else text
    for added in _SURROUNDINGS:
        if added in plain:
            plain = plain.partition(added)[0]
    return plain
