"""Runs that look alike are kept apart, and runs that change their looks are kept together."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from guardproxy.core.view import Closing, Opening, View
from guardproxy.errors import StoreError
from guardproxy.store.redis import Store
from tests.live import Answer, Got, Json, Live, Said, live

RUNS, AT_ONCE = 100, 10
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("read", "test", "edit")]
OPENING: tuple[Json, ...] = (
    {"role": "system", "content": "You are a careful agent."},
    {"role": "user", "content": "Check that the tests pass and report."},
)
SCRIPT: tuple[Said, ...] = (
    Said(None, [("read", '{"path": "a.py"}', "call_a0000001")]),
    Said("Both at once.", [("read", '{"path": "b.py"}', "call_b0000001"), ("test", "{}", "call_b0000002")]),
    Said(None, [("edit", '{"path": "b.py", "old": "1", "new": "2"}', "call_c0000001")]),
    Said(None, [("test", "{}", "call_d0000001")]),
    Said("All tests pass."),
)
RESULTS = {
    "call_a0000001": "def a(): return 1",
    "call_b0000001": "b = 1",
    "call_b0000002": "FAILED b\n1 failed, 3 passed",
    "call_c0000001": "edited",
    "call_d0000001": "4 passed",
}


def scripted(got: Got) -> Said:
    """The same answers, ids included, for every run: a provider at temperature 0 behind a cache."""
    return SCRIPT[sum(message["role"] == "assistant" for message in got.json["messages"])]


@dataclass(slots=True)
class Agent:
    """An agent that appends what it is given and the results of its calls."""

    running: Live
    opening: Sequence[Json] = OPENING
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: bool = False
    history: list[Json] = field(default_factory=list)

    async def ask(self) -> Answer:
        """One request with the history as it stands."""
        body: Json = {"model": "mock-1", "messages": [*self.opening, *self.history], "tools": TOOLS}
        return await self.running.post(body | ({"stream": True} if self.stream else {}), self.headers)

    def keep(self, said: Said, results: Mapping[str, str]) -> None:
        """Append an answer of the script, and the results of its calls."""
        self.history.append(said.message())
        self.history += [{"role": "tool", "tool_call_id": i, "content": results[i]} for _, _, i in said.calls]


async def whole_run(running: Live, *, stream: bool) -> list[Answer]:
    agent, answers = Agent(running, stream=stream), []
    for said in SCRIPT:
        answers.append(await agent.ask())
        agent.keep(said, RESULTS)
    return answers


@pytest.fixture
async def running(store: Store) -> AsyncIterator[Live]:
    async with live(store, policy={"profile": "coding"}) as made:
        made.provider.script = scripted
        yield made


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_hundred_equal_runs_under_one_key_are_a_hundred_sessions(running: Live, stream: bool) -> None:
    began = time.monotonic()
    places = asyncio.Semaphore(AT_ONCE)

    async def one() -> list[Answer]:
        async with places:
            return await whole_run(running, stream=stream)

    runs = await asyncio.gather(*(one() for _ in range(RUNS)))
    turns: dict[str, list[int]] = defaultdict(list)
    for answers in runs:
        for answer in answers:
            turns[answer.headers["x-guardproxy-session-id"]].append(int(answer.headers["x-guardproxy-turn"]))
    verdicts = Counter(answer.verdict for answers in runs for answer in answers)
    print(f"\n{RUNS} equal runs, {AT_ONCE} at once: {len(turns)} sessions, verdicts {dict(verdicts)}, "
          f"{time.monotonic() - began:.1f} s")  # fmt: skip
    assert len(turns) == RUNS
    # Equal requests of two runs are interchangeable, so a crossing shows in the turns: one twice, or one left out.
    assert all(sorted(numbers) == [1, 2, 3, 4, 5] for numbers in turns.values()), turns
    assert all([int(a.headers["x-guardproxy-turn"]) for a in answers] == [1, 2, 3, 4, 5] for answers in runs)
    assert set(verdicts) == {"pass"}, verdicts


class Away:
    """A store that is not there."""

    async def begin(self, opening: Opening) -> View:
        raise StoreError("away")

    async def settle(self, closing: Closing) -> None:
        raise StoreError("away")

    async def renew(self, org: str, token: str, lease_ms: int) -> None:
        raise StoreError("away")


async def test_equal_runs_are_no_loop_while_the_store_is_away() -> None:
    """Local memory has no truth about runs; that they are equal must not end them all the same."""
    async with live(Away()) as running:
        running.provider.script = scripted
        places = asyncio.Semaphore(AT_ONCE)

        async def one() -> list[Answer]:
            async with places:
                return await whole_run(running, stream=False)

        runs = await asyncio.gather(*(one() for _ in range(RUNS)))
        looped = await loop_until_cut_away(running)
    verdicts = Counter(answer.verdict for answers in runs for answer in answers)
    print(f"\nstore away: verdicts {dict(verdicts)}; a loop beside them: {looped}")
    assert set(verdicts) == {"pass"}, verdicts
    assert looped[-4:] == ["nudge", "firm", "finalize", "cut"]


async def loop_until_cut_away(running: Live) -> list[str]:
    running.provider.script = looping
    return await loop_until_cut(Agent(running))


async def test_equal_runs_at_different_speeds_do_not_cross(running: Live) -> None:
    """Three begin together and one is far ahead: each later request carries a different number of rounds."""
    agents = [Agent(running) for _ in range(3)]
    turns: dict[str, list[int]] = defaultdict(list)

    async def step(agent: Agent, said: Said) -> None:
        answer = await agent.ask()
        agent.keep(said, RESULTS)
        assert answer.verdict == "pass"
        turns[answer.headers["x-guardproxy-session-id"]].append(int(answer.headers["x-guardproxy-turn"]))

    for agent in agents:
        await step(agent, SCRIPT[0])
    for said in SCRIPT[1:]:
        await step(agents[0], said)
    for said in SCRIPT[1:]:
        for agent in agents[1:]:
            await step(agent, said)
    assert sorted(map(sorted, turns.values())) == [[1, 2, 3, 4, 5]] * 3


def looping(got: Got) -> Said:
    """One call for ever; its id counts the rounds, as a real provider's differs."""
    rounds = sum(message["role"] == "assistant" for message in got.json["messages"])
    return Said(None, [("read", '{"path": "z.py"}', f"call_loop{rounds:05d}")])


async def loop_until_cut(agent: Agent) -> list[str]:
    verdicts: list[str] = []
    for rounds in range(8):
        answer = await agent.ask()
        verdicts.append(answer.verdict)
        if answer.verdict == "cut":
            return verdicts
        said = Said(None, [("read", '{"path": "z.py"}', f"call_loop{rounds:05d}")])
        agent.keep(said, {f"call_loop{rounds:05d}": "x = 1"})
    return verdicts


async def test_a_client_that_starts_again_after_a_cut_meets_the_cut(running: Live) -> None:
    """crewai begins anew from its first messages, twice; two minutes later it is a new run."""
    running.provider.script = looping
    first = Agent(running)
    verdicts = await loop_until_cut(first)
    print(f"\nuntil the cut: {verdicts}")
    assert verdicts[-4:] == ["nudge", "firm", "finalize", "cut"]
    ended = (await first.ask()).headers["x-guardproxy-session-id"]
    calls = len(running.provider.got)

    again = await Agent(running).ask()
    assert (again.verdict, again.headers["x-guardproxy-session-id"]) == ("cut", ended)
    over = await Agent(running).ask()
    assert (over.status, over.json["error"]["code"]) == (400, "session_cut")
    assert over.headers["x-should-retry"] == "false"
    assert len(running.provider.got) == calls, "an ended run costs no upstream call"

    running.offset_ms += 125_000
    fresh = await Agent(running).ask()
    assert (fresh.status, fresh.verdict) == (200, "pass")
    assert fresh.headers["x-guardproxy-session-id"] != ended
    assert fresh.headers["x-guardproxy-turn"] == "1"


async def test_a_run_that_goes_on_beside_an_ended_one_is_left_alone(running: Live) -> None:
    """Of two runs of one task one loops and is cut; the other is not."""
    healthy = Agent(running)
    await healthy.ask()
    healthy.keep(SCRIPT[0], RESULTS)
    running.provider.script = looping
    assert (await loop_until_cut(Agent(running)))[-1] == "cut"
    running.provider.script = scripted
    assert (await healthy.ask()).verdict == "pass"
    healthy.keep(SCRIPT[1], RESULTS)
    assert (await healthy.ask()).verdict == "pass"


@pytest.mark.parametrize("named", [False, True], ids=["derived", "named"])
async def test_counts_go_on_over_two_compactions(running: Live, named: bool) -> None:
    """Case B56, and once more: the head changes twice, and the thread is known by the call ids it still carries."""
    running.provider.script = looping
    headers = {"x-guardproxy-session-id": f"compacts-{named}"} if named else {}
    summaries = [{"role": "user", "content": f"Summary {n}: a.py was looked for."} for n in (1, 2)]
    heads = [OPENING, *([OPENING[0], summary] for summary in summaries)]
    kept: list[Json] = []
    verdicts, sessions = [], set()
    number = 0
    for head in heads:
        agent = Agent(running, head, headers, history=list(kept))
        for _ in range(2):
            call = f"call_over{number:05d}"
            running.provider.script = lambda _got, call=call: Said(None, [("read", '{"path": "a.py"}', call)])  # type: ignore[misc]
            answer = await agent.ask()
            verdicts.append(answer.verdict)
            sessions.add(answer.headers["x-guardproxy-session-id"])
            agent.keep(Said(None, [("read", '{"path": "a.py"}', call)]), {call: "x = 1"})
            number += 1
        kept = agent.history[-2:]
    assert verdicts == ["pass", "pass", "observe", "nudge", "firm", "finalize"], verdicts
    assert len(sessions) == 1


@pytest.mark.parametrize("away", [False, True], ids=["store", "away"])
async def test_sub_agents_of_a_named_session_count_apart_and_pay_together(store: Store, away: bool) -> None:
    """Equal calls in three threads are no loop; a loop in one sub-agent ends that one alone; the turns are summed."""
    headers = {"x-guardproxy-session-id": "with-sub-agents"}

    def head(name: str) -> list[Json]:
        return [{"role": "system", "content": f"You are {name}."}, {"role": "user", "content": "Look at a.py."}]

    async with live(Away() if away else store, policy={"limits": {"session": {"turns": 17}}}) as running:
        running.provider.script = looping
        agents = [Agent(running, head(name), headers) for name in ("the lead", "a reader", "a tester")]
        for rounds in range(3):
            for agent in agents:
                answer = await agent.ask()
                assert answer.verdict in ("pass", "observe"), (rounds, answer.headers)
                call = f"call_loop{rounds:05d}"
                agent.keep(Said(None, [("read", '{"path": "z.py"}', call)]), {call: f"found {rounds // 2}"})
        loner = Agent(running, head("a searcher"), headers)
        assert (await loop_until_cut(loner))[-4:] == ["nudge", "firm", "finalize", "cut"]
        lead = await agents[0].ask()
        assert (lead.verdict, lead.rule) == ("finalize", "budget.turns"), "the last turn that the session can afford"
        assert lead.headers["x-guardproxy-turn"] == str(9 + 7 + 1)
        denied = await agents[1].ask()
        assert (denied.status, denied.json["error"]["code"]) == (400, "budget_exceeded")
