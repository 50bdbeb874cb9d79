"""What the store is told at a turn's end, seen on the live path: what was spent, delivered, closed."""

from __future__ import annotations

import pytest

from guardproxy.core.session import EMPTY
from guardproxy.core.view import Closing
from guardproxy.store.redis import Store
from guardproxy.telemetry.record import read_record
from tests.live import Answer, Json, Live, Said, ids, live, unique

TOOLS = [{"type": "function", "function": {"name": "ls"}}]
ASK = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "go"}], "tools": TOOLS}
CALLS = [("ls", '{"p": 1}', "call_00000001"), ("ls", '{"p": 2}', "call_00000002")]
TABLE = {
    # what the provider says: outcome, answer, calls counted, something delivered, tokens
    "calls": (Said(calls=CALLS), ("answered", "calls", 2, True, 15)),
    "text": (Said("done"), ("answered", "text", 0, True, 15)),
    "nothing": (Said(""), ("answered", "empty", 0, False, 15)),
    "an error": (Said(status=500, raw=b'{"error": {"message": "no"}}'), ("failed", "empty", 0, False, 0)),
}


class Spy:
    """A store that keeps what it is told."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.told: list[Closing] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def settle_soon(self, _closing: Closing, _done: object) -> bool:
        return False

    async def settle(self, closing: Closing) -> None:
        self.told.append(closing)
        await self._store.settle(closing)


@pytest.mark.parametrize("name", TABLE)
async def test_closing(store: Store, name: str) -> None:
    said, expected = TABLE[name]
    spy = Spy(store)
    async with live(spy) as running:  # type: ignore[arg-type]  # the rest of the store's methods come from it
        running.provider.script = lambda _got: said
        await running.post(ASK)

    (told,) = spy.told
    outcome, answer, calls, delivered, tokens = expected
    assert (told.outcome, told.answer) == (outcome, answer)
    assert told.spent["tool_calls"] == calls
    assert told.spent["total_tokens"] == tokens
    assert bool(told.delivered) == delivered
    assert told.links
    assert all(link.startswith(EMPTY) is not delivered for link in told.links)
    assert told.count == 1
    assert not told.close
    record = read_record(told.record)
    assert (told.spent["input_tokens"], told.spent["output_tokens"]) == (told.usage.input, told.usage.output)
    assert (record["input_tokens"], record["output_tokens"]) == (told.usage.input, told.usage.output)
    assert record["cost_microusd"] == told.spent["cost_microusd"] == (5 if tokens else 0)


async def test_a_cut_closes_by_its_rule(store: Store) -> None:
    spy = Spy(store)
    async with live(spy, policy={"detectors": {"monologue": {"same_text": [0, 0, 1]}}}) as running:  # type: ignore[arg-type]
        running.provider.script = lambda _got: Said("")
        verdicts = [(await running.post(ASK)).verdict for _ in range(2)]

    assert verdicts[-1] == "cut"
    assert [told.close for told in spy.told] == ["", "monologue"]
    assert spy.told[-1].answer == "own"


async def test_who_goes_on_with_calls_that_were_dropped_stays_in_its_run(store: Store) -> None:
    """Not in the latest run of its head, which is another's."""
    runs = [[("ls", '{"p": 1}', f"call_{number:08d}")] for number in range(2)]
    async with live(store, policy={"limits": {"session": {"turns": 1}}}) as running:
        firsts = []
        for calls in runs:
            running.provider.script = lambda _got, calls=calls: Said("I look.", calls=calls)
            firsts.append(await running.post(ASK))
        said = Said("I look.", calls=runs[0]).message()
        found = {"role": "tool", "tool_call_id": runs[0][0][2], "content": "a"}
        again = await running.post({**ASK, "messages": [*ASK["messages"], said, found]})

    names = [answer.headers["x-guardproxy-session-id"] for answer in (*firsts, again)]
    assert [answer.verdict for answer in (*firsts, again)] == ["finalize", "finalize", "deny"]
    assert names[0] == names[2] != names[1]


async def play(running: Live, messages: list[Json], tool: str, result: str, call_id: str) -> Answer:
    """One turn of an agent that appends what the model said, whatever the proxy answers."""
    said = Said(None, [(tool, "{}", call_id)])
    running.provider.script = lambda _got: said
    answer = await running.post({**ASK, "messages": messages})
    messages += [said.message(), {"role": "tool", "tool_call_id": call_id, "content": result}]
    return answer


ERROR = {"role": "user", "content": "Tool call error: no tool calls found in the response."}
AFTER = {
    # what a client makes of our last text: mini-swe-agent, most others, smolagents' CodeAgent (`clients`, surprise 7)
    "drops it": lambda _text: [ERROR],
    "appends it": lambda text: [{"role": "assistant", "content": text}, ERROR],
    "rewrites it": lambda text: [{"role": "assistant", "content": text + "</code>"}, ERROR],
}


@pytest.mark.parametrize("how", AFTER)
async def test_who_goes_on_after_a_cut_meets_it_and_not_a_run_beside(store: Store, how: str) -> None:
    """Two runs of one head side by side: the younger one is healthy, and stays so."""
    task = [{"role": "user", "content": unique("the same task for both")}]
    mine, others = list(task), list(task)
    async with live(store) as running:
        fresh = ids("ab")
        first = await play(running, mine, "f", "same", fresh())
        beside = [await play(running, others, "g", "x", fresh())]
        while (cut := await play(running, mine, "f", "same", fresh())).verdict != "cut":
            pass
        again = []
        for _ in range(3):
            text = (again or [cut])[-1].json["choices"][0]["message"]["content"]
            del mine[-2:]
            mine += AFTER[how](text)
            again.append(await play(running, mine, "f", "same", fresh()))
        beside += [await play(running, others, "g", f"y{n}", fresh()) for n in range(2)]

    assert [(answer.status, answer.verdict) for answer in again] == [(200, "cut"), (200, "cut"), (400, "cut")]
    assert {answer.headers["x-guardproxy-session-id"] for answer in again} == {first.headers["x-guardproxy-session-id"]}
    assert [answer.verdict for answer in beside] == ["pass"] * 3
    assert len({answer.headers["x-guardproxy-session-id"] for answer in (first, *beside)}) == 2


@pytest.mark.parametrize("said", [Said("Nothing to call."), Said(status=500, raw=b"{}")], ids=["text", "error"])
async def test_who_goes_on_without_the_answer_stays_in_its_run(store: Store, said: Said) -> None:
    """The client drops a text, or gets none, and goes on in its own words; a younger run has the same head."""
    task = [{"role": "user", "content": unique("the same task for both")}]
    mine, others = list(task), list(task)
    async with live(store) as running:
        fresh = ids("ab")
        first = await play(running, mine, "f", "a", fresh())
        await play(running, others, "f", "a", fresh())
        running.provider.script = lambda _got: said
        await running.post({**ASK, "messages": mine})
        mine.append(ERROR)
        again = await play(running, mine, "f", "b", fresh())
        beside = await play(running, others, "f", "b", fresh())

    names = [answer.headers["x-guardproxy-session-id"] for answer in (first, again, beside)]
    assert names[0] == names[1] != names[2]


HALF = {
    # results that the client sends of two, and what it is given: is its run found again by the round of these calls?
    "all, and words": (2, Said("Hm."), True),
    "one, and words": (1, Said("Hm."), False),
    "none, and words": (0, Said("Hm."), False),
    "one, and an error": (1, Said(status=400, raw=b"{}"), True),  # it mends its request
    "one, and nothing": (1, Said(""), True),
}


@pytest.mark.parametrize("name", HALF)
async def test_who_takes_back_a_part_of_a_round_has_done_with_it_once_answered(store: Store, name: str) -> None:
    """Longer than the history that this round was given to, it would be found before a run that is given it again."""
    results, said, again = HALF[name]
    spy, task = Spy(store), {"role": "user", "content": unique("task")}
    asked = Said(None, CALLS)
    found = [{"role": "tool", "tool_call_id": one, "content": "same"} for _, _, one in CALLS]
    async with live(spy) as running:  # type: ignore[arg-type]
        for history, answer in (([], asked), ([asked.message(), *found[:results]], said)):
            running.provider.script = lambda _got, answer=answer: answer
            await running.post({**ASK, "messages": [task, *history]})

    given, last = [set(told.links) for told in spy.told]
    assert (given <= last) is again
    assert again or not given & last


NOTHING = {
    "empty": (Said(""), True),
    "an error": (Said(status=500, raw=b"{}"), True),
    "words that are dropped": (Said("Well."), False),  # an agent that appends nothing begins anew each time
}


@pytest.mark.parametrize("name", NOTHING)
async def test_who_speaks_on_without_an_answer_stays_in_the_run(store: Store, name: str) -> None:
    """A chat whose client drops an empty answer, or got none; a younger one has the same head and says the same."""
    said, stays = NOTHING[name]
    task = [{"role": "user", "content": unique("the same task for both")}]
    names = []
    async with live(store) as running:
        running.provider.script = lambda _got: Said("Yes?")
        begun = [*task, Said("Yes?").message(), {"role": "user", "content": unique("more")}]
        first = [await running.post({**ASK, "messages": messages}) for messages in (task, begun)]
        names += [answer.headers["x-guardproxy-session-id"] for answer in first]
        begun.append(Said("Yes?").message())
        for number in range(2):
            begun.append({"role": "user", "content": f"part {number}"})
            running.provider.script = lambda _got: said
            answer = await running.post({**ASK, "messages": begun})
            names.append(answer.headers["x-guardproxy-session-id"])
            running.provider.script = lambda _got: Said("Yes?")
            await running.post({**ASK, "messages": task})
    assert len(set(names[:3])) == 1
    assert (names[3] == names[2]) is stays


@pytest.mark.parametrize("said", [Said(""), Said(status=500, raw=b"{}")], ids=["empty", "an error"])
async def test_an_example_in_a_prompt_is_nobodys_though_it_was_an_answer_before(store: Store, said: Said) -> None:
    spy, head = Spy(store), {"role": "user", "content": unique("job")}
    names = set()
    async with live(spy) as running:  # type: ignore[arg-type]
        for number, answer in enumerate((Said("positive"), said, Said("positive"))):
            running.provider.script = lambda _got, answer=answer: answer
            messages = [head, Said("positive").message(), {"role": "user", "content": f"document {number}"}]
            names.add((await running.post({**ASK, "messages": messages})).headers["x-guardproxy-session-id"])
    assert len(names) == 3
    assert [link[:1] for link in spy.told[1].links] == [EMPTY]


async def test_examples_of_calls_in_a_prompt_leave_nothing_behind(store: Store) -> None:
    """They were never given out: a job that shows the model how to call is a new run each time."""
    shown = Said(None, [("f", "{}", "call_examples1")]).message()
    example = [shown, {"role": "tool", "tool_call_id": "call_examples1", "content": "a"}]
    spy = Spy(store)
    async with live(spy) as running:  # type: ignore[arg-type]
        running.provider.script = lambda _got: Said("done")
        messages = [{"role": "user", "content": unique("job")}, *example, {"role": "user", "content": "Now this one."}]
        await running.post({**ASK, "messages": messages})

    assert len(spy.told[-1].links) == 1
