"""Our server on a socket, and a client that sends bytes as they are."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from aiohttp import web

from guardproxy.http.request import MalformedBody, Request
from guardproxy.http.server import Server
from guardproxy.http.streamed import Response
from guardproxy.http.whole import Whole

Handler = Callable[[Request], Awaitable[Response]]
SECONDS = 10  # within which anything must have happened


@dataclass
class Echo:
    """Says what it got, and keeps it."""

    got: list[tuple[str, str, bytes]] = field(default_factory=list)

    async def __call__(self, request: Request) -> Response:
        """The answer: the request's body."""
        body = b""
        try:
            while part := await request.part():
                body += part
        except MalformedBody:
            return Whole(400, [], b"a broken body")
        self.got.append((request.method, request.raw_path, body))
        return Whole(200, [("x-path", request.raw_path)], body)


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, *parts: str | bytes) -> None:
        """Bytes, as they are."""
        self.writer.write(b"".join(part.encode("latin-1") if isinstance(part, str) else part for part in parts))

    async def answer(self, *, bodiless: bool = False) -> tuple[bytes, bytes]:
        """The next answer: head and body."""
        head = (await self.within(self.reader.readuntil(b"\r\n\r\n")))[:-4]
        low = head.lower()
        body = b""
        if bodiless:
            return head, body
        if b"transfer-encoding: chunked" in low:
            while size := int((await self.within(self.reader.readline())).strip(), 16):
                body += (await self.within(self.reader.readexactly(size + 2)))[:-2]
            await self.within(self.reader.readexactly(2))
        elif b"content-length: " in low:
            body = await self.within(self.reader.readexactly(int(low.split(b"content-length: ")[1].split(b"\r\n")[0])))
        return head, body

    async def rest(self) -> bytes:
        """All until the other side ends; also where it does so with a reset."""
        came = b""
        with suppress(ConnectionError):
            while part := await self.within(self.reader.read(1 << 16)):
                came += part
        return came

    async def within(self, work: Awaitable[bytes]) -> bytes:
        """It must not take long."""
        return await asyncio.wait_for(work, SECONDS)


@dataclass
class Serving:
    """A running server."""

    port: int
    handler: Handler
    malformed: int = 0

    def __post_init__(self) -> None:
        self.server = Server(self.handler, self.count)

    def count(self) -> None:
        """One more request that is no HTTP."""
        self.malformed += 1

    @asynccontextmanager
    async def client(self, receive: int = 0) -> AsyncIterator[Client]:
        """A connection. `receive`: bytes that its kernel takes unread."""
        sock = socket.socket()
        sock.setblocking(False)
        if receive:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        except OSError:
            sock.close()
            raise
        reader, writer = await asyncio.open_connection(sock=sock, limit=1 << 20)
        try:
            yield Client(reader, writer)
        finally:
            writer.close()


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[Serving]:
    """A server whose answers `handler` makes."""
    sock = socket.create_server(("127.0.0.1", 0))
    made = Serving(sock.getsockname()[1], handler)
    await made.server.listen(sock)
    try:
        yield made
    finally:
        await made.server.close(0.2)


async def until(happens: Callable[[], object]) -> None:
    """Wait for it, not for long."""
    async with asyncio.timeout(SECONDS):
        while not happens():
            await asyncio.sleep(0.001)


@asynccontextmanager
async def theirs(handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> AsyncIterator[int]:
    """aiohttp's server, the measure of ours; its port."""
    server = await asyncio.get_running_loop().create_server(web.Server(handler), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def spoken(port: int, asks: str) -> tuple[bytes, bool]:
    """What comes for it, without the time and the server's name, and whether the connection was kept."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(asks.encode())
    came = b""
    with suppress(TimeoutError):
        while part := await asyncio.wait_for(reader.read(1 << 18), 0.1 if came else SECONDS):
            came += part
    kept = not reader.at_eof()
    writer.close()
    return re.sub(rb"(Date|Server): (?!mock|now)[^\r]*", rb"\1:", came), kept
