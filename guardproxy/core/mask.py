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
"""Characters at each end in which a duration is looked for."""

_SEARCHED = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ123456789x=", b"abcdefghijklmnopqrstuvwxyz000000000s:")

_MOMENT = re.compile(
    r"\d(?<![\w.]\d)(?:\d{3}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"  # 2026-01-31T10:00:00Z
    r"|\d?:\d\d:\d\d(?:[.,]\d+)?(?: ?[AP]M)?)"  # 10:00:00
)
_DURATION = re.compile(r"\d(?<![\w.]\d)[\d.]* ?(?:seconds|second|secs|sec|ms|s|milliseconds|minutes)\b")
_TALLY = re.compile(r"(?i)\b(read|called|seen|shown|attempt|retry|try) #?\d+( times?)?")
_LABEL = re.compile(r"[iI][dD][\"']?[:= ] ?[\"']?(?=\d|[\w-]*\d)[\w-]+")
_LABELLED = ("chunk", "request", "trace", "span", "run", "session", "message", "correlation", "agent", "process")
_UUID = re.compile(r"-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b")
_HEX = re.compile(r"0x[0-9a-fA-F]{4,16}\b")
_IDENTITY = re.compile(r"@[0-9a-f]{6,16}\b")
_SCRATCH = re.compile(r"/tmp/(?:tmp|pytest-of-|\.)[\w./-]+")  # noqa: S108 - names in results, not files of ours
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

VOLATILE_KEYS = frozenset(
    "ts timestamp time_stamp request_id requestid message_id messageid trace_id traceid span_id spanid run_id runid "
    "created_at createdat updated_at updatedat receipt nonce etag elapsed elapsed_ms duration duration_ms took "
    "latency latency_ms server_time servertime".split()
)
"""JSON keys (casefolded) that change with every answer and say nothing about what it holds."""

_KEY_HINTS = (
    'ts"', 'stamp"', '_id"', 'eid"', 'tid"', 'nid"', '_at"', 'dat"', "receipt", "nonce", "etag", "elapsed", "duration",
    'took"', "latency", "servert", "server_t",
)  # fmt: skip


def _without_uuids(text: str) -> str:
    pieces, last = [], 0
    for middle in _UUID.finditer(text):
        if middle.start() - last >= 8:
            pieces += [text[last : middle.start() - 8], "~"]
            last = middle.end()
    return "".join((*pieces, text[last:]))


def _without_durations(text: str) -> str:
    """Durations are told first or last; numbers before words with s in the middle are many and are none."""
    if len(text) <= 2 * SAID:
        return _DURATION.sub("~", text)
    return _DURATION.sub("~", text[:SAID]) + text[SAID:-SAID] + _DURATION.sub("~", text[-SAID:])


def _unlabelled(label: re.Match[str]) -> str:
    """`request id: 5f3a` as `request id: ~`, and so on; other ids say what the answer is about and stay."""
    before = label.string[max(0, label.start() - 13) : label.start()].lower()
    if before[-1:] == "p" or before.rstrip("_- ").endswith(_LABELLED):
        return f"{label.group()[:3]}~"
    return label.group()


def _edge(text: str) -> str:
    # "0.35 s", "12 ms" and "0x1f" all hold "0s" then, "id: 7" and "id=7" hold "id:": four searches instead of twenty
    view = text.encode("ascii", "replace").translate(_SEARCHED, b" .m\"'")
    if b"0" not in view:
        return text
    if b":00:00" in view:
        text = _MOMENT.sub("~", text)
    if b"0s" in view:
        text = _without_durations(_HEX.sub("~", text) if "0x" in text else text)
    if b"@" in view:
        text = _IDENTITY.sub("~", text)
    if view.count(b"-") > 3:
        text = _without_uuids(text)
    if b"id:" in view:
        text = _LABEL.sub(_unlabelled, text)
    if b"/tp/" in view:
        text = _SCRATCH.sub("~", text)
    end = view[-256:]
    if b"0ties" in end or b"attept" in end or b"retry" in end:
        text = _TALLY.sub(r"\1 ~", text)
    return text


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
        return {k: settled(v) for k, v in value.items() if str(k).casefold() not in VOLATILE_KEYS}
    if isinstance(value, list):
        return [settled(item) for item in value]
    return value


def _hinted(text: str) -> bool:
    low = text.lower()
    return any(hint in low for hint in _KEY_HINTS)


def result_text(text: str) -> str:
    """A tool's answer, ready for comparing. JSON loses its volatile keys; everything else is masked."""
    if text[:1] in "{[" and 1 < len(text) <= 2 * EDGE and _hinted(text):
        with suppress(ValueError, RecursionError):  # not JSON after all: compared as text
            text = json.dumps(settled(json.loads(text)), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return mask(text).strip()
