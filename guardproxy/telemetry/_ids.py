"""Trace and span ids that every worker derives alike, and the `traceparent` header. No OpenTelemetry needed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_TRACEPARENT = re.compile(r"\A(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?\Z")
_LOW = (1 << 64) - 1


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


def run_ids(key: bytes, org: str, session: str, started_ms: int) -> tuple[int, int]:
    """(trace id, root span id) of a run that brought no trace of its own; never zero."""
    text = "\x1f".join(("trace", org, session, str(started_ms))).encode(errors="surrogatepass")
    digest = hashlib.blake2b(text, key=key[:64], digest_size=24).digest()  # a tenth of OpenSSL's price for an HMAC
    return int.from_bytes(digest[:16], "big") or 1, int.from_bytes(digest[16:], "big") or 1


def sampled(trace_id: int, ratio: float) -> bool:
    """Whether a run is traced: the same answer in every worker (the SDK's ratio rule, on the low 64 bits)."""
    return (trace_id & _LOW) < round(ratio * (_LOW + 1))
