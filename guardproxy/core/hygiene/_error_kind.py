"""Which kind of failure a failed result reports: by its status code and by words of the lines that tell what happened.

The words are those of HTTP, errno, common API clients, MCP and shells. A kind is given only where it is plain: advice
that does not fit is worse than none, so a test report or a program that broke has no kind.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from guardproxy.core.model import Flag
from guardproxy.core.outcome import edges_of, raised, reports
from guardproxy.core.tools import Rules, tool_of

LINE = 300
"""Characters of a telling line."""

LONGEST_WAIT = 86_400
"""Seconds that a failure may ask for: what says more means something else."""

CODES = {
    **dict.fromkeys((400, 409, 411, 415, 422), "arguments"),
    **dict.fromkeys((401, 402, 403, 407), "permissions"),
    **dict.fromkeys((404, 410), "not_found"),
    **dict.fromkeys((408, 425, 429, 502, 503, 504, 529), "transient"),
}
"""HTTP status codes; 500 and the others say too little."""

_CODE = re.compile(
    r"(?:\bhttp\S{0,8}|\bstatus(?:[ _-]?code)?|\berror|\bcode)[\"']?\W{0,3}([45]\d\d)\b"
    r"|^\W{0,3}([45]\d\d)(?=\W|$)"
    r"|\b([45]\d\d)\b\W{0,3}(?:client error|server error|error\b|too many|service|bad|gateway|not found|forbidden|"
    r"unauthori|unprocessable|overloaded)",
    re.MULTILINE,
)
_FATAL = re.compile(
    r"\b(?:tool|function|service|api|endpoint|account|key|token|subscription|licen[cs]e)\b[^\n]{0,60}"
    r"\b(?:disabled|decommissioned|discontinued|revoked|suspended|deactivated|shut down|"
    r"no longer (?:available|supported))"
    r"(?![^\n]{0,40}\b(?:mode|currently|until|while)\b)"
    r"|insufficient[_ ](?:quota|funds|credits?|balance)|credit balance is too low|exceeded your current quota"
    r"|\b(?:invalid|expired|incorrect) api key|api key (?:is |has )?(?:invalid|expired|not valid)"
    r"|mcp (?:server|error -32000)[^\n]{0,80}(?:connection closed|not connected|disconnected)"
)
_TRANSIENT = re.compile(
    r"\btoo many requests|rate[ -]?limit|\bthrottl|\btemporar(?:y|ily)\b|service unavailable|\boverloaded\b"
    r"|bad gateway|gateway time-?out|\btimed? ?out\b|\btime-?out\b|\betimedout\b|\beconnre(?:set|fused)\b|\beai_again\b"
    r"|connection (?:was )?(?:reset|refused|aborted)|\btry again (?:later|in)\b|deadline exceeded|resource exhausted"
    r"|could not (?:get|acquire) lock|database is locked"
)
_TOO_SLOW = re.compile(
    r"\b(?:command|process|script|execution|tests?|cell|program|operation)\b(?: \S+){0,3}?"
    r" (?:timed out|timeout|exceeded)|timed out after \S+ ?(?:s|ms|sec|seconds|minutes)\b|timeout: sending signal"
)
_PERMISSIONS = re.compile(
    r"permission denied|access (?:is |was )?denied|\bforbidden\b|\bunauthori[sz]ed\b|not permitted|\beacces\b|\beperm\b"
    r"|not allowed to|insufficient (?:permission|privilege|scope)|authentication (?:failed|required)"
    r"|read-only file system|payment required"
)
_NOT_FOUND = re.compile(
    r"no such (?:file|directory|table|column|host|key|container|object)|\bnot found\b|\bcould ?n[o']t find\b"
    r"|\bunknown (?:column|table|database|host|user|file)\b|\bdoes(?: not|n't) exist\b"
    r"|\benoent\b|\benotfound\b|could not resolve host|not recognized as|没有找到|未找到|不存在"
)
_ARGUMENTS = re.compile(
    r"\binvalid (?:arguments?|parameters?|params?|inputs?|values?|types?|requests?|json)\b"
    r"|\bmissing (?:\d+ )?required\b"
    r"|validation (?:error|failed)|\brequired (?:argument|parameter|property|field)\b|\bis required\b|bad request"
    r"|unexpected keyword|must be (?:a|an|one of|of type)\b|unprocessable|-32602\b|参数"
)
_ASKED = re.compile(
    r"(?:retry[- _]?after(?:[_-]seconds)?|(?:try|retry) again in|retry in|wait(?: for)?)[\"']?\W{0,4}(\d{1,6})"
    r"(?:\.\d+)? ?(ms\b|milli|m(?:in)?(?:ute)?s?\b|h(?:our)?s?\b)?"
)


def kind(text: str, tool: str, flags: Flag, rules: Rules, fatal_words: Sequence[str], more_words: Sequence[str]) -> str:
    """arguments, permissions, not_found, no_tool, too_slow, transient, fatal; "" where it is not plain.

    `text`: of a result that is judged as failed. `more_words`: the user's own words of transient failures.
    """
    if flags & Flag.NO_TOOL:
        return "no_tool"
    told = _telling(text)
    if _says(told, fatal_words):
        return "fatal"
    if _says(told, more_words):
        return "transient"
    if flags & Flag.INVALID:
        return "arguments"
    edges = edges_of(text)
    if reports(edges, _CODE.sub(" ", edges.lower())):  # "error: 404" is no count of errors
        return ""
    shell = tool_of(tool.strip().casefold(), rules).shell
    return _by_words(told, shell=shell, broke=bool(raised(edges)))


def _by_words(told: str, *, shell: bool, broke: bool) -> str:
    """`shell`: what it runs is not the tool, which can be neither gone nor wrongly called by what a program says.

    `broke`: an exception was raised; what a program under test did not find says nothing about the command.
    """
    if not shell and _FATAL.search(told) is not None:
        return "fatal"
    if _TOO_SLOW.search(told) is not None:
        return "too_slow" if shell else "transient"
    if _TRANSIENT.search(told) is not None:
        return "transient"
    code = _CODE.search(told)
    found = CODES.get(int(code[1] or code[2] or code[3]), "") if code is not None else ""
    if found and not (shell and found == "arguments"):
        return found
    if _PERMISSIONS.search(told) is not None:
        return "permissions"
    if _NOT_FOUND.search(told) is not None and not (shell and broke):
        return "not_found"
    return "arguments" if not shell and _ARGUMENTS.search(told) is not None else ""


def _says(told: str, words: Sequence[str]) -> bool:
    return any(word.lower() in told for word in words)


def _telling(text: str) -> str:
    """The lines that tell what went wrong, in lower case: first, last and an exception's; of JSON its beginning."""
    text = text.strip()
    if text[:1] in ("{", "["):
        return " ".join(text[: 2 * LINE].lower().split())
    first, last = text[:LINE].split("\n", 1)[0], text[-LINE:].rsplit("\n", 1)[-1]
    return "\n".join(dict.fromkeys((first, last, raised(edges_of(text))[:LINE]))).lower()


def asked_seconds(text: str) -> int:
    """How long a failure itself asks to wait; 0: it does not say."""
    found = _ASKED.search(_telling(text))
    if found is None:
        return 0
    number, unit = int(found[1]), found[2] or ""
    if unit.startswith(("ms", "milli")):
        number = -(-number // 1000)
    elif unit.startswith("m"):
        number *= 60
    elif unit.startswith("h"):
        number *= 3600
    return number if number <= LONGEST_WAIT else 0
