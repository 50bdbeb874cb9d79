"""Signed requests to a server of the user's: what it can verify, what it may do to us, and what we never say."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time

import pytest
from aiohttp import web

from guardproxy.http import signed
from guardproxy.http.signed import HEADER, MOST_BYTES, Receiver, genuine, open_session, post, sign
from tests.live import serve

SECRET = "a shared secret"
LOCAL = frozenset({"127.0.0.1"})
NOW = 1_800_000_000


def test_the_signature_can_be_verified_with_a_few_lines_of_any_language() -> None:
    expected = hmac.new(b"a shared secret", b'1800000000.{"a":1}', hashlib.sha256).hexdigest()

    assert sign(SECRET, b'{"a":1}', NOW) == f"t=1800000000,v1={expected}"


VALID = sign(SECRET, b"body", NOW)


@pytest.mark.parametrize(
    ("secret", "header", "body", "now_s", "expected"),
    [
        (SECRET, VALID, b"body", NOW, True),
        (SECRET, VALID.replace(",", ", "), b"body", NOW + 299, True),
        (SECRET, VALID, b"body", NOW - 300, True),
        (SECRET, VALID, b"body", NOW + 301, False),
        (SECRET, VALID, b"body", NOW - 301, False),
        (SECRET, VALID, b"body ", NOW, False),
        ("another secret", VALID, b"body", NOW, False),
        (SECRET, VALID[:-1], b"body", NOW, False),
        (SECRET, VALID.replace(str(NOW), str(NOW + 1)), b"body", NOW, False),
        (SECRET, "", b"body", NOW, False),
        (SECRET, "t=,v1=", b"body", NOW, False),
        (SECRET, "v1=" + VALID.partition("v1=")[2], b"body", NOW, False),
        (SECRET, "t=٣,v1=é", b"body", NOW, False),
        (SECRET, f"t={NOW},v1=é", b"body", NOW, False),
        (SECRET, "t=" + "9" * 5000 + ",v1=0", b"body", NOW, False),
    ],
)
def test_genuine(secret: str, header: str, body: bytes, now_s: int, expected: bool) -> None:
    assert genuine(secret, header, body, now_s) is expected


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://user:hush@hooks.example/T0/B0/hush", "https://hooks.example"),
        ("http://127.0.0.1:81/x?token=hush", "http://127.0.0.1:81"),
        ("http://[::1]:81/hush", "http://[::1]:81"),
    ],
)
def test_neither_secret_nor_path_is_shown(url: str, origin: str) -> None:
    to = Receiver(url, "hush")

    assert to.origin == origin
    assert "hush" not in repr(to)


async def sent(url: str, *, timeout_s: float = 5.0, body: bytes = b"{}") -> signed.Received:
    to = Receiver(url, SECRET, timeout_s, LOCAL)
    async with open_session(to) as session:
        return await post(session, to, body, request_id="r1", now_s=int(time.time()))


async def test_the_receiving_side_verifies_what_it_got() -> None:
    got: list[tuple[str, bytes, str]] = []

    async def receive(request: web.BaseRequest) -> web.Response:
        body = await request.read()
        got.append((request.headers[HEADER], body, request.headers["x-guardproxy-id"]))
        return web.Response(text="taken")

    async with serve(receive) as url:
        received = await sent(url + "/hook", body=b'{"text":"\xc3\xa9"}')

    (header, body, request_id) = got[0]
    assert (received.status, received.body, received.wrong) == (200, b"taken", "")
    assert request_id == "r1"
    assert genuine(SECRET, header, body, int(time.time()))
    assert not genuine("wrong", header, body, int(time.time()))


async def test_redirects_are_not_followed() -> None:
    paths: list[str] = []

    async def receive(request: web.BaseRequest) -> web.Response:
        paths.append(request.path)
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    async with serve(receive) as url:
        received = await sent(url + "/hook")

    assert received.status == 307
    assert paths == ["/hook"]


async def test_no_more_is_read_than_the_bound() -> None:
    written = 0

    async def receive(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            for _ in range(4096):  # 256 MB
                await response.write(b"x" * MOST_BYTES)
                written += MOST_BYTES
        except ConnectionError:
            pass
        return response

    async with serve(receive) as url:
        received = await sent(url)

    assert received.status == 200
    assert len(received.body) == MOST_BYTES
    assert not received.whole
    assert written < 64 << 20


@pytest.mark.parametrize(("size", "whole"), [(MOST_BYTES, True), (MOST_BYTES + 1, False)])
async def test_the_bound_itself_fits(size: int, whole: bool) -> None:
    async def receive(request: web.BaseRequest) -> web.Response:
        return web.Response(body=b"x" * size)

    async with serve(receive) as url:
        received = await sent(url)

    assert (len(received.body), received.whole) == (MOST_BYTES, whole)


async def test_a_compressed_answer_is_not_blown_up() -> None:
    async def receive(request: web.BaseRequest) -> web.Response:
        assert request.headers["Accept-Encoding"] == "identity"
        return web.Response(body=b"\x1f\x8b not opened", headers={"Content-Encoding": "gzip"})

    async with serve(receive) as url:
        assert (await sent(url)).body == b"\x1f\x8b not opened"


async def test_a_server_that_hangs_costs_the_timeout() -> None:
    hangs = asyncio.Event()

    async def receive(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)  # the headers are there, the body never is
        await hangs.wait()
        return response

    async with serve(receive) as url:
        begun = time.monotonic()
        received = await sent(url, timeout_s=0.2)
        took = time.monotonic() - begun
        hangs.set()

    assert (received.status, received.wrong) == (0, "no answer within 0.2 s")
    assert 0.15 < took < 2


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/hush", "http://a..b/hush", "http://[/hush", "ftp://x/"])
async def test_a_server_that_cannot_be_reached_is_no_exception(url: str) -> None:
    received = await sent(url, timeout_s=3)

    assert received.status == 0
    assert received.wrong
    assert "hush" not in received.wrong


async def test_a_server_that_breaks_off_is_no_exception() -> None:
    async def break_off(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(break_off, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        received = await sent(f"http://127.0.0.1:{port}/")

    assert received.status == 0
    assert received.wrong


async def test_a_closed_session_is_no_exception() -> None:
    to = Receiver("http://127.0.0.1:1/", SECRET, 5, LOCAL)
    session = open_session(to)
    await session.close()
    received = await post(session, to, b"{}", request_id="r", now_s=NOW)

    assert received.status == 0
