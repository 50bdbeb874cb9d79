"""SIGTERM while a person is waited for and while an answer flows: what clients get, and what is there afterwards.

Against `guardproxy serve` with two workers and the embedded store, as an operator starts and stops it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import aiohttp
import pytest

from guardproxy.store.approvals import Approval
from guardproxy.store.redis import Store
from tests.accept.processes import serving
from tests.accept.test_people import CONFIG, TOOLS, WORKERS, command, message_of, script
from tests.live import Answer, Got, Json, Provider, Said, serve
from tests.telemetry.sink import attributes, otlp_sink

pytestmark = [
    pytest.mark.verify,  # processes started, stopped and started again
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

DRAIN_S = 30.0
"""Streams may go on for so long (DESIGN section 11)."""

STREAM = Said("It is a long story, and it ends well.")
HELD = {"held-whole": False, "held-stream": True}


async def looked(path: str) -> tuple[list[Approval], object]:
    """The approvals that wait, and how many holds there are."""
    store = await Store.connect(socket_path=path, timeout_ms=5000)
    try:
        return await store.approvals.list("default"), await store._client.command("ZCARD", "gp:{default}:holds")
    finally:
        await store.close()


def body(text: str, *, stream: bool) -> Json:
    return {"model": "m", "messages": [{"role": "user", "content": text}], "tools": TOOLS, "stream": stream}


async def test_sigterm_while_a_person_is_waited_for_and_a_stream_flows(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    provider = Provider()

    def said(got: Got) -> Said:
        if "story" in got.json["messages"][-1]["content"]:
            return Said(STREAM.text, stall=(2, go_on.wait()))
        return script(got)

    provider.script = said
    with otlp_sink() as sink:
        config = CONFIG | {
            "policy": {"approvals": {"way": "hold", "hold_seconds": 120}},
            "telemetry": {"otlp_endpoint": sink.url, "log_level": "warning"},
        }
        async with serve(provider.handle) as upstream:
            answers = await _stopped(tmp_path, config, upstream, go_on)
            _well_ended(answers, tmp_path)
            sessions = {attributes(span).get("gen_ai.conversation.id") for span in sink.spans}
            assert {*HELD, "told"} <= sessions
            await _afterwards(tmp_path, config, upstream, answers)


async def _stopped(folder: Path, config: Json, upstream: str, go_on: asyncio.Event) -> dict[str, Answer]:
    """Two requests held and one stream under way when the process is told to end; what they got."""
    async with serving(folder, config, upstream, WORKERS) as running:
        asking = {
            name: asyncio.ensure_future(
                running.post(body("Clean up.", stream=stream), {"x-guardproxy-session-id": name})
            )
            for name, stream in HELD.items()
        }
        telling = body("Tell me a story.", stream=True)
        asking["told"] = asyncio.ensure_future(running.post(telling, {"x-guardproxy-session-id": "told"}))
        path = running.socket_path
        for _ in range(200):
            waiting, holds = await looked(path)
            if (len(waiting), holds) == (2, 3):
                break
            await asyncio.sleep(0.05)
        assert (len(waiting), holds) == (2, 3)
        began = time.monotonic()
        running.process.terminate()
        held = [asking[name] for name in HELD]
        await asyncio.wait_for(asyncio.gather(*held), 10)  # nobody is waited for any more
        assert not asking["told"].done()
        with pytest.raises(aiohttp.ClientConnectionError):  # nothing new is taken
            await asyncio.wait_for(running.post(body("More.", stream=False)), 5)
        assert running.process.returncode is None
        go_on.set()
        assert await asyncio.wait_for(running.process.wait(), DRAIN_S) == 0
        assert time.monotonic() - began < DRAIN_S
        return {name: await task for name, task in asking.items()}


def _well_ended(answers: dict[str, Answer], folder: Path) -> None:
    for name, stream in HELD.items():
        answer = answers[name]
        message = message_of(answer)
        assert answer.status == 200
        assert not message.get("tool_calls")
        assert f"--config {folder / 'guardproxy.yaml'} --data-dir {folder / 'data'}" in message["content"]
        assert "guardproxy approvals approve apr_" in message["content"]
        assert answer.body.endswith(b"data: [DONE]\n\n") is stream
    assert message_of(answers["told"])["content"] == STREAM.text
    assert answers["told"].body.endswith(b"data: [DONE]\n\n")


async def _afterwards(folder: Path, config: Json, upstream: str, answers: dict[str, Answer]) -> None:
    """Started again on the same data: the calls still wait, nothing is held, and each is handed on once."""
    async with serving(folder, config, upstream, WORKERS) as running:
        waiting, holds = await looked(running.socket_path)
        assert ({one.session: one.state for one in waiting}, holds) == (dict.fromkeys(HELD, "pending"), 0)
        for one in waiting:
            code, told = await command(folder, "approvals", "approve", one.id)
            assert code == 0, told
            stream = HELD[one.session]
            more = [message_of(answers[one.session]), {"role": "user", "content": "Go on."}]
            asked = body("Clean up.", stream=stream)
            asked["messages"] += more
            head = {"x-guardproxy-session-id": one.session}
            calls = message_of(await running.post(asked, head)).get("tool_calls")
            assert [call["function"]["name"] for call in calls or ()] == ["delete"]
            again = message_of(await running.post(asked, head))
            assert not again.get("tool_calls") or again["tool_calls"] == calls
        assert not running.lines('Traceback|"error"')
