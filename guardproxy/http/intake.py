"""Reads a request off the socket: bounded body, content encodings with a bound on what they expand to, headers."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from aiohttp import StreamReader, web

from guardproxy.errors import BadAsk
from guardproxy.http.inflate import READABLE, Inflate, TooMuchError

IDLE_S = 30.0
"""Seconds within which the next bytes of a body must come."""

AT_ONCE = 1 << 20
"""Bytes that a body may expand to on the loop; a longer one is decoded beside it."""

_ARRIVED: Final = web.RequestKey("arrived", bytes)
_WRONG: Final = web.RequestKey("wrong", BadAsk)


class Intake(NamedTuple):
    """A request's body as it came (`raw`) and as it reads (`plain`; the same object where it was not encoded)."""

    raw: bytes
    plain: bytes

    @property
    def encoded(self) -> bool:
        """Whether the body came with a content encoding."""
        return self.raw is not self.plain


async def arrive(request: web.BaseRequest, *, max_body: int) -> bool:
    """Wait for the whole body; `take` has it, or what was wrong with it (False)."""
    try:
        request[_ARRIVED] = await _read(request, max_body)
    except BadAsk as error:
        request[_WRONG] = error
        return False
    return True


async def take(request: web.BaseRequest, *, max_body: int, max_expanded: int) -> Intake:
    """The whole body. `BadAsk` (400 `body_too_large`, never 413: clients take that for a full context window)."""
    content = request.content
    raw = content.read_nowait() if content.is_eof() and content.exception() is None else b""
    if not raw:  # it came after its head (asking the request for what it does not have costs as much as parsing it)
        if _WRONG in request:
            raise request[_WRONG]
        raw = request[_ARRIVED] if _ARRIVED in request else await _read(request, max_body)
    elif len(raw) > max_body:
        raise _too_large(len(raw), max_body)
    encoding = request.headers.get("Content-Encoding")
    if not encoding or (encoding := encoding.strip().lower()) in ("", "identity"):
        return Intake(raw, raw)
    if max_expanded > AT_ONCE and encoding in READABLE and _is_long(raw, encoding):
        return Intake(raw, await asyncio.to_thread(expand, raw, encoding, max_expanded))
    return Intake(raw, expand(raw, encoding, max_expanded))


async def expected(request: web.BaseRequest) -> None:
    """Tell a client that waits for it (`Expect: 100-continue`) to send the body."""
    if request.headers.get("Expect", "").strip().lower() == "100-continue" and request.version >= (1, 1):
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer itself has not begun


def too_slow() -> BadAsk:
    """A body stopped coming. The connection must be closed: what comes later would be read as a request."""
    message = f"the request body stopped arriving: nothing came for {IDLE_S:g} seconds"
    return BadAsk(message, status=408, code="request_timeout", param="body")


def malformed() -> BadAsk:
    """A body that HTTP does not know."""
    message = "the request body is not well-formed HTTP (its chunks, or its length)"
    return BadAsk(message, code="malformed_http", param="body")


async def _read(request: web.BaseRequest, max_body: int) -> bytes:
    content = request.content
    if content.is_eof() and not content.exception():  # it came with the head: the usual case, and nothing to wait for
        whole = content.read_nowait()
        if len(whole) > max_body:
            raise _too_large(len(whole), max_body)
        return whole
    declared = request.content_length or 0
    if declared > max_body:
        raise _too_large(declared, max_body)
    await expected(request)
    try:
        return await _gathered(content, max_body, sized=request.content_length is not None)
    except TimeoutError:
        raise too_slow() from None
    except web.RequestPayloadError:
        raise malformed() from None


async def _gathered(content: StreamReader, most: int, *, sized: bool) -> bytes:
    """The body as it comes. Of a `sized` one each part is taken as it is, so that the whole is copied once; chunks of
    the client's are too many for that.
    """
    parts, size, loop = [], 0, asyncio.get_running_loop()
    async with asyncio.timeout(IDLE_S) as limit:
        until = loop.time() + IDLE_S
        while not content.at_eof():
            parts.append((await content.readchunk())[0] if sized else await content.readany())
            late = loop.time() + IDLE_S
            if late - until > IDLE_S / 30:  # not with each part: they are many, and close together
                until = late
                limit.reschedule(until)
            size += len(parts[-1])
            if size > most:
                raise _too_large(size, most)
    return parts[0] if len(parts) == 1 else b"".join(parts)


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


def lower(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers with lower-case names; of a repeated one the first."""
    plain: dict[str, str] = {}
    for name, value in headers.items():
        low = name.lower()
        if low not in plain:
            plain[low] = value
    return plain


def _too_large(size: int, limit: int) -> BadAsk:
    message = f"the request body has {size} bytes, more than the {limit} allowed (overload.max_body_mb)"
    return BadAsk(message, code="body_too_large", param="body")
