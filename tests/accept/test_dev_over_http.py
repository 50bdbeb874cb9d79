"""Recorded runs of many agents through a running proxy: bytes as they were, decisions as `replay` takes them."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import pytest

from guardproxy import replay
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.store.redis import Store
from guardproxy.telemetry import Telemetry, TurnReport
from tests.accept import faithful
from tests.accept.recorded import Json, Recorded, sessions
from tests.live import OFFSET, Got, Live, Said, Script, config_of, live

SESSIONS, TURNS = 310, 6000
"""At least 300 sessions are asked for. Few are long: each turn carries the whole history."""

AT_ONCE = 8
STEP_MS = 30_000
"""Between two turns of a run that was recorded without times, as `replay` has it."""

ENDS = ("finalize", "cut", "deny")
CUT = 1 << 10
"""Bytes of one write of the provider: so that events are broken in the middle."""

Spoken = tuple[int, int, str, str, int]  # step, message, action, rule, count


class Told(Telemetry):
    """Telemetry that keeps what was decided on each turn."""

    def __init__(self) -> None:
        super().__init__(config_of(telemetry={"log_level": "warning"}).telemetry, b"s" * 32, "test")
        self.turns: dict[tuple[str, int], TurnReport] = {}

    def report(self, report: TurnReport, *, settle_ns: int = 0) -> None:
        super().report(report, settle_ns=settle_ns)
        self.turns[report.session, report.turn] = report


@dataclass(slots=True)
class Wire:
    """What one turn looked like at both ends."""

    sent: bytes = b""
    arrived: bytes = b""
    replied: bytes = b""
    received: bytearray = field(default_factory=bytearray)
    headers: Any = None


@dataclass(slots=True)
class Play:
    """Everything that was played, by the number of the session and of the turn in it."""

    runs: list[Recorded]
    wires: dict[str, Wire] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    spoken: dict[str, list[tuple[int, str, int]]] = field(default_factory=dict)  # id -> (message, session, turn)
    named: dict[str, set[str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def answer(self, got: Got) -> Said:
        """The recorded answer to a request, and the request kept."""
        name = got.headers["x-play"]
        number, _, turn = name.partition("-")
        run = self.runs[int(number)]
        at = run.asks[int(turn)]
        message = run.messages[at] if at < len(run.messages) else THE_END
        wants = got.json
        wire = self.wires[name]
        wire.arrived = got.body
        if wants.get("stream"):
            usage = bool((wants.get("stream_options") or {}).get("include_usage"))
            wire.replied = b"".join(_chunks(name, message, usage=usage))
            return Said(raw=[wire.replied[i : i + CUT] for i in range(0, len(wire.replied), CUT)])
        wire.replied = _body(name, message)
        return Said(raw=wire.replied)


def _base(name: str, kind: str) -> Json:
    return {"id": f"chatcmpl-{name}", "object": kind, "created": 1, "model": "r", "x_odd": {"é": [1.10, None]}}


THE_END: Json = {"role": "assistant", "content": "(end of the recording)"}
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, "x_details": {"cached_tokens": 64}}


def _body(name: str, message: Json) -> bytes:
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {"index": 0, "message": {**message, "refusal": None}, "logprobs": None, "finish_reason": finish}
    return json.dumps({**_base(name, "chat.completion"), "choices": [choice], "usage": USAGE}, indent=1).encode()


def _chunks(name: str, message: Json, *, usage: bool) -> Iterator[bytes]:
    def event(delta: Json, finish: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
        return b"data: " + json.dumps({**_base(name, "chat.completion.chunk"), "choices": choices}).encode() + b"\n\n"

    yield event({"role": "assistant", "content": ""})
    text = message.get("content") or ""
    for at in range(0, len(text), 200):
        yield event({"content": text[at : at + 200]})
    for index, call in enumerate(message.get("tool_calls") or ()):
        told = call["function"]["arguments"]
        head = {"index": index, "id": call["id"], "type": "function", "function": {"name": call["function"]["name"]}}
        yield event({"tool_calls": [{**head, "function": {**head["function"], "arguments": ""}}]})
        for at in range(0, len(told), 150):
            yield event({"tool_calls": [{"index": index, "function": {"arguments": told[at : at + 150]}}]})
    yield event({}, "tool_calls" if message.get("tool_calls") else "stop")
    if usage:
        last = {**_base(name, "chat.completion.chunk"), "choices": [], "usage": USAGE}
        yield b"data: " + json.dumps(last).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


class Agent:
    """Plays recorded sessions with the official client; hooks on its HTTP client see the bytes of both directions."""

    def __init__(self, running: Live, play: Play) -> None:
        openai = pytest.importorskip("openai", reason="the official client comes with the extra `demo`")
        self.play = play
        http = openai.DefaultAsyncHttpxClient(event_hooks={"request": [self._sending], "response": [self._receiving]})
        self.client = openai.AsyncOpenAI(api_key="k", base_url=f"{running.url}/v1", http_client=http, max_retries=0)

    async def _sending(self, request: Any) -> None:
        self.play.wires[request.headers["x-play"]].sent = request.content

    async def _receiving(self, response: Any) -> None:
        wire = self.play.wires[response.request.headers["x-play"]]
        wire.headers = response.headers
        kind = sys.modules[type(response).__module__.partition(".")[0]].AsyncByteStream  # httpx, or what follows it
        response.stream = _tapped(kind, response.stream, wire.received)

    async def session(self, number: int) -> None:
        """One session, up to the first end."""
        run = self.play.runs[number]
        for turn, at in enumerate(run.asks):
            if await self._turn(f"{number}-{turn}", run, turn, at) in ENDS:
                return

    async def _turn(self, name: str, run: Recorded, turn: int, at: int) -> str:
        play = self.play
        number = number_of(name)
        play.wires[name] = Wire()
        headers = {"x-play": name, OFFSET: str(turn * STEP_MS)}
        if number % 3:  # a third is left unnamed
            headers["x-guardproxy-session-id"] = run.id
        more: Json = {"tools": run.tools} if run.tools else {}
        if number % 2 == 0:
            more["stream"] = True
            if number % 4 == 0:
                more["stream_options"] = {"include_usage": True}
        asked = self.client.chat.completions.create(
            model=run.model, messages=run.messages[:at], extra_headers=headers, **more
        )  # fmt: skip
        answer = await asked
        if "stream" in more:
            async for _ in answer:
                pass
        return self._judge(name, run, at, play.wires.pop(name))

    def _judge(self, name: str, run: Recorded, at: int, wire: Wire) -> str:
        play, headers = self.play, wire.headers
        where = f"{run.id} ({name}, {run.group}) at message {at}"
        verdict = headers["x-guardproxy-verdict"]
        if verdict == "cut":
            assert not wire.arrived, f"{where}: a cut turn reached the provider"
        else:
            wrong = faithful.request_fault(wire.sent, wire.arrived, headers)
            wrong = wrong or faithful.answer_fault(wire.replied, bytes(wire.received), headers)
            play.faults += [f"{where}: {wrong}"] if wrong else []
        play.counts[verdict] += 1
        play.counts["turns"] += 1
        play.counts["untouched"] += not faithful.edits_of(headers) - {"usage"}
        play.counts["streamed"] += number_of(name) % 2 == 0
        session = headers["x-guardproxy-session-id"]
        play.named.setdefault(run.id, set()).add(session)
        play.spoken.setdefault(run.id, []).append((at, session, int(headers["x-guardproxy-turn"])))
        return str(verdict)


def number_of(name: str) -> int:
    return int(name.partition("-")[0])


def _tapped(kind: Any, stream: Any, kept: bytearray) -> Any:
    class Tapped(kind):  # type: ignore[misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for part in stream:
                kept.extend(part)
                yield part

        async def aclose(self) -> None:
            await stream.aclose()

    return Tapped()


async def _play_all(agent: Agent, count: int) -> None:
    waiting = iter(range(count))

    async def worker() -> None:
        for number in waiting:
            await agent.session(number)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


def _forgetting(running: Live, play: Play) -> Script:
    """The recorded answers; what the provider keeps of each request is dropped, for it is some hundred megabytes."""

    def script(got: Got) -> Said:
        running.provider.got.clear()
        running.provider.sent.clear()
        return play.answer(got)

    return script


def _heard(run: Recorded, play: Play, told: Told) -> list[Spoken]:
    """What was decided live; turns on which nothing was found are left out."""
    found = []
    for at, session, turn in play.spoken[run.id]:
        decision = told.turns[session, turn].decision
        if decision.action != "pass":
            found.append((run.step(at), at, decision.action, decision.rule, decision.count))
    return _until_end(found)


def _difference(run: Recorded, play: Play, told: Told, replayed: list[Spoken]) -> str:
    heard, expected = _heard(run, play, told), _until_end(replayed)
    if heard == expected:
        return ""
    first = next(n for n, (a, b) in enumerate(zip_longest(heard, expected)) if a != b)
    where = f"{run.id} ({run.group}, session {play.named[run.id]})"
    return f"{where}: live {heard[first:][:2]}, replay {expected[first:][:2]}"


def _replayed(runs: list[Recorded]) -> dict[str, list[Spoken]]:
    """What replay decides on the same sessions under the same policy, by id."""
    reports = replay.play((run.raw for run in runs), config_of().policy_value(), Fingerprinter(b"another key"))
    return {
        report.id: [(told.step, told.message, told.action, told.rule, told.count) for told in report.decisions]
        for report in reports
    }


def _until_end(decisions: list[Spoken]) -> list[Spoken]:
    ends = [number for number, one in enumerate(decisions) if one[2] in ENDS]
    return decisions[: ends[0] + 1] if ends else decisions


async def test_recorded_sessions_go_through_unchanged_and_are_judged_as_by_replay(store: Store) -> None:
    runs = [*sessions(SESSIONS, TURNS, (1, 30)), *sessions(4, TURNS, (80, 120))]
    assert len(runs) >= 300
    told, play = Told(), Play(runs)
    began = time.monotonic()
    async with live(store, told) as running:
        running.provider.script = _forgetting(running, play)
        agent = Agent(running, play)
        async with agent.client:
            await _play_all(agent, len(runs))
    took = time.monotonic() - began
    replayed = _replayed(runs)
    differ = [text for run in runs if (text := _difference(run, play, told, replayed[run.id]))]
    print(f"\n{len(runs)} sessions of {len({run.group for run in runs})} groups in {took:.0f} s: {dict(play.counts)}")
    print(f"faults {len(play.faults)}, sessions judged otherwise than by replay {len(differ)}")
    assert not play.faults, "\n".join(play.faults[:20])
    assert not differ, "\n".join(differ[:20])
    assert play.counts["streamed"] > play.counts["turns"] // 4
    assert not [run.id for run in runs if len(play.named[run.id]) > 1], "a run was taken for two sessions"
    assert any(replayed[run.id] for run in runs), "nothing was decided at all: the comparison says nothing"
