"""What a dead worker left: its attempts are over at once, and a client that asks again goes on where it was."""

from __future__ import annotations

import pytest

from guardproxy.store.approvals import Approval
from guardproxy.store.redis import Store
from tests.store.kit import ORG, Agent

DAY = 86_400_000


@pytest.mark.parametrize("session", ["s", ""], ids=["named", "derived"])
async def test_a_first_request_that_died_with_its_worker_meets_the_call_that_waits(store: Store, session: str) -> None:
    """Nobody is asked twice for it, and no approval is left behind that nothing can meet."""
    agent = Agent(store, session=session)
    view = await agent.begin()
    assert agent.last is not None
    one = Approval("a1", ORG, view.session, view.thread, "delete_file", view.now_ms, view.now_ms + DAY, b"sealed")
    await store.approvals.open(ORG, one)
    assert await store.orphans.expire(ORG, agent.last.token) == 1
    assert [held.turn for held in await store.sweep()] == [view.turn]
    assert await store.orphans.expire(ORG, agent.last.token) == 0
    again = await agent.begin()
    assert (again.session, again.thread) == (view.session, view.thread)
    assert (again.paused, again.approval) == ("approval", "a1")


async def test_only_attempts_of_that_worker_are_over(store: Store) -> None:
    agent, other = Agent(store, session="s"), Agent(store, session="t")
    await agent.begin()
    await other.begin()
    assert agent.last is not None
    assert await store.orphans.expire(ORG, f"{agent.last.token}-") == 0
    assert await store.orphans.expire(ORG, agent.last.token) == 1
    assert [held.session for held in await store.sweep()] == ["s"]
    assert await store.sweep() == []
    with pytest.raises(ValueError, match="begins with nothing"):
        await store.orphans.expire(ORG, "")
