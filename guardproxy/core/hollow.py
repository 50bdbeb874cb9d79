"""Answers that hold nothing but the question: `{"query": "x", "results": []}`, `No matches found for "x"`.

What they repeat of the call says nothing, and must not make two empty answers differ. Sources: search APIs (Tavily,
Serper, Brave, Elasticsearch), lists of REST services, the search tools of Gemini CLI, Claude Code and Cline.
"""

from __future__ import annotations

import json
import re

from guardproxy.core.mask import VOLATILE_KEYS

LONGEST = 1_200
"""Characters of the longest answer that is read as JSON here: an empty one is short."""

SAID = 400
"""Characters of the longest sentence."""

NOTHING = "[]"
"""What stands for an empty JSON answer."""

_COLLECTIONS = frozenset(
    "results result hits items matches data documents organic records rows entries list files values elements nodes "
    "edges web news articles pages messages issues users orders objects choices hits_list search_results "
    "organic_results organicresults".split()
)
_COUNTS = frozenset(
    "total count total_count totalcount total_results totalresults num_results numresults found size length hits "
    "matches nbhits result_count resultcount number_of_results estimatedtotalhits value".split()
)
_ECHOES = frozenset(
    "query q search term keyword keywords search_query searchquery searchparameters search_parameters params "
    "parameters request filter filters pattern page per_page perpage page_size pagesize limit offset start cursor "
    "next_cursor has_more hasmore next previous prev status code message object type kind".split()
)
_WELL = frozenset(("ok", "success", "200", "list", "search", "completed", "done", "value", "eq"))
_SENTENCE = re.compile(
    r"((?:found |returned |there (?:are|were|is) )?\(?(?:no|0|zero)\b\)? (?:[\w-]+ ){0,3}?"
    r"(?:results?|match(?:es)?|hits?|rows?|entries|records?|documents?|items?|files?)"
    r"(?: (?:were |was )?(?:found|available|returned))?)"
    r"(?:,? (?:for|in|match|matched|matching|with|of|under|within|at|from|by|named)\b.{0,300})?[.!)]*"
)
_STARTS = frozenset("nNfFrRtT0zZ(")


def hollow(text: str, arguments: str) -> str | None:
    """What an empty answer says without what it repeats of the call; None: it is none, as far as is seen here."""
    first = text[:1]
    if first == "{":
        return _object(text, arguments) if len(text) <= LONGEST and "[]" in text else None
    if first not in _STARTS or len(text) > SAID or "\n" in text:
        return None
    said = _SENTENCE.fullmatch(text.lower())
    return None if said is None else said[1]


def _object(text: str, arguments: str) -> str | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return NOTHING if isinstance(value, dict) and _lists(value) and _empty(value, arguments) else None


def _lists(value: dict[str, object]) -> bool:
    """Whether one of its parts is a list of findings, which is empty."""
    for key, item in value.items():
        if key.lower() in _COLLECTIONS and (item == [] or (isinstance(item, dict) and _lists(item))):
            return True
    return False


def _empty(value: dict[str, object], arguments: str) -> bool:
    return all(_tells_nothing(key.lower(), item, arguments) for key, item in value.items())


def _tells_nothing(key: str, item: object, arguments: str) -> bool:
    """Whether a part is empty, a count of nothing, volatile, or repeats the call."""
    if not item or key in VOLATILE_KEYS:
        return True
    if isinstance(item, dict):
        return key in _ECHOES or _empty(item, arguments)
    if isinstance(item, list):
        return False
    if item is True:
        return key in ("ok", "success")
    if key in _ECHOES and not isinstance(item, str):
        return True
    return isinstance(item, str) and (item.lower() in _WELL or _asked(item, arguments) or _said(item))


def _said(text: str) -> bool:
    return len(text) <= SAID and _SENTENCE.fullmatch(text.lower()) is not None


def _asked(text: str, arguments: str) -> bool:
    """Whether the call's arguments hold the text, spacing and case apart."""
    asked = json.dumps(text.strip(), ensure_ascii=False)[1:-1].lower()
    return bool(asked) and (asked in arguments.lower() or json.dumps(text.strip())[1:-1].lower() in arguments.lower())
