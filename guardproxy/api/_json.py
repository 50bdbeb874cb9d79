"""JSON in and out. orjson first; the standard library only for what orjson refuses and providers may accept.

Pure. Nothing here keeps a number's spelling or the order of duplicate keys: whoever must keep bytes splices them
(`_splice`).
"""

from __future__ import annotations

import json
from typing import cast

import orjson

from guardproxy.errors import BadAsk

BOM = b"\xef\xbb\xbf"
TOO_DEEP = "nested too deeply"


def loads(raw: bytes) -> object:
    """The value of `raw`; raises ValueError. Lone surrogates come back as U+FFFD, so every text can be encoded."""
    try:
        return cast("object", orjson.loads(raw))
    except orjson.JSONDecodeError:
        return _lenient(raw)


def _lenient(raw: bytes) -> object:
    # NaN, lone surrogates, a BOM, raw control characters in strings: seen from real clients, read by real providers
    try:
        return _scrub(json.loads(raw.removeprefix(BOM).decode(), strict=False))
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def _scrub(value: object) -> object:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_scrub(item) for item in value]
    if isinstance(value, dict):
        return {_scrub(key): _scrub(item) for key, item in value.items()}
    return value


def peek(raw: bytes | str) -> object:
    """The value of `raw`, or None where there is none. Never raises: for what providers send.

    NaN (in logprobs) and half surrogate pairs (a pair split over two chunks) are let through: see `mend`.
    """
    try:
        return cast("object", orjson.loads(raw))
    except orjson.JSONDecodeError:
        pass
    try:
        return cast("object", json.loads(raw, strict=False))
    except (ValueError, RecursionError):
        return None


def mend(text: str) -> str:
    """`text` with surrogate pairs joined and lone surrogates replaced, so that it can be encoded."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def dumps(value: object) -> bytes:
    """Compact JSON in UTF-8, also of what orjson does not write: huge integers, lone surrogates."""
    try:
        return orjson.dumps(value)
    except TypeError:
        pass
    try:
        return json.dumps(_scrub(value), separators=(",", ":"), ensure_ascii=False, default=str).encode()
    except (RecursionError, ValueError):
        return b"null"  # nested beyond what anybody sends in good faith


def text_of(value: object) -> str:
    """A value that should have been JSON text, as JSON text; None is no text."""
    if isinstance(value, str):
        return value
    return "" if value is None else dumps(value).decode()


def read_object(body: bytes) -> dict[str, object]:
    """The body as an object; raises BadAsk in words that a client's author understands."""
    try:
        value = loads(body)
    except ValueError as err:
        reason = _reason(err)
        raise BadAsk(f"The request body is not valid JSON: {reason}", code="invalid_json", param="body") from None
    if not isinstance(value, dict):
        raise BadAsk("The request body must be a JSON object.", code="invalid_type", param="body")
    return value


def _reason(error: ValueError) -> str:
    """Why it cannot be read, in words of ours or of the JSON readers; never Python's on its own limits."""
    if isinstance(error, json.JSONDecodeError):
        return str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 at byte {error.start}"
    return str(error) if str(error) == TOO_DEEP else "a number in it has too many digits"
