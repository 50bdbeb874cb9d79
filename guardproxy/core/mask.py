"""Takes the volatile out of texts, so that what is the same looks the same.

Sources of the list: Codex prints `Chunk ID` and `Wall time`, read tools append "read 3 times this session", senders
return a fresh message id and time stamp, test runners a duration. Counts and percentages stay: they are progress.
All work is bounded: of a long text only head and tail are masked. Regular expressions cost ten times what a search for
fixed bytes does, so each runs only where such a search shows that it can find something.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress

WHOLE = 65_536
"""Characters up to which a text is kept whole; beyond, its ends, its length and a hash stand for it."""

EDGE = 2_048
"""Characters at each end in which volatile parts are masked. Time stamps in the middle of a long text stay."""

SAID = 320
"""Characters at each end in which durations are looked for, and at the end tallies: such things are told there."""

TOLD = 160
"""Characters at the end in which a tally is looked for ("read 3 times")."""

_MOMENT = re.compile(
    r"[0-9](?<![\w.][0-9])(?:[0-9]{3}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?(?:[.,][0-9]+)?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?"  # 2026-01-31T10:00:00Z
    r"|[0-9]?:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?: ?[AP]M)?)"  # 10:00:00
)
_MINUTE = re.compile(r":(?<=[0-9]:)[0-9][0-9]")
_UNIT = re.compile(r"s(?<=[0-9. m]s)(?:ec|\b)")
_LONG_UNIT = re.compile(r"mi(?<=[0-9. ]mi)(?:nutes|lliseconds)")
_DURATION = re.compile(r"[0-9](?<![\w.][0-9])[0-9.]* ?(?:seconds|second|secs|sec|ms|s|milliseconds|minutes)\b")
_TALLY = re.compile(r"(?i:\b(read|called|seen|shown|try) #?[0-9]+ times?|\b(attempt|retry) #?[0-9]+(?: times?)?)")
_LABEL = re.compile(r"[iI][dD][\"']?[:=] ?[\"']?(?=[0-9]|[\w-]*[0-9])[\w-]+")
_ID = re.compile(r"d(?<=[iI]d)[\"']?[:=]")
_UPPER_ID = re.compile(r"D(?<=[iI]D)[\"']?[:=]")
_LABELLED = ("chunk", "request", "trace", "span", "run", "session", "message", "correlation", "agent", "process")
_UUID = re.compile(r"-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b")
_HEX = re.compile(r"0x[0-9a-fA-F]{4,16}\b")
_IDENTITY = re.compile(r"@[0-9a-f]{6,16}\b")
_SCRATCH = re.compile(r"/tmp/(?:tmp|pytest-of-|\.)[\w./-]+")  # noqa: S108 - names in results, not files of ours
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

VOLATILE_KEYS = frozenset(
    "ts timestamp time_stamp request_id requestid message_id messageid trace_id traceid span_id spanid run_id runid "
    "created_at createdat updated_at updatedat receipt nonce etag elapsed elapsed_ms duration duration_ms took "
    "latency latency_ms server_time servertime".split()
)
"""JSON keys (in lower case) that change with every answer and say nothing about what it holds."""


def _without_uuids(text: str) -> str:
    pieces, last = [], 0
    for middle in _UUID.finditer(text):
        if middle.start() - last >= 8:
            pieces += [text[last : middle.start() - 8], "~"]
            last = middle.end()
    return "".join((*pieces, text[last:])) if last else text


def _said(text: str) -> str:
    """Durations and tallies at the ends. Numbers before words with s in the middle of a text are many and are none."""
    ends = text if len(text) <= 2 * SAID else f"{text[:SAID]}\n{text[-SAID:]}"
    if _UNIT.search(ends) is not None or _LONG_UNIT.search(ends) is not None:
        if ends is text:
            text = _DURATION.sub("~", text)
        else:
            text = _DURATION.sub("~", text[:SAID]) + text[SAID:-SAID] + _DURATION.sub("~", text[-SAID:])
    end = text[-TOLD:].lower()
    if " time" in end or "attempt " in end or "retry " in end:
        return text[:-TOLD] + _TALLY.sub(_untallied, text[-TOLD:])
    return text


def _untallied(tally: re.Match[str]) -> str:
    return f"{tally[1] or tally[2]} ~"


def _unlabelled(label: re.Match[str]) -> str:
    """`request id: 5f3a` as `request id: ~`, and so on; other ids say what the answer is about and stay."""
    before = label.string[max(0, label.start() - 13) : label.start()].lower()
    if before[-1:] == "p" or before.rstrip("_- ").endswith(_LABELLED):
        return f"{label.group()[:3]}~"
    return label.group()


def _edge(text: str) -> str:
    # a sign alone is found ten times as fast as a word, and a pattern that begins with one literal faster than others
    timed = ":" in text
    if timed and _MINUTE.search(text) is not None:
        text = _MOMENT.sub("~", text)
    if "x" in text and "0" in text:
        text = _HEX.sub("~", text)
    text = _said(text)
    if "@" in text:
        text = _IDENTITY.sub("~", text)
    if "-" in text:
        text = _without_uuids(text)
    if (timed or "=" in text) and (_ID.search(text) is not None or _UPPER_ID.search(text) is not None):
        text = _LABEL.sub(_unlabelled, text)
    return _SCRATCH.sub("~", text) if "/tmp/" in text else text  # noqa: S108  # a pattern, no file is made


def unseen(text: str) -> str:
    """The text without the characters that nobody sees: zero-width spaces and joiners, soft hyphens, marks of order."""
    return _UNSEEN.sub("", text)


def mask(text: str) -> str:
    """The text without what changes by itself: times, durations, ids, addresses, scratch paths, tallies.

    Bounded: beyond 2 * EDGE characters only the ends are masked, beyond WHOLE a hash stands for the middle.
    """
    if "\x1b" in text:
        text = _ANSI.sub("", text[:WHOLE]) + text[WHOLE:]
    if len(text) <= 2 * EDGE:
        return _edge(text)
    middle = text[EDGE:-EDGE]
    if len(text) > WHOLE:
        middle = f"…{len(text)}…{hashlib.blake2b(middle.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}…"
    return f"{_edge(text[:EDGE])}{middle}{_edge(text[-EDGE:])}"


def without_digits(text: str) -> bytes:
    """The text without its digits, for comparing what is equal but for numbers."""
    return text.encode("utf-8", "surrogatepass").translate(None, b"0123456789")


def settled(value: object) -> object:
    """A parsed JSON answer without its volatile keys."""
    if isinstance(value, dict):
        return {k: settled(v) for k, v in value.items() if str(k).lower() not in VOLATILE_KEYS}
    if isinstance(value, list):
        return [settled(item) for item in value]
    return value


def _hinted(text: str) -> bool:
    return "\\u" in text or not VOLATILE_KEYS.isdisjoint(text.lower().split('"'))


def result_text(text: str) -> str:
    """A tool's answer, ready for comparing. JSON loses its volatile keys; everything else is masked."""
    if text[:1] in "{[" and 1 < len(text) <= 2 * EDGE and _hinted(text):
        with suppress(ValueError, RecursionError):  # not JSON after all: compared as text
            text = json.dumps(settled(json.loads(text)), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return mask(text).strip()
