"""One run, served by two workers of two replicas with a restart between: one trace, one root, nothing lost."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from guardproxy.store import embedded
from tests.accept.processes import Served, serving
from tests.live import Got, Provider, Said, serve
from tests.telemetry.sink import attributes, otlp_sink

pytestmark = [
    pytest.mark.verify,  # three starts of a whole proxy
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

SESSION = "one-run"
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]


def script(got: Got) -> Said:
    """A model that reads one file for ever."""
    return Said(calls=[("read", '{"path": "a.txt"}', f"call_{len(got.json['messages'])}")])


class Agent:
    """It sends its whole history each time, over a connection of its own."""

    def __init__(self) -> None:
        self.messages: list[dict[str, object]] = [{"role": "user", "content": "What is in a.txt?"}]
        self.traces: list[str] = []
        self.ended = 0

    async def turn(self, by: Served) -> None:
        body = {"model": "m", "messages": self.messages, "tools": TOOLS}
        answer = await by.post(body, {"x-guardproxy-session-id": SESSION})
        self.traces.append(answer.headers["x-guardproxy-trace-id"])
        if answer.status != 200:
            self.ended += 1
            return
        message = json.loads(answer.body)["choices"][0]["message"]
        calls = message.get("tool_calls") or []
        self.ended += not calls
        self.messages.append(message)
        self.messages += [{"role": "tool", "tool_call_id": call["id"], "content": "nothing"} for call in calls]
        if not calls:
            self.messages.append({"role": "user", "content": "continue"})


async def test_two_workers_two_replicas_and_a_restart(tmp_path: Path) -> None:
    provider, agent = Provider(), Agent()
    provider.script = script
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder in folders:
        folder.mkdir()
    store = embedded.start(tmp_path / "store")
    said: list[str] = []
    try:
        with otlp_sink() as sink:
            config = {
                "store": {"url": f"unix://{store.socket_path}"},
                "policy": {"refuse": "observe"},
                "telemetry": {"otlp_endpoint": sink.url},
            }
            async with serve(provider.handle) as upstream, serving(folders[0], config, upstream, 2) as first:
                async with serving(folders[1], config, upstream, 2) as second:
                    for by in (first, second, first):
                        await agent.turn(by)
                said += second.said
                async with serving(folders[2], config, upstream, 2) as third:
                    for _ in range(12):  # it is cut on the way, and asks on
                        await agent.turn(third)
                        await agent.turn(first)
                        if agent.ended == 1:
                            await asyncio.sleep(0.5)  # a root is sent a moment later
                said += third.said
            said += first.said
            _one_trace(sink.spans, agent)
    finally:
        store.stop()
    lines = [json.loads(line) for line in said if '"guardproxy.turn"' in line]
    assert {line["trace_id"] for line in lines} == set(agent.traces)
    assert len(lines) == len(agent.traces)
    assert not [line for line in said if "Traceback" in line]


def _one_trace(spans: list[object], agent: Agent) -> None:
    names = Counter(span.name for span in spans)  # type: ignore
    processes = {attributes(span)["guardproxy.session.id"] for span in spans}
    roots = [span for span in spans if not span.parent_span_id]  # type: ignore

    assert agent.ended > 3
    assert processes == {SESSION}
    assert {span.trace_id.hex() for span in spans} == set(agent.traces)  # type: ignore
    assert len(set(agent.traces)) == 1
    assert [span.name for span in roots] == ["invoke_agent"]  # type: ignore
    assert attributes(roots[0])["guardproxy.outcome"] == "finalized"  # and cut, when it asked on
    outcomes = {attributes(span).get("guardproxy.outcome") for span in spans if span.name.startswith("POST")}  # type: ignore
    assert outcomes == {None, "finalized", "cut"}
    assert names["POST /v1/chat/completions"] == len(agent.traces)
    turns = [span for span in spans if span.name.startswith("POST")]  # type: ignore
    assert {span.parent_span_id for span in turns} == {roots[0].span_id}  # type: ignore
    tools = [span for span in spans if span.name == "execute_tool read"]  # type: ignore
    assert len(tools) >= 5
    assert {attributes(span)["guardproxy.tool.timing"] for span in tools} == {"proxy_observed"}
