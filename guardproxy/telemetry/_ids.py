"""Trace and span ids that every worker derives alike, and the `traceparent` header. No OpenTelemetry needed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

# ff is no version, and in 00 nothing stands behind the flags
_TRACEPARENT = re.compile(r"\A(?!ff|00.{53}.)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?\Z")
_LOW = (1 << 64) - 1
_CHARS = 55  # of a header, without what later versions of the standard may add


@dataclass(frozen=True, slots=True)
class Caller:
    """What a `traceparent` header says (W3C Trace Context)."""

    trace_id: int
    span_id: int
    sampled: bool


def read_traceparent(text: str) -> Caller | None:
    """The caller's context; None when the header is absent or broken (it is then ignored, as the standard says)."""
    found = _TRACEPARENT.match(text) if text else None
    if found is None:
        return None
    trace_id, span_id = int(found[1], 16), int(found[2], 16)
    return Caller(trace_id, span_id, bool(int(found[3], 16) & 1)) if trace_id and span_id else None


def adoptable(text: str) -> str:
    """The header as a session keeps it whose trace is adopted; "" for one that is broken."""
    return text[:_CHARS] if read_traceparent(text) is not None else ""


@dataclass(frozen=True, slots=True)
class Segment:
    """What the store says of a session's trace (`traceparent` in `state.lua`).

    `caller` is the header with which it was adopted. A trace is of a bounded stretch of a run: `number` counts from 0,
    `since_ms` is when it began (0 = with the session), `turn` which turn began it, `ended` when the one before it began
    and ended, where that turn has to send its root.
    """

    caller: str = ""
    number: int = 0
    since_ms: int = 0
    turn: int = 0
    ended: tuple[int, int] | None = None

    def begins(self, turn: int, now_ms: int) -> bool:
        """Whether it begins with this turn."""
        return self.number > 0 and (turn, now_ms) == (self.turn, self.since_ms)


WHOLE = Segment()
"""Nothing is said: a trace of its own, from the session's beginning."""


def read_segment(text: str) -> Segment:
    """The parts of what the store says. What is no such text is a caller's header."""
    if not text:
        return WHOLE
    caller, *told = text.split(";")
    if len(told) < 4:
        return Segment(text)
    try:
        ended = (int(told[4]), int(told[5])) if told[3] == "r" else None
        return Segment(caller, int(told[0]), int(told[1]), int(told[2]) + 1, ended)
    except (ValueError, IndexError):
        return Segment(caller)


def run_ids(key: bytes, org: str, session: str, started_ms: int, segment: int = 0) -> tuple[int, int]:
    """(trace id, root span id) of a run that brought no trace of its own; never zero."""
    since = f"{started_ms};{segment}" if segment else str(started_ms)
    text = f"trace\x1f{org}\x1f{session}\x1f{since}".encode(errors="surrogatepass")
    digest = hashlib.blake2b(text, key=key[:64], digest_size=24).digest()  # a tenth of OpenSSL's price for an HMAC
    return int.from_bytes(digest[:16], "big") or 1, int.from_bytes(digest[16:], "big") or 1


def trace_of(key: bytes, org: str, session: str, started_ms: int, told: str) -> int:
    """The trace id of a run. `told`: what the store says of it, or the header that its first request brought."""
    segment = read_segment(told)
    caller = read_traceparent(segment.caller)
    return caller.trace_id if caller else run_ids(key, org, session, started_ms, segment.number)[0]


def sampled(trace_id: int, ratio: float) -> bool:
    """Whether a run is traced: the same answer in every worker (the SDK's ratio rule, on the low 64 bits)."""
    return (trace_id & _LOW) < round(ratio * (_LOW + 1))
