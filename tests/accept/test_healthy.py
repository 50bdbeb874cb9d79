"""Runs that came out well, through a running proxy with the default policy: no chunk is held, no byte is changed.

A sample in `make test`; HEALTHY=all plays every one of them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from guardproxy.http import guarded
from guardproxy.http.look import Look
from guardproxy.http.turn import Turn
from guardproxy.store.redis import Store
from tests.accept import faithful
from tests.accept.recorded import Json, Recorded, healthy
from tests.accept.test_dev_over_http import STEP_MS, _body, _chunks
from tests.as_written import as_written
from tests.live import OFFSET, Got, Live, Said, live

SAMPLE = 40
AT_ONCE = 4
QUIET = ("pass", "observe")
THE_END: Json = {"role": "assistant", "content": "(end of the recording)"}


@dataclass(slots=True)
class Gates:
    """Turns whose answer was to be judged, by name; chunks that came, and those after which something waited."""

    judged: set[str] = field(default_factory=set)
    fed: int = 0
    held: int = 0


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> Gates:
    """Every answer that goes behind a gate, and every chunk that waits there."""
    found = Gates()
    made, fed = guarded.Guarded.__init__, Look.feed

    def judged(self: guarded.Guarded, turn: Turn) -> None:
        found.judged.add(turn.request.headers["x-play"])
        made(self, turn)

    def feed(self: Look, chunk: bytes) -> bytes:
        out = fed(self, chunk)
        found.fed += 1
        found.held += self.watcher.holding
        return out

    monkeypatch.setattr(guarded.Guarded, "__init__", judged)
    monkeypatch.setattr(Look, "feed", feed)
    return found


@dataclass(slots=True)
class Played:
    """What came of all turns. `later`: quiet turns of a run in which something was said before."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    quiet: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)
    spoken: list[str] = field(default_factory=list)


class Player:
    """Plays runs as their agents asked, whole and streamed, and looks at the bytes of both ends."""

    def __init__(self, running: Live, runs: Sequence[Recorded]) -> None:
        self.running, self.runs, self.played = running, runs, Played()
        self.arrived: dict[str, bytes] = {}
        self.replied: dict[str, bytes] = {}
        running.provider.script = self.answer

    def answer(self, got: Got) -> Said:
        """The recorded answer."""
        self.running.provider.got.clear()
        self.running.provider.sent.clear()
        name = got.headers["x-play"]
        number, turn, _ = name.split("-")
        run = self.runs[int(number)]
        at = run.asks[int(turn)]
        message = run.messages[at] if at < len(run.messages) else THE_END
        self.arrived[name] = got.body
        wants = got.json
        if not wants.get("stream"):
            self.replied[name] = _body(name, message)
            return Said(raw=self.replied[name])
        chunks = list(_chunks(name, message, usage=bool((wants.get("stream_options") or {}).get("include_usage"))))
        self.replied[name] = b"".join(chunks)
        return Said(raw=chunks)

    async def play(self, number: int, way: str) -> None:
        """One run in one way."""
        run, done, loud = self.runs[number], self.played, False
        for turn, at in enumerate(run.asks):
            name = f"{number}-{turn}-{way}"
            body: Json = {"model": run.model, "messages": run.messages[:at]}
            body |= {"tools": run.tools} if run.tools else {}
            body |= {"stream": True} if way == "stream" else {}
            headers = {"x-play": name, OFFSET: str(turn * STEP_MS), "x-guardproxy-session-id": f"{run.id}-{way}"}
            sent = json.dumps(body).encode()
            answer = await self.running.post(sent, headers)
            done.counts[answer.verdict] += 1
            arrived, replied = self.arrived.pop(name, b""), self.replied.pop(name, b"")
            if answer.verdict not in QUIET:
                loud = True
                done.spoken.append(f"{run.id} at message {at}: {answer.verdict} {answer.rule}")
                continue
            (done.later if loud else done.quiet).add(name)
            wrong = faithful.request_fault(sent, arrived, answer.headers)
            wrong = wrong or faithful.answer_fault(replied, answer.body, answer.headers)
            if not loud and faithful.edits_of(answer.headers) - {"usage"}:
                wrong = wrong or f"edited: {faithful.edits_of(answer.headers)}"
            done.faults += [f"{run.id} ({run.group}, {way}) at message {at}: {wrong}"] if wrong else []


async def test_nothing_of_a_healthy_run_is_held_or_changed(store: Store, gates: Gates) -> None:
    every = healthy()
    runs = every
    if os.environ.get("HEALTHY") != "all":
        runs = sorted(every, key=lambda run: hashlib.sha256(run.id.encode()).hexdigest())[:SAMPLE]
    began = time.monotonic()
    played = await play(store, runs, {})
    print(f"\n{len(runs)} of {len(every)} runs in {time.monotonic() - began:.0f} s: {dict(played.counts)}")
    print(f"quiet turns {len(played.quiet)}, after a word {len(played.later)}")
    print(f"judged {len(gates.judged)}; chunks {gates.fed}, held {gates.held}", *played.spoken, sep="\n")
    assert not played.faults, "\n".join(played.faults[:20])
    assert not gates.judged & played.quiet
    assert not gates.held, "a chunk of a stream had to wait"
    assert len(played.quiet) > 10 * len(runs)


@as_written
async def test_what_is_held_would_be_seen(store: Store, gates: Gates) -> None:
    """The same with a policy that looks at each call before the agent has it: nothing is changed by that either."""
    runs = healthy()[:2]
    played = await play(store, runs, {"arguments": {"mode": "enforce"}})
    assert not played.faults, "\n".join(played.faults[:20])
    assert gates.judged >= played.quiet
    assert gates.held


async def play(store: Store, runs: Sequence[Recorded], policy: Json) -> Played:
    """All runs in both ways, some at once."""
    async with live(store, policy={"refuse": "enforce", "profile": "coding", **policy}) as running:
        player = Player(running, runs)
        waiting = iter([(number, way) for number in range(len(runs)) for way in ("whole", "stream")])

        async def worker() -> None:
            for number, way in waiting:
                await player.play(number, way)

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return player.played
