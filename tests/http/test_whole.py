"""`Whole`: the bytes that aiohttp's own server would write, whatever is asked of it; only the server's name is ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from aiohttp import web

from guardproxy.http import whole as module
from guardproxy.http.request import Request
from guardproxy.http.whole import Whole, said, whole
from tests.http.raw import serving, spoken, theirs

OWN = [("Content-Type", "application/json"), ("x-guardproxy-turn", "7")]
ANSWERS: list[tuple[int, list[tuple[str, str]], bytes]] = [
    (200, OWN, b"{}"),
    (200, [], b"{}"),
    (200, [], b""),
    (200, [("Set-Cookie", "a=1"), ("set-cookie", "b=2"), ("x-a", "\u4e2d")], b"x" * 5_000),
    (200, [("Server", "mock"), ("Date", "now")], b"x" * 200_000),
    (503, OWN, b'{"error":{}}'),
    (299, OWN, b"{}"),
    (599, OWN, b"{}"),
    (204, OWN, b""),
    (304, OWN, b""),
]


@pytest.mark.parametrize("method", ["POST", "GET", "HEAD"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("keep", ["close", "keep-alive"])
async def test_it_is_what_aiohttp_would_write(method: str, version: str, keep: str) -> None:
    async def ours(request: Request) -> Whole:
        return whole(*ANSWERS[int(request.raw_path[1:])])

    async def usual(request: web.BaseRequest) -> web.Response:
        status, headers, body = ANSWERS[int(request.path[1:])]
        return web.Response(status=status, headers=headers, body=body)

    async with serving(ours) as running, theirs(usual) as port:

        async def compare(number: int) -> None:
            asks = f"{method} /{number} HTTP/{version}\r\nHost: x\r\nConnection: {keep}\r\n\r\n"
            mine, its = await asyncio.gather(spoken(running.port, asks), spoken(port, asks))
            assert mine == its, ANSWERS[number]

        numbers: Iterable[int] = range(len(ANSWERS))
        if method == "HEAD":  # how long nothing is need not be said, and may be
            numbers = [number for number in numbers if ANSWERS[number][2]]
        await asyncio.gather(*map(compare, numbers))


async def test_a_forced_close_is_told() -> None:
    async def handler(_request: Request) -> Whole:
        answer = whole(408, OWN, b"{}")
        answer.force_close()
        return answer

    async with serving(handler) as running, running.client() as client:
        client.send("GET / HTTP/1.1\r\n\r\n")
        assert b"\r\nConnection: close" in (await client.answer())[0]
        assert await client.rest() == b""


async def test_headers_can_be_changed_until_it_is_sent() -> None:
    async def handler(_request: Request) -> Whole:
        answer = said(200, "ok\n")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        answer.headers["Retry-After"] = "1"
        del answer.headers["Content-Type"]
        return answer

    async with serving(handler) as running, running.client() as client:
        client.send("GET / HTTP/1.1\r\n\r\n")
        head, body = await client.answer()
        assert b"\r\nRetry-After: 1\r\n" in head
        assert b"text/plain" not in head
        assert body == b"ok\n"


async def test_what_a_provider_said_is_said_as_it_was() -> None:
    """Bytes that are no UTF-8, too. How long its answer was does not matter any more."""

    async def handler(_request: Request) -> Whole:
        length = [("content-length", "99"), ("Transfer-Encoding", "chunked")]
        return whole(200, [("x-a", b"\xff\xe9".decode("utf-8", "surrogateescape")), *length], b"{}")

    async with serving(handler) as running, running.client() as client:
        client.send("GET / HTTP/1.1\r\n\r\n")
        head, body = await client.answer()
        assert b"\r\nx-a: \xff\xe9\r\n" in head
        assert b"99" not in head
        assert b"chunked" not in head
        assert body == b"{}"


@pytest.mark.parametrize("value", ["b\r\nx-c: d", "b\nx-c: d", "b\rx", "b\0", "b\r\n\r\n"])
async def test_no_header_can_bring_another(value: str) -> None:
    wrong: list[ValueError] = []

    async def handler(request: Request) -> Whole:
        answer = whole(200, [("x-a", value)], b"{}")
        answer.prepare(request)
        try:
            await answer.write_eof()
        except ValueError as error:
            wrong.append(error)
        return said(500, "")

    async with serving(handler) as running, running.client() as client:
        client.send("GET / HTTP/1.1\r\n\r\n")
        assert (await client.answer())[0].startswith(b"HTTP/1.1 500")
    assert len(wrong) == 1


def test_the_date_is_that_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 784111777.9
    monkeypatch.setattr(module.time, "time", lambda: now)
    assert module._dated() == "Date: Sun, 06 Nov 1994 08:49:37 GMT"
    now += 1
    assert module._dated() == "Date: Sun, 06 Nov 1994 08:49:38 GMT"
