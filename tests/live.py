"""A live set-up for tests: a scripted provider, a proxy over a real store, and an agent that plays a conversation.

Everything goes over HTTP on 127.0.0.1. A scenario is data (`Scene`); `play` runs it, streamed or not.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import aiohttp
from aiohttp import web

from guardproxy.config import Config, build
from guardproxy.http._turn_store import TurnStore
from guardproxy.http.app import Proxy
from guardproxy.http.assembly import assemble
from guardproxy.http.server import Server
from guardproxy.secrets import derive
from guardproxy.telemetry import Telemetry
from tests.surfaces import chat

Json = dict[str, Any]
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
SECRET = "a secret for tests only, long enough"

OFFSET = "x-guardproxy-test-offset-ms"
"""Request header that moves the clock for one request; the proxy heeds it only here."""


@dataclass(slots=True)
class Said:
    """One scripted answer of the provider. `raw` (whole body or list of chunks) goes out as it is."""

    text: str | None = None
    calls: Sequence[tuple[str, str, str]] = ()  # (name, arguments, id)
    status: int = 200
    raw: bytes | Sequence[bytes] | None = None
    finish: str = ""
    usage: Json | None = field(default_factory=lambda: dict(USAGE))
    content_type: str = ""
    wait: Awaitable[object] | None = None  # awaited before the answer
    stall: tuple[int, Awaitable[object]] | None = None  # of a stream: before which chunk it waits, for what
    headers: Mapping[str, str] = field(default_factory=dict)
    number: int = 1  # of the answer: real providers name each one

    def message(self) -> Json:
        """The assistant message as a client would keep it."""
        message: Json = {"role": "assistant", "content": self.text}
        if self.calls:
            message["tool_calls"] = [
                {"id": i, "type": "function", "function": {"name": n, "arguments": a}} for n, a, i in self.calls
            ]
        return message

    def body(self) -> bytes:
        """The whole answer."""
        if isinstance(self.raw, bytes):
            return self.raw
        finish = self.finish or ("tool_calls" if self.calls else "stop")
        answer: Json = {
            "id": f"chatcmpl-{self.number}",
            "object": "chat.completion",
            "created": 1,
            "model": "mock-1",
            "choices": [{"index": 0, "message": self.message(), "finish_reason": finish}],
        }
        if self.usage is not None:
            answer["usage"] = self.usage
        return json.dumps(answer).encode()

    def chunks(self, *, usage: bool) -> list[bytes]:
        """The streamed answer, an event a chunk."""
        if self.raw is not None:
            return [self.raw] if isinstance(self.raw, bytes) else list(self.raw)
        deltas: list[Json] = [{"role": "assistant", "content": ""}]
        if self.text:
            half = len(self.text) // 2
            deltas += [{"content": part} for part in (self.text[:half], self.text[half:])]
        for index, (name, arguments, call_id) in enumerate(self.calls):
            head = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
            deltas.append({"tool_calls": [head]})
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
        finish = self.finish or ("tool_calls" if self.calls else "stop")
        events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        if usage and self.usage is not None:
            events.append({"choices": [], "usage": self.usage})
        base = {"id": f"chatcmpl-{self.number}", "object": "chat.completion.chunk", "created": 1, "model": "mock-1"}
        return [b"data: " + json.dumps(base | event).encode() + b"\n\n" for event in events] + [b"data: [DONE]\n\n"]


@dataclass(slots=True)
class Got:
    """What the provider received."""

    body: bytes
    headers: Mapping[str, str]
    path: str
    method: str = "POST"

    @property
    def json(self) -> Json:
        """The body, parsed."""
        parsed: Json = json.loads(self.body)
        return parsed


Script = Callable[[Got], Said]


class Provider:
    """A server whose answers come from `script`, said on its surface; it keeps every request."""

    def __init__(self, surface: ModuleType = chat) -> None:
        self.surface = surface
        self.script: Script = lambda _got: Said("ok")
        self.got: list[Got] = []
        self.sent: list[bytes] = []
        self.closed_early = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = b"".join([part async for part in request.content.iter_any()])  # `read` stops at a megabyte
        got = Got(body, dict(request.headers), request.raw_path, request.method)
        self.got.append(got)
        said = self.script(got)
        if said.wait is not None:
            await said.wait
        try:
            wants = json.loads(got.body)
        except ValueError:
            wants = {}
        streamed = isinstance(wants, dict) and bool(wants.get("stream"))
        if not streamed or said.status != 200:
            body = self.surface.whole(said)
            self.sent.append(body)
            kind = said.content_type or "application/json"
            return web.Response(status=said.status, body=body, content_type=kind, headers=said.headers)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **said.headers})
        await response.prepare(request)
        usage = bool((wants.get("stream_options") or {}).get("include_usage"))
        chunks = self.surface.events(said, usage=usage)
        self.sent.append(b"".join(chunks))
        for number, chunk in enumerate(chunks):
            try:
                if said.stall is not None and said.stall[0] == number:
                    await said.stall[1]
                await response.write(chunk)
            except ConnectionResetError:
                self.closed_early += 1
                return response
        await response.write_eof()
        return response


@dataclass(slots=True)
class Answer:
    """What the client received."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def verdict(self) -> str:
        """The guard's verdict on the turn."""
        return self.headers.get("x-guardproxy-verdict", "")

    @property
    def rule(self) -> str:
        """The rule that spoke."""
        return self.headers.get("x-guardproxy-rule", "")

    @property
    def json(self) -> Json:
        """The body, parsed."""
        parsed: Json = json.loads(self.body)
        return parsed


@dataclass(slots=True)
class Live:
    """A running set-up. `offset_ms` is added to the store's clock."""

    provider: Provider
    proxy: Proxy
    url: str
    client: aiohttp.ClientSession
    offset_ms: int = 0
    settled: bool = False  # `post` waits until the turn is settled and reported
    surface: ModuleType = chat

    def offset_of(self, headers: Mapping[str, str]) -> int:
        """The offset of one request: several runs at once may each have a time of their own (`OFFSET`)."""
        return self.offset_ms + int(headers.get(OFFSET, 0))

    async def post(self, body: Json | bytes, headers: Mapping[str, str] | None = None, path: str = "") -> Answer:
        """Send a request, to the surface where no path is given, and read the whole answer."""
        path = path or self.surface.PATH
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", "Authorization": "Bearer k", **(headers or {})}
        async with self.client.post(self.url + path, data=raw, headers=sent) as answer:
            got = Answer(answer.status, dict(answer.headers), await answer.read())
        if self.settled:
            await self.proxy.quiet()
        return got


def config_of(**sections: Any) -> Config:
    """A configuration for tests: no profile, so that only what a test asks for is limited.

    Calls are refused only where a test asks for it: an agent that ignores all advice then goes all the way up.
    """
    sections.setdefault("policy", {})
    sections["policy"] = {"profile": "none", "refuse": "observe", **sections["policy"]}
    sections.setdefault("outgoing", {"private_hosts": ["127.0.0.1"]})  # where verifiers and webhooks of tests are
    return build(sections)


@asynccontextmanager
async def serve(
    handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]] | web.Server | Server,
) -> AsyncIterator[str]:
    """An HTTP server on a free port of 127.0.0.1; its address."""
    if isinstance(handler, Server):
        sock = socket.create_server(("127.0.0.1", 0))
        await handler.listen(sock)
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            await handler.close(1)
        return
    server = handler if isinstance(handler, web.Server) else web.Server(handler, access_log=None)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def live(
    store: TurnStore, telemetry: Telemetry | None = None, /, *, surface: ModuleType = chat, **sections: Any
) -> AsyncIterator[Live]:
    """Provider and proxy in this process, over `store`. `upstream` None: the provider is not asked; see `upstreams`."""
    provider = Provider(surface)
    async with serve(provider.handle) as upstream:
        section = sections.pop("upstream", {})
        given = {} if section is None else {"upstream": {"url": f"{upstream}/v1", **section}}
        config = config_of(**given, **sections)
        keys = derive(SECRET)
        told = telemetry or Telemetry(config.telemetry, keys.trace, "test")
        holder: list[Live] = []
        proxy = assemble(
            config, keys, store, told, clock_offset=lambda headers: holder[0].offset_of(headers) if holder else 0
        )
        await proxy.start()
        try:
            async with serve(proxy.server()) as url, aiohttp.ClientSession(auto_decompress=False) as client:
                running = Live(provider, proxy, url, client, surface=surface)
                holder.append(running)
                yield running
        finally:
            await proxy.close()


def ids(prefix: str) -> Callable[[], str]:
    """Fresh call ids."""
    state = {"n": 0}

    def fresh() -> str:
        state["n"] += 1
        return f"call_{prefix}{state['n']:08d}"

    return fresh


def unique(prefix: str) -> str:
    """A name that no other test uses."""
    return f"{prefix}-{time.time_ns():x}"
