"""The ledger of usage in the store: written in `settle`, once, to the day of the store's clock, in so many rows."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from guardproxy.core.usage import FIELDS, Row, day_of, days, payer
from guardproxy.errors import StoreError
from guardproxy.store import usages
from guardproxy.store.redis import Store
from tests.store.kit import ORG, Agent
from tests.store.test_tenants import MINUTE, offset

WHO = ("web", "k1", "ann", "gpt-5", "codex")
NEED = (300, 4096, 70)


def filled(*sums: int) -> tuple[int, ...]:
    return (*sums, *[0] * (len(FIELDS) - len(sums)))


async def today(store: Store, org: str = ORG) -> list[Row]:
    """Near midnight what is swept some minutes ahead is tomorrow's."""
    now_ms = await store.usages.now_ms()
    of = days(day_of(now_ms), day_of(now_ms + 15 * MINUTE))
    return [row for day in of for row in await store.usages.day(org, day)]


async def used(store: Store) -> dict[str, int]:
    (row,) = await today(store)
    return {name: amount for name, amount in zip(FIELDS, row.sums, strict=True) if amount}


async def begun(store: Store, session: str = "s", who: tuple[str, ...] = WHO, **more: object) -> Agent:
    agent = Agent(store, session=session, **more)  # type: ignore[arg-type]
    await agent.begin(payer=payer(who), need=NEED)
    return agent


async def test_the_script_has_as_many_fields() -> None:
    text = resources.files("guardproxy.store").joinpath("account.lua").read_text("utf-8")
    assert re.findall(r"FIELDS = (\d+)", text) == [str(len(FIELDS))]


async def test_settle_writes_the_row_however_often_it_is_sent(store: Store) -> None:
    for number in range(2):
        agent = await begun(store, f"s{number}")
        for _ in range(2):
            await agent.settle(charge=(1, 100, 40, 0, 50, 0, 7))
    (row,) = await today(store)
    assert (row.org, row.by, row.sums) == (ORG, WHO, filled(2, 200, 80, 0, 100, 0, 14))


async def test_without_a_payer_or_anything_to_say_there_is_no_row(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.begin()
    await agent.settle(charge=(1,))
    await (await begun(store, "t")).settle(charge=())
    assert await today(store) == []


@pytest.mark.parametrize("extended", [False, True])
async def test_a_dead_workers_request_is_charged_as_it_was_held(store: Store, extended: bool) -> None:
    agent = await begun(store, lease_ms=1000)
    assert agent.last
    if extended:
        assert await store.extend(ORG, agent.last.token, agent.lines)
    assert len(await store.sweep(2000)) == 1
    assert await store.sweep(2000) == []
    assert await used(store) == {
        "requests": 1,
        "input_tokens": 300,
        "output_tokens": 4096,
        "cost_microusd": 70,
        "estimated": 1,
        "holds_expired": 1,
    }
    await agent.settle(charge=(1, 5))  # it was not dead: too late
    assert (await used(store))["input_tokens"] == 300


async def test_a_side_request_and_a_retry_are_charged_too(store: Store) -> None:
    agent = await begun(store)
    await agent.settle(outcome="failed", charge=(1,))
    await agent.begin(payer=payer(WHO))
    await agent.settle(charge=(1,))
    await agent.begin(payer=payer(WHO), tooled=False)
    await agent.settle("text", charge=(1,))
    assert await used(store) == {"requests": 3}


async def test_the_day_is_that_of_the_stores_clock_when_it_is_settled(store: Store) -> None:
    late = offset("2028-02-29T23:59:58+00:00")
    agent = await begun(store, offset_ms=late)
    await agent.settle(charge=(1,))
    agent = await begun(store, "t", offset_ms=late)
    agent.offset_ms += MINUTE
    await agent.settle(charge=(2,))
    found = [await store.usages.day(ORG, day) for day in ("2028-02-28", "2028-02-29", "2028-03-01", "2028-03-02")]
    assert [[row.sums[0] for row in rows] for rows in found] == [[], [1], [2], []]
    left = await store._client.command("PTTL", f"gp:{{{ORG}}}:usage:21244")
    assert 399 * 86_400_000 < int(str(left)) <= 400 * 86_400_000


async def test_notes_are_added_and_counted_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await (await begun(store)).settle(charge=(1, 100))
    await store.usages.add(ORG, {payer(WHO): (0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 9), payer(("x", "", "", "", "")): (2,)})
    found = {row.by[0]: row.sums for row in await today(store)}
    assert found == {"web": filled(1, 100, 0, 0, 0, 0, 0, 0, 0, 1, 1, 9), "x": filled(2)}
    monkeypatch.setattr(usages.secrets, "token_hex", lambda _size: "the same")
    for _ in range(2):
        await store.usages.add(ORG, {payer(("x", "", "", "", "")): (5,)})
    assert {row.by[0]: row.sums[0] for row in await today(store)} == {"web": 1, "x": 7}


async def test_rows_are_bounded_and_team_and_key_stay_apart(store: Store) -> None:
    """Users, models and agents are named by clients."""
    rows = {payer(("web", "k1", f"user {number}", "", "")): (1,) for number in range(5000)}
    await store.usages.add(ORG, rows)
    await store.usages.add(ORG, {payer(("web", "k2", f"late {number}", "m", "a")): (1,) for number in range(3)})
    await (await begun(store, who=("", "", "user 1", "m", ""))).settle(charge=(1,))
    await (await begun(store, "t", who=("web", "k1", "user 1", "", ""))).settle(charge=(1,))
    found = {row.by: row.sums[0] for row in await today(store)}
    assert len(found) == 5002
    assert found["web", "k2", "*", "*", "*"] == 3
    assert found["", "", "*", "*", "*"] == 1
    assert found["web", "k1", "user 1", "", ""] == 2


async def test_a_day_can_be_forgotten(store: Store) -> None:
    await store.usages.add(ORG, {payer(WHO): (1,)})
    day = day_of(await store.usages.now_ms())
    assert [await store.usages.forget(ORG, day) for _ in range(2)] == [True, False]
    assert await store.usages.day(ORG, day) == []


async def test_what_cannot_be_read_is_said(store: Store) -> None:
    day = day_of(await store.usages.now_ms())
    await store._client.command(
        "HSET", f"gp:{{{ORG}}}:usage:{(await store.usages.now_ms()) // 86_400_000}", "x", "short"
    )
    with pytest.raises(StoreError, match="usage that cannot be read"):
        await store.usages.day(ORG, day)
