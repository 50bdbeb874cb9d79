"""What we said in the model's place is no word of the model's: kept for turns that are settled and others."""

from __future__ import annotations

import pytest

from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.http.sessions import Runs
from guardproxy.store.redis import Store
from tests.http.test_approving import BOTH, go_on
from tests.http.test_guarded import Agent, then
from tests.live import Said, live


@BOTH
async def test_a_person_pauses_a_run_and_the_model_reads_that_it_was_paused(store: Store, stream: bool) -> None:
    """Turns of a paused run are not admitted: their notices are kept beside it all the same."""
    async with live(store) as running:
        running.provider.script = then(Said("Hello."), Said("Yes."), Said("Sure."))
        agent = Agent(running, stream=stream)
        await agent.turn()
        runs = Runs(store, running.proxy.sealer, "default")
        await runs.act("pause", agent.session, "ann", "odd: RUN-77")
        for words in ("And?", "And now?"):
            go_on(agent, words)
            await agent.turn()
        assert "To go on" in agent.text
        await runs.act("resume", agent.session, "ann")
        sent = []
        for words in ("Go on.", "More."):
            go_on(agent, words)
            await agent.turn()
            sent.append(running.provider.got[-1].json["messages"])
    ours = [one["content"] for one in sent[0] if one["role"] == "assistant" and GUARD_MARK in one["content"]]
    assert len(ours) == 2
    assert all("here the run was paused by an operator" in one and "RUN-77" in one for one in ours)
    assert not any("To go on" in one for one in ours)
    assert sent[1][: len(sent[0])] == sent[0]


@BOTH
@pytest.mark.parametrize("whose", ["ours", "another's"])
async def test_only_our_own_words_are_known(store: Store, whose: str, stream: bool) -> None:
    """A model that says the same in another place, or other words in this one, has said it."""
    async with live(store) as running:
        running.provider.script = then(Said("Hello."), Said("Yes."))
        agent = Agent(running, stream=stream)
        await agent.turn()
        runs = Runs(store, running.proxy.sealer, "default")
        await runs.act("pause", agent.session, "ann")
        go_on(agent, "And?")
        await agent.turn()
        if whose != "ours":
            agent.messages[-1]["content"] += " I think so, too."
        theirs = agent.messages[-1]["content"]
        await runs.act("resume", agent.session, "ann")
        go_on(agent)
        await agent.turn()
        sent = running.provider.got[-1].json["messages"]
    assert (theirs in [one["content"] for one in sent]) is (whose != "ours")
