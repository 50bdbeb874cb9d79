"""An approved call is released by one turn, also where the store's answer to the claim is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from guardproxy.core.view import Opening, View
from guardproxy.errors import StoreError
from guardproxy.http import claiming
from guardproxy.store.redis import Store
from tests.http.test_approving import BOTH, DELETE, TOOL, asked_of, desk, go_on
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


class Deaf:
    """A store whose answer to one `begin` is lost: what it did is done."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.loses = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def begin(self, opening: Opening) -> View:
        view = await self._store.begin(opening)
        if self.loses:
            self.loses = False
            raise StoreError("no answer in time")
        return view


@BOTH
async def test_a_lost_answer_of_the_store_leaves_no_approved_call_behind(store: Store, stream: bool) -> None:
    """Whoever asks on with the notice finds the thread that waits, also after a turn that went on without the store."""
    deaf = Deaf(store)
    async with live(deaf, tools=TOOL) as running:  # type: ignore[arg-type]
        running.provider.script = then(Said("So:", calls=[DELETE]), Said("Done."), Said("Done again."))
        agent = Agent(running, stream=stream)
        await agent.turn()
        asked = await asked_of(store, agent.session)
        await desk(store).approve(asked.id, "ann")
        before = list(agent.messages)
        deaf.loses = True
        go_on(agent, "go on")
        await agent.turn()
        assert (agent.executed, agent.text) == ([], "Done.")
        for words, executed in (("and now?", ["delete"]), ("once more", ["delete"])):
            agent.messages = list(before)
            go_on(agent, words)
            await agent.turn()
            assert agent.executed == executed
