"""A provider that plays a scene over all three surfaces and keeps what it got and gave. Ids are new for each answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.live import Said, serve
from tests.surfaces import SURFACES

Json = dict[str, Any]
SIDE = "A note"
"""Answer to requests without tools of a client that has some: titles, summaries."""

PATIENCE = 20.0
"""Seconds that a model thinks about an answer that nobody waits for."""


@dataclass(slots=True)
class Turn:
    """A request of the scene and what was sent for it."""

    surface: str
    body: Json
    sent: bytes = b""


@dataclass(slots=True)
class Provider:
    """`script`: number of the turn and request → answer; `tools`: only requests with tools are turns."""

    script: Callable[[int, Json], Said] = lambda _number, _body: Said("ok")
    tools: bool = True
    turns: list[Turn] = field(default_factory=list)
    made: int = 0
    cut: tuple[int, Callable[[], Awaitable[object]]] | None = None

    def play(
        self,
        script: Callable[[int, Json], Said],
        *,
        tools: bool,
        cut: tuple[int, Callable[[], Awaitable[object]]] | None = None,
    ) -> None:
        """Begin a scene. `cut`: in which turn what is awaited, whereupon the model says nothing more in that turn."""
        self.script, self.tools, self.turns, self.cut = script, tools, [], cut

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        raw = b"".join([part async for part in request.content.iter_any()])
        name = next((n for n, s in SURFACES.items() if request.path.endswith(s.PATH.removeprefix("/v1"))), "")
        if request.method != "POST" or not name:
            return web.json_response(
                {"object": "list", "data": []}, status=200 if request.path.endswith("models") else 404
            )
        body, surface = json.loads(raw), SURFACES[name]
        turn = Turn(name, body)
        if body.get("tools") or not self.tools:
            said = self.script(len(self.turns), body)
            self.turns.append(turn)
            if self.cut is not None and self.cut[0] == len(self.turns) - 1:
                await self.cut[1]()
                await _gone(request)
        else:
            said = Said(SIDE)
        self.made += 1
        said.number = self.made
        if not body.get("stream"):
            turn.sent = surface.whole(said)
            return web.Response(status=said.status, body=turn.sent, content_type="application/json")
        chunks: Sequence[bytes] = surface.events(
            said, usage=bool((body.get("stream_options") or {}).get("include_usage"))
        )
        turn.sent = b"".join(chunks)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        with contextlib.suppress(ConnectionResetError):
            await response.prepare(request)
            for chunk in chunks:
                await response.write(chunk)
            await response.write_eof()
        return response


async def _gone(request: web.BaseRequest) -> None:
    """Wait until the other end has hung up, or long enough."""
    until = time.monotonic() + PATIENCE
    while request.transport is not None and not request.transport.is_closing() and time.monotonic() < until:
        await asyncio.sleep(0.05)


@asynccontextmanager
async def scripted() -> AsyncIterator[tuple[Provider, str]]:
    """The provider and its base URL."""
    provider = Provider()
    async with serve(provider.handle) as url:
        yield provider, f"{url}/v1"
