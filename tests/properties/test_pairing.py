"""Whatever is refused, repaired, held, approved, lost and asked again: the provider gets a conversation that is whole.

Each request that arrived paired is sent on with each call and exactly one result, in the order received, with no system
message of ours and no id changed; and it begins with the very bytes of the request before it. The runs are played over
HTTP, by an agent of several habits, against a model that proposes anything.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from itertools import product
from types import ModuleType

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from guardproxy.http.approvals import Desk
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.http_store import held
from tests.live import Answer, Got, Json, Live, Said, live, unique
from tests.scene_interventions import TOOLS, paired, shape, upstream
from tests.surfaces import OTHERS, SURFACES, raw_messages

RULES: Json = {"deny": ["delete"], "approval": ["send_mail"], "human": ["ask_human"]}
MEND: Json = {"arguments": {"mode": "enforce", "repairs": 1}}
TIDY: Json = {"hygiene": {kind: {"mode": "enforce"} for kind in ("truncate", "empty", "errors")}}
CHECKED: Json = {"completion": {"evidence": {"pattern": "ORD-[0-9]+"}}, "final": {"hold": True, "retries": 1}}
POLICIES: dict[str, Json] = {
    "answered at once": MEND,
    "held": {"approvals": {"way": "hold", "hold_seconds": 3}},
    "all of it": {**MEND, **TIDY, **CHECKED},
    "tidied": TIDY,
}

KINDS = ("loop", "fresh", "forbidden", "wrong", "person", "question")
RESULTS = ("nothing new", "[]", "Error: permission denied", "ORD-{n} is there", "x" * 50_000)


@dataclass(frozen=True)
class Reply:
    """What the model says to one request: kinds of calls, or only words."""

    kinds: tuple[str, ...] = ()
    words: str = ""


@dataclass(frozen=True)
class Move:
    """One request: the model's replies to its attempts, and what the client and a person make of it.

    `lost`: the answer does not arrive, and the client asks again. `decide`: what a person does about what waits.
    `shuffled`: results of one message are sent in another order.
    """

    replies: tuple[Reply, ...]
    lost: bool = False
    decide: str = ""
    shuffled: bool = False
    result: str = RESULTS[0]


@dataclass(frozen=True)
class Run:
    """A whole run: how it is played. `reused`: ids begin anew with each answer. `spelled`: the client writes anew.

    `named`: with a session id. `surface`: where a call has an id that no other one has, none is used again.
    """

    moves: tuple[Move, ...]
    policy: str
    stream: bool
    named: bool
    reused: bool
    spelled: bool
    surface: str = "chat"


replies = st.builds(
    Reply,
    st.lists(st.sampled_from(KINDS), max_size=3).map(tuple),
    st.sampled_from(["", "I look.", "So:\n", "It is ORD-777.", "查一下。"]),
)
moves = st.builds(
    Move,
    st.lists(replies, min_size=1, max_size=4).map(tuple),
    st.integers(0, 4).map(lambda one: one == 0),
    st.sampled_from(["", "approve", "deny", "edit"]),
    st.booleans(),
    st.sampled_from(RESULTS),
)


def begun(made: list[Move]) -> tuple[Move, ...]:
    """The first answers arrive until the model has spoken: a start that comes twice is two runs, alike in all."""
    return (replace(made[0], lost=False), *made[1:])


runs = st.builds(
    Run,
    st.lists(moves, min_size=2, max_size=7).map(begun),
    st.sampled_from(sorted(POLICIES)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


@dataclass
class Agent:
    """Plays a run, and looks at everything that the provider is sent."""

    live: Live
    desk: Desk
    run: Run
    name: str
    history: list[Json] = field(default_factory=list)
    known: list[bytes] = field(default_factory=list)
    executed: Counter[tuple[str, str]] = field(default_factory=Counter)
    made: int = 0
    session: str = ""

    @property
    def surface(self) -> ModuleType:
        """How it speaks."""
        return SURFACES[self.run.surface]

    async def play(self) -> None:
        """All moves; the user speaks where the model has."""
        self.history = [{"role": "system", "content": f"Run {self.name}."}, {"role": "user", "content": "Begin."}]
        for number, move in enumerate(self.run.moves):
            answer = await self.ask(move)
            if answer.status != 200:
                return
            if not move.lost:
                self.append(answer, move, number)
            await self.decide(move)

    async def ask(self, move: Move) -> Answer:
        """One request; what the provider was sent for it."""
        waiting = list(move.replies)
        provider, known = self.live.provider, len(self.live.provider.got)
        provider.script = lambda _got: self.said(waiting.pop(0) if waiting else Reply((), "That is all."))
        body = self.surface.request(
            {"model": "m", "messages": self.history, "tools": list(TOOLS), "stream": self.run.stream}
        )
        headers = {"x-guardproxy-session-id": self.name} if self.run.named else {}
        asked = asyncio.ensure_future(self.live.post(body, headers))
        if self.run.policy == "held":
            while not asked.done():
                await asyncio.wait([asked], timeout=0.1)
                await self.decide(move)
        answer = await asked
        self.session = answer.headers.get("x-guardproxy-session-id", self.session)
        self.check(provider.got[known:], lost=move.lost)
        return answer

    def check(self, reached: Sequence[Got], *, lost: bool) -> None:
        """What must hold of every request."""
        first: list[bytes] | None = None
        for got in reached:
            raw, sent = raw_messages(self.surface, got.body), self.surface.messages(got.json)
            assert paired(self.history), "the test itself"
            asked = self.surface.request({"model": "m", "messages": self.history})
            upstream(self.surface.messages(asked), sent)
            if self.run.surface != "chat":
                assert self.surface.sound(got.json) or not self.surface.sound(asked), shape(sent)
            assert raw[: len(self.known)] == self.known, f"another beginning: {shape(sent)}"
            self.known = raw
            first = first or raw
        if lost and first is not None:
            self.known = first

    def said(self, reply: Reply) -> Said:
        """The reply as the provider gives it."""
        calls = []
        for place, kind in enumerate(reply.kinds):
            self.made += 1
            made = called(kind, self.made)
            if self.surface.unsaid((*made, "id")):  # there arguments are an object: one that does not fit
                made = "search", json.dumps({"limit": self.made})
            calls.append((*made, f"call_{place if self.run.reused else self.made}"))
        return Said(reply.words or (None if calls else f"Done {self.made}."), calls)

    def append(self, answer: Answer, move: Move, number: int) -> None:
        """Keep the answer, and carry out its calls."""
        message = self.surface.answer(answer.body, stream=self.run.stream)[0]
        made = message.get("tool_calls") or []
        for one in made:
            self.executed[one["function"]["name"], one["function"]["arguments"]] += 1
        if self.run.spelled:
            message = spelled(message)
        results = [{"role": "tool", "tool_call_id": one["id"], "content": move.result.format(n=number)} for one in made]
        self.history += [message, *(reversed(results) if move.shuffled and not self.run.reused else results)]
        if not made:
            self.history.append({"role": "user", "content": f"Go on, {number}."})

    async def decide(self, move: Move) -> None:
        """A person decides what waits."""
        if not move.decide:
            return
        for shown in await self.desk.listed():
            one = shown.approval
            if one.session != self.session:
                continue
            if shown.held is not None and shown.held.question:
                await self.desk.answer(one.id, "ann", "Blue.")
            elif move.decide == "approve":
                await self.desk.approve(one.id, "ann")
            elif move.decide == "edit":
                await self.desk.approve(one.id, "ann", "", json.dumps({"to": f"edited-{one.id}"}))
            else:
                await self.desk.deny(one.id, "ann", "no")


def called(kind: str, number: int) -> tuple[str, str]:
    """A call of a kind: its tool and arguments."""
    made: dict[str, tuple[str, Json]] = {
        "loop": ("search", {"q": "refund"}),
        "fresh": ("read", {"path": f"file {number}"}),
        "forbidden": ("delete", {"path": f"file {number}"}),
        "person": ("send_mail", {"to": f"person {number}"}),
        "question": ("ask_human", {"question": f"Which colour, {number}?"}),
    }
    if kind == "wrong":
        return "search", f'{{"q": {number}'
    tool, arguments = made[kind]
    return tool, json.dumps(arguments)


def spelled(message: Json) -> Json:
    """The message as a client writes it anew: trimmed, without null, the arguments in other spaces."""
    content = (message.get("content") or "").strip()
    calls = [
        {**one, "function": {**one["function"], "arguments": _anew(one["function"]["arguments"])}}
        for one in message.get("tool_calls") or ()
    ]
    kept = {"role": "assistant", "content": content}
    return {**kept, "tool_calls": calls} if calls else kept


def _anew(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), separators=(",", ":"))
    except ValueError:
        return arguments


class Rig:
    """The proxies of all policies over one store, in one loop that outlives the examples."""

    def __init__(self, server: Embedded) -> None:
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.lives: dict[tuple[str, str], Live] = {}
        self.store: Store = self.runner.run(self._begin(server))

    async def _begin(self, server: Embedded) -> Store:
        store = await Store.connect(socket_path=server.socket_path, timeout_ms=10_000)
        self.stack.push_async_callback(store.close)
        quiet = {"log_level": "error"}
        for name, surface in product(POLICIES, SURFACES.values()):
            rules = {"refuse": "enforce", **POLICIES[name]}
            made = live(store, surface=surface, policy=rules, tools=RULES, telemetry=quiet)
            running = self.lives[name, surface.NAME] = await self.stack.enter_async_context(made)
            running.settled = True
        return store

    def close(self) -> None:
        """The end of all."""
        self.runner.run(self.stack.aclose())
        self.runner.close()

    async def play(self, run: Run) -> Agent:
        """One run."""
        running = self.lives[run.policy, run.surface]
        agent = Agent(running, Desk(self.store, running.proxy.sealer, "default"), run, unique("pair"))
        await agent.play()
        assert await held(self.store, {agent.session}) == {}
        return agent


@pytest.fixture(scope="module")
def rig(server: Embedded) -> Iterator[Rig]:
    made = Rig(server)
    yield made
    made.close()


@settings(
    max_examples=int(os.environ.get("PAIRED", "24")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
@pytest.mark.parametrize("surface", ["chat", *OTHERS])
@given(run=runs)
def test_every_request_is_whole(rig: Rig, surface: str, run: Run) -> None:
    run = replace(run, surface=surface, reused=run.reused and surface == "chat")
    agent = rig.runner.run(rig.play(run))

    made = {tool for tool, _ in agent.executed}
    assert "delete" not in made, "what is forbidden was handed on"
    assert "ask_human" not in made
    twice = [call for call, times in agent.executed.items() if times > 1 and call[0] == "send_mail"]
    assert not twice, "what a person has allowed was released twice"
    assert max((n for call, n in agent.executed.items() if call[0] == "search"), default=0) < 50


LOST = Run(
    (
        Move((Reply(("loop", "forbidden")),), lost=True),
        Move((Reply(("loop",)),)),
        Move((Reply(),), lost=True),
        Move((Reply(),)),
    ),
    "answered at once",
    stream=False,
    named=False,
    reused=False,
    spelled=False,
)


def test_a_request_that_comes_again_belongs_to_its_own_run(rig: Rig) -> None:
    """Two runs of one task made the same call; the second one's next request comes twice, under no name."""
    rig.runner.run(rig.play(LOST))
