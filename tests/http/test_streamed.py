"""Streams to a client: the bytes are those of aiohttp's own server, and the head leaves with the first part."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from guardproxy.http.request import Request
from guardproxy.http.streamed import Streamed
from guardproxy.http.whole import BODILESS
from tests.http.raw import serving, spoken, theirs

HEADERS = [("Content-Type", "text/event-stream"), ("X-One", "1"), ("X-One", "2")]
PARTS = [b"data: a\n\n", b"", b"data: b\n\n" * 5, b"c"]

LENGTH = ("Content-Length", str(len(b"".join(PARTS))))
ANSWERS: list[tuple[int, list[tuple[str, str]], list[bytes]]] = [
    (201, HEADERS, PARTS),
    (200, [*HEADERS, LENGTH], PARTS),
    (200, [], [b"a"]),
    (200, [], []),
    (204, HEADERS, []),
    (304, [], []),
    (200, [("Content-Length", "3")], [b"ab", b"cdef"]),
]


@pytest.mark.parametrize("method", ["POST", "GET", "HEAD"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("keep", ["close", "keep-alive"])
@pytest.mark.parametrize("with_first", [False, True])
async def test_the_bytes_are_those_of_aiohttp(method: str, version: str, keep: str, *, with_first: bool) -> None:
    async def ours(request: Request) -> Streamed:
        status, headers, parts = ANSWERS[int(request.raw_path[1:])]
        response = Streamed(status, headers, with_first=with_first)
        response.prepare(request)
        for part in parts:
            await response.write(part)
        await response.write_eof()
        return response

    async def usual(request: web.BaseRequest) -> web.StreamResponse:
        status, headers, parts = ANSWERS[int(request.path[1:])]
        response = web.StreamResponse(status=status, headers=headers)
        await response.prepare(request)
        for part in () if request.method == "HEAD" else parts:  # it would write them
            await response.write(part)
        await response.write_eof()
        return response

    async with serving(ours) as running, theirs(usual) as port:

        async def compare(number: int) -> None:
            asks = f"{method} /{number} HTTP/{version}\r\nHost: x\r\nConnection: {keep}\r\n\r\n"
            mine, its = await asyncio.gather(spoken(running.port, asks), spoken(port, asks))
            assert mine[0] == its[0], ANSWERS[number]
            sized = version == "1.1" or b"content-length" in mine[0].lower() or ANSWERS[number][0] in BODILESS
            assert mine[1] is (its[1] and (method == "HEAD" or sized)), "its end is the connection's, there"

        await asyncio.gather(*map(compare, range(len(ANSWERS))))


@pytest.mark.parametrize("with_first", [False, True])
async def test_when_the_head_leaves(*, with_first: bool) -> None:
    goes_on = asyncio.Event()

    async def handler(request: Request) -> Streamed:
        response = Streamed(200, HEADERS, with_first=with_first)
        response.prepare(request)
        await goes_on.wait()
        response.begin()
        response.begin()
        await asyncio.sleep(0.01)
        await response.write(b"a")
        await response.write_eof()
        await response.write_eof()
        return response

    async with serving(handler) as running, running.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: x\r\n\r\n")
        early = asyncio.ensure_future(client.reader.readuntil(b"\r\n\r\n"))
        await asyncio.wait([early], timeout=0.1)
        assert early.done() is not with_first
        goes_on.set()
        assert (await early).startswith(b"HTTP/1.1 200 OK\r\n")
        assert await client.within(client.reader.readuntil(b"0\r\n\r\n")) == b"1\r\na\r\n0\r\n\r\n"


async def test_an_answer_shorter_than_it_said_is_seen_to_be() -> None:
    async def handler(request: Request) -> Streamed:
        response = Streamed(200, [("Content-Length", "9")])
        response.prepare(request)
        await response.write(b"abc")
        return response

    async with serving(handler) as running, running.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.rest()).endswith(b"\r\n\r\nabc")


async def test_a_forced_close_is_told() -> None:
    async def handler(request: Request) -> Streamed:
        response = Streamed(200, HEADERS)
        response.force_close()
        response.prepare(request)
        await response.write(b"abc")
        return response

    async with serving(handler) as running, running.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: x\r\n\r\n")
        head, body = await client.answer()
        assert head.endswith(b"Connection: close")
        assert body == b"abc"
        assert await client.rest() == b""


async def test_a_client_that_left_is_noticed() -> None:
    ended = asyncio.get_running_loop().create_future()

    async def handler(request: Request) -> Streamed:
        response = Streamed(200, HEADERS)
        response.prepare(request)
        request.abort()
        try:
            await response.write(b"a")
        except ConnectionError as error:
            ended.set_result(error)
            raise
        return response

    async with serving(handler) as running, running.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: x\r\n\r\n")
        await client.rest()
        assert isinstance(await asyncio.wait_for(ended, 3), ConnectionResetError)
