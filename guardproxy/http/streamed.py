"""An answer that comes in parts: each part one write, and the head in the first one's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guardproxy.http.whole import BODILESS, Pairs, Whole, head_of

if TYPE_CHECKING:
    from guardproxy.http.request import Request


class Streamed:
    """`with_first`: the first part is there, and the head leaves with it; else it leaves at once.

    Where a header says how long it is, it is written as it is, else in chunks; to a client of HTTP/1.0 until the
    connection ends.
    """

    __slots__ = (
        "_chunked",
        "_head",
        "_left",
        "_mute",
        "_pairs",
        "_request",
        "_with_first",
        "keep_alive",
        "status",
        "tail",
    )

    def __init__(self, status: int, headers: Pairs, *, with_first: bool = False) -> None:
        self.status = status
        self.keep_alive = True
        self._pairs = headers
        self._with_first = with_first
        self._request: Request | None = None
        self._chunked = self._mute = False
        self._head = b""  # until it is sent
        self._left: int | None = None  # bytes that may come yet, where that was said
        self.tail = b""
        """The part that was handed on last."""

    def force_close(self) -> None:
        """Use the connection for nothing else."""
        self.keep_alive = False

    def prepare(self, request: Request) -> None:
        """Begin it. ConnectionResetError: the client is gone."""
        if self._request is not None:
            return
        self._request, status, pairs = request, self.status, self._pairs
        size = next((value for name, value in pairs if name.lower() == "content-length"), None)
        self._mute = none = status in BODILESS or status < 200 or request.method == "HEAD"
        framing = None
        if size is not None:
            self._left = int(size)
        elif not none and request.modern:
            self._chunked, framing = True, "Transfer-Encoding: chunked"
        elif not none:
            self.keep_alive = False
        request.keep_alive = request.keep_alive and self.keep_alive
        self._head = head_of(request, status, pairs, framing, typed=not none)
        if not self._with_first:
            self.begin()

    def begin(self) -> None:
        """Let the head leave, if it has not: what it was to leave with is nothing for the client."""
        head, self._head = self._head, b""
        if head and self._request is not None:
            self._request.send(head)

    async def write(self, data: bytes) -> None:
        """Hand a part on. ConnectionResetError: the client is gone."""
        request = self._request
        if not data or request is None:
            return
        self.tail = data
        if self._chunked:
            head, self._head = self._head, b""
            request.send(b"%b%x\r\n%b\r\n" % (head, len(data), data))
        else:
            self._plain(data)
        if request.clogged:
            await request.drain()

    def _plain(self, data: bytes) -> None:
        self.begin()
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        if not self._mute and self._request is not None:
            self._request.send(data)

    async def write_eof(self) -> None:
        """The end."""
        request = self._request
        if request is None or self._left == -1:
            return
        if self._left and not self._mute:  # it was to be longer: the client has to see that this is not all
            self.keep_alive = False
        self._left = -1
        self.begin()
        if self._chunked:
            request.send(b"0\r\n\r\n")
        if request.clogged:
            await request.drain()


Response = Whole | Streamed
"""What a handler gives: an answer whose end is not written, or one that is out."""
