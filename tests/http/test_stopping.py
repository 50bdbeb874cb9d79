"""A person cuts a run whose answer is on the way: wherever it stands, it ends well, paid for and within a second."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Callable

import aiohttp
import pytest

from guardproxy.store.redis import Store
from tests.http.test_guarded import TOOLS, Agent, then
from tests.http_store import counted, held
from tests.live import Json, Said, live
from tests.surfaces import SURFACES

DELETE, READ = ("delete", "{}", "call_del000001"), ("read", '{"path":"c"}', "call_read00002")
DENY = {"deny": ["delete"]}
LONG = Said("This is what I found so far.", calls=[READ])


def never() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


def stalled(said: Said, chunk: int) -> Said:
    said.stall = (chunk, never())
    return said


STANDS: dict[str, tuple[Json, Callable[[], list[Said]], bool, str, int, int]] = {
    # tools, what the provider says, streamed, text before ours, attempts, output tokens
    "before the answer": ({}, lambda: [Said("x", wait=never())], False, "", 1, 4096),
    "before the stream": ({}, lambda: [Said("x", wait=never())], True, "", 1, 0),
    "while text flows": ({}, lambda: [stalled(Said("This is it."), 2)], True, "This ", 1, 2),
    "while text flows, judged": (DENY, lambda: [stalled(Said("This is it."), 2)], True, "This ", 1, 2),
    "while a call is held": (
        DENY, lambda: [stalled(Said("So:", calls=[DELETE, READ]), 7)], True, "So:", 1, 5,
    ),
    "while it is asked again": (
        DENY, lambda: [Said("So:", calls=[DELETE]), Said("x", wait=never())], True, "So:", 2, 5,
    ),
    "while it is asked again, whole": (
        DENY, lambda: [Said("So:", calls=[DELETE]), Said("x", wait=never())], False, "", 2, 4101,
    ),
    "while the second answer flows": (
        DENY, lambda: [Said("So:", calls=[DELETE]), stalled(Said("I will read."), 2)], True, "So:\n\nI will", 2, 7,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STANDS)
async def test_cut(store: Store, name: str) -> None:
    tools, answers, stream, said, attempts, tokens = STANDS[name]
    async with live(store, policy={"refuse": "enforce"}, tools=tools) as running:
        running.provider.script = then(*answers(), Said("more"))
        agent = Agent(running, stream=stream)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        for _ in range(300):
            await asyncio.sleep(0.01)
            if len(running.provider.got) == attempts:
                break
        await asyncio.sleep(0.1)
        begun = time.monotonic()
        await store.runs.cut("default", agent.session, "ann", "enough")
        answer = await asyncio.wait_for(turn, 3)
        assert time.monotonic() - begun < 1
        assert (answer.status, agent.executed) == (200, [])
        assert agent.text.startswith(f"{said}\n\n[guardproxy] " if said else "[guardproxy] ")
        flowed = stream and name != "before the stream"
        assert answer.verdict == ("pass" if flowed else "cut")
        assert flowed is (b": guardproxy action=cut rule=operator\n\n" in answer.body)
        await running.proxy.quiet()
        assert await held(store) == {}
        used = await counted(store, agent.session)
        assert used["s:output_tokens"] == (tokens, 0)
        agent.text = ""
        await agent.turn()
        assert "[guardproxy]" in agent.text
        assert len(running.provider.got) == attempts, "the run has ended"


@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_a_cut_in_the_middle_of_an_event(store: Store, encoding: str) -> None:
    """Our words are an event of their own; in an encoding they can be none, and the client sees that it broke off."""
    first, half = Said("This is it.").chunks(usage=True)[1], b'data: {"choices":[{"delta":{"con'
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
    asked = {**body, "stream_options": {"include_usage": True}}
    packer = zlib.compressobj(wbits=31)
    begun = packer.compress(first + half) + packer.flush(zlib.Z_SYNC_FLUSH) if encoding else first + half
    async with live(store) as running:
        said = Said(raw=[begun, b""], stall=(1, never()), headers={"Content-Encoding": encoding} if encoding else {})
        running.provider.script = lambda _got: said
        name = {"x-guardproxy-session-id": "run"}
        async with running.client.post(running.url + "/v1/chat/completions", json=asked, headers=name) as answer:
            came = await answer.content.readexactly(len(begun))
            await store.runs.cut("default", "run", "ann", "enough")
            if encoding:
                with pytest.raises(aiohttp.ClientError):
                    came += await asyncio.wait_for(answer.content.read(), 3)
            else:
                came += await asyncio.wait_for(answer.content.read(), 3)
        assert came.startswith(begun)
        if not encoding:
            ours = came.removeprefix(begun)
            assert ours.startswith(b"\n\n: guardproxy action=cut rule=operator\n\ndata: {")
            assert ours.endswith(b"data: [DONE]\n\n")
        await running.proxy.quiet()
        assert await held(store) == {}


HALVES = {
    "chat": (b'\\"/tmp/important\\"}', b'"finish_reason":"length"', b'"finish_reason":"tool_calls"'),
    "messages": (b'th\\": \\"/tmp/important\\"}', b'"stop_reason":"max_tokens"', b'"stop_reason":"tool_use"'),
}
"""By surface: the rest of the arguments, and how an answer ends whose call lacks it, or has it."""


@pytest.mark.parametrize("judged", [False, True], ids=["passing", "judged"])
@pytest.mark.parametrize("whole", [False, True], ids=["half", "all"])
@pytest.mark.parametrize("surface", sorted(HALVES))
async def test_a_call_of_which_only_the_beginning_came_is_none(
    store: Store, surface: str, whole: bool, judged: bool
) -> None:
    """Clients would carry it out with half of its arguments."""
    rest, short, called = HALVES[surface]
    spoken = SURFACES[surface]
    made = spoken.events(Said("I go.", calls=[("read", '{"path": "/tmp/important"}', "call_read00001")]), usage=True)
    at = next(number for number, one in enumerate(made) if rest in one)
    first = [made[at].replace(rest, b"")] if surface == "chat" else []
    events = made[: at + (1 if surface == "chat" else 2)] if whole else [*made[:at], *first]
    said = Said(raw=[*events, b": never\n\n"], stall=(len(events), never()))
    tools = DENY if judged else {}
    async with live(store, surface=spoken, policy={"refuse": "enforce"}, tools=tools) as running:
        running.provider.script = lambda _got: said
        agent = Agent(running, stream=True)
        body = {"model": "m", "messages": agent.messages, "tools": TOOLS, "stream": True}
        asked = asyncio.ensure_future(
            running.post(spoken.request(body), {"x-guardproxy-session-id": agent.session}, spoken.PATH)
        )
        for _ in range(300):
            await asyncio.sleep(0.01)
            if running.proxy.turns and running.provider.sent:
                break
        await asyncio.sleep(0.1)
        await store.runs.cut("default", agent.session, "ann", "enough")
        answer = await asyncio.wait_for(asked, 3)
        assert (short in answer.body, called in answer.body) == (not whole, whole)


async def test_another_run_goes_on(store: Store) -> None:
    async with live(store) as running:
        running.provider.script = lambda _got: Said("there", wait=asyncio.sleep(1.2))
        cut, other = Agent(running, stream=True), Agent(running, stream=True)
        turns = [asyncio.get_running_loop().create_task(agent.turn()) for agent in (cut, other)]
        await asyncio.sleep(0.2)
        await store.runs.cut("default", cut.session, "ann", "enough")
        await asyncio.gather(*turns)
        assert "[guardproxy]" in cut.text
        assert other.text == "there"


async def test_a_client_that_leaves_a_run_that_is_cut(store: Store) -> None:
    async with live(store, policy={"refuse": "enforce"}, tools=DENY) as running:
        running.provider.script = then(stalled(Said("So:", calls=[DELETE]), 4))
        agent = Agent(running, stream=True)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        await asyncio.sleep(0.3)
        await store.runs.cut("default", agent.session, "ann", "enough")
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        for _ in range(200):
            if not running.proxy.turns:
                break
            await asyncio.sleep(0.01)
        await running.proxy.quiet()
        assert await held(store) == {}
        assert (await counted(store, agent.session))["s:turns"] == (1, 0)


async def test_an_answer_that_is_there_is_not_ended_again(store: Store) -> None:
    """The provider has finished, and takes its time to say [DONE]."""
    async with live(store) as running:
        said = Said("So:", calls=[READ])
        said.stall = (len(said.chunks(usage=True)) - 1, asyncio.sleep(1.5))
        running.provider.script = then(said)
        agent = Agent(running, stream=True)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        await asyncio.sleep(0.3)
        await store.runs.cut("default", agent.session, "ann", "enough")
        await turn
        assert agent.executed == ["read"]
        await agent.turn()
        assert "[guardproxy]" in agent.text
        assert len(running.provider.got) == 1
