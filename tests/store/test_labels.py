"""Labels and exemptions in the store: kept, ended, taken back, seen by the next turn, and what a label re-opens."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from guardproxy.core.fingerprint import is_boundary, pack
from guardproxy.core.model import NO_FP, Kind, Step
from guardproxy.core.scoped_exemption import ScopedExemption
from guardproxy.errors import GuardError
from guardproxy.store.labels import Added, Label
from guardproxy.store.redis import Store
from tests.store.kit import ORG, Agent, used_held

MINUTE, DAY = 60_000, 86_400_000
BOUNDARY = pack(Step(Kind.BOUNDARY, "", NO_FP, NO_FP, NO_FP))
PLAIN = Label("l1", "s", "cycle", "session", "s", "ann")


async def say(store: Store, label: Label = PLAIN, for_ms: int = DAY, kept_ms: int = 90 * DAY, **more: Any) -> Added:
    return await store.labels.add(ORG, replace(label, **more), for_ms, kept_ms, BOUNDARY)


async def ends(store: Store, key: str) -> int:
    left = await store._client.command("PTTL", f"gp:{{{ORG}}}:{key}")
    assert isinstance(left, int)
    return left


async def test_a_label_is_kept_and_its_rule_exempted(store: Store) -> None:
    await Agent(store, session="s").turn()
    said = await say(store, tool="f", note="a “poll”\n of 長い jobs", action="cut", turn=4, count=5, call=3)

    label = said.label
    assert label.until_ms - label.at_ms == DAY
    assert (said.opened, said.shut) == (0, ())
    assert await store.labels.every(ORG) == [label]
    version, standing = await store.labels.standing(ORG)
    assert standing == (ScopedExemption("l1", "cycle", "session", "s", label.until_ms, "f"),)
    assert version >= label.at_ms
    for key, longest in {"exempted": DAY, "exempt": DAY, "labels": 90 * DAY, "labels:hits": 90 * DAY}.items():
        assert longest - MINUTE < await ends(store, key) <= longest, key


async def test_every_turn_tells_which_exemptions_stand(store: Store) -> None:
    agent = Agent(store, session="s")
    assert (await agent.turn()).exempt == 0
    versions = []
    for number in range(3):
        await say(store, id=f"l{number}")
        versions.append((await agent.turn()).exempt)
        assert versions[-1] == (await store.labels.standing(ORG))[0]
    assert sorted(set(versions)) == versions
    for number in range(3):
        await store.labels.revoke(ORG, f"l{number}", "bob", DAY)
        versions.append((await agent.turn()).exempt)
    assert len(set(versions)) == 6
    assert versions[-1] == 0
    assert (await store.begin(replace(agent.opening(), org="another"))).exempt == 0


async def test_an_exemption_ends_and_its_label_stays(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.turn()
    await say(store, for_ms=1)
    await asyncio.sleep(0.005)
    await say(store, id="l2", for_ms=50)

    assert [one.label for one in (await store.labels.standing(ORG))[1]] == ["l2"]  # the next write cleans up
    while (await agent.turn()).exempt:
        pass
    assert await store.labels.standing(ORG) == (0, ())
    assert [one.id for one in await store.labels.every(ORG)] == ["l2", "l1"]


async def test_taking_back(store: Store) -> None:
    await Agent(store, session="s").turn()
    await say(store)
    label = await store.labels.revoke(ORG, "l1", "bob", 90 * DAY)

    assert (label.by, label.revoked_by, label.revoked_ms >= label.at_ms) == ("ann", "bob", True)
    assert await store.labels.every(ORG) == [label]
    assert await store.labels.standing(ORG) == (0, ())
    with pytest.raises(GuardError, match="label l1 was taken back before, by bob"):
        await store.labels.revoke(ORG, "l1", "cy", DAY)
    with pytest.raises(GuardError, match="the store has no label 'l9'"):
        await store.labels.revoke(ORG, "l9", "cy", DAY)


async def test_one_that_is_over_can_be_taken_back(store: Store) -> None:
    """So that it is no longer exported."""
    await Agent(store, session="s").turn()
    await say(store, for_ms=1)
    assert (await store.labels.revoke(ORG, "l1", "bob", 90 * DAY)).revoked_by == "bob"


async def test_an_unknown_session(store: Store) -> None:
    with pytest.raises(GuardError, match="the store has no session 'nobody'"):
        await say(store, session="nobody")
    assert await store.labels.every(ORG) == []


async def test_said_twice_is_said_once(store: Store) -> None:
    """A call whose answer was lost is sent again."""
    agent = Agent(store, session="s")
    await agent.turn()
    first = await say(store)
    again = await say(store, by="somebody else", for_ms=5 * DAY)

    assert again.label == first.label
    assert len(await store.labels.every(ORG)) == 1


async def test_hits_are_counted(store: Store) -> None:
    await Agent(store, session="s").turn()
    await say(store)
    await store.labels.hit(ORG, "l1", 3)
    await store.labels.hit(ORG, "l1", 2)
    await store.labels.revoke(ORG, "l1", "bob", DAY)  # what it did, it did

    assert [one.hits for one in await store.labels.every(ORG)] == [5]


async def test_only_the_newest_are_kept(store: Store) -> None:
    await Agent(store, session="s").turn()
    for number in range(1010):
        await say(store, id=f"l{number:04}", for_ms=1 if number % 500 else DAY)

    kept = await store.labels.every(ORG)
    assert len(kept) == 1000
    assert await store._client.command("HLEN", f"gp:{{{ORG}}}:labels:hits") == 1000
    assert await store._client.command("ZCARD", f"gp:{{{ORG}}}:labels:at") == 1000
    assert {one.label for one in (await store.labels.standing(ORG))[1]} >= {"l0500", "l1000"}


async def test_old_labels_are_forgotten(store: Store) -> None:
    await Agent(store, session="s").turn()
    await say(store, for_ms=1, kept_ms=DAY)
    await asyncio.sleep(0.005)
    await say(store, id="l2", for_ms=1, kept_ms=2)

    assert [one.id for one in await store.labels.every(ORG)] in (["l2"], [])


async def test_exemptions_are_bounded(store: Store) -> None:
    await Agent(store, session="s").turn()
    for number in range(256):
        await say(store, id=f"l{number}")
    with pytest.raises(GuardError, match="256 exemptions stand already"):
        await say(store, id="one too many")
    await store.labels.revoke(ORG, "l7", "bob", DAY)
    await say(store, id="one too many")


async def cut(store: Store, by: str, **more: Any) -> Agent:
    """A run whose third turn ended it."""
    agent = Agent(store, **more)
    for _ in range(2):
        await agent.turn()
    await agent.begin()
    await agent.settle("own", close=by)
    return agent


async def test_a_run_that_was_cut_goes_on(store: Store) -> None:
    agent = await cut(store, "cycle", session="s")
    assert (await agent.begin()).closed
    said = await say(store)

    assert (said.opened, said.shut) == (1, ())
    view = await agent.begin()
    assert (view.closed, view.admitted, view.rearmed, view.answers) == (False, True, 0, 0)
    assert is_boundary(view.ring[-1])  # the ladder begins at its foot
    assert view.steps == len(view.ring) == 3
    await agent.settle()
    agent.took()
    view = await agent.begin()
    assert (view.steps, len(view.ring)) == (4, 4)
    assert await used_held(store, "s:s", "turns") == (4, 1)  # what was used stays used


@pytest.mark.parametrize("ended", [False, True], ids=["nudged", "cut"])
async def test_what_the_run_was_told_is_taken_out(store: Store, ended: bool) -> None:
    """The advice was wrong too. That of another session stays."""
    agents = [Agent(store, session=name) for name in ("s", "other")]
    for agent in agents:
        await agent.begin()
        await agent.settle(ledger={"3:ab:0": b"sealed"}, close="cycle" if ended else "")
        agent.took()
    await say(store)

    assert (await agents[0].begin()).ledger == {}
    assert len(await store._client.command("HKEYS", f"gp:{{{ORG}}}:g:other\x1faaaaaaaaaaaa-1")) == 1


async def test_a_repeated_answer_is_the_first_again(store: Store) -> None:
    """A begin that is asked again by its token shows the ring as it was, whatever was said meanwhile."""
    agent = await cut(store, "cycle", session="s")
    await say(store)
    first = await agent.begin()
    assert agent.last
    again = await store.begin(agent.last)

    assert again == first


@pytest.mark.parametrize("by", ["budget.turns", "repeated_call"])
async def test_what_something_else_ended_stays_ended(store: Store, by: str) -> None:
    agent = await cut(store, by, session="s")
    said = await say(store)

    assert (said.opened, said.shut) == (0, (by,))
    assert (await agent.begin()).closed_by == by


async def test_a_session_that_is_closed_as_a_whole_stays_closed(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.begin()
    await agent.settle("own", close="budget.turns", close_session=True)
    assert (await say(store)).shut == ("budget.turns", "budget.turns")
    assert (await agent.begin()).closed


async def test_sub_agents_of_the_session_go_on_too(store: Store) -> None:
    agents = [await cut(store, "cycle", session="s", thread=name, head=name * 32) for name in "ab"]
    other = await cut(store, "cycle", session="other", head="c" * 32)

    assert (await say(store)).opened == 2
    assert [(await agent.begin()).closed for agent in (*agents, other)] == [False, False, True]


async def test_a_task_started_again_after_it_is_a_new_run(store: Store) -> None:
    """A client that starts its task again meets the cut; not after the cut was called wrong."""
    agent = await cut(store, "cycle", ids="x")
    assert agent.view
    name = agent.view.session
    assert (await Agent(store, ids="x").begin()).session == name
    await say(store, session=name, subject=name)

    assert (await Agent(store, ids="x").begin()).session != name
    assert not (await agent.begin()).closed
