"""`whole`: the bytes of `web.Response`, whatever is asked of it."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import HttpVersion, HttpVersion10, HttpVersion11, web
from aiohttp.http_writer import StreamWriter

from guardproxy.http.whole import Whole, whole

OWN = [("Content-Type", "application/json"), ("x-guardproxy-turn", "7")]


class Transport:
    """What was written."""

    def __init__(self, *, closing: bool = False) -> None:
        self.closing = closing
        self.written = b""

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, data: list[bytes]) -> None:
        self.written += b"".join(data)


class Request:
    """What an answer asks of the request that it answers."""

    method = "POST"

    def __init__(self, transport: Transport, version: HttpVersion, *, keep_alive: bool) -> None:
        protocol = type("Protocol", (), {"transport": transport, "_paused": False})()
        self._payload_writer = self.writer = StreamWriter(protocol, asyncio.get_running_loop())
        self.version, self.keep_alive = version, keep_alive

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        pass


def sent(response: web.StreamResponse, version: HttpVersion, *, keep_alive: bool) -> bytes:
    async def send() -> bytes:
        transport = Transport()
        await response.prepare(Request(transport, version, keep_alive=keep_alive))  # type: ignore[arg-type]
        await response.write_eof()
        assert response.keep_alive is keep_alive
        return b"\r\n".join(line for line in transport.written.split(b"\r\n") if not line.startswith(b"Date: "))

    return asyncio.run(send())


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("version", [HttpVersion10, HttpVersion11])
@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (200, OWN, b"{}"),
        (200, [], b"{}"),
        (200, [], b""),
        (200, [("Server", "mock"), ("Set-Cookie", "a=1"), ("set-cookie", "b=2"), ("x-\u00e9", "\u4e2d")], b"x" * 5_000),
        (503, OWN, b'{"error":{}}'),
        (299, OWN, b"{}"),
        (599, OWN, b"{}"),
        (204, OWN, b""),
        (304, OWN, b"{}"),
    ],
)
def test_it_is_what_aiohttp_would_write(
    status: int, headers: list[tuple[str, str]], body: bytes, version: HttpVersion, keep_alive: bool
) -> None:
    usual = web.Response(status=status, headers=headers, body=body)
    ours = whole(status, headers, body)
    assert ours.status == status
    assert isinstance(ours, Whole) is (status not in (204, 304))
    assert sent(ours, version, keep_alive=keep_alive) == sent(usual, version, keep_alive=keep_alive)


def test_a_forced_close_is_told() -> None:
    ours = whole(408, OWN, b"{}")
    ours.force_close()

    async def send() -> bytes:
        transport = Transport()
        await ours.prepare(Request(transport, HttpVersion11, keep_alive=True))  # type: ignore[arg-type]
        await ours.write_eof()
        return transport.written

    assert b"\r\nConnection: close\r\n" in asyncio.run(send())
    assert ours.keep_alive is False


def test_no_header_can_bring_another() -> None:
    with pytest.raises(ValueError, match="control character"):
        sent(whole(200, [("x-a", "b\r\nx-c: d")], b"{}"), HttpVersion11, keep_alive=True)


def test_a_client_that_has_gone_is_a_connection_error() -> None:
    async def send() -> None:
        ours = whole(200, OWN, b"{}")
        await ours.prepare(Request(Transport(closing=True), HttpVersion11, keep_alive=True))  # type: ignore[arg-type]
        await ours.write_eof()

    with pytest.raises(ConnectionError):
        asyncio.run(send())
