"""An approved call is released by one turn, also where the store's answer to the claim is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from guardproxy.errors import StoreError
from guardproxy.http import claiming
from guardproxy.store.redis import Store
from tests.http.test_approving import DELETE, TOOL, asked_of, desk, go_on
from tests.http.test_guarded import Agent, then
from tests.live import Said, live


@pytest.mark.parametrize("times", [2, claiming.CLAIMS])
async def test_a_claim_whose_answer_is_lost(store: Store, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made again; where no answer comes at all, it is given back, and a later turn releases the call."""
    monkeypatch.setattr(claiming, "PAUSE_S", 0.01)
    monkeypatch.setattr(claiming, "RETURN_S", 0.05)
    async with live(store, tools=TOOL) as running:
        running.provider.script = then(Said(calls=[DELETE]), Said("One moment.") if times > 2 else Said("Deleted."))
        agent = Agent(running, stream=False)
        await agent.turn()
        asked = await asked_of(store, agent.session)
        await desk(store).approve(asked.id, "ann")
        real, lost = store.approvals.claim, list(range(times))

        async def claim(*given: Any) -> bool:
            won = await real(*given)
            if lost:
                lost.pop()
                raise StoreError("the answer was lost")
            return won

        store.approvals.claim = claim  # type: ignore[method-assign]
        go_on(agent)
        await agent.turn()
        if times > 2:
            assert agent.executed == []
            await asyncio.sleep(0.3)
            go_on(agent, "and now")
            await agent.turn()
        assert (agent.executed, lost) == (["delete"], [])
        await asyncio.sleep(0.2)
        go_on(agent, "and again")
        await agent.turn()
        assert agent.executed == ["delete"], "once"
