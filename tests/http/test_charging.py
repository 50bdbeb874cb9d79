"""What turns and requests add to the ledger of usage, seen on the live path: once, to the right row."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

import pytest

from guardproxy.core.usage import FIELDS, day_of
from guardproxy.errors import StoreError
from guardproxy.store.redis import Store
from tests.http.test_guarded import Agent, looping, then
from tests.http.test_room import PRICES, ask, at, body, budget, who
from tests.live import Live, Said, live, unique

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 50,
    "total_tokens": 150,
    "prompt_tokens_details": {"cached_tokens": 40},
    "completion_tokens_details": {"reasoning_tokens": 20},
}
RED = {"x-test-team": "red", "x-test-key": "k1", "x-test-user": "ann", "User-Agent": "codex_cli_rs/1.0"}


async def rows(running: Live, store: Store) -> dict[tuple[str, ...], dict[str, int]]:
    """By team, key, user, model and agent, what is not nothing; of today, too: a refusal is of when it is told."""
    await running.proxy.quiet()
    await running.proxy.books.pay()
    now_ms = await store.usages.now_ms()
    days = sorted({day_of(now_ms), day_of(now_ms + running.offset_ms)})
    found = [row for day in days for row in await store.usages.day("default", day)]
    sums: dict[tuple[str, ...], Counter[str]] = {}
    for row in found:
        sums.setdefault(row.by, Counter()).update({name: n for name, n in zip(FIELDS, row.sums, strict=True) if n})
    return {by: dict(row) for by, row in sums.items()}


async def total(running: Live, store: Store) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in (await rows(running, store)).values():
        for name, amount in row.items():
            sums[name] = sums.get(name, 0) + amount
    return sums


@pytest.mark.parametrize("stream", [False, True])
async def test_a_turn_is_in_the_row_of_who_asked(store: Store, stream: bool) -> None:
    async with live(store, prices=PRICES) as running:
        who(running)
        running.provider.script = lambda _got: Said("ok", usage=USAGE)
        for headers, model in ((RED, "a"), (RED, "a"), (RED, "b"), ({}, "a")):
            assert (await ask(running, headers=headers, model=model, stream=stream)).status == 200
        used = {"requests": 1, "input_tokens": 100, "cached_tokens": 40, "output_tokens": 50, "reasoning_tokens": 20}
        used |= {"cost_microusd": 100 * 10 + 50 * 100}
        found = {by[:4]: row for by, row in (await rows(running, store)).items()}
        assert found == {
            ("red", "k1", "ann", "a"): {name: 2 * amount for name, amount in used.items()},
            ("red", "k1", "ann", "b"): used,
            ("", "", "", "a"): used,
        }
        assert {by[4] for by in await rows(running, store) if by[0]} == {"codex"}


async def test_what_was_not_answered(store: Store) -> None:
    async with live(store, prices=PRICES) as running:
        running.provider.script = then(Said(status=500, raw=b"{}"), Said("no usage", usage=None))
        assert [(await ask(running)).status for _ in range(2)] == [500, 200]
        found = await total(running, store)
        assert (found["requests"], found["failed"], found["estimated"]) == (2, 1, 1)
        assert 0 < found["input_tokens"] < 50
        assert found["output_tokens"] > 0


async def test_a_client_that_leaves_has_used_something(store: Store) -> None:
    async with live(store, prices=PRICES) as running:
        never = asyncio.Event()
        running.provider.script = lambda _got: Said("x", wait=never.wait())
        asking = asyncio.ensure_future(running.post(body()))
        while not running.provider.got:
            await asyncio.sleep(0.01)
        asking.cancel()
        async with asyncio.timeout(5):
            while not (found := await total(running, store)):
                await asyncio.sleep(0.02)
        never.set()
        assert (found["requests"], found["estimated"]) == (1, 1)
        assert found["output_tokens"] == 4096  # of a whole answer nobody knows more


async def test_refusals_cost_nothing_and_are_counted(store: Store) -> None:
    """By a hard limit: what the request would have cost at least is saved. By a rate: it comes again."""
    budgets = [budget("org", "requests", 2), budget("team", "requests", 1, "minute")]
    async with live(store, budgets=budgets, prices=PRICES) as running:
        running.offset_ms = at("2026-11-30T10:00:20+00:00")
        who(running)
        running.provider.script = lambda _got: Said("ok", usage=USAGE)
        red = {"x-test-team": "red"}
        assert [(await ask(running, headers=red)).status for _ in range(2)] == [200, 429]
        found = await total(running, store)
        assert (found["requests"], found["denied"], found["interventions"]) == (1, 1, 1)
        assert "saved_microusd" not in found
        assert [(await ask(running, "word " * 100)).status for _ in range(2)] == [200, 400]
        found = await total(running, store)
        assert (found["requests"], found["denied"]) == (2, 2)
        assert found["interventions"] == 2  # a question by itself is not asked to conclude
        assert 1000 < found["saved_microusd"] < 3000  # some 125 tokens at 10 dollars a million


async def test_a_wait_for_room_is_no_refusal(store: Store) -> None:
    async with live(store, budgets=[budget("org", "concurrent_requests", 1, None)]) as running:
        running.provider.script = lambda _got: Said("ok", wait=asyncio.sleep(0.15))
        answers = await asyncio.gather(*(running.post(body(unique("q"))) for _ in range(3)))
        assert [answer.status for answer in answers] == [200] * 3
        found = await total(running, store)
        assert (found["requests"], found.get("denied"), found.get("interventions")) == (3, None, None)


async def test_words_are_interventions_and_what_is_answered_here_has_saved_something(store: Store) -> None:
    async with live(store, prices=PRICES) as running:
        running.provider.script = looping()
        agent = Agent(running, stream=False)
        for _ in range(5):
            await agent.turn()
        before = await total(running, store)
        assert (before["requests"], before["interventions"]) == (5, 2)  # nudge and firm
        assert "saved_microusd" not in before
        await store.runs.cut("default", agent.session, "ann", "enough")
        assert (await agent.turn()).verdict == "cut"
        found = await total(running, store)
        assert (found["requests"], found["interventions"]) == (5, 3)
        assert found["saved_microusd"] > 0


async def test_a_policy_that_observes_says_what_could_be_saved(store: Store) -> None:
    async with live(store, policy={"mode": "observe"}, prices=PRICES) as running:
        running.provider.script = looping()
        agent = Agent(running, stream=False)
        for _ in range(9):
            await agent.turn()
        found = await total(running, store)
        assert found["requests"] == 9
        assert 0 < found["saveable_microusd"] < found["cost_microusd"]
        assert not found.keys() & {"interventions", "saved_microusd", "denied"}


@pytest.mark.parametrize("budgets", [[], [budget("org", "requests", 1)]], ids=["free", "counted"])
async def test_what_is_passed_on_unread(store: Store, budgets: list[Mapping[str, object]]) -> None:
    async with live(store, budgets=budgets) as running:
        who(running)
        running.provider.script = lambda _got: Said("ok", usage=None)
        statuses = [(await running.post({}, RED, path="/v1/rerank")).status for _ in range(2)]
        async with running.client.get(f"{running.url}/v1/models", headers=RED) as answer:
            assert answer.status == 200
        assert statuses == [200, 400 if budgets else 200]
        expected = {"requests": 1, "interventions": 1, "denied": 1} if budgets else {"requests": 2}
        assert await rows(running, store) == {("red", "k1", "ann", "", ""): expected}


async def test_what_the_store_could_not_be_told_is_told_later(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_args: object) -> None:
        await asyncio.sleep(0)
        raise StoreError("away")

    async with live(store, budgets=[budget("org", "requests", 1)]) as running:
        assert (await ask(running)).status == 200
        with monkeypatch.context() as gone:
            gone.setattr(store.usages, "add", away)
            assert [(await ask(running)).status for _ in range(2)] == [400, 400]
            await running.proxy.books.pay()
        assert (await total(running, store))["denied"] == 2
        assert (await total(running, store))["denied"] == 2


async def test_turns_that_the_store_did_not_see_are_charged_when_it_is_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_args: object) -> None:
        await asyncio.sleep(0)
        raise StoreError("away")

    async with live(store, prices=PRICES) as running:
        running.provider.script = lambda _got: Said("ok", usage=USAGE)
        with monkeypatch.context() as gone:
            gone.setattr(store, "begin", away)
            assert (await ask(running)).status == 200
        assert (await total(running, store))["requests"] == 1
