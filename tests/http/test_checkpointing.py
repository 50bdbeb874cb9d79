"""The last request of a run is kept for an agent that crashed: opt-in, sealed, bounded, never in the way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guardproxy.errors import StoreError
from guardproxy.http.sealed import CHECKPOINT, Sealer
from guardproxy.secrets import derive
from guardproxy.store.redis import Store
from tests.http.test_guarded import TOOLS, Agent, then
from tests.live import SECRET, Json, Live, Said, live

ON: Json = {"checkpoints": {"enabled": True}}
CALL = ("read", '{"path":"a"}', "call_read00001")


async def kept(store: Store, session: str) -> tuple[int, Any] | None:
    """The generation of a session's checkpoint and the messages in it."""
    found = await store.checkpoints.get("default", session)
    if found is None:
        return None
    raw = Sealer(derive(SECRET).ledger).open(CHECKPOINT, session, found.sealed)
    assert raw is not None
    return found.generation, json.loads(raw)


async def test_each_request_takes_the_place_of_the_one_before(store: Store) -> None:
    async with live(store, policy=ON) as running:
        running.provider.script = then(Said(calls=[CALL]), Said("done"))
        agent = Agent(running, stream=False)
        await agent.turn()
        await running.proxy.quiet()
        assert await kept(store, agent.session) == (1, agent.messages[:1])
        sent = list(agent.messages)
        await agent.turn()
        await running.proxy.quiet()
        assert await kept(store, agent.session) == (2, sent)
        found = await store.checkpoints.get("default", agent.session)
        assert found
        assert b"refund" not in found.sealed


async def side(running: Live, session: str, **body: object) -> None:
    asked = {"model": "m", "messages": [{"role": "user", "content": "A title, please."}], **body}
    await running.post(asked, {"x-guardproxy-session-id": session})


@pytest.mark.parametrize("name", ["off", "too large", "not admitted", "a title", "a compaction", "a sub-agent"])
async def test_what_is_not_kept(store: Store, name: str) -> None:
    terms: Json = {"off": {}, "too large": {"checkpoints": {"enabled": True, "max_kb": 1}}}.get(name, ON)
    limits = {"limits": {"session": {"turns": 1}}} if name == "not admitted" else {}
    async with live(store, policy={**terms, **limits}) as running:
        running.provider.script = then(Said(calls=[CALL]))  # the run goes on
        agent = Agent(running, stream=False)
        if name == "too large":
            agent.messages[0]["content"] = "x" * 2000
        await agent.turn()
        await running.proxy.quiet()
        before = await kept(store, agent.session)
        assert (before is None) is (name in ("off", "too large"))
        if name == "not admitted":
            await side(running, agent.session, tools=TOOLS)
        if name == "a title":
            await side(running, agent.session)
        if name == "a compaction":
            summary = {"role": "user", "content": "Sum it up."}
            await side(running, agent.session, messages=[*agent.messages, summary])
        if name == "a sub-agent":
            await running.post(
                {"model": "m", "messages": [{"role": "user", "content": "Look there."}], "tools": TOOLS},
                {"x-guardproxy-session-id": agent.session},
            )
        await running.proxy.quiet()
        assert await kept(store, agent.session) == before


class Away:
    """A store that cannot keep checkpoints just now."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    @property
    def checkpoints(self) -> Any:
        return self

    async def put(self, *_given: object) -> int:
        self.asked += 1
        raise StoreError("away")


async def test_no_turn_fails_for_it(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    away = Away(store)
    async with live(away, policy=ON) as running:  # type: ignore[arg-type]  # the rest comes from the real one
        running.provider.script = then(Said("done"))
        agent = Agent(running, stream=False)
        answer = await agent.turn()
        await running.proxy.quiet()
        assert (answer.status, agent.text, away.asked) == (200, "done", 1)
    assert "rror" not in caplog.text
