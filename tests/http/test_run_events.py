"""`run.cut` and `run.paused` of what no turn's decision brings: people's words in the store, and limits that refuse."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from guardproxy.errors import StoreError
from guardproxy.http.webhook import EVENTS
from guardproxy.store.redis import Store
from tests.http.test_soft_limits import receiver
from tests.live import Json, Live, Said, live

ORG, TURNS = "default", {"limits": {"session": {"turns": 2}}}
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}]


async def ask(running: Live, session: str, text: str = "go", **more: Any) -> int:
    body = {"model": "m", "messages": [{"role": "user", "content": text}], **more}
    answer = await running.post(body, {"x-guardproxy-session-id": session})
    await running.proxy.quiet()
    return answer.status


async def test_what_a_person_does_is_told_once_by_whichever_request_meets_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_args: object) -> bool:
        await asyncio.sleep(0)
        raise StoreError("away")

    async with receiver() as (url, got):
        hook = {"url": url, "secret": "s" * 16}
        async with live(store, webhook=hook) as one, live(store, webhook=hook) as two:
            await ask(one, "run")
            for _ in range(2):  # another pause is another event
                await store.runs.pause(ORG, "run", "ann", "look at it")
                monkeypatch.setattr(store, "claim", away)
                await ask(one, "run", "a")
                monkeypatch.undo()
                await asyncio.gather(*(ask(running, "run", text) for running in (one, two) for text in "bc"))
                await store.runs.resume(ORG, "run", "ann")
                await ask(two, "run", "d")
            wait = asyncio.Event()
            one.provider.script = lambda _got: Said("late", wait=wait.wait())
            runs = [asyncio.ensure_future(ask(one, "run", text)) for text in "ef"]
            while len(one.provider.got) < 3:
                await asyncio.sleep(0.005)
            await store.runs.cut(ORG, "run", "bob", "enough")
            await asyncio.gather(*runs)
            wait.set()
            assert [await ask(running, "run", "g") for running in (one, two)] == [200, 200]
    told = [(event["type"], event["data"]["rule"], event["data"]["reason"]) for event in got]
    pause = ("run.paused", "operator", "paused by ann: look at it")
    assert told == [pause, pause, ("run.cut", "operator", "cut by bob: enough")]
    assert {event["session"] for event in got} == {"run"}
    assert all(event["data"].keys() == EVENTS[event["type"]].keys() for event in got)
    assert len({event["id"] for event in got}) == 3


REFUSED = {
    "of the run": ({"policy": TURNS}, [200, 200, 400, 400], ["budget.turns"]),
    "handed to a person": ({"policy": {**TURNS, "on_budget": "pause"}}, [200] * 4, ["budget.turns"]),
    "observed": ({"policy": {**TURNS, "mode": "observe"}}, [200] * 4, []),
    "of a tenant": (
        {"budgets": [{"scope": "org", "dimension": "requests", "limit": 2, "window": "total"}]},
        [200, 200, 400, 400],
        [],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_run_that_a_limit_of_its_own_refuses_is_told_once(store: Store, case: str) -> None:
    sections, statuses, rules = REFUSED[case]
    async with receiver() as (url, got):
        hook = {"url": url, "secret": "s" * 16}
        async with live(store, webhook=hook, **sections) as running:
            assert [await ask(running, "run", text) for text in "abcd"] == statuses
            if case == "of the run":
                await store.runs.extend(ORG, "run", {"turns": 1}, "ann")
                assert [await ask(running, "run", text) for text in "efg"] == [200, 400, 400]
                rules = rules * 2
    kind = "run.paused" if case == "handed to a person" else "run.cut"
    assert [(event["type"], event["data"]["rule"]) for event in got] == [(kind, rule) for rule in rules]
    assert all(event["data"].keys() == EVENTS[kind].keys() for event in got)


async def test_a_limit_that_is_read_off_the_steps_is_told_once(store: Store) -> None:
    async with receiver() as (url, got):
        hook = {"url": url, "secret": "s" * 16}
        async with live(store, webhook=hook, policy={"limits": {"span": {"calls_per_tool": 2}}}) as running:
            history: list[Json] = [{"role": "user", "content": "go"}]
            for number in range(2):
                call = Said(calls=[("read", f'{{"n": {number}}}', f"call_{number:08d}")])
                history += [
                    call.message(),
                    {"role": "tool", "tool_call_id": f"call_{number:08d}", "content": f"{number}"},
                ]
                found = [await ask(running, "run", messages=history, tools=TOOLS) for _ in range(2)]
            assert found == [400, 400]
    assert [(event["type"], event["data"]["rule"]) for event in got] == [("run.cut", "budget.calls_per_tool")]
