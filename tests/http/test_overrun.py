"""Streams that become longer than what was held for them: more is held, or they end well, in the middle."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping

import pytest

from guardproxy.store.redis import Store
from tests.http.test_guarded import Agent, then
from tests.http.test_room import PRICES, budget, counters
from tests.http_store import counted
from tests.live import Got, Json, Live, Said, live

WORDS = "word " * 400
DENY = {"deny": ["delete"]}


def stalled(text: str = WORDS) -> tuple[Callable[[Got], Said], asyncio.Event]:
    """An answer of which all words have come and that does not end before it is let go on."""
    go = asyncio.Event()

    def script(_got: Got) -> Said:
        said = Said(text, usage={"prompt_tokens": 100, "completion_tokens": 450, "total_tokens": 550})
        said.stall = (3, go.wait())
        return said

    return script, go


def asking_for_little(running: Live) -> Agent:
    agent = Agent(running, stream=True)
    agent.more = {"max_tokens": 20}
    return agent


async def holds(store: Store, above: int, *, key: str = "t:org: output_tokens") -> int:
    async with asyncio.timeout(5):
        while (found := (await counters(store)).get(key, (0, 0))[1]) <= above:
            await asyncio.sleep(0.02)
    return found


BUDGETS = [budget("org", "output_tokens", 300, "total"), budget("org", "requests", 9, "total")]


@pytest.mark.parametrize("tools", [{}, DENY], ids=["plain", "judged"])
async def test_more_is_held_and_the_stream_goes_on(store: Store, tools: Json) -> None:
    """Above the limit, too: then nobody else is admitted beside it. What it really used is settled."""
    async with live(store, budgets=BUDGETS, tools=tools) as running:
        running.provider.script, go = stalled()
        agent = asking_for_little(running)
        asking = asyncio.ensure_future(agent.turn())
        assert await holds(store, 20) >= 400
        assert (await counters(store))["t:org: requests"] == (0, 1)
        assert (await running.post(ask(max_tokens=1))).status == 400
        go.set()
        answer = await asking
        assert (answer.status, agent.text) == (200, WORDS)
        await running.proxy.quiet()
        assert await counters(store) == {"t:org: output_tokens": (450, 0), "t:org: requests": (1, 0)}


def ask(**more: object) -> Json:
    return {"model": "m", "messages": [{"role": "user", "content": "hello"}], **more}


@pytest.mark.parametrize("tools", [{}, DENY], ids=["plain", "judged"])
@pytest.mark.parametrize("limit", ["tenant", "session"])
async def test_a_stream_that_passes_hold_and_limit_ends_well(store: Store, tools: Json, limit: str) -> None:
    policy: Json = {"on_overrun": "end", "refuse": "enforce"}
    sections: dict[str, object] = {"budgets": [budget("org", "cost_usd", 0.02, "total")]}
    if limit == "session":
        sections = {}
        policy["limits"] = {"session": {"cost_usd": 0.02}}
    async with live(store, policy=policy, tools=tools, prices=PRICES, **sections) as running:
        running.provider.script, go = stalled()
        agent = asking_for_little(running)
        answer = await asyncio.wait_for(agent.turn(), 5)
        assert answer.status == 200
        scope = "org" if limit == "tenant" else "session"
        assert agent.text.startswith(f"{WORDS}\n\n[guardproxy] ")
        assert f"limit cost_usd ({scope}) of $0.02 is reached" in agent.text
        assert b": guardproxy action=deny rule=budget.cost_usd\n\n" in answer.body
        assert answer.body.endswith(b"data: [DONE]\n\n")
        await running.proxy.quiet()
        go.set()
        known = await store.session_state("default", agent.session)
        assert known is not None
        assert (known.state, known.turn) == ("active", 1)
        used = await counted(store, agent.session)
        assert used["s:turns"] == (1, 0)
        assert 400 < used["s:output_tokens"][0] < 700
        if limit == "tenant":
            ((cost, held),) = (await counters(store)).values()
            assert (cost > 40_000, held) == (True, 0)
        running.provider.script = then(Said("more"))
        assert (await running.post(ask(max_tokens=1), {"x-guardproxy-session-id": agent.session})).status == 400
        assert len(running.provider.got) == 1


NOT_ENDED: Mapping[str, Json] = {
    "within its limit": {"limits": {"session": {"output_tokens": 5000}}},
    "of a policy that observes": {"mode": "observe", "limits": {"session": {"output_tokens": 30}}},
    "no limit of length": {"limits": {"session": {"tool_calls": 1, "wall_seconds": 900}}},
}


@pytest.mark.parametrize("why", NOT_ENDED)
async def test_what_goes_on_all_the_same(store: Store, why: str) -> None:
    async with live(store, policy={"on_overrun": "end", **NOT_ENDED[why]}) as running:
        assert await _whole(running, store) == WORDS


async def test_in_a_panic_nothing_ends(store: Store) -> None:
    async with live(store, policy={"on_overrun": "end", "limits": {"session": {"output_tokens": 30}}}) as running:
        await store.panic(True)
        assert await _whole(running, store) == WORDS


async def _whole(running: Live, store: Store) -> str:
    running.provider.script, go = stalled()
    agent = asking_for_little(running)
    asking = asyncio.ensure_future(agent.turn())
    async with asyncio.timeout(5):
        while not any(turn.stretched for turn in running.proxy.turns):
            await asyncio.sleep(0.02)
    go.set()
    await asking
    return agent.text


def events(*given: Json) -> list[bytes]:
    return [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in given]


async def test_a_stream_of_messages_ends_as_well(store: Store) -> None:
    """Of the other surface: the same watcher, its own form of an end."""
    usage = {"input_tokens": 100, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    text = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": WORDS}}
    begun = events(
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        text,
        {"type": "content_block_stop", "index": 0},
    )
    go = asyncio.Event()

    def script(_got: Got) -> Said:
        said = Said(raw=begun)
        said.stall = (3, go.wait())
        return said

    budgets = [budget("org", "cost_usd", 0.02, "total")]
    async with live(store, policy={"on_overrun": "end"}, prices=PRICES, budgets=budgets) as running:
        running.provider.script = script
        asked = {**ask(max_tokens=20), "stream": True}
        answer = await asyncio.wait_for(running.post(asked, path="/v1/messages"), 5)
        told = [json.loads(line[6:]) for line in answer.body.decode().split("\n") if line.startswith("data: ")]
        assert [one["type"] for one in told if one["type"].startswith("message")] == [
            "message_start", "message_delta", "message_stop",
        ]  # fmt: skip
        said = "".join(one["delta"].get("text", "") for one in told if one["type"] == "content_block_delta")
        assert said.startswith(WORDS)
        assert "limit cost_usd (org) of $0.02 is reached" in said
        assert b": guardproxy action=deny rule=budget.cost_usd\n\n" in answer.body
        go.set()
        await running.proxy.quiet()
        ((cost, held),) = (await counters(store)).values()
        assert (cost > 40_000, held) == (True, 0)
