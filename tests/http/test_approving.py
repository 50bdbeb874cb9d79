"""A call waits for a person: held or answered with a notice, decided, expired, asked for by two, left by its client."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest

from guardproxy.errors import StoreError
from guardproxy.http import outlet
from guardproxy.http.approvals import Desk, as_json, paragraphs, what_next
from guardproxy.http.sealed import Sealer
from guardproxy.http.turn import Turn
from guardproxy.http.webhook import EVENTS
from guardproxy.secrets import derive
from guardproxy.store.approvals import Approval
from guardproxy.store.redis import Store
from tests.http.test_guarded import BOTH as READ_AND_DELETE, TOOLS, Agent, paired, then
from tests.http_store import counted, held
from tests.live import SECRET, Json, Live, Said, live

DELETE = ("delete", '{"path":"b"}', "call_del000001")
TOOL = {"approval": ["delete"]}
HOLD: Json = {"approvals": {"way": "hold", "hold_seconds": 20}}
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def desk(store: Store) -> Desk:
    """Where a person sits."""
    return Desk(store, Sealer(derive(SECRET).ledger), "default")


async def asked_of(store: Store, session: str, state: str = "pending") -> Approval:
    """The approval of a session, once it is there."""
    for _ in range(300):
        found = [one for one in await store.approvals.list("default", state) if one.session.endswith(session)]
        if found:
            return found[0]
        await asyncio.sleep(0.01)
    raise AssertionError("nobody was asked")


def go_on(agent: Agent, words: str = "go on") -> None:
    agent.text = ""
    agent.messages.append({"role": "user", "content": words})


def body_of(agent: Agent) -> Json:
    return {"model": "m", "messages": agent.messages, "tools": TOOLS, "stream": agent.stream}


async def leave_when_asked(store: Store, running: Live, agent: Agent) -> Approval:
    """Send a request, and leave as soon as a person was asked."""
    turn = asyncio.get_running_loop().create_task(agent.turn())
    asked = await asked_of(store, agent.session)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    for _ in range(200):
        if not running.proxy.turns:
            break
        await asyncio.sleep(0.01)
    await running.proxy.quiet()
    return asked


class Away:
    """A store of which some methods of `approvals` fail."""

    def __init__(self, store: Store, *methods: str) -> None:
        self._store = store
        self.methods = set(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @property
    def approvals(self) -> Any:
        return _Part(self._store.approvals, self.methods)


class _Part:
    def __init__(self, part: object, methods: set[str]) -> None:
        self._part = part
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        async def fails(*_given: object, **_named: object) -> None:
            raise StoreError("away")

        return fails if name in self._methods else getattr(self._part, name)


# ------------------------------------------------------------------------------------------------------ decided


@BOTH
@pytest.mark.parametrize("way", ["answer", "hold"])
async def test_a_person_may_change_the_arguments(store: Store, way: str, stream: bool) -> None:
    async with live(store, policy={"approvals": {"way": way}}, tools=TOOL) as running:
        running.provider.script = then(Said("So:", calls=[DELETE]), Said("deleted"))
        agent = Agent(running, stream=stream)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        asked = await asked_of(store, agent.session)
        if way == "answer":
            await turn
        await desk(store).approve(asked.id, "ann", arguments='{"path": "b.bak"}')
        if way == "answer":
            go_on(agent)
            turn = asyncio.get_running_loop().create_task(agent.turn())
        await turn
        (call,) = agent.messages[-2]["tool_calls"]
        assert call["function"] == {"name": "delete", "arguments": '{"path": "b.bak"}'}
        assert call["id"] == DELETE[2]
        assert len(running.provider.got) == 1
        await agent.turn()
        assert agent.text == "deleted"
        assert paired(running.provider.got[-1].json["messages"])
        assert await held(store) == {}
        await running.proxy.quiet()
        assert (await counted(store, agent.session))["s:output_tokens"] == (10, 0), "a release costs nothing"


@BOTH
async def test_what_is_denied_while_the_request_is_held_is_taken_out(store: Store, stream: bool) -> None:
    async with live(store, policy=HOLD, tools=TOOL) as running:
        running.provider.script = then(Said(calls=READ_AND_DELETE), Said("I leave it."))
        agent = Agent(running, stream=stream)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        asked = await asked_of(store, agent.session)
        await desk(store).deny(asked.id, "ann", "not on a Friday")
        await turn
        assert agent.executed == ["read"]
        await agent.turn()
        told = running.provider.got[-1].json["messages"]
        assert paired(told)
        assert [call["function"]["name"] for call in told[1]["tool_calls"]] == ["read", "delete"]
        assert sum("not on a Friday" in str(message["content"]) for message in told) == 1


@BOTH
async def test_what_is_denied_alone_is_told_in_the_same_turn(store: Store, stream: bool) -> None:
    async with live(store, policy=HOLD, tools=TOOL) as running:
        running.provider.script = then(Said("So:", calls=[DELETE]), Said("I leave it."))
        agent = Agent(running, stream=stream)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        asked = await asked_of(store, agent.session)
        await desk(store).deny(asked.id, "ann", "not on a Friday")
        await turn
        assert (agent.executed, agent.text) == ([], "So:\n\nI leave it.")
        assert "not on a Friday" in running.provider.got[-1].json["messages"][-1]["content"]


async def test_a_provider_that_answers_in_one_piece_what_was_to_be_a_stream(store: Store) -> None:
    """The call that was held comes as a stream, with what was said before it."""
    async with live(store, policy=HOLD, tools=TOOL) as running:
        body = Said("So:", calls=[DELETE]).body()
        running.provider.script = then(Said(raw=body, headers={"Content-Type": "application/json"}))
        agent = Agent(running, stream=True)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        asked = await asked_of(store, agent.session)
        await desk(store).approve(asked.id, "ann", arguments='{"path": "b.bak"}')
        await turn
        assert agent.executed == ["delete"]
        assert agent.messages[1]["content"] == "So:"


@BOTH
async def test_two_calls_that_need_a_person_are_asked_one_after_the_other(store: Store, stream: bool) -> None:
    second = ("delete", '{"path":"c"}', "call_del000002")
    async with live(store, tools=TOOL) as running:
        running.provider.script = then(Said(calls=[DELETE, second]), Said(calls=[second]), Said("done"))
        agent = Agent(running, stream=stream)
        for _ in range(2):
            await agent.turn()
            await desk(store).approve((await asked_of(store, agent.session)).id, "ann")
            go_on(agent)
            await agent.turn()
        assert agent.executed == ["delete", "delete"]
        assert [m["tool_calls"][0]["id"] for m in agent.messages if m.get("tool_calls")] == [DELETE[2], second[2]]
        await agent.turn()
        assert agent.text == "done"
        assert all(paired(got.json["messages"]) for got in running.provider.got)


@BOTH
async def test_when_nobody_decides_in_time_the_notice_is_given(store: Store, stream: bool) -> None:
    policy = {"approvals": {"way": "hold", "hold_seconds": 1}}
    async with live(store, policy=policy, tools=TOOL) as running:
        running.provider.script = then(Said("So:", calls=[DELETE]), Said("deleted"))
        agent = Agent(running, stream=stream)
        await agent.turn()
        asked = await asked_of(store, agent.session)
        assert agent.text.startswith("So:\n\n[guardproxy]")
        assert asked.id in agent.text
        await desk(store).approve(asked.id, "ann")
        go_on(agent)
        await agent.turn()
        assert agent.executed == ["delete"]


@BOTH
@pytest.mark.parametrize(("on_expiry", "text"), [("deny", "I leave it."), ("cut", "nobody decided in time")])
async def test_expired(store: Store, on_expiry: str, text: str, stream: bool) -> None:
    policy = {"approvals": {"expire_seconds": 60, "on_expiry": on_expiry}}
    async with live(store, policy=policy, tools=TOOL) as running:
        running.provider.script = then(Said(calls=[DELETE]), Said("I leave it."))
        agent = Agent(running, stream=stream)
        await agent.turn()
        running.offset_ms = 61_000
        go_on(agent)
        answer = await agent.turn()
        assert text in agent.text
        assert agent.executed == []
        assert (answer.verdict, len(running.provider.got)) == (("cut", 1) if on_expiry == "cut" else ("pass", 2))
        if on_expiry == "deny":
            told = running.provider.got[-1].json["messages"]
            assert paired(told)
            assert told[1]["tool_calls"][0]["id"] == DELETE[2]


@BOTH
@pytest.mark.parametrize("by", ["a person", "the user"])
async def test_a_question_to_a_person(store: Store, by: str, stream: bool) -> None:
    question = ("ask_human", '{"question":"Which of the two?"}', "call_ask000001")
    async with live(store, tools={"human": ["ask_*"]}) as running:
        running.provider.script = then(Said("Hm.", calls=[question]), Said("Then b."))
        agent = Agent(running, stream=stream)
        await agent.turn()
        assert agent.executed == []
        assert "Which of the two?" in agent.text
        asked = await asked_of(store, agent.session)
        assert (await store.session_state("default", agent.session)).state == "need_human"
        if by == "a person":
            await agent.turn()  # the same again says nothing new: the question still waits
            assert "a question that waits for a person's answer" in agent.text
            assert len(running.provider.got) == 1
            await desk(store).answer(asked.id, "ann", "b, of course")
        go_on(agent, "go on" if by == "a person" else "b, of course")
        await agent.turn()
        assert agent.text == "Then b."
        told = running.provider.got[-1].json["messages"]
        assert paired(told)
        assert "b, of course" in [m["content"] for m in told]
        decided = await desk(store).shown((await asked_of(store, agent.session, "answered")).id)
        assert decided.approval.id == asked.id
        assert decided.approval.decided_ms > asked.asked_ms
        assert decided.approval.by == ("ann" if by == "a person" else "the client's next message")
        assert decided.edited is not None
        assert decided.edited.answer == "b, of course"


@BOTH
@pytest.mark.parametrize("which", ["the one that asked", "a later one"])
async def test_a_held_request_is_told_the_notice_when_the_proxy_drains(store: Store, which: str, stream: bool) -> None:
    """The approval is in the store: the answer is whole and well-formed, and another worker goes on."""
    policy = {"approvals": {"way": "hold", "hold_seconds": 60}}
    async with live(store, policy=policy, tools=TOOL) as running:
        running.provider.script = then(Said("So:", calls=[DELETE]), Said("deleted"))
        agent = Agent(running, stream=stream)
        if which == "a later one":
            await leave_when_asked(store, running, agent)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        asked = await asked_of(store, agent.session)
        await asyncio.sleep(0.1)
        running.proxy.draining = True
        answer = await asyncio.wait_for(turn, 2)
        assert answer.status == 200
        assert answer.body.endswith(b"data: [DONE]\n\n") is stream
        assert asked.id in agent.text
        assert await held(store) == {}
        running.proxy.draining = False  # another one
        await desk(store).approve(asked.id, "ann")
        go_on(agent)
        await agent.turn()
        assert (agent.executed, len(running.provider.got)) == (["delete"], 1)


# ------------------------------------------------------------------------------------------------ somebody is away


@BOTH
@pytest.mark.parametrize("decided", ["before", "after"])
async def test_a_client_that_leaves_while_its_call_is_held_finds_it_again(
    store: Store, decided: str, stream: bool
) -> None:
    """What was produced is paid for, the hold is given back; the call waits on, and comes with the same request."""
    async with live(store, policy=HOLD, tools=TOOL) as running:
        running.provider.script = then(Said(calls=[DELETE]), Said("deleted"))
        agent = Agent(running, stream=stream)
        asked = await leave_when_asked(store, running, agent)
        assert await held(store) == {}
        used = await counted(store, agent.session)
        assert (used["s:input_tokens"], used["s:output_tokens"]) == ((10, 0), (5, 0))
        if decided == "before":
            await desk(store).approve(asked.id, "ann")
        turn = asyncio.get_running_loop().create_task(agent.turn())
        if decided == "after":
            await asyncio.sleep(0.3)
            assert len(await store.approvals.list("default")) == 1, "it is the same call: nobody is asked twice"
            await desk(store).approve(asked.id, "ann")
        await turn
        assert agent.executed == ["delete"]
        assert len(running.provider.got) == 1
        await agent.turn()
        assert agent.text == "deleted"
        assert paired(running.provider.got[-1].json["messages"])
        assert await held(store) == {}


@BOTH
async def test_an_agent_that_retries_beside_its_own_held_request(store: Store, stream: bool) -> None:
    """Both wait for the same decision; the call is released to one of them."""
    async with live(store, policy=HOLD, tools=TOOL) as running:
        running.provider.script = then(Said(calls=[DELETE]), Said("What now?"))
        agents = [Agent(running, stream=stream, session="twice") for _ in range(6)]
        turns = [asyncio.get_running_loop().create_task(agents[0].turn())]
        asked = await asked_of(store, "twice")
        turns += [asyncio.get_running_loop().create_task(agent.turn()) for agent in agents[1:]]
        await asyncio.sleep(0.3)
        await desk(store).approve(asked.id, "ann")
        await asyncio.gather(*turns)
        assert sum(len(agent.executed) for agent in agents) == 1
        assert await held(store) == {}


@BOTH
@pytest.mark.parametrize("way", ["answer", "hold"])
@pytest.mark.parametrize("other", ["asks", "answers"])
async def test_two_requests_of_a_thread_at_once(store: Store, other: str, way: str, stream: bool) -> None:
    """Nobody is asked twice: the later answer is told what waits already, and an approved call is never lost."""
    tools, later = TOOL, [("delete", '{"path":"c"}', "call_del000002")] if other == "asks" else []
    async with live(store, policy={"approvals": {"way": way, "hold_seconds": 1}}, tools=tools) as running:
        gates = [asyncio.Event(), asyncio.Event()]
        running.provider.script = then(
            Said(calls=[("read", "{}", "call_read00001")]),
            Said(calls=[DELETE], wait=gates[0].wait()),
            Said("So:", calls=later, wait=gates[1].wait()),
            Said("fine"),
        )
        agents = [Agent(running, stream=stream, session="at-once") for _ in gates]
        await agents[0].turn()
        agents[1].messages = [*agents[0].messages]
        turns = []
        for sent, agent in enumerate(agents, 2):
            turns.append(asyncio.get_running_loop().create_task(agent.turn()))
            while len(running.provider.got) < sent:
                await asyncio.sleep(0.01)
        gates[0].set()
        asked = await asked_of(store, "at-once")
        gates[1].set()
        await asyncio.gather(*turns)
        assert [one.id for one in await store.approvals.list("default")] == [asked.id]
        assert asked.id in agents[0].text
        assert (asked.id in agents[1].text) is (other == "asks")
        assert await held(store) == {}
        await desk(store).approve(asked.id, "ann")
        for agent in agents:
            go_on(agent)
            await agent.turn()
        made = [c for a in agents for m in a.messages[3:] for c in m.get("tool_calls") or ()]
        assert [call["function"]["arguments"] for call in made] == [DELETE[1]], "released once"
        assert all(paired(got.json["messages"]) for got in running.provider.got)


@BOTH
async def test_fifty_people_and_two_workers_release_a_call_once(store: Store, stream: bool) -> None:
    async with live(store, tools=TOOL) as one, live(store, tools=TOOL) as other:
        one.provider.script = other.provider.script = lambda got: (
            Said("What now?") if len(got.json["messages"]) > 1 else Said(calls=[DELETE])
        )
        first = Agent(one, stream=stream)
        await first.turn()
        asked = await asked_of(store, first.session)
        tries = await asyncio.gather(
            *[desk(store).approve(asked.id, f"person {n}") for n in range(50)], return_exceptions=True
        )
        assert sum(not isinstance(tried, BaseException) for tried in tries) == 1
        agents = [Agent((one, other)[n % 2], stream=stream, session=first.session) for n in range(10)]
        for agent in agents:
            agent.messages = [*first.messages, {"role": "user", "content": "now"}]
        await asyncio.gather(*[agent.turn() for agent in agents])
        assert sum(len(agent.executed) for agent in agents) == 1
        assert await held(store) == {}


@BOTH
async def test_a_run_that_is_cut_while_its_call_is_held(store: Store, stream: bool) -> None:
    async with live(store, policy=HOLD, tools=TOOL) as running:
        running.provider.script = then(Said("So:", calls=[DELETE]))
        agent = Agent(running, stream=stream)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        asked = await asked_of(store, agent.session)
        await store.runs.cut("default", agent.session, "ann", "enough")
        answer = await asyncio.wait_for(turn, 2)
        assert agent.executed == []
        assert "[guardproxy]" in agent.text
        assert answer.verdict == ("pass" if stream else "cut")
        await running.proxy.quiet()
        assert await held(store) == {}
        assert (await counted(store, agent.session))["s:output_tokens"] == (5, 0)
        await desk(store).approve(asked.id, "ann")
        go_on(agent)
        await agent.turn()
        assert agent.executed == [], "an ended run releases nothing"


@BOTH
@pytest.mark.parametrize("method", ["open", "claim"])
@pytest.mark.parametrize("way", ["answer", "hold"])
async def test_without_the_store_nothing_is_released(store: Store, way: str, method: str, stream: bool) -> None:
    away = Away(store, method)
    async with live(away, policy={"approvals": {"way": way}}, tools=TOOL) as running:  # type: ignore[arg-type]
        running.provider.script = then(Said("So:", calls=[DELETE]), Said("I leave it."))
        agent = Agent(running, stream=stream)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        if method == "claim":
            asked = await asked_of(store, agent.session)
            if way == "answer":
                await turn
            await desk(store).approve(asked.id, "ann")
            if way == "answer":
                go_on(agent)
                turn = asyncio.get_running_loop().create_task(agent.turn())
        await turn
        assert agent.executed == []
        assert agent.text.endswith("I leave it.")
        assert paired(running.provider.got[-1].json["messages"])
        assert await held(store) == {}


@pytest.mark.parametrize("method", ["get", "claim"])
async def test_what_was_approved_is_released_once_the_store_answers_again(store: Store, method: str) -> None:
    """A request that came meanwhile goes on without the call; the call is not lost for that."""
    away = Away(store, method)
    async with live(away, tools=TOOL) as running:  # type: ignore[arg-type]
        running.provider.script = then(Said(calls=[DELETE]), Said("One moment."), Said("Deleted."))
        agent = Agent(running, stream=False)
        await agent.turn()
        await desk(store).approve((await asked_of(store, agent.session)).id, "ann")
        for words, executed in (("go on", []), ("and now", ["delete"])):
            go_on(agent, words)
            await agent.turn()
            assert agent.executed == executed
            away.methods.clear()
        await agent.turn()
        assert (agent.text, agent.executed) == ("Deleted.", ["delete"])


@BOTH
async def test_a_store_that_is_slow_to_answer_is_asked_again(store: Store, stream: bool) -> None:
    away = Away(store, "get")
    async with live(away, policy=HOLD, tools=TOOL) as running:  # type: ignore[arg-type]
        running.provider.script = then(Said("So:", calls=[DELETE]))
        agent = Agent(running, stream=stream)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        asked = await asked_of(store, agent.session)
        await desk(store).approve(asked.id, "ann")
        await asyncio.sleep(0.4)
        away.methods.clear()
        await turn
        assert agent.executed == ["delete"]


async def test_what_is_denied_stands_there_after_a_failure_too(store: Store) -> None:
    async with live(store, tools=TOOL) as running:
        running.provider.script = then(Said(calls=[DELETE]), Said(raw=b"{}", status=500), Said("I leave it."))
        agent = Agent(running, stream=False)
        await agent.turn()
        await desk(store).deny((await asked_of(store, agent.session)).id, "ann", "not on a Friday")
        go_on(agent)
        assert (await agent.turn()).status == 500
        await agent.turn()
        assert agent.text == "I leave it."
        for got in running.provider.got[1:]:
            told = got.json["messages"]
            assert paired(told)
            assert [m["role"] for m in told] == ["user", "assistant", "tool", "assistant", "user"]


async def test_another_secret_releases_nothing(store: Store) -> None:
    async with live(store, tools=TOOL) as running:
        running.provider.script = then(Said(calls=[DELETE]), Said("What now?"))
        agent = Agent(running, stream=False)
        await agent.turn()
        await store.approvals.decide("default", (await asked_of(store, agent.session)).id, "approve", "ann")
        running.proxy.sealer = Sealer(b"x" * 32)
        go_on(agent)
        await agent.turn()
        assert (agent.executed, agent.text) == ([], "What now?")


async def test_a_client_that_waits_is_told_that_somebody_is_there(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlet, "ALIVE_S", 0.1)
    async with live(store, policy=HOLD, tools=TOOL) as running:
        running.provider.script = then(Said(calls=[DELETE]))
        agent = Agent(running, stream=True)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        asked = await asked_of(store, agent.session)
        await asyncio.sleep(0.9)
        await desk(store).approve(asked.id, "ann")
        answer = await turn
        assert 2 <= answer.body.count(b": keep-alive\n\n") <= 5
        assert agent.executed == ["delete"]


@BOTH
@pytest.mark.parametrize("ended_by", ["a cut", "the client", "a pause"])
async def test_a_request_that_waits_for_the_decision_on_an_earlier_one(
    store: Store, ended_by: str, stream: bool
) -> None:
    """It holds nothing, and whatever ends it leaves the approval as it is."""
    async with live(store, policy=HOLD, tools=TOOL) as running:
        running.provider.script = then(Said(calls=[DELETE]))
        agent = Agent(running, stream=stream)
        asked = await leave_when_asked(store, running, agent)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        await asyncio.sleep(0.2)
        assert await held(store, wait_s=0) == {}
        if ended_by == "the client":
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
        elif ended_by == "a cut":
            await store.runs.cut("default", agent.session, "ann", "enough")
            await asyncio.wait_for(turn, 2)
            assert "[guardproxy]" in agent.text
        else:
            await store.runs.pause("default", agent.session, "ann", "wait")
            await desk(store).approve(asked.id, "ann")
            await asyncio.wait_for(turn, 2)
            assert "[guardproxy]" in agent.text
        await running.proxy.quiet()
        assert agent.executed == []
        assert len(running.provider.got) == 1
        assert await held(store) == {}
        assert (await counted(store, agent.session))["s:turns"] == (1, 0)
        found = await store.approvals.get("default", asked.id)
        assert found
        assert (found.state, found.token) == ("approved" if ended_by == "a pause" else "pending", "")


@BOTH
@pytest.mark.parametrize("ended_by", ["pause", "cut"])
@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_a_run_that_is_paused_while_its_call_is_held(
    store: Store, decision: str, ended_by: str, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is released, and the model is not asked; what was allowed is made once the run goes on."""
    monkeypatch.setattr(Turn, "stop", lambda *_given: None)  # a worker may learn of a cut later than of a decision
    async with live(store, policy=HOLD, tools=TOOL) as running:
        running.provider.script = then(Said("So:", calls=[DELETE]), Said("I leave it."))
        agent = Agent(running, stream=stream)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        asked = await asked_of(store, agent.session)
        session = agent.session
        await getattr(store.runs, ended_by)("default", session, "ann", "wait")
        await getattr(desk(store), decision)(asked.id, "bob")
        await asyncio.wait_for(turn, 3)
        assert (agent.executed, len(running.provider.got)) == ([], 1)
        assert agent.text.startswith("So:\n\n[guardproxy]")
        assert await held(store) == {}
        found = await store.approvals.get("default", asked.id)
        assert found
        assert (found.state, found.token) == ("approved" if decision == "approve" else "denied", "")
        await (store.runs.resume if ended_by == "pause" else store.runs.reset)("default", session, "ann")
        go_on(agent)
        await agent.turn()
        assert (agent.executed, agent.text) == ((["delete"], "") if decision == "approve" else ([], "I leave it."))
        assert all(paired(got.json["messages"]) for got in running.provider.got)


@BOTH
async def test_a_run_that_is_paused_between_the_beginning_of_a_turn_and_its_release(store: Store, stream: bool) -> None:
    async with live(store, tools=TOOL) as running:
        running.provider.script = then(Said(calls=[DELETE]), Said("done"))
        agent = Agent(running, stream=stream)
        await agent.turn()
        asked = await asked_of(store, agent.session)
        await desk(store).approve(asked.id, "ann")
        real = store.approvals.get

        async def get(*given: Any) -> Approval | None:
            await store.runs.pause("default", agent.session, "ann", "wait")
            return await real(*given)

        store.approvals.get = get  # type: ignore[method-assign]
        go_on(agent)
        await agent.turn()
        store.approvals.get = real  # type: ignore[method-assign]
        assert (agent.executed, asked.id in agent.text) == ([], True)
        await store.runs.resume("default", agent.session, "ann")
        go_on(agent)
        await agent.turn()
        assert (agent.executed, len(running.provider.got)) == (["delete"], 1)


@BOTH
@pytest.mark.parametrize("ended_by", ["pause", "cut"])
async def test_a_run_that_is_paused_is_not_asked_again_in_the_same_turn(
    store: Store, ended_by: str, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Turn, "stop", lambda *_given: None)
    async with live(store, policy={"refuse": "enforce"}, tools={"deny": ["delete"]}) as running:
        gate = asyncio.Event()
        running.provider.script = then(Said(calls=[DELETE], wait=gate.wait()), Said("I leave it."))
        agent = Agent(running, stream=stream)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        while not running.provider.got:
            await asyncio.sleep(0.01)
        await getattr(store.runs, ended_by)("default", agent.session, "ann", "wait")
        gate.set()
        await turn
        assert (agent.executed, len(running.provider.got)) == ([], 1)
        assert "[guardproxy]" in agent.text
        assert await held(store) == {}


@BOTH
@pytest.mark.parametrize("verdict", ["approve", "deny"])
@pytest.mark.parametrize("way", ["answer", "hold"])
async def test_asked_after_a_refusal_in_the_same_turn(store: Store, way: str, verdict: str, stream: bool) -> None:
    """What was refused before stands in front of what waited, on every later turn, byte for byte."""
    drop = ("drop", "{}", "call_drop00001")
    tools = {**TOOL, "deny": ["drop"]}
    policy = {"refuse": "enforce", "approvals": {"way": way}}
    async with live(store, policy=policy, tools=tools) as running:
        running.provider.script = then(
            Said("I drop it.", calls=[drop]),
            Said("I delete it.", calls=[DELETE]),
            Said("Then I look.", calls=[("read", "{}", "call_read00009")]),
            Said("Done."),
        )
        agent = Agent(running, stream=stream)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        asked = await asked_of(store, agent.session)
        if way == "answer":
            await turn
        decide = desk(store).approve if verdict == "approve" else desk(store).deny
        await decide(asked.id, "ann")
        if way == "answer":
            go_on(agent)
            turn = asyncio.get_running_loop().create_task(agent.turn())
        await turn
        while not agent.text:
            await agent.turn()
        agent.text = ""
        go_on(agent, "And?")
        await agent.turn()
        assert agent.executed == (["delete", "read"] if verdict == "approve" else ["read"])
        told = [got.json["messages"] for got in running.provider.got]
        assert all(paired(messages) for messages in told)
        for before, after in pairwise(told):
            assert after[: len(before)] == before
        last = [call["function"]["name"] for m in told[-1] for call in m.get("tool_calls") or ()]
        assert last == ["drop", "delete", "read"]
        assert await held(store) == {}


def legacy(*, stream: bool) -> Said:
    """An answer with the call form of 2023."""
    base = {"id": "chatcmpl-1", "created": 1, "model": "mock-1"}
    call = {"name": "delete", "arguments": '{"path":"b"}'}
    message = {"role": "assistant", "content": None, "function_call": call}
    inner = {"delta": message} if stream else {"message": message}
    choice = {"index": 0, **inner, "finish_reason": "function_call"}
    body = json.dumps({**base, "object": "chat.completion.chunk" if stream else "chat.completion", "choices": [choice]})
    return Said(raw=f"data: {body}\n\ndata: [DONE]\n\n".encode() if stream else body.encode())


@BOTH
async def test_a_call_in_the_old_form_is_released_in_it(store: Store, stream: bool) -> None:
    async with live(store, tools=TOOL) as running:
        running.provider.script = then(legacy(stream=stream))
        agent = Agent(running, stream=stream)
        await agent.turn()
        await desk(store).approve((await asked_of(store, agent.session)).id, "ann")
        go_on(agent)
        answer = await running.post(body_of(agent), {"x-guardproxy-session-id": agent.session})
        assert b'"function_call"' in answer.body
        assert b'{\\"path\\":\\"b\\"}' in answer.body
        assert b"tool_calls" not in answer.body
        assert len(running.provider.got) == 1


@BOTH
async def test_the_webhook_is_told_why_a_person_is_asked(store: Store, stream: bool) -> None:
    """All fields of `docs/webhooks.md`, the rule's reason and the question among them, and no arguments."""
    question = ("ask_human", '{"question":"Which of the two?","secret":"x1y2"}', "call_ask000001")
    tools = {"approval": [{"tool": "delete", "reason": "it cannot be undone"}], "human": ["ask_*"]}
    told: list[tuple[str, Json]] = []
    async with live(store, tools=tools) as running:
        running.proxy.tell = lambda kind, _org, _session, _about, data: told.append((kind, data))  # type: ignore[method-assign]
        running.provider.script = then(Said(calls=[DELETE]), Said(calls=[question]), Said("Then b."))
        agent = Agent(running, stream=stream)
        await agent.turn()
        asked = await asked_of(store, agent.session)
        assert asked.id == told[0][1]["approval"]
        assert "it cannot be undone" in agent.text
        shown = await desk(store).shown(asked.id)
        assert as_json(shown, whole=True)["reason"] == "it cannot be undone"
        assert any("it cannot be undone" in line for line in paragraphs(shown))
        await desk(store).deny(asked.id, "ann", "not today")
        go_on(agent)
        await agent.turn()
        go_on(agent, "b")
        await agent.turn()
        assert agent.text == "Then b."
    assert [kind for kind, _ in told] == ["approval.asked", "approval.decided"] * 2
    for kind, data in told:
        assert data.keys() == EVENTS[kind].keys()
    assert [data["reason"] for kind, data in told if kind == "approval.asked"] == ["it cannot be undone", ""]
    assert told[2][1]["question"] == "Which of the two?"
    assert [(data["state"], data["by"], data["why"]) for kind, data in told if kind == "approval.decided"] == [
        ("denied", "ann", "not today"),
        ("answered", "the client's next message", ""),
    ]
    assert not any("path" in json.dumps(data) or "x1y2" in json.dumps(data) for _, data in told)


@BOTH
@pytest.mark.parametrize("arrives", [True, False], ids=["arrives", "is lost"])
async def test_a_person_sees_whether_the_call_that_was_handed_on_arrived(
    store: Store, arrives: bool, stream: bool
) -> None:
    async with live(store, tools=TOOL) as running:
        running.provider.script = then(Said(calls=[DELETE]), Said("All done."), Said("Yes."))
        agent = Agent(running, stream=stream)
        await agent.turn()
        asked = await asked_of(store, agent.session)
        assert "waits for a person" in what_next(asked)
        await desk(store).approve(asked.id, "ann")
        assert "client's next message" in what_next(await asked_of(store, agent.session, "approved"))
        go_on(agent)
        before = list(agent.messages)
        await agent.turn()
        assert what_next(await asked_of(store, agent.session, "approved")) == "the call was handed to the agent"
        if not arrives:
            agent.messages = before
        answer = await agent.turn()
        await running.proxy.quiet()
        told = running.provider.got[-1].json["messages"]
        assert paired(told)
        assert sum(message.get("tool_calls") is not None for message in told) == 1
        assert answer.headers.get("x-guardproxy-notice", "") == ("" if arrives else "approved-call-not-shown")
        decided = await asked_of(store, agent.session, "approved")
        assert decided.arrived == ("yes" if arrives else "no")
        assert ("went on with it" in what_next(decided)) is arrives
        prefix = told
        go_on(agent, "Sure?")
        answer = await agent.turn()
        told = running.provider.got[-1].json["messages"]
        assert told[: len(prefix)] == prefix
        assert "x-guardproxy-notice" not in answer.headers
        assert len(running.provider.got) == 3
