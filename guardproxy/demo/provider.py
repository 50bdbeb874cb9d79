"""A scripted provider: OpenAI's chat completions, streamed or not, from "models" that go round in circles.

A model here is a list of calls and a last word. It looks at nothing but how many calls it has made, goes on for thirty
if nobody stops it, and heeds `tool_choice: none` as every provider enforces it. So what ends it is the proxy.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

CALLS = 30
"""How long a looping model goes on. Most frameworks stop a run at 10 to 50 steps and throw it away."""

Arguments = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Script:
    """One model. `call(n)` is its n-th call, from 0; None: it gives `answer` and is done.

    `fresh`: it makes no call twice, so that none can be refused as the same again.
    """

    name: str
    task: str
    call: Callable[[int], tuple[str, Arguments] | None]
    answer: str
    healthy: bool = False
    fresh: bool = False


def _exact(n: int) -> tuple[str, Arguments] | None:
    return ("search_docs", {"query": "refund policy for digital goods"}) if n < CALLS else None


def _back_and_forth(n: int) -> tuple[str, Arguments] | None:
    pair = (("read_file", {"path": "config.yaml"}), ("list_folder", {"path": "."}))
    return pair[n % 2] if n < CALLS else None


def _shifting(n: int) -> tuple[str, Arguments] | None:
    mirrors = ("eu", "us", "asia", "backup", "static", "cache", "edge")
    where = f"https://{mirrors[n % len(mirrors)]}.example.com/rates/{n}"
    return ("fetch_page", {"url": where}) if n < CALLS else None


def _polling(n: int) -> tuple[str, Arguments] | None:
    steps: list[tuple[str, Arguments]] = [
        ("start_deploy", {"service": "checkout"}),
        *[("deploy_status", {"id": "d-17"})] * 6,
        ("fetch_page", {"url": "https://checkout.example.com/healthz"}),
    ]
    return steps[n] if n < len(steps) else None


SCRIPTS: Mapping[str, Script] = {
    script.name: script
    for script in (
        Script("repeats", "What is our refund policy for digital goods?", _exact, "I could not find a refund policy."),
        Script(
            "back-and-forth",
            "Which port does the service listen on?",
            _back_and_forth,
            "config.yaml does not name a port; it includes defaults.yaml, which is not in this folder.",
        ),
        Script(
            "one-error",
            "What was yesterday's exchange rate from EUR to USD?",
            _shifting,
            "The rates service answers 503 on every mirror, so I do not know the rate.",
            fresh=True,
        ),
        Script(
            "healthy",
            "Deploy the checkout service and tell me when it is up.",
            _polling,
            "The checkout service is deployed and answers its health check.",
            healthy=True,
        ),
    )
}
"""The models by name: three that loop, one that polls and ends."""


ASKED = web.AppKey("asked", Counter)
"""How often each model was asked."""


async def _complete(request: web.Request) -> web.StreamResponse:
    ask = await request.json()
    script = SCRIPTS.get(ask.get("model", ""))
    request.app[ASKED][ask.get("model", "")] += 1
    if script is None:
        return web.json_response({"error": {"message": "no such model", "type": "invalid_request_error"}}, status=404)
    made = sum(len(message.get("tool_calls") or ()) for message in ask["messages"])
    call = None if ask.get("tool_choice") == "none" else script.call(made)
    message = _message(script, call, made)
    usage = {"prompt_tokens": len(json.dumps(ask["messages"])) // 4, "completion_tokens": 20}
    usage["total_tokens"] = sum(usage.values())
    finish = "tool_calls" if call else "stop"
    if not ask.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return web.json_response(_envelope(script, made, "chat.completion", choices=[choice], usage=usage))
    wanted = bool((ask.get("stream_options") or {}).get("include_usage"))
    return await _stream(request, script, made, message, finish, usage if wanted else None)


def _message(script: Script, call: tuple[str, Arguments] | None, made: int) -> dict[str, Any]:
    if call is None:
        return {"role": "assistant", "content": script.answer}
    function = {"name": call[0], "arguments": json.dumps(call[1])}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call_{script.name}_{made}", "type": "function", "function": function}],
    }


async def _stream(
    request: web.Request, script: Script, made: int, message: dict[str, Any], finish: str, usage: dict[str, int] | None
) -> web.StreamResponse:
    """As real providers send it: a role, then pieces, then the finish reason, then usage if it was asked for."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)

    async def send(delta: dict[str, Any], reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        chunk = _envelope(script, made, "chat.completion.chunk", choices=[choice])
        await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    await send({"role": "assistant", "content": None})
    for delta in _deltas(message):
        await send(delta)
    await send({}, finish)
    if usage:
        chunk = _envelope(script, made, "chat.completion.chunk", choices=[], usage=usage)
        await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    return response


def _deltas(message: dict[str, Any]) -> list[dict[str, Any]]:
    if message["content"]:
        return [{"content": word + " "} for word in message["content"].split()]
    call = message["tool_calls"][0]
    arguments, half = call["function"]["arguments"], len(call["function"]["arguments"]) // 2
    pieces = (
        {"index": 0, "id": call["id"], "type": "function", "function": {**call["function"], "arguments": ""}},
        {"index": 0, "function": {"arguments": arguments[:half]}},
        {"index": 0, "function": {"arguments": arguments[half:]}},
    )
    return [{"tool_calls": [piece]} for piece in pieces]


def _envelope(script: Script, made: int, kind: str, **fields: object) -> dict[str, object]:
    return {"id": f"chatcmpl-{script.name}-{made}", "object": kind, "created": 0, "model": script.name, **fields}


class Provider:
    """The provider on a free port of the loopback, in a thread of its own; a context manager that gives its URL.

    `asked` counts the requests for each model.
    """

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __enter__(self) -> str:
        started = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(started),), daemon=True)
        self._thread.start()
        started.wait(10)
        return f"http://127.0.0.1:{self._port}/v1"

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _serve(self, started: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application()
        app[ASKED] = self.asked
        app.router.add_post("/v1/chat/completions", _complete)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self._port = runner.addresses[0][1]
        started.set()
        await self._stop.wait()
        await runner.cleanup()
