"""An episode outlives what happens to its client and to the proxy: compaction, other ids, a restart, other workers.

An agent that heeds nothing loops; on the way something happens to it. The rungs must come as if nothing had, and what
the provider has been told before must stand in every later request at its place.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.store.redis import Store
from tests.accept.processes import START_S, Served, serving, until
from tests.live import Answer, Got, Json, Provider, Said, live, serve, unique

Call = tuple[str, Json, str]  # tool, arguments, result
LIST: Call = ("process", {"action": "list"}, "[]")
SEARCH: Call = ("memory_search", {"q": "x"}, "[]")
GET: Call = ("memory_get", {"k": "x"}, "null")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("process", "sh")]


def other(number: int) -> Call:
    return "sh", {"cmd": f"make {chr(97 + number)}x"}, f"built {chr(97 + number)}x"


class Reached(Protocol):
    """A proxy that can be asked: in this process or one of its own."""

    async def post(self, body: Json, headers: dict[str, str] | None = None) -> Answer: ...


@dataclass(slots=True)
class Agent:
    """Sends its whole history, whatever it is told; `ask` plays a call and says what the proxy made of the request."""

    provider: Provider
    name: str = field(default_factory=lambda: unique("agent"))
    headers: dict[str, str] = field(default_factory=dict)
    history: list[Json] = field(default_factory=list)
    number: int = 0
    rule: str = ""  # that spoke last

    def __post_init__(self) -> None:
        self.history = self.history or [
            {"role": "system", "content": f"You are {self.name}."},
            {"role": "user", "content": "List the processes."},
        ]

    async def ask(self, proxy: Reached, call: Call = LIST) -> str:
        """The verdict on the history as it stands; the call and its result are appended."""
        tool, arguments, result = call
        self.number += 1
        call_id = f"call_{self.name[-4:]}{self.number:06d}"
        said = Said(None, [(tool, json.dumps(arguments), call_id)])
        self.provider.script = lambda _got: said
        answer = await proxy.post({"model": "mock-1", "messages": self.history, "tools": TOOLS}, self.headers)
        self.rule = answer.rule
        if answer.status == 200:
            self.history += [said.message(), {"role": "tool", "tool_call_id": call_id, "content": result}]
        return "over" if answer.status == 400 else answer.verdict

    async def say(self, proxy: Reached, text: str, reply: str) -> None:
        """A final answer, and what the user says to it."""
        self.provider.script = lambda _got: Said(text)
        await proxy.post({"model": "mock-1", "messages": self.history, "tools": TOOLS}, self.headers)
        self.history += [{"role": "assistant", "content": text}, {"role": "user", "content": reply}]

    async def play(self, proxy: Reached, calls: Sequence[Call]) -> list[str]:
        return [await self.ask(proxy, call) for call in calls]

    def compact(self, keep: int) -> None:
        """Put a summary in the place of all but the last `keep` rounds."""
        summary = {"role": "user", "content": f"Summary {self.number}: the processes were listed."}
        self.history = [self.history[0], summary, *self.history[len(self.history) - 2 * keep :]]

    def rotate(self) -> None:
        """Go on under another session id."""
        self.headers["x-guardproxy-session-id"] = unique("rotated")


def told(got: Got) -> list[str]:
    """The texts of ours in a request, in order."""
    contents = [str(message.get("content")) for message in got.json["messages"]]
    return [content[content.index(GUARD_MARK) :] for content in contents if GUARD_MARK in content]


QUIET = ("pass", "observe")
LADDER = ["pass", "pass", "observe", "nudge", "firm", "finalize", "cut"]


@pytest.mark.parametrize("named", [False, True], ids=["derived", "named"])
@pytest.mark.parametrize("after", [3, 4])
async def test_a_compaction_in_the_middle_of_an_episode(store: Store, named: bool, after: int) -> None:
    """The nudge was given, the client compacts: the next equal result is the fourth."""
    async with live(store) as running:
        agent = Agent(running.provider)
        if named:
            agent.rotate()
        verdicts = await agent.play(running, [LIST] * (after + 1))
        agent.compact(keep=1)
        verdicts += await agent.play(running, [LIST] * (len(LADDER) - len(verdicts)))
    assert verdicts == LADDER


@pytest.mark.parametrize("every", [False, True], ids=["once", "always"])
@pytest.mark.parametrize("after", [2, 3, 4, 5, 6])
async def test_another_session_id_in_the_middle_of_an_episode(store: Store, after: int, every: bool) -> None:
    async with live(store) as running:
        agent = Agent(running.provider)
        agent.rotate()
        verdicts: list[str] = []
        texts: list[list[str]] = []
        for number in range(len(LADDER)):
            if number == after or every:
                agent.rotate()
            verdicts.append(await agent.ask(running))
            texts.append(told(running.provider.got[-1]))
    assert verdicts == LADDER
    assert texts[4][:1] == texts[3]
    assert texts[5][:2] == texts[4]


@pytest.mark.parametrize("rotated", [False, True], ids=["one id", "rotated"])
async def test_coming_back_after_a_nudge_goes_one_rung_up(store: Store, rotated: bool) -> None:
    """And once more: after the firm word to an end."""
    async with live(store) as running:
        agent = Agent(running.provider)
        agent.rotate()
        first = await agent.play(running, [*[LIST] * 3, *map(other, range(8))])
        if rotated:
            agent.rotate()
        second = await agent.play(running, [*[LIST] * 3, *map(other, range(8, 16))])
        third = await agent.play(running, [*[LIST] * 3, other(16)])
    assert [one for one in first if one not in QUIET] == ["nudge"]
    assert first[3] == "nudge"
    assert [one for one in second if one not in QUIET] == ["firm"]
    assert second[3] == "firm"
    assert third[3] == "finalize"


async def test_a_call_that_answers_differently_has_left_its_loop(store: Store) -> None:
    """After the nudge the list changes, and then stays: that is another loop, and begins with a nudge."""
    async with live(store) as running:
        agent = Agent(running.provider)
        filled: Call = ("process", {"action": "list"}, "[7]")
        verdicts = await agent.play(running, [*[LIST] * 3, *map(other, range(4)), *[filled] * 3, other(5)])
    assert [one for one in verdicts if one not in QUIET] == ["nudge", "nudge"]
    assert (verdicts[3], verdicts[10]) == ("nudge", "nudge")


async def test_a_person_ends_an_episode(store: Store) -> None:
    async with live(store) as running:
        agent = Agent(running.provider)
        assert (await agent.play(running, [*[LIST] * 3, other(1)]))[-1] == "nudge"
        await agent.say(running, "Nothing runs.", "Look again, please.")
        verdicts = await agent.play(running, [*[LIST] * 3, other(2)])
    assert verdicts == ["pass", "pass", "observe", "nudge"]


@pytest.mark.parametrize("which", range(3), ids=["invalid", "failing", "equal"])
async def test_of_several_rules_the_most_specific_speaks_and_once(store: Store, which: int) -> None:
    """All of these calls are equal, too: nobody says it twice, and nobody says less than is known."""
    calls: list[tuple[Call, str]] = [
        (("todo", {}, "Invalid arguments: op must be set"), "invalid_call"),
        (("book", {"seat": 1}, "Error: no seat left"), "repeated_error"),
        (LIST, "repeated_call"),
    ]
    call, rule = calls[which]
    async with live(store) as running:
        agent = Agent(running.provider)
        rules = []
        for expected in LADDER:
            assert await agent.ask(running, call) == expected
            rules.append(agent.rule)
        texts = [told(got) for got in running.provider.got]
    assert rules[3:] == [rule] * 4
    assert [len(some) for some in texts] == [0, 0, 0, 1, 2, 3]


async def test_a_firm_word_holds_for_both_halves_of_a_pair(store: Store) -> None:
    """Case B10 over a compaction: either half goes on with the episode of both."""
    async with live(store) as running:
        agent = Agent(running.provider)
        verdicts = await agent.play(running, [*[SEARCH, GET] * 4, SEARCH])
        assert (verdicts[6], verdicts[8]) == ("nudge", "firm")
        agent.compact(keep=1)
        verdicts = await agent.play(running, [SEARCH] * 3)
    assert "cut" in verdicts, verdicts


POLICY = {"policy": {"profile": "none", "refuse": "observe"}}


@pytest.mark.parametrize("compacts", [False, True], ids=["as it was", "compacted"])
async def test_a_restart_in_the_middle_of_an_episode(tmp_path: Path, compacts: bool) -> None:
    """The same data directory, another process: what was said before is said again at its place, and it goes on."""
    provider = Provider()
    async with serve(provider.handle) as upstream:
        agent = Agent(provider)
        async with serving(tmp_path, POLICY, upstream) as served:
            verdicts = await agent.play(served, [LIST] * 4)
        if compacts:
            agent.compact(keep=1)
        async with serving(tmp_path, POLICY, upstream) as served:
            verdicts += await agent.play(served, [LIST] * 3)
    assert verdicts == LADDER
    before, after = (told(provider.got[number]) for number in (3, 4))
    assert len(before) == 1
    assert after[: 0 if compacts else 1] == ([] if compacts else before)


async def test_two_workers_share_one_episode(tmp_path: Path) -> None:
    """Each request over a connection of its own: whichever worker has it, the ladder is one."""
    provider = Provider()
    async with serve(provider.handle) as upstream, serving(tmp_path, POLICY, upstream, workers=2) as served:
        assert len(served.workers()) == 2
        for _ in range(6):  # that all are served by one worker: 1 in 2**41
            assert await Agent(provider).play(served, [LIST] * len(LADDER)) == LADDER


def listens(served: Served) -> bool:
    host, _, port = served.url.removeprefix("http://").partition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("compacts", [False, True], ids=["as it was", "compacted"])
async def test_another_worker_in_the_middle_of_an_episode(tmp_path: Path, compacts: bool) -> None:
    """The only worker is killed; the one in its place knows nothing but what the store has."""
    provider = Provider()
    async with serve(provider.handle) as upstream, serving(tmp_path, POLICY, upstream) as served:
        agent = Agent(provider)
        verdicts = await agent.play(served, [LIST] * 4)
        (first,) = served.workers()
        os.kill(first, signal.SIGKILL)
        await until(lambda: served.workers() not in ([], [first]) and listens(served), START_S, "another worker")
        if compacts:
            agent.compact(keep=1)
        verdicts += await agent.play(served, [LIST] * 3)
    assert verdicts == LADDER


async def test_a_board_that_stood_still_may_stand_still_again(store: Store) -> None:
    """Told firmly, the board moves on: to look at it again is no loop that goes on, and its end is far away."""
    async with live(store) as running:
        agent = Agent(running.provider)
        filled: Call = ("process", {"action": "list"}, "[7]")
        verdicts = await agent.play(running, [*[LIST] * 4, *[filled] * 4])
    assert verdicts == ["pass", "pass", "observe", "nudge", "firm", "pass", "observe", "nudge"]
