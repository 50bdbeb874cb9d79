"""What depends on time: a chunk comes before the next is made, who leaves is noticed, overload sheds early."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable

import aiohttp
import pytest
from aiohttp import web

from guardproxy.core.view import Opening, View
from guardproxy.store.redis import Store
from tests.http_store import PREFIX, held
from tests.live import Json, Live, live, serve
from tests.scenes import Heard

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
ASK: Json = {"model": "mock-1", "messages": [{"role": "user", "content": "Hello"}], "tools": TOOLS, "stream": True}
SSE = {"Content-Type": "text/event-stream"}
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}\n\n'
DONE = b"data: [DONE]\n\n"


def event(finish: str | None = None, **delta: object) -> bytes:
    return (
        b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode() + b"\n\n"
    )


CALL = event(tool_calls=[{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}])
SAID = [event(role="assistant", content=""), event(content="One"), event(content=" two"), event("stop"), USAGE, DONE]


class Slow:
    """A provider that gives one chunk for each `give`, and knows when its client leaves."""

    def __init__(self, chunks: list[bytes], *, silent: bool = False) -> None:
        self.chunks = chunks
        self.silent = silent
        self.given: asyncio.Queue[None] = asyncio.Queue()
        self.asked = 0
        self.left: asyncio.Queue[float] = asyncio.Queue()

    def give(self, times: int = 1) -> None:
        for _ in range(times):
            self.given.put_nowait(None)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        self.asked += 1
        try:
            if self.silent:
                await asyncio.sleep(30)
            response = web.StreamResponse(headers=SSE)
            await response.prepare(request)
            for chunk in self.chunks:
                await self.given.get()
                await response.write(chunk)
            await response.write_eof()
            return response
        except asyncio.CancelledError:
            self.left.put_nowait(time.monotonic())
            raise

    def server(self) -> web.Server:
        return web.Server(self.handle, access_log=None, handler_cancellation=True)


async def soon(condition: Callable[[], bool], wait_s: float = 2.0) -> None:
    until = time.monotonic() + wait_s
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        await asyncio.sleep(0.005)


STREAMS = {
    "untouched": ({"stream_options": {"include_usage": True}}, {}, SAID),
    "spliced": ({}, {}, [chunk for chunk in SAID if chunk is not USAGE]),
    "finalized": ({}, {"limits": {"session": {"turns": 1}}}, [chunk for chunk in SAID if chunk is not USAGE]),
}


@pytest.mark.parametrize("name", STREAMS)
async def test_27_31_each_chunk_comes_before_the_next_is_made(name: str, store: Store, heard: Heard) -> None:
    more, policy, expected = STREAMS[name]
    slow = Slow(SAID)
    async with serve(slow.server()) as url, live(store, heard, upstream={"url": f"{url}/v1"}, policy=policy) as running:
        asking = running.client.post(
            f"{running.url}/v1/chat/completions", json={**ASK, **more}, headers={"x-session-id": name}
        )
        slow.give()  # the headers of an answer come with its first chunk
        async with asking as answer:
            for chunk in expected[:-1]:
                got = b""
                while got != chunk:
                    assert chunk.startswith(got)
                    got += await asyncio.wait_for(answer.content.readany(), 2)
                slow.give(2 if chunk == event("stop") and USAGE not in expected else 1)
            assert await asyncio.wait_for(answer.read(), 2) == DONE
        report = await heard.next()
        assert (report.usage.input, report.usage.output, report.usage.estimated) == (7, 2, False)
        assert await held(store) == {}


async def test_text_is_not_held_when_calls_are(store: Store, heard: Heard) -> None:
    """On finalize calls are taken out, and the text before them comes at once."""
    slow = Slow(
        [event(role="assistant", content=""), event(content="I will look."), CALL, event("tool_calls"), USAGE, DONE]
    )
    policy = {"limits": {"session": {"turns": 1}}}
    async with serve(slow.server()) as url, live(store, heard, upstream={"url": f"{url}/v1"}, policy=policy) as running:
        slow.give(2)
        async with running.client.post(
            f"{running.url}/v1/chat/completions", json=ASK, headers={"x-session-id": "f"}
        ) as answer:
            assert answer.headers["x-guardproxy-verdict"] == "finalize"
            got = b""
            while b"I will look." not in got:
                got += await asyncio.wait_for(answer.content.readany(), 2)
            slow.give(4)
            rest = await asyncio.wait_for(answer.read(), 2)
        assert b"tool_calls" not in rest
        assert b'"finish_reason":"stop"' in rest
        assert rest.endswith(DONE)
        report = await heard.next()
        assert [name for name, _, _ in report.attempts[-1].calls] == ["f"]
        assert report.outcome == "finalized"


LEAVES = {
    "before the first byte": (True, 0),
    "in mid-stream": (False, 3),
    "after the finish reason": (False, 4),
}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("name", LEAVES)
async def test_17_a_client_that_leaves(name: str, stream: bool, store: Store, heard: Heard) -> None:
    silent, chunks = LEAVES[name]
    slow = Slow(SAID, silent=silent or not stream)
    async with serve(slow.server()) as url, live(store, heard, upstream={"url": f"{url}/v1"}) as running:
        client = aiohttp.ClientSession()
        slow.give(chunks)
        asking = asyncio.ensure_future(
            client.post(f"{running.url}/v1/chat/completions", json={**ASK, "stream": stream})
        )
        leave: Callable[[], object] = asking.cancel
        await soon(lambda: slow.asked == 1)
        if chunks and stream:
            answer = await asking
            leave = answer.close
            got = b""
            while SAID[chunks - 1] not in got:
                got += await asyncio.wait_for(answer.content.readany(), 2)
        assert await held(store, wait_s=0) != {}, "nothing was held while it ran"
        left = time.monotonic()
        leave()
        await client.close()
        assert await asyncio.wait_for(slow.left.get(), 2) - left < 1
        report = await heard.next()
        assert report.usage.estimated
        assert report.usage.input > 0
        assert (report.usage.output > 0) == (chunks > 0 or not stream), "a whole answer is made, seen or not"
        assert report.outcome == ""
        assert await held(store) == {}
        assert heard.reports.empty()
        assert running.proxy.in_flight == 0


class Late:
    """The store, with a first trip that takes a while."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.settle, self.renew = store.settle, store.renew
        self.go = asyncio.Event()
        self.began = 0

    async def begin(self, opening: Opening) -> View:
        view = await self._store.begin(opening)
        self.began += 1
        await self.go.wait()
        return view


async def test_a_client_that_leaves_before_the_store_answers(store: Store, heard: Heard) -> None:
    late, slow = Late(store), Slow(SAID)
    async with serve(slow.server()) as url, live(late, heard, upstream={"url": f"{url}/v1"}) as running:
        client = aiohttp.ClientSession()
        asking = asyncio.ensure_future(client.post(f"{running.url}/v1/chat/completions", json=ASK))
        await soon(lambda: late.began == 1)
        asking.cancel()
        await client.close()
        await asyncio.sleep(0.05)
        late.go.set()
        report = await heard.next()
        assert report.usage.input == 0, "nothing was sent, so nothing is paid"
        assert await held(store) == {}
        assert slow.asked == 0


async def test_overload_sheds_before_a_hold(store: Store, heard: Heard) -> None:
    slow = Slow(SAID)
    overload = {"max_in_flight": 2}
    async with (
        serve(slow.server()) as url,
        live(store, heard, upstream={"url": f"{url}/v1"}, overload=overload) as running,
    ):
        under_way = [asyncio.ensure_future(running.post(ASK)) for _ in range(2)]
        await soon(lambda: slow.asked == 2)
        assert await store._client.command("ZCARD", f"{PREFIX}holds") == 2
        shed = await running.post(ASK)
        assert (shed.status, shed.json["error"]["code"], shed.headers["Retry-After"]) == (503, "overloaded", "1")
        assert set(shed.json["error"]) >= {"message", "type", "code", "param"}
        assert "x-should-retry" not in shed.headers, "an overload is to be tried again"
        assert await store._client.command("ZCARD", f"{PREFIX}holds") == 2
        assert slow.asked == 2
        assert await health(running) == 200, "an overloaded worker is alive"
        slow.give(len(SAID) * 2)
        assert [answer.status for answer in await asyncio.gather(*under_way)] == [200, 200]
        await soon(lambda: running.proxy.in_flight == 0)
        slow.give(len(SAID))
        assert (await running.post(ASK)).status == 200
        assert await held(store) == {}


async def test_draining_sheds_and_finishes(store: Store, heard: Heard) -> None:
    slow = Slow(SAID)
    async with serve(slow.server()) as url, live(store, heard, upstream={"url": f"{url}/v1"}) as running:
        under_way = asyncio.ensure_future(running.post(ASK))
        await soon(lambda: slow.asked == 1)
        running.proxy.draining = True
        shed = await running.post(ASK)
        assert (shed.status, shed.headers["Retry-After"]) == (503, "1")
        assert await health(running, "/readyz") == 503
        slow.give(len(SAID))
        assert (await under_way).body.endswith(DONE)
        assert await held(store) == {}


async def health(running: Live, path: str = "/healthz") -> int:
    async with running.client.get(running.url + path) as answer:
        return answer.status
