"""What is no HTTP: answered in OpenAI's shape, counted, and nothing of it is logged."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from aiohttp import web

from guardproxy.http import intake, server as servers
from guardproxy.store.redis import Store
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
    """aiohttp may not tell its reader that no more will come: then it is a body that stopped."""
    monkeypatch.setattr(intake, "IDLE_S", 0.3)
    async with live(store) as running:
        raw = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", int(running.url.rsplit(":", 1)[1]))
        writer.write(raw.encode())
        await asyncio.sleep(0.1)
        writer.write(f"{SECRET}\r\n".encode())
        came = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        writer.close()
        assert came.startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 400 "))
    assert SECRET not in caplog.text


@pytest.mark.parametrize("name", MALFORMED)
async def test_malformed(
    name: str, store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers.Quiet, "said", 0)
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
    monkeypatch.setattr(servers.Quiet, "said", 0)
    async with live(store) as running:
        for _ in range(servers.SAID + 5):
            await send(running, b"hello\r\n\r\n")
        assert "malformed" in running.proxy.telemetry.snapshot().to_json().decode()
    said = [record for record in caplog.records if record.name == "guardproxy.http.server"]
    assert len(said) == servers.SAID


async def test_long_headers(store: Store) -> None:
    """Longer ones than aiohttp takes by itself, of which the scripted provider is made."""
    async with (
        live(store) as running,
        running.client.get(f"{running.url}/readyz", headers={"x": "a" * 60_000}) as answer,
    ):
        assert answer.status == 200


def test_a_failure_of_ours_says_where(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers.Quiet, "said", 0)
    counted: list[int] = []
    logger = servers.Quiet(lambda: counted.append(1))
    try:
        raise KeyError(SECRET)
    except KeyError:
        logger.exception("Error handling %s", SECRET)

    (record,) = caplog.records
    assert record.getMessage().startswith("a connection failed: KeyError at test_server.py:")
    assert counted == [1]


@pytest.mark.skipif(servers.BEGINS_AT_ONCE, reason="there a task begins with its creation")
async def test_a_request_is_no_task_of_its_own() -> None:
    """One task a connection: it handles the requests one by one, and begins each at once."""
    tasks: list[asyncio.Task[object] | None] = []
    ended = asyncio.Event()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        tasks.append(asyncio.current_task())
        if request.path == "/wait":
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
        return web.Response(text="ok")

    runner = web.ServerRunner(servers.Server(handle, lambda: None))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
    for _ in range(2):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await asyncio.wait_for(reader.readuntil(b"ok"), 5)).startswith(b"HTTP/1.1 200")
    assert tasks[0] is not None
    assert tasks[0] is tasks[1]
    writer.write(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
    while len(tasks) < 3:
        await asyncio.sleep(0)
    writer.close()  # a client that leaves ends what is done for it
    await asyncio.wait_for(ended.wait(), 5)
    await runner.cleanup()
