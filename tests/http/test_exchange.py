"""Answers as providers send them over one connection: whole, in chunks, until the end, broken, late."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from guardproxy.errors import UpstreamError
from guardproxy.http.exchange import BUFFERED, MOST_HEAD, Answer, Terms
from guardproxy.http.pool import Pool

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """A provider on a socket. Each connection takes requests and plays the script for each."""

    script: Script
    whole: bool = True
    url: str = ""
    connections: int = 0
    received: list[bytes] = field(default_factory=list)
    tasks: list[asyncio.Task[object]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if task := asyncio.current_task():
            self.tasks.append(task)
        try:
            if not self.whole:
                return await self.script(reader, writer)
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                self.received.append(head + await reader.readexactly(length))
                await self.script(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def provider(
    script: Script, *, whole: bool = True, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Server]:
    """A provider that plays the script for each request; not `whole`: for each connection, before anything is read."""
    made = Server(script, whole)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls)
    made.url = f"http{'s' if tls else ''}://{host}:{server.sockets[0].getsockname()[1]}/v1"
    yield made
    server.close()
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks)


def says(*parts: bytes, pause_s: float = 0.0, then_close: bool = False) -> Script:
    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)
        if then_close:
            writer.close()

    return script


def pool(url: str, *, first_byte_s: float = 5.0, idle_s: float = 5.0) -> Pool:
    return Pool(Terms(url, 5.0, first_byte_s, idle_s))


async def asked(used: Pool) -> tuple[int, bytes]:
    answer = await used.post("/v1/x", [("X-A", "1")], b"body")
    try:
        return answer.status, await answer.read()
    finally:
        answer.end()


OK = b"HTTP/1.1 200 OK\r\n"
WHOLE: dict[str, tuple[Sequence[bytes], bool, tuple[int, bytes], bool]] = {
    # what is sent, and whether the connection is then closed; status and body; whether the connection is kept
    "a length": ([OK + b"Content-Length: 3\r\n\r\nabc"], False, (200, b"abc"), True),
    "in pieces": ([OK[:7], OK[7:] + b"Content-Le", b"ngth: 3\r\n\r", b"\nab", b"c"], False, (200, b"abc"), True),
    "chunks": (
        [OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", b"2\r\nbc\r\n0\r\n\r\n"],
        False,
        (200, b"abc"),
        True,
    ),
    "trailers": (
        [OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n"],
        False,
        (200, b"a"),
        True,
    ),
    "no body": ([b"HTTP/1.1 204 No Content\r\n\r\n"], False, (204, b""), True),
    "until the end": ([OK + b"\r\nab", b"c"], True, (200, b"abc"), False),
    "HTTP/1.0": ([b"HTTP/1.0 200 OK\r\n\r\nabc"], True, (200, b"abc"), False),
    "to be closed": ([OK + b"Connection: close\r\nContent-Length: 1\r\n\r\na"], True, (200, b"a"), False),
    "to be continued": (
        [b"HTTP/1.1 100 Continue\r\nX-Early: 1\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\na"],
        False,
        (200, b"a"),
        True,
    ),
    "an error": ([b"HTTP/1.1 429 Slow Down\r\nContent-Length: 2\r\n\r\n{}"], False, (429, b"{}"), True),
}


@pytest.mark.parametrize("name", WHOLE)
async def test_whole_answers(name: str) -> None:
    parts, closes, expected, kept = WHOLE[name]
    async with provider(says(*parts, pause_s=0.01, then_close=closes)) as server:
        used = pool(server.url)
        assert [await asked(used) for _ in range(2)] == [expected] * 2
        assert server.connections == (1 if kept else 2)
        assert server.received[0] == (
            f"POST /v1/x HTTP/1.1\r\nHost: {server.url[7:-3]}\r\nX-A: 1\r\nContent-Length: 4\r\n\r\nbody".encode()
        )
        used.close()


async def test_headers_stay_as_they_are() -> None:
    head = OK + "X-B: ä\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nContent-Type: Text/Event-Stream; q=1\r\n".encode()
    async with provider(says(head + b"Content-Length: 0\r\n\r\n")) as server:
        used = pool(server.url)
        answer = await used.post("/v1/x", [], b"")
        names = [("X-B", "ä"), ("Set-Cookie", "a=1"), ("set-cookie", "b=2")]
        assert answer.headers[:3] == names
        assert (answer.header("set-cookie"), answer.header("x-none")) == ("a=1", "")
        assert answer.content_type == "text/event-stream"
        answer.end()
        used.close()


BROKEN: dict[str, tuple[Sequence[bytes], bool, str, str]] = {
    "closes at once": ([], True, "upstream_broken", "the connection was closed"),
    "no HTTP": ([b"SSH-2.0-OpenSSH\r\n"], False, "upstream_broken", "not HTTP"),
    "half a head": ([OK + b"Content-Le"], True, "upstream_broken", "the connection was closed"),
    "half a body": ([OK + b"Content-Length: 9\r\n\r\nabc"], True, "upstream_broken", "the connection was closed"),
    "half the chunks": ([OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n"], True, "upstream_broken", "closed"),
    "a chunk that is none": ([OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\na\r\n"], False, "upstream_broken", "HTTP"),
    "another protocol": (
        [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"],
        False,
        "upstream_broken",
        "protocol",
    ),
    "a head without end": ([OK + b"X-A: " + b"a" * MOST_HEAD + b"\r\nX-B: b\r\n"], False, "upstream_broken", "bytes"),
    "says nothing": ([b""], False, "upstream_timeout", "in time"),
    "falls silent": ([OK + b"Content-Length: 9\r\n\r\nabc"], False, "upstream_timeout", "in time"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_broken_answers(name: str) -> None:
    parts, closes, code, text = BROKEN[name]
    async with provider(says(*parts, then_close=closes)) as server:
        used = pool(server.url, first_byte_s=0.2, idle_s=0.2)
        with pytest.raises(UpstreamError, match=text) as raised:
            await asyncio.wait_for(asked(used), 3)
        assert raised.value.code == code
        assert server.url in str(raised.value)
        assert not used._idle
        used.close()


async def pieces_of(answer: Answer) -> AsyncIterator[bytes]:
    while piece := await answer.piece():
        yield piece


async def test_pieces_come_as_they_arrive() -> None:
    parts = [OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n", b"1\r\nb\r\n2\r\ncd\r\n", b"0\r\n\r\n"]
    async with provider(says(*parts, pause_s=0.03)) as server:
        used = pool(server.url)
        answer = await used.post("/v1/x", [], b"")
        assert [piece async for piece in pieces_of(answer)] == [b"a", b"bcd"]
        answer.end()
        assert len(used._idle) == 1
        used.close()


async def test_what_came_before_a_break_is_handed_on() -> None:
    async with provider(says(OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", then_close=True)) as server:
        used = pool(server.url)
        answer = await used.post("/v1/x", [], b"")
        await asyncio.sleep(0.1)
        assert await answer.piece() == b"a"
        with pytest.raises(UpstreamError):
            await answer.piece()
        answer.end()
        used.close()


async def test_who_leaves_early_closes_the_connection() -> None:
    gone = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"Content-Length: 9\r\n\r\nabc")
        await reader.read()
        gone.set()

    async with provider(script) as server:
        used = pool(server.url)
        answer = await used.post("/v1/x", [], b"")
        answer.end()
        await asyncio.wait_for(gone.wait(), 1)
        assert not used._idle


async def test_a_slow_reader_holds_the_provider_back() -> None:
    """Memory is bounded, nothing is lost, and it is no timeout: it is the client that takes its time."""
    size, sent = 64 * BUFFERED, 0

    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(OK + b"Content-Length: %d\r\n\r\n" % size)
        for _ in range(64):
            writer.write(b"x" * BUFFERED)
            await writer.drain()
            sent += BUFFERED

    async with provider(script) as server:
        used = pool(server.url, idle_s=0.15)
        answer = await used.post("/v1/x", [], b"")
        await asyncio.sleep(0.5)
        assert sent < size
        assert answer._connection._held < 4 * BUFFERED
        assert sum([len(piece) async for piece in pieces_of(answer)]) == size
        answer.end()
        used.close()


async def test_what_nobody_asked_for_ends_the_connection() -> None:
    async with provider(says(OK + b"Content-Length: 1\r\n\r\na", OK, pause_s=0.02)) as server:
        used = pool(server.url)
        assert await asked(used) == (200, b"a")
        await asyncio.sleep(0.1)
        assert await asked(used) == (200, b"a")
        assert server.connections == 2
        used.close()


async def test_an_answer_before_the_whole_request_was_taken() -> None:
    """A provider that refuses a large body says so early; its connection is not used again."""

    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        await asyncio.sleep(0.3)

    async with provider(early, whole=False) as server:
        used = pool(server.url)
        answer = await used.post("/v1/x", [], b"x" * (32 << 20))
        assert (answer.status, await answer.read()) == (413, b"{}")
        answer.end()
        assert not used._idle


SURPLUS: dict[str, tuple[bytes, bytes]] = {
    "a whole second answer": (OK + b"Content-Length: 1\r\n\r\nb", b""),
    "the first byte of one": (b"H", b"TTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb"),
    "half of one": (OK + b"Content-Length: 9\r\n\r\nbb", b"bbbbbbb"),
    "an error": (b"HTTP/1.1 500 No\r\nContent-Length: 1\r\n\r\nb", b""),
    "no HTTP": (b"SSH-2.0-OpenSSH\r\n", b""),
}


@pytest.mark.parametrize("name", SURPLUS)
async def test_what_stands_behind_an_answer_reaches_nobody(name: str) -> None:
    """Neither the client whose answer it follows nor the next one: answers never go to another than who asked."""
    behind, later = SURPLUS[name]
    number = 0

    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal number
        number += 1
        first = later if number > 1 else b""
        writer.write(first + OK + b"Content-Length: 1\r\n\r\n%d" % number + behind)
        await writer.drain()

    async with provider(script) as server:
        used = pool(server.url)
        assert await asked(used) == (200, b"1")
        later = b""
        assert await asked(used) == (200, b"2")
        assert server.connections == 2
        used.close()
