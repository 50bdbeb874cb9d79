"""The flow of a turn over HTTP: headers of the answer, local answers, identity, what is kept and put back."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from guardproxy.core.view import Closing, Opening, View
from guardproxy.errors import StoreError
from guardproxy.store.meter import Meter
from guardproxy.store.redis import Store
from tests.http_store import held
from tests.live import Answer, Json, Live, Said, live, unique
from tests.scenes import Heard

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {}}}]


class Run:
    """An agent in a declared session that repeats one call."""

    def __init__(self, running: Live, **body: object) -> None:
        self.running = running
        self.name = unique("turn")
        self.body = {"model": "mock-1", "tools": TOOLS, **body}
        self.messages: list[Json] = [{"role": "system", "content": "S"}, {"role": "user", "content": "Do it."}]
        self.calls = 0
        running.provider.script = lambda _got: Said(calls=[("f", "{}", f"call_{self.calls:09d}")])

    async def turn(self, content: object = "same", **headers: str) -> Answer:
        answer = await self.running.post(
            {**self.body, "messages": self.messages}, {"x-guardproxy-session-id": self.name, **headers}
        )
        message = Said(calls=[("f", "{}", f"call_{self.calls:09d}")]).message()
        self.messages += [message, {"role": "tool", "tool_call_id": f"call_{self.calls:09d}", "content": content}]
        self.calls += 1
        return answer

    async def turns(self, amount: int) -> list[Answer]:
        return [await self.turn() for _ in range(amount)]


def guard(answer: Answer) -> dict[str, str]:
    return {name.removeprefix("x-guardproxy-"): value for name, value in answer.headers.items() if "guardproxy" in name}


async def test_headers_of_an_answer(store: Store) -> None:
    policy = {"limits": {"session": {"turns": 9, "cost_usd": 1}, "span": {"turns": 20}}}
    async with live(store, policy=policy) as running:
        run = Run(running)
        first, second = await run.turns(2)
        found = guard(first)
        assert set(found) == {"verdict", "session-id", "trace-id", "turn", "budget-remaining"}
        assert (found["verdict"], found["session-id"], found["turn"]) == ("pass", run.name, "1")
        assert re.fullmatch("[0-9a-f]{32}", found["trace-id"])
        assert guard(second)["trace-id"] == found["trace-id"], "one trace a run"
        left = json.loads(found["budget-remaining"])
        assert left["turns"] == 8
        assert 0 < left["cost_usd"] < 1
        assert json.loads(guard(second)["budget-remaining"])["turns"] == 7


async def test_headers_of_an_edited_turn(store: Store) -> None:
    async with live(store) as running:
        answers = await Run(running, stream=True).turns(6)
        nudge = guard(answers[3])
        assert (nudge["verdict"], nudge["rule"], nudge["edit"]) == ("nudge", "repeated_call", "advice,usage")
        assert guard(answers[5])["edit"] == "advice,tools,calls,usage"
        assert guard(answers[0])["edit"] == "usage"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_local_answers(stream: bool, store: Store) -> None:
    """The cut is an answer like a provider's; the error after three of them is none that a client repeats."""
    async with live(store) as running:
        answers = await Run(running, stream=stream).turns(10)
        assert [a.verdict for a in answers[3:]] == ["nudge", "firm", "finalize", "cut", "cut", "cut", "cut"]
        cut, over = answers[6], answers[9]
        kind = "text/event-stream" if stream else "application/json"
        assert (cut.status, cut.headers["Content-Type"].partition(";")[0]) == (200, kind)
        assert "edit" in guard(cut)
        assert (over.status, over.json["error"]["code"]) == (400, "session_cut")
        assert over.json["error"]["rule"] == "repeated_call"
        assert over.json["error"]["session_id"] == guard(over)["session-id"]
        assert over.headers["x-should-retry"] == "false"
        assert len(running.provider.got) == 6
        assert await held(store, {guard(cut)["session-id"]}) == {}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_nudge_without_a_place_is_none_and_is_said_where_there_is_one(
    stream: bool, store: Store, heard: Heard
) -> None:
    """The request ends in the assistant's own words: no text goes behind these."""
    async with live(store, heard) as running:
        run = Run(running, stream=stream)
        await run.turns(3)
        run.messages.append({"role": "assistant", "content": "So"})
        running.provider.script = lambda _got: Said(" be it.")
        asked = list(run.messages)
        unsaid = await run.turn()
        got = running.provider.got[-1].json["messages"]
        run.messages = asked[:-1]
        said = await run.turn()
        last = [await heard.next() for _ in range(4)][-1]

    assert got == asked
    assert (unsaid.verdict, unsaid.rule) == ("observe", "repeated_call")
    assert "advice" not in guard(unsaid).get("edit", "")
    assert said.verdict == "nudge"
    assert "advice" in guard(said)["edit"]
    assert (last.decision.action, last.decision.would, last.intervention) == ("observe", "", ("", ""))
    assert "not said" in last.decision.reason
    assert (last.advice, last.edits) == ("", ("usage",) if stream else ())


async def test_calls_are_refused_also_where_firm_has_no_place(store: Store) -> None:
    async with live(store, policy={"refuse": "enforce"}) as running:
        run = Run(running)
        await run.turns(4)
        run.messages.append({"role": "assistant", "content": "So"})
        answer = await run.turn()
        asked = [json.dumps(got.json["messages"]) for got in running.provider.got[3:]]

    assert answer.verdict == "finalize"
    assert asked[1].count("[guardproxy]") == asked[0].count("[guardproxy]") == 1, "the nudge before it alone"
    assert len(asked) > 2, "what the model calls is refused, and it is asked again"


async def test_advice_is_put_back_byte_for_byte(store: Store) -> None:
    async with live(store) as running:
        run = Run(running)
        for content in ("same", [{"type": "text", "text": "same"}], "same", "other", "third"):
            await run.turn(content)
        bodies = [json.loads(got.body)["messages"] for got in running.provider.got]
        advised = next(n for n, messages in enumerate(bodies) if "[guardproxy]" in json.dumps(messages))
        for messages in bodies[advised + 1 :]:
            assert messages[: len(bodies[advised])] == bodies[advised]


@pytest.mark.parametrize(
    ("header", "value", "expected"),
    [
        ("x-session-id", "a", "a"),
        ("x-guardproxy-session-id", "run 1/é", "run%201/%C3%A9"),
        ("x-guardproxy-session-id", "x" * 300, None),
        ("x-guardproxy-session-id", "", None),
    ],
)
async def test_who_is_named(header: str, value: str, expected: str | None, store: Store) -> None:
    async with live(store) as running:
        body = {"model": "m", "messages": [{"role": "user", "content": unique("u")}]}
        answer = await running.post(body, {header: value})
        found = guard(answer)["session-id"]
        assert answer.status == 200
        assert found == expected if expected else re.fullmatch(r"d-[0-9a-f]{12}-1|[x]{1,300}", found)


async def test_a_side_request_is_no_turn(store: Store, heard: Heard) -> None:
    """A title on a session that has tools: it costs, but is not counted, and no loop is seen in it."""
    async with live(store, heard) as running:
        run = Run(running)
        await run.turns(2)
        running.provider.script = lambda _got: Said("A title")
        side = {"model": "m", "messages": [{"role": "user", "content": "Give it a title."}]}
        answer = await running.post(side, {"x-guardproxy-session-id": run.name})
        assert (answer.status, answer.verdict, guard(answer)["turn"]) == (200, "pass", "2")
        reports = [await heard.next() for _ in range(3)]
        assert [report.view.counted for report in reports] == [True, True, False]
        await run.turn()
        view = (await heard.next()).view
        assert view.turn == 3
        used = {spent.line.dimension: spent.used for spent in view.spent if spent.line.scope == "session"}
        assert (used["turns"], used["input_tokens"]) == (2, 30)


async def test_each_turn_is_reported_once_with_what_it_cost(store: Store, heard: Heard) -> None:
    async with live(store, heard, prices={"models": {"mock-*": {"input": 3, "output": 15}}}) as running:
        run = Run(running)
        await run.turn()
        report = await heard.next()
        assert heard.reports.empty()
        assert (report.session, report.turn, report.status, report.outcome) == (run.name, 1, 200, "")
        assert (report.usage.input, report.usage.output, report.cost_microusd) == (10, 5, 30 + 75)
        assert [(tool, call_id) for tool, call_id, _ in report.attempts[0].calls] == [("f", "call_000000000")]
        assert report.ended_ns >= report.first_chunk_ns >= report.attempts[0].started_ns >= report.started_ns
        assert report.begin_ns > 0 < report.settle_ns


class Away:
    """A store that is away for `begin`, for `settle`, or for both."""

    def __init__(self, store: Store, *gone: str) -> None:
        self._store, self._gone = store, gone

    @property
    def meter(self) -> Meter:
        return self._store.meter

    async def begin(self, opening: Opening) -> View:
        if "begin" in self._gone:
            raise StoreError("away")
        return await self._store.begin(opening)

    async def settle(self, closing: Closing) -> None:
        if "settle" in self._gone:
            raise StoreError("away")
        await self._store.settle(closing)

    async def renew(self, org: str, token: str, lease_ms: int) -> None:
        await self._store.renew(org, token, lease_ms)


@pytest.mark.parametrize("gone", [("begin",), ("begin", "settle"), ("settle",)], ids="+".join)
async def test_the_store_is_away(gone: tuple[str, ...], store: Store) -> None:
    """Policy open: loops are still seen, and limits are kept here."""
    async with live(Away(store, *gone), policy={"limits": {"session": {"turns": 30}}}) as running:
        run = Run(running)
        answers = await run.turns(7)
        expected = ["nudge", "firm", "finalize", "cut"]
        if gone == ("settle",):  # what was said before is not known: each attempt seems to run still
            assert {answer.status for answer in answers} == {200}
            return
        assert [answer.verdict for answer in answers[3:]] == expected
        assert json.loads(guard(answers[0])["budget-remaining"])["turns"] == 29


async def test_the_store_is_away_and_that_means_closed(store: Store) -> None:
    async with live(Away(store, "begin"), store={"on_failure": "closed"}) as running:
        answer = await Run(running).turn()
        assert (answer.status, answer.json["error"]["code"]) == (503, "store_unavailable")
        assert answer.headers["Retry-After"] == "1"
        assert "x-should-retry" not in answer.headers
        assert running.provider.got == []


async def test_equal_requests_at_once_are_each_answered(store: Store) -> None:
    async with live(store) as running:
        body = {"model": "m", "tools": TOOLS, "messages": [{"role": "user", "content": unique("many")}]}
        answers = await asyncio.gather(*(running.post(body) for _ in range(8)))
        assert {answer.status for answer in answers} == {200}
        assert len({guard(answer)["session-id"] for answer in answers}) == 8
        assert {answer.verdict for answer in answers} == {"pass"}
