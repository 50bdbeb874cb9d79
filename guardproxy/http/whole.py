"""An answer that is there as a whole: one head, one body, written together. And the head of any answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING

from multidict import CIMultiDict

if TYPE_CHECKING:
    from guardproxy.http.request import Request

_REASONS = {status.value: status.phrase for status in HTTPStatus}
_date = (0, "")

BODILESS = frozenset({204, 304})
"""Statuses of answers that have no body (RFC 9110, section 6.4.1), and those below 200."""

AT_ONCE = 0x10000
"""Bytes of a body that are copied behind their head, so that both leave together."""

Pairs = Sequence[tuple[str, str]]


class Whole:
    """An answer in one piece. `keep_alive`: whether the connection may be used again, as far as it is for us to say."""

    __slots__ = ("_headers", "_pairs", "_request", "body", "keep_alive", "status")

    def __init__(self, status: int, headers: Pairs, body: bytes) -> None:
        self.status = status
        self.body = body
        self.keep_alive = True
        self._pairs = headers
        self._headers: CIMultiDict[str] | None = None
        self._request: Request | None = None

    @property
    def headers(self) -> CIMultiDict[str]:
        """Its headers, to be read and changed."""
        if self._headers is None:
            self._headers = CIMultiDict(self._pairs)
        return self._headers

    def force_close(self) -> None:
        """Use the connection for nothing else."""
        self.keep_alive = False

    def prepare(self, request: Request) -> None:
        """For whom it is."""
        self._request = request

    async def write_eof(self) -> None:
        """Send it. ConnectionResetError: the client is gone."""
        request, self._request = self._request, None
        if request is None:
            return
        request.keep_alive = request.keep_alive and self.keep_alive
        pairs = self._pairs if self._headers is None else list(self._headers.items())
        body, status = self.body, self.status
        none = status in BODILESS or status < 200
        mute = none or request.method == "HEAD"
        size = None if none else f"Content-Length: {len(body)}"
        head = head_of(request, status, pairs, size, typed=bool(body) and not mute)
        if mute:
            request.send(head)
        elif len(body) > AT_ONCE:
            request.send(head)
            request.send(body)
        else:
            request.send(head + body)
        if request.clogged:
            await request.drain()


def whole(status: int, headers: Pairs, body: bytes) -> Whole:
    """The answer to a POST."""
    return Whole(status, headers, body)


def said(status: int, text: str) -> Whole:
    """An answer in plain words."""
    return Whole(status, [("Content-Type", "text/plain; charset=utf-8")], text.encode())


def head_of(request: Request, status: int, pairs: Pairs, framing: str | None, *, typed: bool) -> bytes:
    """The head of an answer. `framing`: the header that says where the body ends; `typed`: there is a body, and it has
    a type. ValueError for a header that would bring another.
    """
    version = "HTTP/1.1 " if request.modern else "HTTP/1.0 "
    lines = [f"{version}{status} {_REASONS.get(status, '')}", *map(": ".join, pairs)]
    known = "\r\n".join(lines).lower()
    if framing is not None:
        if "\r\ncontent-length:" in known or "\r\ntransfer-encoding:" in known:
            lines = [line for line in lines if not line.lower().startswith(("content-length:", "transfer-encoding:"))]
        lines.append(framing)
    if typed and "\r\ncontent-type:" not in known:
        lines.append("Content-Type: application/octet-stream")
    if "\r\ndate:" not in known:
        lines.append(_dated())
    if "\r\nserver:" not in known:
        lines.append("Server: guardproxy")
    if request.keep_alive is not request.modern and "\r\nconnection:" not in known:
        lines.append("Connection: close" if request.modern else "Connection: keep-alive")
    lines += ("", "")
    head = "\r\n".join(lines)
    breaks = len(lines) - 1
    if head.count("\n") != breaks or head.count("\r") != breaks or "\0" in head:
        message = "a header of the answer has a control character"
        raise ValueError(message)
    return head.encode("utf-8", "surrogateescape")


def _dated() -> str:
    global _date  # noqa: PLW0603  # made once a second
    now = int(time.time())
    if _date[0] != now:
        _date = now, f"Date: {formatdate(now, usegmt=True)}"
    return _date[1]
