"""What a client's bytes say: its requests, one after the other. httptools reads them.

What can be read in two ways is malformed (RFC 9112, section 11.2), and so is whatever is longer than anything real.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import httptools

from guardproxy.http.request import MalformedBody, Request

if TYPE_CHECKING:
    from guardproxy.http.connection import Connection

MAX_LINE = 64 * 1024
"""Bytes of a request's address, and of one header: keys and traces of gateways may be long."""

MAX_HEAD = 256 * 1024
"""Bytes of a request's head, and of what may stand between two parts of a body."""

MAX_HEADERS = 128
"""Headers of one request, and trailers."""

AHEAD = 32
"""Requests that may wait for the answer to an earlier one; a client that sends more at once has to send those anew."""

_names: dict[bytes, tuple[str, str]] = {}
_methods: dict[bytes, str] = {}
_KNOWN, _LONG = 4096, 64  # names of headers that are remembered, and their bytes: clients make some up


class Incoming:
    """The requests of one connection. `waiting`: those that are to be answered, in order."""

    def __init__(self, connection: Connection) -> None:
        self.waiting: deque[Request] = deque()
        self.coming: Request | None = None
        """Whose body is read now."""
        self.dropped: Request | None = None
        """Whose body nobody wants any more."""
        self.heading = False
        """A head has begun and is not there as a whole."""
        self.begun_s = 0.0
        """When it began, by the loop's clock."""
        self.deaf = False
        """Nothing more is read."""
        self.wrong = ""
        """Why what came could not be read on."""
        self._connection = connection
        self._parser = httptools.HttpRequestParser(self)
        self._bodied: Request | None = None  # that wishes for another protocol, and has a body
        self._again = False  # its head is read once more
        self._quiet = 0  # bytes since the last that said something
        self._url, self._size = b"", 0
        self._headers: list[tuple[str, str]] = []
        self._lower: dict[str, str] = {}

    def feed(self, data: bytes) -> bytes:
        """Read on; what is left stands behind a wish for another protocol. Nobody speaks one here: it is HTTP, too."""
        self._quiet += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as asked:
            self._parser = httptools.HttpRequestParser(self)
            rest = data[asked.args[0] :]
            return rest if self._bodied is None else self._body_of(self._bodied, rest)
        except httptools.HttpParserError as error:
            if not self.deaf:
                self._malformed(type(error).__name__)
        else:
            if self._quiet > MAX_HEAD and (self.heading or self.coming is not None):
                self._malformed("too long")
        if self.coming is not None:
            self.coming.news()
        return b""

    def _body_of(self, request: Request, rest: bytes) -> bytes:
        """Httptools leaves the body of such a request unread; a new parser is told how long it is, and goes on."""
        self._bodied, self._again = None, True
        framing = "Transfer-Encoding: chunked" if request.length is None else f"Content-Length: {request.length}"
        self._parser.feed_data(f"POST / HTTP/1.1\r\n{framing}\r\n\r\n".encode())
        self._again = False
        return self.feed(rest) if rest else b""

    def over(self, error: Exception) -> None:
        """Nothing more will come."""
        self.deaf = True
        if self.coming is not None:
            self.coming.fail(error)
        self._parser = httptools.HttpRequestParser(None)  # the other one knows us, as we know it

    def _malformed(self, kind: str) -> None:
        self.deaf, self.wrong = True, kind
        coming, self.coming = self.coming, None
        if coming is not None:
            coming.keep_alive = False
            coming.fail(MalformedBody())
            return
        self.heading = False
        nothing = Request(self._connection, "", "", [], {})
        nothing.keep_alive, nothing.arrived = False, True
        self.waiting.append(nothing)

    def on_message_begin(self) -> None:
        """Part of httptools' protocol."""
        if self._again:
            return
        if len(self.waiting) >= AHEAD:
            self.waiting[-1].keep_alive, self.deaf = False, True
            raise ValueError
        self.heading, self.begun_s = True, self._connection.seen_s
        self._url, self._size, self._headers, self._lower = b"", 0, [], {}

    def on_url(self, url: bytes) -> None:
        """Part of httptools' protocol."""
        self._url += url
        if len(self._url) > MAX_LINE:
            raise ValueError

    def on_header(self, name: bytes, value: bytes) -> None:
        """Part of httptools' protocol. Trailers are counted, and left out."""
        headers, lower = self._headers, self._lower
        spelled, low = _names.get(name) or _known(name)
        text = value.rstrip(b" \t").decode("utf-8", "surrogateescape")
        headers.append((spelled, text))
        self._size += len(name) + len(value)
        if len(headers) > MAX_HEADERS or (self._size > MAX_LINE and self._too_long(name, value)):
            raise ValueError
        if low not in lower:
            lower[low] = text
        elif low in ("content-length", "transfer-encoding"):
            raise ValueError  # how long it is may not be said twice

    def _too_long(self, name: bytes, value: bytes) -> bool:
        return self._size > MAX_HEAD or len(name) > MAX_LINE or len(value) > MAX_LINE

    def on_headers_complete(self) -> None:
        """Part of httptools' protocol."""
        if self._again:
            return
        parser, lower, self._quiet = self._parser, self._lower, 0
        method, version = parser.get_method(), parser.get_http_version()
        path = self._url.decode("utf-8", "surrogateescape")
        request = Request(self._connection, _methods.get(method) or _method(method), path, self._headers, lower)
        request.keep_alive = parser.should_keep_alive() and method != b"CONNECT"
        if version != "1.1":
            request.modern = False
            if version != "1.0" or "transfer-encoding" in lower:
                raise ValueError
        if "content-length" in lower:
            request.length = int(lower["content-length"])
            if "transfer-encoding" in lower:
                raise ValueError
        elif lower.get("transfer-encoding", "chunked").strip().lower() != "chunked":
            raise ValueError
        self.heading, self.coming, self._headers, self._lower = False, request, [], {}
        if parser.should_upgrade() and request.body_exists:
            self._bodied = request
        self.waiting.append(request)

    def on_body(self, part: bytes) -> None:
        """Part of httptools' protocol."""
        coming, self._quiet = self.coming, 0
        if coming is not None and coming is not self.dropped:
            coming.add(part)

    def on_message_complete(self) -> None:
        """Part of httptools' protocol."""
        if self._bodied is not None:  # it has yet to be read
            return
        coming, self.coming, self._quiet = self.coming, None, 0
        if coming is not None:
            coming.arrived = True
            coming.news()


def _known(name: bytes) -> tuple[str, str]:
    spelled = name.decode("utf-8", "surrogateescape")
    found = spelled, spelled.lower()
    if len(name) <= _LONG:
        if len(_names) >= _KNOWN:
            _names.clear()
        _names[name] = found
    return found


def _method(method: bytes) -> str:
    """There are few: the parser takes no others."""
    found = _methods[method] = method.decode("ascii")
    return found
