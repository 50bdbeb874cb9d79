"""Reads a request off the socket: bounded body, content encodings with a bound on what they expand to, headers."""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING, NamedTuple

from guardproxy.errors import BadAsk
from guardproxy.http.inflate import READABLE, Inflate, TooMuchError
from guardproxy.http.request import MalformedBody

if TYPE_CHECKING:
    from guardproxy.http.request import Request

IDLE_S = 30.0
"""Seconds within which the next bytes of a body must come."""

AT_ONCE = 1 << 20
"""Bytes that a body may expand to on the loop; a longer one is decoded beside it."""


class Intake(NamedTuple):
    """A request's body as it came (`raw`) and as it reads (`plain`; the same object where it was not encoded)."""

    raw: bytes
    plain: bytes

    @property
    def encoded(self) -> bool:
        """Whether the body came with a content encoding."""
        return self.raw is not self.plain


async def arrive(request: Request, *, max_body: int) -> bool:
    """Wait for the whole body; `take` has it, or what was wrong with it (False)."""
    try:
        request.body = await _read(request, max_body)
    except BadAsk as error:
        request.wrong = error
        return False
    return True


async def take(request: Request, *, max_body: int, max_expanded: int) -> Intake:
    """The whole body. `BadAsk` (400 `body_too_large`, never 413: clients take that for a full context window)."""
    if request.wrong is not None:
        raise request.wrong
    raw = await _read(request, max_body) if request.body is None else request.body
    encoding = request.lower.get("content-encoding")
    if not encoding or (encoding := encoding.strip().lower()) in ("", "identity"):
        return Intake(raw, raw)
    if max_expanded > AT_ONCE and encoding in READABLE and _is_long(raw, encoding):
        return Intake(raw, await asyncio.to_thread(expand, raw, encoding, max_expanded))
    return Intake(raw, expand(raw, encoding, max_expanded))


def too_slow() -> BadAsk:
    """A body stopped coming. The connection must be closed: what comes later would be read as a request."""
    message = f"the request body stopped arriving: nothing came for {IDLE_S:g} seconds"
    return BadAsk(message, status=408, code="request_timeout", param="body")


def malformed() -> BadAsk:
    """A body that HTTP does not know."""
    message = "the request body is not well-formed HTTP (its chunks, or its length)"
    return BadAsk(message, code="malformed_http", param="body")


async def _read(request: Request, max_body: int) -> bytes:
    if not request.arrived:  # the usual case is that it came with the head
        declared = request.length or 0
        if declared > max_body:
            raise _too_large(declared, max_body)
        request.go_on()
        try:
            await request.gathered(max_body, IDLE_S)
        except TimeoutError:
            raise too_slow() from None
        except MalformedBody:
            raise malformed() from None
    if request.size > max_body:
        raise _too_large(request.size, max_body)
    return request.taken()


def _is_long(raw: bytes, encoding: str) -> bool:
    if len(raw) > AT_ONCE:
        return True
    try:
        Inflate(encoding, AT_ONCE).feed(raw)
    except TooMuchError:
        return True
    except zlib.error:
        pass  # `expand` says so
    return False


def expand(raw: bytes, encoding: str, limit: int) -> bytes:
    """The decoded body, at most `limit` bytes. gzip and deflate are read; others are refused with their name."""
    if encoding not in READABLE:
        message = f"content-encoding {encoding[:80]!r} is not supported; send gzip, deflate or no encoding"
        raise BadAsk(message, code="unsupported_encoding", param="content-encoding")
    inflate = Inflate(encoding, limit)
    try:
        plain = inflate.feed(raw)
    except TooMuchError:
        message = f"the body expands to more than {limit} bytes (overload.max_expanded_mb)"
        raise BadAsk(message, code="body_too_large", param="content-encoding") from None
    except zlib.error:
        raise BadAsk(f"the body is not valid {encoding}", code="invalid_encoding", param="content-encoding") from None
    if not inflate.complete:
        raise BadAsk(f"the {encoding} body is cut off", code="invalid_encoding", param="content-encoding")
    return plain


def _too_large(size: int, limit: int) -> BadAsk:
    message = f"the request body has {size} bytes, more than the {limit} allowed (overload.max_body_mb)"
    return BadAsk(message, code="body_too_large", param="body")
