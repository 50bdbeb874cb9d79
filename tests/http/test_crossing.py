"""A run whose client goes over to another surface, and what comes late: nothing is put back in a form not its own."""

from __future__ import annotations

import json
from types import ModuleType

import pytest

from guardproxy.http.approvals import Desk
from guardproxy.store.approvals import Approval
from guardproxy.store.redis import Store
from tests.live import Answer, Json, Live, Said, live, unique
from tests.scene_interventions import TOOLS, paired
from tests.surfaces import OTHERS, SURFACES

SAID = Said("I look.", calls=[("delete", '{"path":"b"}', "call_00000001"), ("read", '{"path":"b"}', "call_00000002")])
DELETE = Said(calls=[SAID.calls[0]])
FORMS = {"chat": b'"tool_calls"', "messages": b'"tool_use"', "responses": b'"fc_call_00000001"'}
"""How a call stands in a request; of Responses the one that was refused."""

pairs = pytest.mark.parametrize(
    ("first", "second"), [pair for one in OTHERS for pair in (("chat", one), (one, "chat"))]
)
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


class Agent:
    """Appends what it is given, in chat's terms, so that it can say it on any surface."""

    def __init__(self, running: Live, surface: str, *, stream: bool, thread: bool = False) -> None:
        self.running, self.stream, self.session = running, stream, unique("crossing")
        self.headers = {"x-guardproxy-session-id": self.session}
        if thread:
            self.headers = {"session-id": self.session, "thread-id": "t1"}
        self.messages: list[Json] = [{"role": "user", "content": "Find it."}]
        self.speak(surface)
        running.settled = True

    def speak(self, surface: str) -> None:
        """Go over to a surface."""
        self.surface: ModuleType = SURFACES[surface]
        self.running.provider.surface = self.surface

    async def ask(self) -> Answer:
        body = {"model": "m", "messages": self.messages, "tools": list(TOOLS), "stream": self.stream}
        answer = await self.running.post(self.surface.request(body), self.headers, self.surface.PATH)
        assert answer.status == 200, answer.body
        return answer

    def keep(self, answer: Answer) -> list[str]:
        """Append the answer and the results of its calls; their ids."""
        message = self.surface.answer(answer.body, stream=self.stream)[0]
        message.pop("blocks", None)
        self.messages.append(message)
        made = [call["id"] for call in message.get("tool_calls") or ()]
        self.messages += [{"role": "tool", "tool_call_id": one, "content": "done"} for one in made]
        if not made:
            self.messages.append({"role": "user", "content": "Go on."})
        return made

    def sent(self) -> list[Json]:
        """The last request, in chat's terms; it is whole."""
        found: list[Json] = self.surface.messages(self.running.provider.got[-1].json)
        assert paired(found)
        return found


async def waiting(running: Live, store: Store, agent: Agent) -> tuple[Desk, Approval]:
    """Where people decide, and what waits for them."""
    desk = Desk(store, running.proxy.sealer, "default")
    (one,) = [shown.approval for shown in await desk.listed() if shown.approval.session == agent.session]
    return desk, one


def answers(running: Live, *said: Said) -> None:
    """The provider's answers; the last one for ever."""
    rest = list(said)
    running.provider.script = lambda _got: rest.pop(0) if len(rest) > 1 else rest[0]


@pytest.mark.parametrize("thread", [False, True], ids=["session", "thread"])
@both
@pairs
async def test_an_approved_call_waits_for_the_surface_that_it_was_made_on(
    store: Store, first: str, second: str, stream: bool, thread: bool
) -> None:
    async with live(store, tools={"approval": ["delete"]}) as running:
        answers(running, DELETE, Said("I wait."))
        agent = Agent(running, first, stream=stream, thread=thread)
        agent.keep(await agent.ask())
        before = list(agent.messages)
        desk, one = await waiting(running, store, agent)
        await desk.approve(one.id, "ann")
        agent.speak(second)
        for _ in range(2):
            assert agent.keep(await agent.ask()) == []
            assert agent.sent()[-1]["role"] == "user"
            assert FORMS[first] not in running.provider.got[-1].body
        agent.speak(first)
        agent.messages = before
        assert agent.keep(await agent.ask()) == ["call_00000001"]


@both
@pairs
async def test_what_is_put_back_stays_with_its_surface(store: Store, first: str, second: str, stream: bool) -> None:
    async with live(store, policy={"refuse": "enforce"}, tools={"deny": ["delete"]}) as running:
        answers(running, SAID, Said("Done."))
        agent = Agent(running, first, stream=stream)
        assert agent.keep(await agent.ask()) == ["call_00000002"]
        agent.speak(second)
        await agent.ask()
        assert [call["id"] for call in agent.sent()[1]["tool_calls"]] == ["call_00000002"]
        assert FORMS[first] not in running.provider.got[-1].body
        agent.speak(first)
        await agent.ask()
        assert [call["id"] for call in agent.sent()[1]["tool_calls"]] == ["call_00000001", "call_00000002"]


@both
@pytest.mark.parametrize("surface", sorted({"chat", *OTHERS}))
async def test_a_released_call_that_arrives_after_its_retry_stands_there_once(
    store: Store, surface: str, stream: bool
) -> None:
    async with live(store, tools={"approval": ["delete"]}) as running:
        answers(running, DELETE, Said("I wait."))
        agent = Agent(running, surface, stream=stream)
        agent.keep(await agent.ask())
        desk, one = await waiting(running, store, agent)
        await desk.approve(one.id, "ann")
        late = await agent.ask()
        await agent.ask()  # the same again: here the call was lost, and the model is told so
        assert "call_00000001" in json.dumps(agent.sent())
        assert agent.keep(late) == ["call_00000001"]
        await agent.ask()
        made = [call["id"] for message in agent.sent() for call in message.get("tool_calls") or ()]
        assert made == ["call_00000001"]


@both
async def test_ids_that_begin_anew_tell_no_call_from_another(store: Store, stream: bool) -> None:
    """A released call is lost; the model's calls before and after it, others, have the same id."""
    read = Said(calls=[("read", '{"path":"a"}', "call_0")])
    async with live(store, tools={"approval": ["delete"]}) as running:
        answers(running, read, Said(calls=[("delete", '{"path":"b"}', "call_0")]), read, Said("Done."))
        agent = Agent(running, "chat", stream=stream)
        agent.keep(await agent.ask())
        agent.keep(await agent.ask())
        desk, one = await waiting(running, store, agent)
        await desk.approve(one.id, "ann")
        await agent.ask()
        answer = await agent.ask()  # the same again: the call did not arrive, and the model is told so
        told = agent.sent()
        assert [call["function"]["name"] for call in told[-2]["tool_calls"]] == ["delete"]
        assert agent.keep(answer) == ["call_0"]
        await agent.ask()
        assert agent.sent()[: len(told)] == told


@both
async def test_a_named_run_whose_first_answer_was_lost_asks_a_person_once(store: Store, stream: bool) -> None:
    async with live(store, tools={"approval": ["delete"]}) as running:
        answers(running, DELETE)
        agent = Agent(running, "chat", stream=stream)
        await agent.ask()
        await agent.ask()
        desk, one = await waiting(running, store, agent)
        await desk.approve(one.id, "ann")
        assert agent.keep(await agent.ask()) == ["call_00000001"]
        assert len(running.provider.got) == 1
