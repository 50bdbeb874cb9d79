"""What clients and providers do wrong, as tables: a clear error in OpenAI's shape, nothing held, nothing said twice."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import logging
import socket
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest

from guardproxy.store.redis import Store
from tests.http_store import held
from tests.live import Answer, Json, Live, Said, live
from tests.scene_checks import SPLICE
from tests.scenes import Heard

CHAT = "/v1/chat/completions"
USER = {"role": "user", "content": "Hello"}
GOOD: Json = {"model": "mock-1", "messages": [USER]}
MB = 1 << 20
BIG = json.dumps({**GOOD, "pad": "x" * MB}).encode()


def but(**fields: object) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


def without(key: str) -> bytes:
    return json.dumps({name: value for name, value in GOOD.items() if name != key}).encode()


def packed(body: bytes) -> bytes:
    return gzip.compress(body)


@dataclass(frozen=True, slots=True)
class Wrong:
    """A request that cannot be served; `says` stands in the message."""

    name: str
    body: bytes
    code: str
    param: str | None
    says: str
    status: int = 400
    headers: Mapping[str, str] = field(default_factory=dict)
    path: str = CHAT
    method: str = "POST"
    chunked: bool = False


GZIP = {"Content-Encoding": "gzip"}
WRONG = [
    Wrong("broken JSON", b'{"model": "m", "messages": [', "invalid_json", "body", "not valid JSON"),
    Wrong("no body", b"", "invalid_json", "body", "not valid JSON"),
    Wrong("not UTF-8", b'{"model": "\xff\xfe"}', "invalid_json", "body", "not valid JSON"),
    Wrong("nested without end", b"[" * 200_000, "invalid_json", "body", "not valid JSON"),
    Wrong("a number too long", b'{"a": ' + b"9" * 5000 + b"}", "invalid_json", "body", "too many digits"),
    Wrong("a list", b"[1]", "invalid_type", "body", "JSON object"),
    Wrong("a string", b'"hello"', "invalid_type", "body", "JSON object"),
    Wrong("no messages", without("messages"), "missing_required_parameter", "messages", "`messages`"),
    Wrong("messages null", but(messages=None), "missing_required_parameter", "messages", "`messages`"),
    Wrong("messages a string", but(messages="hello"), "invalid_type", "messages", "a list"),
    Wrong("messages an object", but(messages=USER), "invalid_type", "messages", "a list"),
    Wrong("messages empty", but(messages=[]), "invalid_value", "messages", "at least one"),
    Wrong("a message is a number", but(messages=[USER, 7]), "invalid_type", "messages[1]", "an object"),
    Wrong("no model", without("model"), "missing_required_parameter", "model", "`model`"),
    Wrong("model empty", but(model=""), "missing_required_parameter", "model", "`model`"),
    Wrong("model a number", but(model=5), "invalid_type", "model", "a string"),
    Wrong("stream a word", but(stream="yes"), "invalid_type", "stream", "true or false"),
    Wrong("n a word", but(n="two"), "invalid_type", "n", "an integer"),
    Wrong("max_tokens a list", but(max_tokens=[1]), "invalid_type", "max_tokens", "an integer"),
    Wrong(
        "max_tokens infinite",
        b'{"model":"m","messages":[{"role":"user"}],"max_tokens":1e999}',
        "invalid_type",
        "max_tokens",
        "integer",
    ),
    Wrong("tools a number", but(tools=5), "invalid_type", "tools", "a list"),
    Wrong("too large", BIG, "body_too_large", "body", "overload.max_body_mb"),
    Wrong("too large, in chunks", BIG, "body_too_large", "body", "overload.max_body_mb", chunked=True),
    Wrong("a bomb", packed(b'{"pad":"' + b" " * 4 * MB), "body_too_large", "content-encoding", "expands", headers=GZIP),
    Wrong(
        "a deflate bomb",
        zlib.compress(b" " * 4 * MB),
        "body_too_large",
        "content-encoding",
        "expands",
        headers={"Content-Encoding": "deflate"},
    ),
    Wrong("not gzip", b"hello", "invalid_encoding", "content-encoding", "not valid gzip", headers=GZIP),
    Wrong(
        "half a gzip", packed(but(pad="y" * 999))[:-9], "invalid_encoding", "content-encoding", "cut off", headers=GZIP
    ),
    Wrong("brotli", b"hello", "unsupported_encoding", "content-encoding", "'br'", headers={"Content-Encoding": "br"}),
    Wrong("unknown path", but(), "not_found", None, "/v2/chat", 404, path="/v2/chat"),
    Wrong("no path", but(), "not_found", None, "/v1", 404, path="/"),
    Wrong("the path's parent", but(), "not_found", None, "/v1", 404, path="/s/run-1/"),
    Wrong("GET", b"", "method_not_allowed", None, "use POST", 405, method="GET"),
    Wrong("DELETE", b"", "method_not_allowed", None, "use POST", 405, method="DELETE"),
    Wrong(
        "a WebSocket",
        b"",
        "upgrade_required",
        None,
        "POST",
        426,
        {"Upgrade": "websocket", "Connection": "Upgrade"},
        "/v1/responses",
        "GET",
    ),
]


async def send(running: Live, wrong: Wrong) -> Answer:
    async def in_chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(wrong.body), 65536):
            yield wrong.body[start : start + 65536]

    headers = {"Content-Type": "application/json", **wrong.headers}
    body = in_chunks() if wrong.chunked else io.BytesIO(wrong.body)
    async with running.client.request(wrong.method, running.url + wrong.path, data=body, headers=headers) as answer:
        return Answer(answer.status, dict(answer.headers), await answer.read())


def error_of(answer: Answer) -> Json:
    """The error, whose shape is OpenAI's."""
    assert answer.headers["Content-Type"] == "application/json"
    error: Json = answer.json["error"]
    assert list(error)[:4] == ["message", "type", "code", "param"]
    assert error["message"]
    assert error["type"]
    return error


@asynccontextmanager
async def quiet(caplog: pytest.LogCaptureFixture, turns: int = 0) -> AsyncIterator[None]:
    """One line a turn, and no traceback anywhere."""
    caplog.set_level(logging.INFO)
    caplog.clear()
    yield
    records = [record for record in caplog.records if record.name != "guardproxy.http.prices"]
    assert [r.getMessage() for r in records if r.exc_info or r.levelno >= logging.ERROR] == []
    assert sum(record.name == "guardproxy.turn" for record in records) == turns


@pytest.mark.parametrize("wrong", WRONG, ids=[wrong.name for wrong in WRONG])
async def test_wrong_request(wrong: Wrong, store: Store, heard: Heard, caplog: pytest.LogCaptureFixture) -> None:
    small = {"max_body_mb": 1, "max_expanded_mb": 2}
    async with live(store, heard, overload=small) as running, quiet(caplog):
        answer = await send(running, wrong)
        error = error_of(answer)
        assert (answer.status, error["code"], error["param"]) == (wrong.status, wrong.code, wrong.param)
        assert wrong.says in error["message"]
        assert answer.headers["x-should-retry"] == "false"
        assert running.provider.got == []
        assert await held(store) == {}
        after = await running.post(GOOD)
        assert after.status == 200, "the next request suffers"
        await heard.next()
        assert heard.reports.empty()
        caplog.clear()


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def raw(*parts: bytes, hang: bool = False, reset: bool = False) -> Handler:
    """A provider that reads a request, writes these bytes and closes (stays silent, or resets the connection)."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b": 0")
            await reader.readexactly(int(length.partition(b":")[2]))
            writer.write(b"".join(parts))
            await writer.drain()
            if hang:
                await reader.read()
            if reset:
                await asyncio.sleep(0.05)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    return serve


def http(status: str, body: bytes, kind: str = "application/json", *headers: bytes, length: int | None = None) -> bytes:
    """A whole HTTP answer."""
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body) if length is None else length}",
    ]
    return "\r\n".join(lines).encode() + b"".join(b"\r\n" + line for line in headers) + b"\r\n\r\n" + body


def sse(*events: bytes, ended: bool = True) -> bytes:
    """A stream in HTTP chunks; `ended`: with the last one."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"".join(f"{len(event):x}\r\n".encode() + event + b"\r\n" for event in events)
    return head + chunks + (b"0\r\n\r\n" if ended else b"")


@asynccontextmanager
async def provider(handler: Handler) -> AsyncIterator[str]:
    """A provider on a socket; its base URL."""
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


@dataclass(frozen=True, slots=True)
class Trouble:
    """A provider that does not answer as it should. `handler` None: nobody listens."""

    name: str
    handler: Handler | None
    status: int
    code: str
    says: str


GZIPPED = b"Content-Encoding: gzip"
# of an answer there was something: it was made as a whole
MADE = {"half JSON", "half a body", "events, unasked", "half JSON, encoded"}
# a whole one may have been
GONE = {"closes without a word", "silent", "speaks no HTTP", "speaks a WebSocket", "resets the connection"}
HTML = b"<html><body>Bad gateway</body></html>"
TROUBLES = [
    Trouble("down", None, 502, "upstream_unreachable", "cannot be reached"),
    Trouble("closes without a word", raw(), 502, "upstream_broken", "broke off"),
    Trouble("speaks no HTTP", raw(b"SSH-2.0-OpenSSH\r\n"), 502, "upstream_broken", "broke off"),
    Trouble("silent", raw(hang=True), 504, "upstream_timeout", "in time"),
    Trouble(
        "speaks a WebSocket",
        raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", hang=True),
        502,
        "upstream_broken",
        "another protocol",
    ),
    Trouble("resets the connection", raw(reset=True), 502, "upstream_broken", "broke off"),
    Trouble(
        "HTML with 200", raw(http("200 OK", HTML, "text/html")), 502, "upstream_not_json", "<html><body>Bad gateway"
    ),
    Trouble(
        "HTML with 502", raw(http("502 Bad Gateway", HTML, "text/html")), 502, "upstream_not_json", "502 with text/html"
    ),
    Trouble("HTML with 429", raw(http("429 Slow", HTML, "text/html")), 429, "upstream_not_json", "429 with text/html"),
    Trouble("an empty 200", raw(http("200 OK", b"")), 502, "upstream_not_json", "not JSON"),
    Trouble("half JSON", raw(http("200 OK", b'{"id":"x","cho')), 502, "upstream_not_json", "not JSON"),
    Trouble(
        "half JSON, encoded",
        raw(http("200 OK", packed(Said("hello").body())[:-30], "application/json", GZIPPED)),
        502,
        "upstream_not_json",
        "not JSON",
    ),
    Trouble(
        "HTML with 200, encoded",
        raw(http("200 OK", packed(HTML), "text/html", GZIPPED)),
        502,
        "upstream_not_json",
        "<html><body>Bad gateway",
    ),
    Trouble("nothing, encoded", raw(http("200 OK", b"", "application/json", GZIPPED)), 502, "upstream_not_json", "''"),
    Trouble("events, unasked", raw(http("200 OK", b'data: {"id":"x"}')), 502, "upstream_not_json", "not JSON"),
    Trouble("half a body", raw(http("200 OK", b'{"id":', length=500)), 502, "upstream_broken", "broke off"),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("trouble", TROUBLES, ids=[trouble.name for trouble in TROUBLES])
async def test_upstream_trouble(
    trouble: Trouble, stream: bool, store: Store, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    async with provider(trouble.handler or raw()) as url:
        there = url if trouble.handler else "http://127.0.0.1:9/v1"  # the discard port: nobody listens
        upstream = {"url": there, "first_byte_seconds": 0.3, "idle_seconds": 0.3, "connect_seconds": 1}
        async with live(store, heard, upstream=upstream) as running, quiet(caplog, turns=1):
            answer = await running.post(but(stream=stream))
            error = error_of(answer)
            assert (answer.status, error["code"], error["param"]) == (trouble.status, trouble.code, None)
            assert trouble.says in error["message"]
            assert answer.headers["x-guardproxy-session-id"]
            report = await heard.next()
            assert (report.status, report.error_type, report.outcome) == (trouble.status, trouble.code, "")
            billed = trouble.name in MADE or (trouble.name in GONE and not stream)
            assert (report.usage.output > 0) == billed, "what may have been made may be billed"
            assert heard.reports.empty()
            assert await held(store) == {}


CHUNK = b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'
STOP = b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
ERROR = b'data: {"error":{"message":"overloaded","type":"server_error"}}\n\n'
DONE = b"data: [DONE]\n\n"
HALVES = {
    "cut in the middle of an event": (raw(sse(CHUNK, CHUNK[:30], ended=False)), CHUNK, True),
    "cut between events": (raw(sse(CHUNK, ended=False)), CHUNK, True),
    "ends too early": (raw(sse(CHUNK)), CHUNK, True),
    "is reset": (raw(sse(CHUNK, ended=False), reset=True), CHUNK, True),
    "falls silent": (raw(sse(CHUNK, ended=False), hang=True), CHUNK, True),
    "reports an error": (raw(sse(CHUNK, ERROR, DONE)), CHUNK + ERROR + DONE, False),
    "without [DONE]": (raw(sse(CHUNK, STOP)), CHUNK + STOP, False),
    "a broken event, then a whole answer": (
        raw(sse(b"data: {]\n\n", CHUNK, STOP, DONE)),
        b"data: {]\n\n" + CHUNK + STOP + DONE,
        False,
    ),
}


@pytest.mark.parametrize("asked", [False, True], ids=["spliced", "untouched"])
@pytest.mark.parametrize("name", HALVES)
async def test_half_a_stream(
    name: str, asked: bool, store: Store, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    handler, passed, told = HALVES[name]
    async with provider(handler) as url:
        upstream = {"url": url, "first_byte_seconds": 0.3, "idle_seconds": 0.3}
        async with live(store, heard, upstream=upstream) as running, quiet(caplog, turns=1):
            options = {"stream_options": {"include_usage": True}} if asked else {}
            answer = await running.post(but(stream=True, **options))
            assert answer.status == 200
            assert answer.body.startswith(passed)
            rest = answer.body[len(passed) :]
            if told:
                half = CHUNK[:30] + b"\n\n" if asked and "middle" in name else b""
                assert rest.startswith(half)
                event = rest.removeprefix(half)
                assert event.endswith(b"\n\n")
                error = json.loads(event[6:])["error"]
                assert (error["code"], error["param"]) == ("upstream_broken", None)
            else:
                assert rest == b""
            report = await heard.next()
            assert bool(report.error_type) == (told or name == "reports an error")
            assert report.usage.output > 0, "what was produced costs"
            assert heard.reports.empty()
            assert await held(store) == {}


PASSED = [
    (400, b'{"error": {"message": "bad tool", "type": "invalid_request_error", "param": "tools", "code": null}}'),
    (401, b'{"error":{"message":"Incorrect API key","code":"invalid_api_key"}}'),
    (404, b'{"error":"model not found"}'),
    (429, b'{"error":{"message":"Rate limit","type":"requests"},"x":1.10}'),
    (500, b' {"detail":[]} '),
    (503, b'[{"error":{"code":503}}]'),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("status", "body"), PASSED, ids=[str(status) for status, _ in PASSED])
async def test_upstream_error_is_passed_through(
    status: int, body: bytes, stream: bool, store: Store, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    handler = raw(
        http(f"{status} Said", body, "application/json; charset=utf-8", b"retry-after: 7", b"x-request-id: r1")
    )
    async with provider(handler) as url, live(store, heard, upstream={"url": url}) as running, quiet(caplog, turns=1):
        answer = await running.post(but(stream=stream))
        assert (answer.status, answer.body) == (status, body)
        headers = {name.lower(): value for name, value in answer.headers.items()}
        assert headers["retry-after"] == "7"
        assert headers["x-request-id"] == "r1"
        assert headers["content-type"] == "application/json; charset=utf-8"
        report = await heard.next()
        assert (report.status, report.error_type, report.usage.input) == (status, str(status), 0)
        assert heard.reports.empty()
        assert await held(store) == {}


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity"])
@pytest.mark.parametrize("stream", [False, True], ids=["untouched", "spliced"])
async def test_encoded_request(encoding: str, stream: bool, store: Store) -> None:
    body = but(stream=stream, x_odd={"b": 1.1})
    sent = {"gzip": gzip.compress, "deflate": zlib.compress, "identity": bytes}[encoding](body)
    async with live(store) as running:
        answer = await running.post(sent, {"Content-Encoding": encoding})
        assert answer.status == 200
        (got,) = running.provider.got
        assert got.json == json.loads(body) | ({"stream_options": {"include_usage": True}} if stream else {})
        assert got.headers.get("Content-Encoding") == (None if stream else encoding)
        assert await held(store) == {}


@pytest.mark.parametrize(
    "answer",
    [
        b'{ "big":12345678901234567890123, "choices":[ {"finish_reason":"stop","message":{"x_new":[1.0]}} ] }',
        b"[]",
        b'{"choices":null}',
        b'{"choices":"none","usage":"many"}',
    ],
)
async def test_unknown_fields_of_an_answer_survive(answer: bytes, store: Store, heard: Heard) -> None:
    async with live(store, heard) as running:
        running.provider.script = lambda _got: Said(raw=answer)
        got = await running.post(GOOD)
        assert (got.status, got.body) == (200, answer)
        await heard.next()
        assert await held(store) == {}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_large_request(stream: bool, store: Store) -> None:
    body = but(stream=stream, pad="x" * 3 * MB)
    async with live(store) as running:
        async with running.client.post(running.url + CHAT, data=io.BytesIO(body)) as answer:
            assert answer.status == 200
        (got,) = running.provider.got
        assert SPLICE.sub(b"", got.body) == body


async def test_encoded_answer(store: Store, heard: Heard) -> None:
    body = Said("hello").body()
    handler = raw(http("200 OK", gzip.compress(body), "application/json", b"Content-Encoding: gzip"))
    async with provider(handler) as url, live(store, heard, upstream={"url": url}) as running:
        answer = await running.post(GOOD, {"Accept-Encoding": "gzip, br"})
        assert answer.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(answer.body) == body
        assert (await heard.next()).usage.input == 10
        assert await held(store) == {}


@pytest.mark.parametrize("trouble", TROUBLES[:6], ids=[trouble.name for trouble in TROUBLES[:6]])
async def test_upstream_trouble_on_another_route(
    trouble: Trouble, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    async with provider(trouble.handler or raw()) as url:
        there = url if trouble.handler else "http://127.0.0.1:9/v1"
        upstream = {"url": there, "first_byte_seconds": 0.3, "idle_seconds": 0.3, "connect_seconds": 1}
        async with live(store, upstream=upstream) as running, quiet(caplog):
            for method in ("GET", "POST"):
                async with running.client.request(method, f"{running.url}/v1/models") as got:
                    answer = Answer(got.status, dict(got.headers), await got.read())
                error = error_of(answer)
                assert (answer.status, error["code"]) == (trouble.status, trouble.code)


HALF_BODIES = {
    "a body cut off": raw(http("200 OK", b'{"id":', length=500)),
    "chunks cut off": raw(sse(CHUNK, ended=False)),
    "an HTTP chunk cut off": raw(sse(CHUNK)[:-20]),
}


@pytest.mark.parametrize("name", HALF_BODIES)
async def test_half_a_body_on_another_route(name: str, store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing can be said any more; the client must not take the half for the whole."""
    async with provider(HALF_BODIES[name]) as url, live(store, upstream={"url": url}) as running, quiet(caplog):
        async with running.client.get(f"{running.url}/v1/files/f1/content") as answer:
            assert answer.status == 200
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
        assert running.proxy.in_flight == 0
