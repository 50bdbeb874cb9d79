"""The measure: the least that a reverse proxy on aiohttp and uvloop does for a request.

An application with one route, a client session, hop-by-hop headers dropped, the body read whole, the answer passed on
whole or chunk by chunk. No parsing, no store. What guardproxy costs is counted in multiples of this.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping

import aiohttp
import uvloop
from aiohttp import web

# RFC 9110 §7.6.1, and what each side frames for itself.
HOP = frozenset(
    ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")  # the hop's
).union(("host", "content-length", "date"))


def passed_on(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """The headers that are not between two neighbours only."""
    return [(name, value) for name, value in headers.items() if name.lower() not in HOP]


class Bare:
    """One client session and the handler that uses it."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.client: aiohttp.ClientSession | None = None

    async def open(self, app: web.Application) -> None:
        """Opens the client session; unlimited connections, as the load sets the number."""
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
        timeout = aiohttp.ClientTimeout(total=600)
        self.client = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One request, there and back."""
        assert self.client is not None
        body = await request.read()
        url = self.upstream + request.raw_path
        async with self.client.request(request.method, url, data=body, headers=passed_on(request.headers)) as answer:
            if answer.content_type != "text/event-stream":
                whole = await answer.read()
                return web.Response(body=whole, status=answer.status, headers=passed_on(answer.headers))
            out = web.StreamResponse(status=answer.status, headers=passed_on(answer.headers))
            await out.prepare(request)
            async for chunk in answer.content.iter_any():
                await out.write(chunk)
            await out.write_eof()
            return out


async def serve(port: int, upstream: str) -> None:
    """Serves until killed."""
    bare = Bare(upstream)
    app = web.Application(client_max_size=1 << 26)
    app.on_startup.append(bare.open)
    app.router.add_route("*", "/{path:.*}", bare.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, reuse_port=True).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("upstream", help="such as http://127.0.0.1:9100")
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    for _ in range(args.workers - 1):
        if os.fork() == 0:
            break
    uvloop.run(serve(args.port, args.upstream))
