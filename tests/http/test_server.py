"""What is no HTTP: answered in OpenAI's shape, counted, and nothing of it is logged."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable

import pytest

from guardproxy.http import intake, quiet, server as servers
from guardproxy.http.request import Request
from guardproxy.http.streamed import Response, Streamed
from guardproxy.http.whole import Whole
from guardproxy.store.redis import Store
from tests.http.raw import Echo, serving, until
from tests.live import Live, live

SECRET = "sk-SECRET"
CHAT = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
MALFORMED = {
    "a header without a colon": f"{CHAT}Authorization Bearer {SECRET}\r\n\r\n",
    "a control character": f"{CHAT}Authorization: Bearer {SECRET}\x01\r\n\r\n",
    "a header too long": f"{CHAT}Authorization: Bearer {SECRET}{'x' * 70_000}\r\n\r\n",
    "a line too long": f"POST /v1/x?key={SECRET}{'y' * 70_000} HTTP/1.1\r\nHost: x\r\n\r\n",
    "no HTTP": f"{SECRET}\r\n\r\n",
    "chunks that are none": f"{CHAT}Transfer-Encoding: chunked\r\n\r\n{SECRET}\r\n",
}


async def send(running: Live, raw: bytes) -> tuple[bytes, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(running.url.rsplit(":", 1)[1]))
    writer.write(raw)
    head, _, body = (await asyncio.wait_for(reader.read(), 15)).partition(b"\r\n\r\n")
    writer.close()
    return head, body


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/rerank"])
async def test_a_body_in_chunks_that_are_none(
    path: str, store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once they come, it is said at once: nobody waits for what cannot come."""
    monkeypatch.setattr(intake, "IDLE_S", 3)
    async with live(store) as running:
        raw = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", int(running.url.rsplit(":", 1)[1]))
        writer.write(raw.encode())
        await asyncio.sleep(0.1)
        writer.write(f"{SECRET}\r\n".encode())
        came = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        writer.close()
        assert came.startswith(b"HTTP/1.1 400 ")
    assert SECRET not in caplog.text


@pytest.mark.parametrize("name", MALFORMED)
async def test_malformed(
    name: str, store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiet.Quiet, "said", 0)
    caplog.set_level(logging.DEBUG)
    async with live(store) as running:
        head, body = await send(running, MALFORMED[name].encode("latin-1"))
        assert b" 400 Bad Request" in head
        assert json.loads(body)["error"]["code"] == "malformed_http"
        assert SECRET.encode() not in head + body
        assert (await running.post({"model": "m", "messages": [{"role": "user", "content": "x"}]})).status == 200
    assert SECRET not in caplog.text
    assert [record for record in caplog.records if record.exc_info] == []


async def test_the_log_is_not_filled(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiet.Quiet, "said", 0)
    async with live(store) as running:
        for _ in range(quiet.SAID + 5):
            await send(running, b"hello\r\n\r\n")
        assert "malformed" in running.proxy.telemetry.snapshot().to_json().decode()
    said = [record for record in caplog.records if record.name == "guardproxy.http.quiet"]
    assert len(said) == quiet.SAID


async def test_long_headers(store: Store) -> None:
    """Longer ones than aiohttp takes by itself, of which the scripted provider is made."""
    async with (
        live(store) as running,
        running.client.get(f"{running.url}/readyz", headers={"x": "a" * 60_000}) as answer,
    ):
        assert answer.status == 200


def asked(held: asyncio.Event, *, streamed: bool = False) -> Callable[[Request], Awaitable[Response]]:
    """A handler that waits for the event."""

    async def handle(request: Request) -> Response:
        if streamed:
            response = Streamed(200, [])
            response.prepare(request)
            await response.write(b"begun")
        await held.wait()
        if streamed:
            await response.write(b"done")
            return response
        return Whole(200, [], b"done")

    return handle


@pytest.mark.parametrize("streamed", [False, True])
async def test_it_ends_when_all_is_answered(streamed: bool) -> None:
    """Connections without a request end at once, none is accepted, what was sent ahead is not begun."""
    held = asyncio.Event()
    async with (
        serving(asked(held, streamed=streamed)) as running,
        running.client() as idle,
        running.client() as half,
        running.client() as busy,
    ):
        half.send("GET / HT")
        busy.send("GET / HTTP/1.1\r\n\r\nGET /ahead HTTP/1.1\r\n\r\n")
        await until(lambda: sum(one.task is not None for one in running.server.connections) == 1)
        await until(lambda: len(running.server.connections) == 3)
        closing = asyncio.ensure_future(running.server.close(5))
        assert await idle.rest() == await half.rest() == b""
        assert not closing.done()
        with pytest.raises(ConnectionRefusedError):
            async with running.client():
                pass
        held.set()
        head, body = await busy.answer()
        assert body == (b"begundone" if streamed else b"done")
        assert (b"Connection: close" in head) is not streamed, "a head that is out cannot say so any more"
        assert await busy.rest() == b""
        await closing
        await until(lambda: not running.server.connections)


async def test_a_body_on_its_way_is_waited_for_when_it_ends() -> None:
    echo = Echo()
    async with serving(echo) as running, running.client() as client:
        client.send("POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nab")
        await until(lambda: any(one.task is not None for one in running.server.connections))
        closing = asyncio.ensure_future(running.server.close(5))
        await asyncio.sleep(0)
        client.send("cd")
        assert (await client.answer())[1] == b"abcd"
        await closing


async def test_what_takes_too_long_is_ended() -> None:
    held, ended = asyncio.Event(), asyncio.Event()

    async def handle(request: Request) -> Response:
        try:
            return await asked(held)(request)
        except asyncio.CancelledError:
            ended.set()
            raise

    async with serving(handle) as running, running.client() as client:
        client.send("GET / HTTP/1.1\r\n\r\n")
        await until(lambda: any(one.task is not None for one in running.server.connections))
        await running.server.close(0.01)
        assert ended.is_set()
        assert await client.rest() == b""


async def test_whoever_does_nothing_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that comes byte by byte has its time; a request that is under way has any."""
    monkeypatch.setattr(servers, "LOOK_S", 0.01)
    held = asyncio.Event()
    async with (
        serving(asked(held)) as running,
        running.client() as idle,
        running.client() as slow,
        running.client() as busy,
    ):
        busy.send("GET / HTTP/1.1\r\n\r\n")
        slow.send("GET / HT")
        await until(lambda: sum(one._incoming.heading for one in running.server.connections) == 1)
        monkeypatch.setattr(servers, "HEAD_S", 0.05)
        for letter in "TP/1.1\r\nx: aaaaaaaaaaaaaaaaaaaaa":
            slow.send(letter)
            await asyncio.sleep(0.005)
        assert await slow.rest() == b""
        assert len(running.server.connections) == 2
        monkeypatch.setattr(servers, "KEPT_S", 0.01)
        assert await idle.rest() == b""
        held.set()
        assert (await busy.answer())[1] == b"done"
        assert await busy.rest() == b""
