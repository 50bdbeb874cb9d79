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
import unicodedata
import zlib
from contextlib import suppress

WHOLE = 65_536
"""Characters up to which a text is kept whole; beyond, its ends, its length and a hash stand for it."""

HUGE = 1 << 20
"""Characters beyond which a text is shortened as soon as it is read: 10 MB must not cost more than a few ms."""

KEPT = 16_384
"""Characters at each end of a huge text that are kept."""

PIECE = 65_536
"""Characters of a long text that are hashed at a time."""

EDGE = 2_048
"""Characters at each end in which volatile parts are masked. Time stamps in the middle of a long text stay."""

SAID = 160
"""Characters at each end in which durations are looked for, and at the end tallies: such things are told there."""

TOLD = 160
"""Characters at the end in which a tally is looked for ("read 3 times")."""

_MOMENT = re.compile(
    r"[0-9](?<![\w.][0-9])(?:[0-9]{3}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?(?:[.,][0-9]+)?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?"  # 2026-01-31T10:00:00Z
    r"|[0-9]?:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?: ?[AP]M)?)"  # 10:00:00
)
_MINUTE = re.compile(r":(?<=[0-9]:)[0-9][0-9]")
_UNIT = re.compile(r"s(?<=[0-9. mµ]s)(?:ec|\b)")
_LONG_UNIT = re.compile(r"mi(?<=[0-9. ]mi)(?:nutes|lliseconds)")
_DURATION = re.compile(
    r"[0-9](?<![\w.][0-9])[0-9.]*(?:m[0-9]+\.[0-9]+)? ?"  # 0.12s, and 0m1.234s as a shell's `time`
    r"(?:seconds|second|secs|sec|[mµ]s|s|milliseconds|minutes)\b"
)
_TIMED = re.compile(r"\)(?<=[0-9 mµ]s\))")
_TIMED_SPAN = re.compile(r"(\((?:took )?)[0-9][0-9.]* ?[mµ]?s(?=\))")
"""A duration in brackets, as test runners write it behind each test: unlike others it is known in the middle, too."""

_CLIENT_PORT = re.compile(r":[0-9]{4,5}->")
_TALLY = re.compile(
    r"(?i:\b(read|called|seen|shown|viewed|fetched|requested|accessed|queried|asked|opened|invoked|polled|try) #?[0-9]+"
    r" times?|\b(attempt|retry|(?:call|request|read|query|lookup|invocation|fetch) #) ?#?[0-9]+(?: times?)?"
    r"|\b[0-9]+(?:st|nd|rd|th) (time)\b|\b[0-9]+ (?:api |tool )?((?:calls|requests|queries) (?:left|remaining)))"
)
_LABEL = re.compile(r"[iI][dD][\"']?[:=] ?[\"']?(?=[0-9]|[\w-]*[0-9])[\w-]+")
_ID = re.compile(r"d(?<=[iI]d)[\"']?[:=]")
_UPPER_ID = re.compile(r"D(?<=[iI]D)[\"']?[:=]")
_LABELLED = ("chunk", "request", "trace", "span", "run", "session", "message", "correlation", "agent", "process")
_UUID = re.compile(r"-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b")
_HEX = re.compile(r"x(?<=0x)[0-9a-fA-F]{4,16}\b")  # the 0 stays; so it begins with one rare literal
_IDENTITY = re.compile(r"@[0-9a-f]{6,16}\b")
_SCRATCH = re.compile(r"/tmp/(?:tmp|pytest-of-|\.)[\w./-]+")  # noqa: S108 - names in results, not files of ours
_WORD = re.compile(r"[^\W\d_]{2}")
"""Two letters in a row: what is left of a text that says something beside what changes by itself."""

_KEY, _VALUE = re.compile(r'"[^"\\]*"\s*:'), re.compile(r"[^\W_]")
BARE = 200
"""Characters of the longest JSON answer that may hold nothing but times and ids."""

_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

_WIDE = re.compile("[\uff10-\uff19\uff1a]")
_NARROW = {wide: wide - 0xFEE0 for wide in range(0xFF10, 0xFF1B)}
"""Full-width digits and colon, as Chinese and Japanese programs print them, to the plain ones."""

_CJK_TOLD = re.compile(
    r"[0-9][0-9.]* ?(?:毫秒|微秒|秒钟?|分钟|ミリ秒|초)"  # 0.3 秒
    r"|(?:已|共)?(?:读取|调用|查看|访问|请求|查询|尝试|重试|読み取り|呼び出し)了? ?[0-9]+ ?[次回]"  # 已读取 3 次
    r"|第 ?[0-9]+ ?[次回](?:读取|调用|查看|访问|请求|查询|尝试|重试|目)?"
)

_CLOCKS = "elapsed duration took latency response_time execution_time processing_time query_time wall_time".split()
_UNITS = "_ms _s _sec _secs _seconds _us _ns _millis _milliseconds _in_ms _in_seconds".split()
_SPELLED = (
    "ts timestamp time_stamp request_id message_id trace_id span_id run_id created_at updated_at receipt nonce etag "
    "server_time last_accessed last_accessed_at accessed_at fetched_at retrieved_at queried_at generated_at checked_at "
    "as_of request_time time_taken elapsed_time correlation_id invocation_id call_count access_count read_count "
    "request_count requests_remaining calls_remaining remaining_calls remaining_requests rate_limit_remaining "
    "ratelimit_remaining x-ratelimit-remaining pid ppid pgid process_id search_time".split()
)
VOLATILE_KEYS = frozenset(
    spelled
    for key in (*_SPELLED, *_CLOCKS, *[clock + unit for clock in _CLOCKS for unit in _UNITS])
    for spelled in (key, key.replace("_", ""), key.replace("_", "-"))
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
    ends = text if len(text) <= 2 * SAID else text[:SAID] + "\n" + text[-SAID:]
    if _UNIT.search(ends) is not None or ("mi" in ends and _LONG_UNIT.search(ends) is not None):
        if ends is text:
            text = _DURATION.sub("~", text)
        else:
            text = _DURATION.sub("~", text[:SAID]) + text[SAID:-SAID] + _DURATION.sub("~", text[-SAID:])
    if ")" in text and _TIMED.search(text) is not None:
        text = _TIMED_SPAN.sub(r"\1~", text)
    end = text[-TOLD:].lower()
    if " time" in end or "attempt " in end or "retry " in end or "#" in end or "s left" in end or "s rem" in end:
        return text[:-TOLD] + _TALLY.sub(_untallied, text[-TOLD:])
    return text


def _untallied(tally: re.Match[str]) -> str:
    return f"{tally[1] or tally[2] or tally[3] or tally[4]} ~"


def _unlabelled(label: re.Match[str]) -> str:
    """`request id: 5f3a` as `request id: ~`, and so on; other ids say what the answer is about and stay."""
    before = label.string[max(0, label.start() - 13) : label.start()].lower()
    if before[-1:] == "p" or before[-2:] == "pg" or before.rstrip("_- ").endswith(_LABELLED):
        return f"{label.group()[:3]}~"
    return label.group()


def _edge(text: str) -> str:
    # a sign alone is found ten times as fast as a word, and a pattern that begins with one literal faster than others
    timed = ":" in text
    if timed and _MINUTE.search(text) is not None:
        text = _MOMENT.sub("~", text)
    if "x" in text and _HEX.search(text) is not None:
        text = _HEX.sub("~", text)
    text = _said(text)
    if "@" in text:
        text = _IDENTITY.sub("~", text)
    if "-" in text:
        text = _without_uuids(text)
        if timed and "->" in text:
            text = _CLIENT_PORT.sub(":~->", text)
    if (timed or "=" in text) and (_ID.search(text) is not None or _UPPER_ID.search(text) is not None):
        text = _LABEL.sub(_unlabelled, text)
    return _SCRATCH.sub("~", text) if "/tmp/" in text else text  # noqa: S108  # a pattern, no file is made


def composed(text: str) -> str:
    """The text with each letter and its accents as one character, and without what nobody sees."""
    return unicodedata.normalize("NFC", unseen(text))


def unseen(text: str) -> str:
    """The text without the characters that nobody sees: zero-width spaces and joiners, soft hyphens, marks of order."""
    return _UNSEEN.sub("", text)


def mask(text: str) -> str:
    """The text without what changes by itself: times, durations, ids, addresses, scratch paths, tallies.

    Bounded: beyond 2 * EDGE characters only the ends are masked, beyond WHOLE a hash stands for the middle.
    """
    if "\x1b" in text:
        text = _ANSI.sub("", text[:WHOLE]) + text[WHOLE:]
    plain = text.isascii()
    if not plain and len(text) <= WHOLE:
        text = composed(text)
    if len(text) <= 2 * EDGE:
        return _edge(text if plain else _foreign(text))
    middle = text[EDGE:-EDGE] if len(text) <= WHOLE else f"…{len(text)}…{_digest(text, EDGE)}…"
    first, last = text[:EDGE], text[-EDGE:]
    if not plain:
        first, last = _foreign(first), _foreign(last)
    return f"{_edge(first)}{middle}{_edge(last)}"


def _foreign(edge: str) -> str:
    """Digits in their plain form, without the durations and tallies of Chinese, Japanese and Korean programs."""
    if _WIDE.search(edge) is not None:
        edge = edge.translate(_NARROW)
    return _CJK_TOLD.sub("~", edge)


def _digest(text: str, start: int) -> str:
    """What a long text is known by between `start` and as far from its end; piece by piece, so that nothing is copied.

    Beyond HUGE a checksum does: nobody forges results in order to be thought in a loop.
    """
    stop, checksum = len(text) - start, 0
    hasher = hashlib.blake2b(digest_size=16)
    for place in range(start, stop, PIECE):
        piece = text[place : min(place + PIECE, stop)]
        try:
            raw = piece.encode("latin-1")  # ten times as fast as UTF-8 where it can be had
        except UnicodeEncodeError:
            raw = piece.encode("utf-16-le", "surrogatepass")
        if len(text) > HUGE:
            checksum = zlib.crc32(raw, checksum)
        else:
            hasher.update(raw)
    return f"{checksum:08x}" if len(text) > HUGE else hasher.hexdigest()


def shortened(text: str) -> str:
    """A huge text by its ends, its length and a checksum; done once, before anything else looks at it."""
    return f"{text[:KEPT]}…{len(text)}…{_digest(text, KEPT)}…{text[-KEPT:]}" if len(text) > HUGE else text


_SHORTENED = re.compile(r"…([0-9]{7,12})…(?:[0-9a-f]{8})…")


def ends_of_huge(text: str) -> tuple[str, int, str] | None:
    """Beginning, length and end of the text that `shortened` has made this of; None: it has not."""
    if not 2 * KEPT < len(text) <= 2 * KEPT + 32 or text[KEPT] != "…":
        return None
    found = _SHORTENED.fullmatch(text, KEPT, len(text) - KEPT)
    return None if found is None else (text[:KEPT], int(found[1]), text[-KEPT:])


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


def _plain(value: object) -> object:
    """A JSON answer without what is volatile; of one that holds nothing else, such as a receipt, the keys stay."""
    rest = settled(value)
    return rest if rest or not isinstance(value, dict) else dict.fromkeys(value, "~")


def result_text(text: str, *, receipt: bool = False) -> str:
    """A tool's answer, ready for comparing. JSON loses its volatile keys; everything else is masked.

    Nothing but a time or an id is the answer itself, as to "what time is it?"; unless it is the `receipt` of a change.
    """
    if text[:1] in "{[" and 1 < len(text) <= 2 * EDGE and _hinted(text):
        with suppress(ValueError, RecursionError):  # not JSON after all: compared as text
            text = json.dumps(_plain(json.loads(text)), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    masked = mask(text).strip()
    return text.strip() if not receipt and "~" in masked and _bare(masked) else masked


def _bare(masked: str) -> bool:
    """Whether hardly anything is left; of JSON the keys do not count, but its numbers do."""
    if masked[0] == "{" and len(masked) <= BARE:
        return _VALUE.search(_KEY.sub("", masked).replace("0~", "~")) is None
    return _WORD.search(masked) is None
