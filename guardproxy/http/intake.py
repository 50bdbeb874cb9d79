"""Reads a request off the socket: bounded body, content encodings with a bound on what they expand to, headers."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from guardproxy.errors import BadAsk


@dataclass(frozen=True, slots=True)
class Intake:
    """A request's body as it came (`raw`) and as it reads (`plain`; the same object where it was not encoded)."""

    raw: bytes
    plain: bytes

    @property
    def encoded(self) -> bool:
        """Whether the body came with a content encoding."""
        return self.raw is not self.plain


async def take(request: web.BaseRequest, *, max_body: int, max_expanded: int) -> Intake:
    """The whole body. `BadAsk` (400 `body_too_large`, never 413: clients take that for a full context window)."""
    declared = request.content_length or 0
    if declared > max_body:
        raise _too_large(declared, max_body)
    parts, size = [], 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > max_body:
            raise _too_large(size, max_body)
        parts.append(chunk)
    raw = parts[0] if len(parts) == 1 else b"".join(parts)
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    return Intake(raw, raw if encoding in ("", "identity") else expand(raw, encoding, max_expanded))


def expand(raw: bytes, encoding: str, limit: int) -> bytes:
    """The decoded body, at most `limit` bytes. gzip and deflate are read; others are refused with their name."""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        message = f"content-encoding {encoding!r} is not supported; send gzip, deflate or no encoding"
        raise BadAsk(message, code="unsupported_encoding", param="content-encoding")
    codec = zlib.decompressobj(47)
    try:
        plain = codec.decompress(raw, limit)
    except zlib.error as error:
        message = f"the body is not valid {encoding}: {error}"
        raise BadAsk(message, code="invalid_encoding", param="content-encoding") from error
    if len(plain) == limit and not codec.eof:
        message = f"the body expands to more than {limit} bytes (overload.max_expanded_mb)"
        raise BadAsk(message, code="body_too_large", param="content-encoding")
    if not codec.eof:
        raise BadAsk(f"the {encoding} body is cut off", code="invalid_encoding", param="content-encoding")
    return plain


def lower(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers with lower-case names; of a repeated one the first."""
    plain: dict[str, str] = {}
    for name, value in headers.items():
        plain.setdefault(name.lower(), value)
    return plain


def _too_large(size: int, limit: int) -> BadAsk:
    message = f"the request body has {size} bytes, more than the {limit} allowed (overload.max_body_mb)"
    return BadAsk(message, code="body_too_large", param="body")
