"""A tap between client and proxy: bytes go through as they are, and what they said is kept."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httptools

Json = dict[str, Any]


@dataclass(slots=True)
class Message:
    """A request or an answer. `line`: method and path of the one, status of the other."""

    line: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    whole: bool = False

    @property
    def json(self) -> Any:
        """The body, parsed; None where it is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(slots=True)
class Exchange:
    """A request and its answer. `number`: in which order requests came."""

    request: Message
    answer: Message = field(default_factory=Message)
    number: int = 0

    @property
    def method(self) -> str:
        """Of the request."""
        return self.request.line.partition(" ")[0]

    @property
    def path(self) -> str:
        """Of the request, with its query."""
        return self.request.line.partition(" ")[2]

    @property
    def status(self) -> int:
        """Of the answer; 0 where there was none."""
        return int(self.answer.line or 0)


class _Reader:
    """Messages of one direction of a connection."""

    def __init__(self, begin: Callable[[], Message], *, requests: bool) -> None:
        self._begin, self._requests = begin, requests
        self._made = httptools.HttpRequestParser if requests else httptools.HttpResponseParser
        self._parser, self._now, self._url = self._made(self), Message(), b""

    def feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:  # asked for; the answer says whether it is granted
            rest = data[upgrade.args[0] :]
            self._parser = self._made(self)
            if rest:
                self.feed(rest)

    def on_message_begin(self) -> None:
        self._now, self._url = self._begin(), b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._now.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._requests:
            self._now.line = f"{self._parser.get_method().decode()} {self._url.decode()}"
        else:
            self._now.line = str(self._parser.get_status_code())

    def on_body(self, body: bytes) -> None:
        self._now.body += body

    def on_message_complete(self) -> None:
        self._now.whole = True


@asynccontextmanager
async def tap(host: str, port: int) -> AsyncIterator[tuple[int, list[Exchange]]]:
    """A port that leads to another one, and the list of what went through."""
    seen: list[Exchange] = []
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())  # type: ignore[arg-type]
        waiting: list[Exchange] = []

        def asked() -> Message:
            seen.append(Exchange(Message(), number=len(seen)))
            waiting.append(seen[-1])
            return seen[-1].request

        def answered() -> Message:
            return waiting.pop(0).answer if waiting else Message()

        there, back = await asyncio.open_connection(host, port)
        both = (
            _pass(reader, back, _Reader(asked, requests=True)),
            _pass(there, writer, _Reader(answered, requests=False)),
        )
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):  # the scene is over
            await asyncio.gather(*both)
        for end in (writer, back):
            end.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 22)
    try:
        yield server.sockets[0].getsockname()[1], seen
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pass(source: asyncio.StreamReader, sink: asyncio.StreamWriter, reader: _Reader) -> None:
    while data := await source.read(1 << 16):
        sink.write(data)
        reader.feed(data)
        await sink.drain()
    if sink.can_write_eof():
        with contextlib.suppress(OSError):
            sink.write_eof()


def said(exchange: Exchange) -> Iterator[tuple[str, str]]:
    """Actions and rules that the proxy told of in an answer: in its headers, then in comments of its stream."""
    headers = exchange.answer.headers
    if "x-guardproxy-verdict" in headers:
        yield headers["x-guardproxy-verdict"], headers.get("x-guardproxy-rule", "")
    for line in exchange.answer.body.split(b"\n"):
        if line.startswith(b": guardproxy "):
            words = dict(word.partition("=")[::2] for word in line.decode().split()[2:])
            yield words.get("action", ""), words.get("rule", "")
