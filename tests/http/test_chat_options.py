"""Options of chat answers over HTTP: a stream that repeats itself is not read to its end, a promise of calls is mended.

Both are off by default; with them off the loop log's B16 and B17 pass as they come (`tests/scene_loops.py`).
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from guardproxy.config import build
from guardproxy.errors import ConfigError
from guardproxy.store.redis import Store
from tests.http_store import held
from tests.live import Answer, Json, Live, Said, live, serve
from tests.scenes import Heard, delta

LET = "Let me check the file. "
HALT = {"halt_repeats": 10}
MEND = {"mend_finish": True}
STREAM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


class Endless(Said):
    """Four hundred chunks of the same; the provider waits until somebody reads on."""

    def chunks(self, *, usage: bool) -> list[bytes]:
        made = [b"data: " + json.dumps(delta(content=LET)).encode() + b"\n\n" for _ in range(400)]
        return [*made, b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n', b"data: [DONE]\n\n"]


def asking(*messages: Json, **more: Any) -> Json:
    return {"model": "mock-1", "messages": [{"role": "user", "content": "What is in the file?"}, *messages], **more}


async def said(running: Live, body: Json) -> Answer:
    answer = await running.post(body)
    await running.proxy.quiet()
    return answer


def text_of(answer: Answer) -> str:
    found = ""
    for event in answer.body.split(b"\n\n"):
        if event.startswith(b"data: {"):
            found += "".join(one["delta"].get("content") or "" for one in json.loads(event[6:])["choices"])
    return found


async def test_a_stream_that_repeats_itself_is_not_read_on(store: Store, heard: Heard) -> None:
    async with live(store, heard, chat=HALT) as running:
        running.provider.script = lambda _got: Endless(LET * 400)
        answer = await said(running, asking(stream=True, max_tokens=100_000))
        report = await heard.next()
        later = await said(
            running,
            asking({"role": "assistant", "content": text_of(answer)}, {"role": "user", "content": "Observation: none"}),
        )
        assert (await heard.next()).session == report.session, "our note in the client's copy hides nothing"

    text = text_of(answer)
    assert text.startswith(LET * 10 + "\n\n[guardproxy] ")
    assert text.count(LET) == 10
    assert b'"finish_reason":"length"' in answer.body
    assert answer.body.endswith(b": guardproxy action=cut rule=repeated_text\n\ndata: [DONE]\n\n")
    assert (report.decision.action, report.decision.rule, report.decision.count) == ("cut", "repeated_text", 10)
    assert report.intervention == ("cut", "enforce")
    assert report.outcome == ""
    assert report.attempts[-1].finish_reason == "length"
    assert report.usage.estimated
    assert 0 < report.usage.output < 200, "what was produced is paid for, not what was held"
    assert later.verdict == "pass", "the answer was cut short, not the run"
    assert await held(store, {report.session}) == {}


async def test_the_providers_stream_is_closed(store: Store, heard: Heard) -> None:
    """What it has not yet produced is never produced."""
    closed, produced = asyncio.Event(), []

    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            for chunk in Endless().chunks(usage=False):
                await response.write(chunk)
                produced.append(chunk)
                await asyncio.sleep(0.005)
        except (ConnectionResetError, asyncio.CancelledError):
            closed.set()
            raise
        return response

    async with serve(slow) as url, live(store, heard, chat=HALT, upstream={"url": f"{url}/v1"}) as running:
        answer = await said(running, asking(stream=True))
        await asyncio.wait_for(closed.wait(), 5)

    assert text_of(answer).count(LET) == 10
    assert len(produced) < 100


async def test_panic_lets_it_run(store: Store, heard: Heard) -> None:
    async with live(store, heard, chat=HALT) as running:
        running.provider.script = lambda _got: Endless(LET)
        await store.panic(True)
        answer = await said(running, asking(stream=True))
    assert text_of(answer) == LET * 400


OFF: dict[str, Json] = {
    "by default": {},
    "in observe mode": {"chat": HALT, "policy": {"mode": "observe"}},
    "nine": {"chat": {"halt_repeats": 500}},
}


@STREAM
@pytest.mark.parametrize("name", OFF)
async def test_off(name: str, stream: bool, store: Store, heard: Heard) -> None:
    """PASS, and the tokens are counted."""
    async with live(store, heard, **OFF[name]) as running:
        running.provider.script = lambda _got: Endless(LET * 400)
        answer = await said(running, asking(stream=stream))
        report = await heard.next()
    assert answer.verdict == "pass"
    assert answer.body == running.provider.sent[-1]
    assert report.usage.output > 0 if stream else report.usage.output == 5


async def test_a_whole_answer_is_never_halted(store: Store, heard: Heard) -> None:
    async with live(store, heard, chat=HALT) as running:
        running.provider.script = lambda _got: Said(LET * 400)
        answer = await said(running, asking())
    assert answer.body == running.provider.sent[-1]


@STREAM
@pytest.mark.parametrize(("options", "reason"), [({}, "tool_calls"), (MEND, "stop")])
async def test_a_promise_of_calls(options: Json, reason: str, stream: bool, store: Store, heard: Heard) -> None:
    async with live(store, heard, chat=options) as running:
        running.provider.script = lambda _got: Said(None, finish="tool_calls")
        answer = await said(running, asking(stream=stream))
        report = await heard.next()
    found = answer.body.replace(b" ", b"")
    assert b'"finish_reason":"%b"' % reason.encode() in found
    assert (b'"tool_calls"' in found) == (reason == "tool_calls")
    assert report.attempts[-1].finish_reason == "tool_calls", "what the provider said"
    assert report.usage.output == 5, "the usage that comes after it is read"


@STREAM
async def test_the_providers_encoding_is_asked_for_only_when_it_can_be_read(
    stream: bool, store: Store, heard: Heard
) -> None:
    async with live(store, heard, chat=MEND) as running:
        running.provider.script = lambda _got: Said(None, finish="tool_calls")
        await running.post(asking(stream=stream), {"Accept-Encoding": "gzip"})
    assert running.provider.got[-1].headers["Accept-Encoding"] == "identity"


def test_configuration() -> None:
    assert build({}).chat.halt_repeats == 0
    with pytest.raises(ConfigError, match="chat: halt_repeats must be 0"):
        build({"chat": {"halt_repeats": 2}})
    with pytest.raises(ConfigError, match=r"chat\.halt_repeat: unknown key"):
        build({"chat": {"halt_repeat": 10}})
