"""Answers in the background, in the store: charged and settled once, in whatever order it hears of them, or twice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import pytest

from guardproxy.core.model import Line
from guardproxy.core.usage import FIELDS, payer
from guardproxy.errors import StoreError
from guardproxy.store.redis import Store
from tests.store.kit import LINES, ORG, Agent, used_held
from tests.store.test_tenants import MINUTE
from tests.store.test_usages import NEED, WHO, today

OUTPUT = "output_tokens"
HELD, GUESS, SAID = 4096, 5000, 300
OWN = (Line("session", OUTPUT, HELD), Line("org", OUTPUT, HELD, 100_000, "t:org"), Line("key", OUTPUT, HELD, -1, "t:k"))
NAME, ABOUT = "name-of-it", '{"model":"m"}'

STEPS = {
    "early": "its stream has begun",
    "dies": "its worker is gone, and the lease over",
    "left": "its turn ends before it",
    "ends": "its turn ends with it",
    "told": "somebody fetches it",
}


def orders() -> Iterator[tuple[str, ...]]:
    """Every order of an end, or two of them, with a look or two, and with or without the note before it."""
    for ends in (("dies",), ("left",), ("ends",), ("dies", "left"), ("dies", "ends"), ("left", "dies")):
        for noted in ((), ("early",)):
            for told in ((), ("told",), ("told", "told")):
                for order in dict.fromkeys(permutations((*ends, *told))):
                    if [one for one in order if one != "told"] == [*ends]:
                        yield (*noted, *order)


def expected(order: tuple[str, ...]) -> int:
    """The plain rule: what was said holds from when the name is known; else the turn's own word, else the hold."""
    known = said = False
    end, first = "", None
    for step in order:
        if step == "early":
            known = True
        elif step == "told":
            said = said or (known and end != "ends")
            if end == "ends":
                continue
        elif not end:
            end = step
            known = known or step in ("left", "ends")
            first = {"dies": HELD, "left": GUESS, "ends": SAID + 1}[step]
    if end == "ends":
        return SAID + 1
    return SAID if said else int(first or 0)


async def take(agent: Agent, step: str) -> None:
    store, token = agent.store, agent.last.token if agent.last else ""
    if step == "early":
        store.background.early_soon(ORG, NAME, token, ABOUT)
    elif step == "dies":
        await store.sweep(10 * MINUTE)
    elif step == "left":
        await agent.settle("empty", "abandoned", **spent(GUESS), later=(NAME, ABOUT))
    elif step == "ends":
        await agent.settle(**spent(SAID + 1), later=(NAME,))
    else:
        await store.background.settle(ORG, NAME, {OUTPUT: SAID}, (1, 9, 0, 0, SAID, 0, 70))


def spent(output: int) -> dict[str, object]:
    return {"spent": {"turns": 1, OUTPUT: output}, "charge": (1, 9, 0, 0, output, 0, 70)}


@pytest.mark.parametrize("twice", [False, True])
async def test_in_every_order_it_is_counted_once(store: Store, twice: bool) -> None:
    for number, order in enumerate(orders()):
        for key in ("w:t:org", f"later:{NAME}"):
            await store._client.command("DEL", f"gp:{{{ORG}}}:{key}")
        for row in await today(store):
            await store.usages.forget(ORG, row.day)
        agent = Agent(store, session=f"s{number}", lines=(*LINES, *OWN))
        await agent.begin(payer=payer(WHO), need=NEED)
        for step in order:
            for _ in range(1 + twice):
                await take(agent, step)
        wanted = expected(order)
        assert await used_held(store, "w:t:org", OUTPUT) == (wanted, 0), order
        assert await used_held(store, f"s:s{number}", OUTPUT) == (wanted, 0), order
        (row,) = await today(store)
        sums = dict(zip(FIELDS, row.sums, strict=True))
        assert (sums["requests"], sums[OUTPUT]) == (1, wanted), order
        assert await used_held(store, f"s:s{number}", "turns") == (1, 0), order


async def charged(store: Store, **more: object) -> Agent:
    agent = Agent(store, session="s", lines=(*LINES, *OWN), **more)  # type: ignore[arg-type]
    await agent.begin(payer=payer(WHO), need=NEED)
    await agent.settle("empty", "abandoned", **spent(GUESS), later=(NAME, ABOUT))
    return agent


async def test_how_it_stands(store: Store) -> None:
    assert await store.background.look(ORG, NAME) is None
    await charged(store)
    assert await store.background.look(ORG, NAME) == ("charged", ABOUT)
    assert await store.background.look("another", NAME) is None
    assert await store.background.settle("another", NAME, {OUTPUT: 1}, ()) is False
    for owed in (True, False):
        assert await store.background.settle(ORG, NAME, {OUTPUT: SAID}, (1, 9, 0, 0, SAID)) is owed
    assert await store.background.look(ORG, NAME) == ("settled", ABOUT)
    left = await store._client.command("HKEYS", f"gp:{{{ORG}}}:later:{NAME}")
    assert isinstance(left, list)
    assert sorted(left) == [b"about", b"sid", b"state"], "nothing of who paid is kept for longer"


async def test_counters_that_are_gone_stay_gone(store: Store) -> None:
    """Windows that are over, a session that was erased, a row that has another name: none of them is made anew."""
    await charged(store)
    for key in ("w:t:org", "s:s"):
        await store._client.command("DEL", f"gp:{{{ORG}}}:{key}")
    for row in await today(store):
        await store.usages.forget(ORG, row.day)
    assert await store.background.settle(ORG, NAME, {OUTPUT: SAID}, (1, 9, 0, 0, SAID))
    assert await used_held(store, "w:t:org", OUTPUT) == (0, 0)
    assert await used_held(store, "w:t:k", OUTPUT) == (SAID, 0)
    assert await today(store) == []
    assert await store.session_state(ORG, "s") is None


async def test_a_later_request_has_other_lines(store: Store) -> None:
    """The run's counters are found by their names, however they stand by now."""
    agent = await charged(store)
    agent.took()
    agent.lines = (Line("session", "input_tokens", 1), *LINES, Line("session", OUTPUT, 5))
    await agent.begin(payer=payer(WHO), need=NEED)
    await store.background.settle(ORG, NAME, {OUTPUT: SAID}, (1, 9, 0, 0, SAID))
    assert await used_held(store, "s:s", OUTPUT) == (SAID, 5)
    await agent.settle(**spent(1))
    assert await used_held(store, "s:s", OUTPUT) == (SAID + 1, 0)
    assert await used_held(store, "p:s", "turns") == (2, 0)


async def test_a_span_that_is_over_gets_nothing(store: Store) -> None:
    lines = (Line("span", OUTPUT, HELD), *LINES)
    agent = Agent(store, session="s", lines=lines)
    await agent.begin()
    await agent.settle("text", **spent(GUESS), later=(NAME, ABOUT))
    agent.took(user="another task")
    agent.spoken = True
    await agent.begin()
    assert await used_held(store, "p:s", OUTPUT) == (0, HELD), "a new one"
    await store.background.settle(ORG, NAME, {OUTPUT: SAID}, ())
    assert await used_held(store, "p:s", OUTPUT) == (0, HELD)


async def test_the_row_of_the_day_is_put_right_and_its_file_is(store: Store) -> None:
    agent = Agent(store, session="s", lines=(*LINES, *OWN))
    await agent.begin(payer=payer(WHO), need=NEED)
    await agent.settle("empty", "abandoned", charge=(1, 9, 4, 3, GUESS, 2, 70, 1, 1, 1), later=(NAME, ABOUT))
    assert await store.usages.corrected(ORG, 0) == []
    await store.background.settle(ORG, NAME, {OUTPUT: SAID}, (1, 10, 0, 0, SAID, 1, 50), 24 * 60 * MINUTE)
    (row,) = await today(store)
    sums = {name: number for name, number in zip(FIELDS, row.sums, strict=True) if number}
    assert sums == {
        "requests": 1, "input_tokens": 10, OUTPUT: SAID, "reasoning_tokens": 1, "cost_microusd": 50, "failed": 1,
        "interventions": 1,
    }  # fmt: skip
    assert await store.usages.corrected(ORG, 0) == [row.day]
    assert await store.usages.corrected(ORG, await store.usages.now_ms() + 25 * 60 * MINUTE) == []


async def test_what_the_server_does_not_say(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def garbage(*_words: object) -> object:
        return b"?"

    monkeypatch.setattr(store._client, "command", garbage)
    assert await store.background.look(ORG, NAME) is None
    with pytest.raises(StoreError):
        await store.usages.corrected(ORG, 0)
    monkeypatch.setattr(store._client, "run_soon", lambda *_words: None)
    assert store.background.settle_soon(ORG, NAME, {}, (), lambda _told: None) is False
