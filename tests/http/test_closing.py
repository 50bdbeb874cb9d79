"""What the store is told at a turn's end, seen on the live path: what was spent, delivered, closed."""

from __future__ import annotations

import pytest

from guardproxy.core.view import Closing
from guardproxy.store.redis import Store
from guardproxy.telemetry.record import read_record
from tests.live import Said, live

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
    assert bool(told.delivered) == bool(told.links) == delivered
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
