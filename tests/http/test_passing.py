"""Routes that guardproxy does not read: passed on as they are, both ways, and counted."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from guardproxy.store.redis import Store
from tests.http.test_bad_input import http, provider, raw
from tests.live import Live, live, serve
from tests.scenes import Heard

BINARY = bytes(range(256)) * 1000


class Files:
    """A provider of all kinds of routes; it keeps what it got."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str, list[tuple[str, str]], bytes]] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = b"".join([part async for part in request.content.iter_any()])
        self.got.append((request.method, request.raw_path, list(request.headers.items()), body))
        match request.path.rsplit("/", 1)[-1]:
            case "models":
                return web.Response(body=b'{ "data":[ ] }', headers={"Content-Type": "application/json", "ETag": '"1"'})
            case "content":
                return web.Response(body=BINARY, headers={"Content-Type": "audio/mpeg", "X-Odd": "1"})
            case "packed":
                kind = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
                return web.Response(body=gzip.compress(b"{}"), headers=kind)
            case "gone":
                return web.Response(status=404, body=b'{"error":{"message":"no such file"}}')
            case "moved":
                return web.Response(status=307, headers={"Location": "https://elsewhere/v1/x", "Set-Cookie": "a=1"})
            case "none":
                return web.Response(status=204)
            case "stream":
                response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
                await response.prepare(request)
                for part in (b"data: 1\n\n", b"data: 2\n\n"):
                    await response.write(part)
                return response
        return web.Response(body=hashlib.sha256(body).hexdigest().encode())


@asynccontextmanager
async def files(store: Store, telemetry: Heard | None = None, **upstream: object) -> AsyncIterator[tuple[Files, Live]]:
    provider = Files()
    async with (
        serve(provider.handle) as url,
        live(store, telemetry, upstream={"url": f"{url}/v1", **upstream}) as running,
    ):
        yield provider, running


async def test_a_list_of_models(store: Store, heard: Heard) -> None:
    counted: list[tuple[object, ...]] = []
    heard.count = lambda *what: counted.append(what)  # type: ignore[method-assign]
    async with files(store, heard) as (provider, running):
        async with running.client.get(f"{running.url}/v1/models", headers={"Authorization": "Bearer k"}) as answer:
            assert (answer.status, await answer.read()) == (200, b'{ "data":[ ] }')
            assert answer.headers["ETag"] == '"1"'
            assert answer.headers["Content-Length"] == "14"
            assert answer.headers["x-guardproxy-verdict"] == "pass"
        method, path, headers, body = provider.got[0]
        assert (method, path, body) == ("GET", "/v1/models", b"")
        assert dict(headers)["Authorization"] == "Bearer k"
        assert heard.reports.empty(), "no turn"
        assert [one for one in counted if one[0] == "passthrough"] == [("passthrough", {"method": "GET"}, 1)]


UPLOADS = {
    "multipart": ("multipart/form-data; boundary=xx", b"--xx\r\nContent-Disposition: form-data\r\n\r\n" + BINARY),
    "binary": ("application/octet-stream", BINARY),
    "JSON of another surface": ("application/json", b'{ "input":"x", "n":1.0 }'),
    "nothing": ("application/json", b""),
}


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("name", UPLOADS)
async def test_uploads(name: str, chunked: bool, store: Store) -> None:
    kind, body = UPLOADS[name]

    async def parts() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 70_000):
            yield body[at : at + 70_000]

    async with files(store) as (provider, running):
        headers = {"Content-Type": kind, "X-Odd": "é", "x-guardproxy-session-id": "s"}
        data = parts() if chunked else body
        async with running.client.post(f"{running.url}/v1/files?purpose=a%2Fb", data=data, headers=headers) as answer:
            assert await answer.read() == hashlib.sha256(body).hexdigest().encode()
        ((method, path, sent, got),) = provider.got
        assert (method, path, got) == ("POST", "/v1/files?purpose=a/b", body)
        names = {name.lower(): value for name, value in sent}
        assert names["content-type"] == kind
        assert "x-guardproxy-session-id" not in names
        if not chunked and body:
            assert names["content-length"] == str(len(body))
            assert "transfer-encoding" not in names


METHODS = ["GET", "DELETE", "PUT", "PATCH", "OPTIONS", "POST"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", ["/v1/files/f-1?a=b&a=%2f", "/s/run/v1/files/f%201?x"])
async def test_methods_and_paths(method: str, path: str, store: Store) -> None:
    async with files(store) as (provider, running):
        async with running.client.request(method, URL(running.url + path, encoded=True)) as answer:
            assert answer.status == 200
        assert provider.got[0][:2] == (method, path.removeprefix("/s/run"))


ANSWERS = [
    ("content", 200, BINARY, {"Content-Type": "audio/mpeg", "X-Odd": "1", "Content-Length": str(len(BINARY))}),
    ("packed", 200, gzip.compress(b"{}"), {"Content-Encoding": "gzip"}),
    ("gone", 404, b'{"error":{"message":"no such file"}}', {}),
    ("moved", 307, b"", {"Location": "https://elsewhere/v1/x", "Set-Cookie": "a=1"}),
    ("none", 204, b"", {}),
    ("stream", 200, b"data: 1\n\ndata: 2\n\n", {"Content-Type": "text/event-stream"}),
]


@pytest.mark.parametrize(("name", "status", "body", "headers"), ANSWERS, ids=[row[0] for row in ANSWERS])
async def test_answers(name: str, status: int, body: bytes, headers: dict[str, str], store: Store) -> None:
    async with files(store) as (_, running):
        url = f"{running.url}/v1/files/{name}"
        async with running.client.get(url, headers={"Accept-Encoding": "gzip"}, allow_redirects=False) as answer:
            assert answer.status == status
            assert name == "packed" or await answer.read() == body
            assert {key: answer.headers.get(key) for key in headers} == headers
            if name == "packed":
                assert gzip.decompress(await answer.read()) == b"{}"


@pytest.mark.parametrize("name", ["content", "models", "none"])
async def test_head(name: str, store: Store) -> None:
    """The length of what GET would bring, and nothing after it."""
    async with files(store) as (provider, running):
        for _ in range(2):  # the connection is still good for another
            async with running.client.head(f"{running.url}/v1/files/{name}") as answer:
                assert await answer.read() == b""
                expected = {"content": len(BINARY), "models": 14, "none": None}[name]
                assert answer.headers.get("Content-Length") == (None if expected is None else str(expected))
        assert {method for method, *_ in provider.got} == {"HEAD"}


async def test_a_long_head(store: Store) -> None:
    """As long as it may be on the surfaces."""
    long = b"X-Long: " + b"a" * 100_000
    async with (
        provider(raw(http("200 OK", b"{}", "application/json", long))) as url,
        live(store, upstream={"url": url}) as running,
    ):
        there = URL(running.url)
        reader, writer = await asyncio.open_connection(there.host, there.port, limit=1 << 20)
        writer.write(b"GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n")
        answer = await reader.read(-1)
        writer.close()
        assert long in answer
        assert answer.endswith(b"\r\n\r\n{}")


async def test_the_providers_key(store: Store) -> None:
    async with files(store, api_key="ours") as (provider, running):
        async with running.client.get(f"{running.url}/v1/models", headers={"Authorization": "Bearer theirs"}) as answer:
            assert answer.status == 200
        assert [value for name, value in provider.got[0][2] if name == "Authorization"] == ["Bearer ours"]


async def test_nobody_is_told_the_providers_key(store: Store) -> None:
    """A provider, or a gateway before it, may answer these with the request as it came."""
    async with live(store, upstream={"api_key": "sk-ours"}) as running:
        for method in ("TRACE", "TRACK"):
            for path in ("/v1/files", "/v1/chat/completions", "/s/run/v1/models"):
                async with running.client.request(method, running.url + path) as answer:
                    assert answer.status in (400, 405), (method, path)  # the first: none that HTTP knows
                    assert b"sk-ours" not in await answer.read()
        assert running.provider.got == []


async def test_an_answer_that_breaks_off_is_seen_to(store: Store) -> None:
    """It cannot be mended: the client must not take half of it for all of it, nor our error for the rest."""

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\nContent-Length: 1000\r\n\r\nhalf")
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.close()

    server = await asyncio.start_server(half, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with (
        server,
        live(store, upstream={"url": f"http://127.0.0.1:{port}/v1"}) as running,
        running.client.get(f"{running.url}/v1/files/f/content") as answer,
    ):
        assert answer.status == 200
        with pytest.raises(aiohttp.ClientError):
            await asyncio.wait_for(answer.read(), 5)


async def test_a_provider_that_is_down(store: Store) -> None:
    async with live(store, upstream={"url": "http://127.0.0.1:9/v1"}) as running:
        async with running.client.get(f"{running.url}/v1/models") as answer:
            assert answer.status == 502
            assert (await answer.json())["error"]["code"] == "upstream_unreachable"
            assert "x-should-retry" not in answer.headers
        assert running.proxy.in_flight == 0


async def test_a_client_that_leaves(store: Store) -> None:
    """The provider's answer is given up, and the place is free again."""
    closed = asyncio.Event()

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(BINARY)
                await asyncio.sleep(0)
        except (ConnectionResetError, asyncio.CancelledError):
            closed.set()
            raise

    async with serve(endless) as url, live(store, upstream={"url": f"{url}/v1"}) as running:
        client = aiohttp.ClientSession()
        answer = await client.get(f"{running.url}/v1/files/f/content")
        await answer.content.readany()
        answer.close()
        await client.close()
        await asyncio.wait_for(closed.wait(), 2)
        for _ in range(100):
            if not running.proxy.in_flight:
                break
            await asyncio.sleep(0.01)
        assert running.proxy.in_flight == 0


async def test_pieces_go_on_as_they_come_both_ways(store: Store) -> None:
    """Neither body is waited for: the provider has the first piece before the second is sent, and so has the client."""
    got: asyncio.Queue[bytes] = asyncio.Queue()
    send_on, answer_on = asyncio.Event(), asyncio.Event()

    async def piecewise(request: web.BaseRequest) -> web.StreamResponse:
        async for part in request.content.iter_any():
            await got.put(part)
        response = web.StreamResponse(headers={"Content-Type": "audio/mpeg"})
        await response.prepare(request)
        await response.write(b"one")
        await answer_on.wait()
        await response.write(b"two")
        return response

    async def parts() -> AsyncIterator[bytes]:
        yield b"first"
        await send_on.wait()
        yield b"second"

    async with serve(piecewise) as url, live(store, upstream={"url": f"{url}/v1"}) as running, asyncio.timeout(10):
        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        for path in ("/v1/audio/transcriptions", "/openai/deployments/d/audio/transcriptions"):
            send_on.clear()
            answer_on.clear()
            asking = asyncio.ensure_future(
                running.client.request("POST", running.url + path, data=parts(), headers=kind)
            )
            assert await got.get() == b"first"
            send_on.set()
            assert await got.get() == b"second"
            answer = await asking
            assert await answer.content.readany() == b"one"
            answer_on.set()
            assert await answer.read() == b"two"
