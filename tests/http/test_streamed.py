"""Streams to a client: the bytes are those of aiohttp's own answer, and the head leaves with the first part."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from guardproxy.http.streamed import AT_ONCE, Streamed

HEADERS = [("Content-Type", "text/event-stream"), ("X-One", "1"), ("X-One", "2")]
PARTS = [b"data: a\n\n", b"", b"data: b\n\n" * 5, b"c"]
Handler = Callable[[web.BaseRequest], Any]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[int]:
    server = await asyncio.get_running_loop().create_server(web.Server(handler), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def said(port: int, version: str, method: str = "POST") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{method} / HTTP/{version}\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    whole = await reader.read()
    writer.close()
    return re.sub(rb"Date: [^\r]*", b"Date: now", whole)


@pytest.mark.parametrize("method", ["POST", "GET", "HEAD"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("length", [False, True])
@pytest.mark.parametrize("with_first", [False, True])
async def test_the_bytes_are_those_of_aiohttp(method: str, version: str, *, length: bool, with_first: bool) -> None:
    headers = [*HEADERS, *([("Content-Length", str(len(b"".join(PARTS))))] if length else [])]
    made: list[web.StreamResponse] = [
        web.StreamResponse(status=201, headers=headers),
        Streamed(201, headers, with_first=with_first),
    ]

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = made.pop(0)
        await response.prepare(request)
        for part in PARTS:
            await response.write(part)
        await response.write_eof()
        return response

    async with serving(handler) as port:
        assert await said(port, version, method) == await said(port, version, method)


@pytest.mark.parametrize("with_first", [False, True])
async def test_when_the_head_leaves(*, with_first: bool) -> None:
    goes_on = asyncio.Event()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = Streamed(200, HEADERS, with_first=with_first)
        await response.prepare(request)
        await goes_on.wait()
        response.begin()
        response.begin()
        await asyncio.sleep(0.01)
        await response.write(b"a")
        await response.write_eof()
        return response

    async with serving(handler) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n")
        early = asyncio.ensure_future(reader.readuntil(b"\r\n\r\n"))
        await asyncio.wait([early], timeout=0.1)
        assert early.done() is not with_first
        goes_on.set()
        assert (await early).startswith(b"HTTP/1.1 200 OK\r\n")
        assert await reader.readuntil(b"0\r\n\r\n") == b"1\r\na\r\n0\r\n\r\n"
        writer.close()


async def test_a_slow_client_is_waited_for_and_one_that_left_is_noticed() -> None:
    sent, ended = 0, asyncio.get_running_loop().create_future()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal sent
        response = Streamed(200, HEADERS)
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * AT_ONCE)
                sent += AT_ONCE
        except ConnectionError as error:
            ended.set_result(error)
            raise

    async with serving(handler) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.2)
        before = sent
        await asyncio.sleep(0.1)
        assert sent == before > 0
        writer.transport.abort()
        await asyncio.wait_for(ended, 3)
