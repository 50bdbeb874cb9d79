"""Answers made in the background, through the front door: held in full, charged so, settled once by whoever may."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from guardproxy.api import said_twice
from guardproxy.api._answer import Answer as AnswerRead
from guardproxy.core.usage import FIELDS, day_of, days
from guardproxy.errors import StoreError
from guardproxy.http import background
from guardproxy.http.background import About
from guardproxy.http.request import Request
from guardproxy.store.redis import Store
from tests.http.test_failover import several
from tests.http.test_room import LATE_MS, PRICES, Named, at, budget, counters, who
from tests.live import Answer, Got, Json, Live, Said, live, unique
from tests.surfaces import chat, responses

both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])

MOST = 9000
"""Tokens of output that the tests' requests allow: more than `default_output_hold`."""

LIMITED = [budget("org", "output_tokens", 20_000), budget("org", "cost_usd", 100, "month")]
USED = {"input_tokens": 50, "output_tokens": 300, "total_tokens": 350}
COST = 50 * 10 + 300 * 100
ID = "resp_68aF"


class Maker:
    """A provider that makes answers in the background; `status` and `usage` are how it stands with all of them."""

    def __init__(self, running: Live | None = None) -> None:
        self.status, self.answer = "in_progress", ID
        self.usage: Json | None = None
        self.text = ""
        self.broken = asyncio.Event()
        if running is not None:
            running.provider.script = self.says

    def response(self, status: str = "") -> Json:
        said = [{"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text"}]}]
        said[0]["content"] = [{"type": "output_text", "text": self.text, "annotations": []}]
        return {
            "id": self.answer,
            "object": "response",
            "background": True,
            "model": "mock-1",
            "status": status or self.status,
            "output": said if self.text else [],
            "usage": None if status else self.usage,
        }

    def says(self, got: Got) -> Said:
        if got.method == "POST" and not got.path.endswith("/cancel"):
            if got.json.get("stream"):
                begun = [self.event("response.created", "queued"), self.event("response.in_progress", "in_progress")]
                return Said(raw=[*begun, self.event("response.completed")], stall=(2, self.broken.wait()))
            return Said(raw=json.dumps(self.response("queued")).encode())
        if "stream=true" in got.path:
            last = {"completed": "response.completed", "incomplete": "response.incomplete"}.get(self.status)
            events = [self.event("response.created", "queued"), *([self.event(last)] if last else [])]
            return Said(raw=b"".join(events), content_type="text/event-stream")
        return Said(raw=json.dumps(self.response()).encode())

    def event(self, kind: str, status: str = "") -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, 'response': self.response(status)})}\n\n".encode()

    def done(self, usage: Json | None = None, status: str = "completed") -> None:
        self.status, self.usage = status, usage


async def begin(
    running: Live, *, stream: bool = False, headers: Mapping[str, str] | None = None, **more: object
) -> int:
    """Ask for an answer; a stream is left once it has begun. Its status."""
    body = {"model": "mock-1", "input": unique("hi"), "background": True, "max_output_tokens": MOST, **more}
    if not stream:
        answer = await running.post(body, headers)
        await running.proxy.quiet()
        return answer.status
    sent = {"Authorization": "Bearer k", **(headers or {})}
    got = await running.client.post(running.url + "/v1/responses", json=body | {"stream": True}, headers=sent)
    seen = b""
    async with asyncio.timeout(5):
        while b"in_progress" not in seen:
            seen += await got.content.readany() or b"in_progress"  # its end, of one that was refused
    got.close()
    async with asyncio.timeout(5):
        while any(held for _, held in (await counters_of(running)).values()):
            await asyncio.sleep(0.005)
    return got.status


async def counters_of(running: Live) -> dict[str, tuple[int, int]]:
    store = running.proxy.books._store
    assert isinstance(store, Store)
    return await counters(store)


async def fetch(
    running: Live, path: str = f"/v1/responses/{ID}", method: str = "GET", headers: Mapping[str, str] | None = None
) -> Answer:
    async with running.client.request(method, running.url + path, headers=headers) as got:
        return Answer(got.status, dict(got.headers), await got.read())


async def used(store: Store, name: str = "output_tokens") -> int:
    (found,) = [one for key, one in (await counters(store)).items() if name in key]
    assert found[1] == 0, "something is held still"
    return found[0]


async def row(store: Store, offset_ms: int = 0) -> Json:
    now_ms = await store.usages.now_ms() + offset_ms
    last = now_ms if offset_ms else now_ms + LATE_MS  # late in the evening what is swept later is tomorrow's
    of = days(day_of(now_ms), day_of(last))
    (found,) = [one for day in of for one in await store.usages.day("default", day)]
    return {name: number for name, number in zip(FIELDS, found.sums, strict=True) if number}


async def run_of(store: Store) -> Json:
    (found,) = await store.list_sessions("default")
    return dict(found.used)


@pytest.mark.parametrize(("tier", "times"), [("priority", 2.5), ("fast", 2.5), ("default", 1)])
async def test_it_is_priced_as_it_asked_to_be_served(tier: str, times: float, store: Store) -> None:
    async with live(store, surface=responses, budgets=LIMITED) as running:
        maker = Maker(running)
        assert await begin(running, model="gpt-4.1", service_tier=tier) == 200
        assert await used(store, "cost_microusd") >= MOST * 8 * times
        maker.done(USED)
        await fetch(running)
        await running.proxy.quiet()
        assert await used(store, "cost_microusd") == (50 * 2 + 300 * 8) * times


async def test_what_it_searched_is_paid(store: Store) -> None:
    """Research in the background is hundreds of searches, of which the usage says nothing."""
    async with live(store, surface=responses, budgets=LIMITED) as running:
        maker = Maker(running)
        assert await begin(running, model="gpt-4.1") == 200
        maker.done(USED)
        made = maker.response()
        kinds = ["web_search_call"] * 7 + ["file_search_call"]
        made["output"] = [{"type": kind, "id": f"i{at}", "status": "completed"} for at, kind in enumerate(kinds)]
        running.provider.script = lambda _got: Said(raw=json.dumps(made).encode())
        await fetch(running)
        await running.proxy.quiet()
        assert await used(store, "cost_microusd") == 50 * 2 + 300 * 8 + 7 * 10_000 + 2500


@both
async def test_it_is_charged_in_full_and_settled_once(store: Store, stream: bool) -> None:
    """Budgets, the run, and the ledger of usage: as it was held, then as it was; and never again."""
    async with live(store, surface=responses, budgets=LIMITED, prices=PRICES) as running:
        maker = Maker(running)
        assert await begin(running, stream=stream) == 200
        assert await used(store) == MOST
        charged = await row(store)
        assert (charged["output_tokens"], charged["estimated"], charged["requests"]) == (MOST, 1, 1)
        for _ in range(2):
            assert (await fetch(running)).json["status"] == "in_progress"
        assert await used(store) == MOST, "it is not over"
        maker.done(USED)
        for _ in range(3):
            assert (await fetch(running)).json["usage"] == USED
        await running.proxy.quiet()
        assert await used(store) == 300
        assert await used(store, "cost_microusd") == COST
        assert await row(store) == {"requests": 1, "input_tokens": 50, "output_tokens": 300, "cost_microusd": COST}
        found = await run_of(store)
        assert [found[name] for name in ("input_tokens", "output_tokens", "total_tokens")] == [50, 300, 350]
        assert (found["cost_microusd"], found["turns"]) == (COST, 1)


async def test_all_of_it_is_held_while_it_is_asked_for(store: Store) -> None:
    """Many at once are not admitted because none of them is charged yet."""
    async with live(store, surface=responses, budgets=[budget("org", "output_tokens", 2 * MOST)]) as running:
        maker, go = Maker(running), asyncio.Event()
        running.provider.script = lambda got: replace(maker.says(got), wait=go.wait())
        asked = [asyncio.ensure_future(begin(running)) for _ in range(4)]
        async with asyncio.timeout(5):
            while len(running.provider.got) < 2 or sum(one.done() for one in asked) < 2:
                await asyncio.sleep(0.005)
            assert [*(await counters(store)).values()] == [(0, 2 * MOST)]
            go.set()
            assert sorted(await asyncio.gather(*asked)) == [200, 200, 400, 400]
        assert await used(store) == 2 * MOST


SETTLING = {
    "a stream of it": (f"/v1/responses/{ID}?stream=true&starting_after=4", "GET", "completed"),
    "cut short": (f"/v1/responses/{ID}", "GET", "incomplete"),
    "stopped": (f"/v1/responses/{ID}/cancel", "POST", "cancelled"),
    "failed, and yet counted": (f"/v1/responses/{ID}", "GET", "failed"),
    "Azure's way": (f"/openai/responses/{ID}?api-version=preview", "GET", "completed"),
    "Azure's newer way": (f"/openai/v1/responses/{ID}", "GET", "completed"),
    "in a session's path": (f"/s/run-7/v1/responses/{ID}?include=reasoning.encrypted_content", "GET", "completed"),
}


@pytest.mark.parametrize(("path", "method", "status"), SETTLING.values(), ids=SETTLING)
async def test_what_settles_it(store: Store, path: str, method: str, status: str) -> None:
    async with live(store, surface=responses, budgets=LIMITED, prices=PRICES) as running:
        maker = Maker(running)
        await begin(running)
        maker.done(USED, status)
        assert (await fetch(running, path, method)).status == 200
        await running.proxy.quiet()
        assert (await used(store), await used(store, "cost_microusd")) == (300, COST)


UNSAID = {
    "failed": ("failed", "", MOST),
    "stopped": ("cancelled", "half of", MOST),
    "over, and nothing said": ("completed", "x" * 400, 101),
}


@pytest.mark.parametrize(("status", "text", "expected"), UNSAID.values(), ids=UNSAID)
async def test_where_no_usage_is_said(store: Store, status: str, text: str, expected: int) -> None:
    """What was made until it was stopped nobody knows; one that is whole is estimated as everywhere."""
    async with live(store, surface=responses, budgets=LIMITED) as running:
        maker = Maker(running)
        await begin(running)
        maker.text = text
        maker.done(None, status)
        await fetch(running)
        await running.proxy.quiet()
        assert await used(store) == expected


async def test_it_is_settled_before_the_next_request_is_asked_for(store: Store) -> None:
    """Who has fetched an answer goes on at once, and finds the room that it did not use."""
    async with live(store, surface=responses, budgets=[budget("org", "output_tokens", MOST + 500)]) as running:
        maker = Maker(running)
        for _ in range(8):
            maker.answer = unique("resp")
            body = {"model": "m", "input": unique("hi"), "background": True, "max_output_tokens": MOST}
            assert (await running.post(body)).status == 200
            assert (await running.post(body | {"input": unique("hi")})).status == 400
            maker.done({"input_tokens": 1, "output_tokens": 10})
            await fetch(running, f"/v1/responses/{maker.answer}")


async def test_one_that_was_longer_than_held_is_counted_in_full(store: Store) -> None:
    """A provider that does not heed the bound: what follows finds less room."""
    async with live(store, surface=responses, budgets=LIMITED, prices=PRICES) as running:
        maker = Maker(running)
        await begin(running)
        maker.done({"input_tokens": 5, "output_tokens": 30_000})
        await fetch(running)
        await running.proxy.quiet()
        assert await used(store) == 30_000
        assert await begin(running) == 400


@both
async def test_fetches_that_race_settle_once(store: Store, stream: bool) -> None:
    async with live(store, surface=responses, budgets=LIMITED, prices=PRICES) as running:
        maker = Maker(running)
        await begin(running)
        maker.done(USED)
        path = f"/v1/responses/{ID}" + ("?stream=true" if stream else "")
        ways = [(path, "GET"), (path, "GET"), (f"/v1/responses/{ID}/cancel", "POST")] * 4
        await asyncio.gather(*(fetch(running, *way) for way in ways))
        await running.proxy.quiet()
        assert (await used(store), (await row(store))["cost_microusd"]) == (300, COST)


async def test_another_worker_settles_it_and_none_twice(store: Store) -> None:
    """After a restart, and over workers: what is owed is known to the store alone."""
    options = {"surface": responses, "budgets": LIMITED, "prices": PRICES}
    async with live(store, **options) as running:
        Maker(running)
        await begin(running)
    for _ in range(2):
        async with live(store, **options) as other:
            Maker(other).done(USED)
            assert (await fetch(other)).status == 200
            await other.proxy.quiet()
            assert await used(store) == 300


@pytest.mark.parametrize("order", ["swept, fetched", "fetched, swept", "fetched, swept, fetched"])
async def test_the_worker_dies_in_the_middle_of_its_stream(store: Store, order: str) -> None:
    """The client has the id, and goes on elsewhere: whoever comes first, it is charged, and settled."""
    async with live(store, surface=responses, budgets=LIMITED, prices=PRICES) as running:
        maker = Maker(running)
        body = {"model": "mock-1", "input": unique("hi"), "background": True, "max_output_tokens": MOST, "stream": True}
        headers = {"Authorization": "Bearer k"}
        got = await running.client.post(running.url + "/v1/responses", json=body, headers=headers)
        while b"in_progress" not in await got.content.readany():
            pass
        maker.done(USED)
        for step in order.split(", "):
            if step == "fetched":
                await fetch(running, f"/v1/responses/{ID}?stream=true")
                async with asyncio.timeout(5):
                    while running.proxy.books.background.under_way:
                        await asyncio.sleep(0.001)
            else:
                assert [one.turn for one in await store.sweep(LATE_MS)] == [1]
        assert (await used(store), await used(store, "cost_microusd")) == (300, COST)
        found = await row(store)
        assert (found["output_tokens"], found["cost_microusd"], found.get("estimated")) == (300, COST, None)
        maker.broken.set()
        got.close()
        await running.proxy.quiet()
        assert await used(store) == 300, "the dead one's own end comes too late"


@pytest.mark.parametrize("spoken", [False, True])
async def test_a_stream_that_a_person_ends_goes_on(store: Store, spoken: bool) -> None:
    """The client has our words, the provider goes on: charged in full, and settled by whoever looks later."""
    async with live(store, surface=responses, budgets=LIMITED, prices=PRICES) as running:
        maker = Maker(running)
        delta = {"type": "response.output_text.delta", "output_index": 0, "item_id": "msg_1", "delta": "half of it "}
        begun = [maker.event("response.created", "queued"), maker.event("response.in_progress", "in_progress")]
        begun += [f"event: {delta['type']}\ndata: {json.dumps(delta)}\n\n".encode()] * spoken
        running.provider.script = lambda _: Said(raw=[*begun, b""], stall=(len(begun), maker.broken.wait()))
        body = {"model": "mock-1", "input": unique("hi"), "background": True, "max_output_tokens": MOST, "stream": True}
        asking = asyncio.ensure_future(running.post(body))
        async with asyncio.timeout(5):
            heard = [False]
            while heard != [True]:
                await asyncio.sleep(0.005)
                seen = [turn.look.watcher.seen() for turn in running.proxy.turns if turn.look]
                heard = [bool(one.response_id) and one.produced_chars >= spoken for one in seen]
            (turn,) = running.proxy.turns
            turn.stop("enough")
            assert b"enough" in (await asking).body
        await running.proxy.quiet()
        assert await used(store) == MOST
        maker.broken.set()
        running.provider.script = maker.says
        maker.done(USED)
        await fetch(running)
        await running.proxy.quiet()
        assert (await used(store), await used(store, "cost_microusd")) == (300, COST)


async def test_a_stream_to_its_end_is_settled_as_always(store: Store) -> None:
    async with live(store, surface=responses, budgets=LIMITED, prices=PRICES) as running:
        maker = Maker(running)
        maker.broken.set()
        maker.done(USED)
        body = {"model": "mock-1", "input": unique("hi"), "background": True, "max_output_tokens": MOST, "stream": True}
        assert (await running.post(body)).status == 200
        await running.proxy.quiet()
        assert await used(store) == 300
        maker.done({"input_tokens": 1, "output_tokens": 1})
        await fetch(running)
        await running.proxy.quiet()
        assert await used(store) == 300


async def test_nobody_else_settles_it(store: Store) -> None:
    """Another key's look at it changes nothing, whatever the provider tells it."""
    mine, other = ({"x-test-key": name, "x-test-team": "web"} for name in ("k1", "k2"))
    async with live(store, surface=responses, budgets=LIMITED) as running:
        who(running)
        maker = Maker(running)
        await begin(running, headers=mine)
        maker.done({"input_tokens": 0, "output_tokens": 0})
        await fetch(running, headers=other)
        await fetch(running, f"/v1/responses/{ID}/cancel", "POST", headers=other)
        await fetch(running)
        await running.proxy.quiet()
        assert await used(store) == MOST
        maker.done(USED)
        await fetch(running, headers=mine)
        await running.proxy.quiet()
        assert await used(store) == 300


class Closed(Named):
    """Keys to which no route is open that is passed on unread."""

    async def meet(self, request: Request, surface: object = None) -> None:
        await super().meet(request, surface)
        request.tenant = replace(request.tenant, routes=() if request.tenant.key else ("*",))


async def test_a_key_fetches_its_own_answers_whatever_its_routes_say(store: Store) -> None:
    """And stops them under a budget of money: that spends nothing. Those of others are as closed to it as before."""
    async with live(store, surface=responses, budgets=LIMITED) as running:
        running.proxy.tenancy = Closed()  # type: ignore[assignment]
        maker = Maker(running)
        closed = {"x-test-key": "k1"}
        await begin(running, headers=closed)
        for method, rest in (("GET", ""), ("GET", "/input_items"), ("POST", "/cancel"), ("DELETE", "")):
            maker.done(USED if rest == "/input_items" or method == "DELETE" else None, "in_progress")
            assert (await fetch(running, f"/v1/responses/{ID}{rest}", method, closed)).status == 200, method
        assert await used(store) == MOST
        for method, rest in (("POST", ""), ("POST", "/input_items"), ("GET", "/cancel"), ("PUT", "")):
            assert (await fetch(running, f"/v1/responses/{ID}{rest}", method, closed)).status == 403, method
        for method, rest in (("GET", ""), ("POST", "/cancel"), ("DELETE", "")):
            assert (await fetch(running, f"/v1/responses/resp_other{rest}", method, closed)).status == 403, method
        maker.done(USED)
        assert (await fetch(running, f"/v1/responses/{ID}/cancel", "POST")).json["error"]["code"] == "route_not_metered"


REFUSED = {
    "money": ([budget("org", "cost_usd", 100)], "org, cost_usd, day"),
    "output": (
        [budget("user", "output_tokens", 10**9, "total"), budget("org", "output_tokens", 10**6, "hour")],
        "hour",
    ),
    "all tokens": ([budget("model", "total_tokens", 10**9, "month", match="mock-*")], "model, total_tokens, month"),
}


@pytest.mark.parametrize(("budgets", "said"), REFUSED.values(), ids=REFUSED)
async def test_one_that_nothing_bounds_is_refused(store: Store, budgets: list[Json], said: str) -> None:
    async with live(store, surface=responses, budgets=budgets) as running:
        Maker(running)
        for bound in ({}, {"max_output_tokens": None}, {"max_output_tokens": 0}):
            body = {"model": "mock-1", "input": "hi", "background": True, **bound}
            answer = await running.post(body)
            error = answer.json["error"]
            assert (answer.status, error["param"]) == (400, "max_output_tokens")
            assert said in error["message"]
            assert "Set `max_output_tokens`" in error["message"]
        assert (await running.post({"model": "mock-1", "input": "hi"})).status == 200, "at once it may be unbounded"
        assert len(running.provider.got) == 1


@pytest.mark.parametrize("sections", [{}, {"budgets": [budget("org", "requests", 9)]}, {"budgets": LIMITED}])
async def test_where_no_budget_asks_for_a_bound(store: Store, sections: Json) -> None:
    """Then it counts as `default_output_hold`, until it is fetched; so it is where budgets are only observed."""
    mode = {"mode": "observe"} if sections.get("budgets") is LIMITED else {}
    policy = {**mode, "limits": {"session": {"cost_usd": 5}}}
    async with live(store, surface=responses, prices=PRICES, policy=policy, **sections) as running:
        maker = Maker(running)
        assert await begin(running, max_output_tokens=None) == 200
        assert (await run_of(store))["output_tokens"] == 4096
        maker.done({"input_tokens": 5, "output_tokens": 30_000})
        await fetch(running)
        await running.proxy.quiet()
        assert (await run_of(store))["output_tokens"] == 30_000


TWICE = {
    "the bound": '"background":true,"max_output_tokens":100000,"max_output_tokens":16',
    "the bound, its letters as numbers": '"background":true,"max\\u005foutput_tokens":100000,"max_output_tokens":16',
    "whether it is one": '"background":true,"background":false,"max_output_tokens":16',
}


@pytest.mark.parametrize("said", TWICE.values(), ids=TWICE)
async def test_what_is_said_twice_is_refused(store: Store, said: str) -> None:
    """Providers differ in which of two they take."""
    async with live(store, surface=responses, budgets=LIMITED) as running:
        Maker(running)
        answer = await running.post(f'{{"model":"m","input":"hi",{said}}}'.encode())
        assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_json")
        for key in ('"Background":true', '"max_output_tokens":9'):  # LiteLLM spreads it over the body
            answer = await running.post(f'{{"model":"m","input":"hi","extra_body":{{{key}}}}}'.encode())
            assert (answer.status, answer.json["error"]["param"]) == (400, "extra_body")
        assert running.provider.got == []


@both
async def test_one_that_goes_on_with_an_answer_holds_what_the_provider_has_of_it(store: Store, stream: bool) -> None:
    """Its request is short, its input is not: should nobody fetch it, that is charged, too."""
    budgets = [*LIMITED, budget("org", "input_tokens", 10**6)]
    async with live(store, surface=responses, budgets=budgets) as running:
        maker = Maker(running)
        first = Said("ok", usage={"prompt_tokens": 50_000, "completion_tokens": 2000, "total_tokens": 52_000})
        running.provider.script = lambda _: first
        answer = await running.post({"model": "mock-1", "input": unique("hi")})
        running.provider.script = maker.says
        await begin(running, stream=stream, previous_response_id=answer.json["id"])
        assert 102_000 < await used(store, "input_tokens") < 102_200
        maker.done({"input_tokens": 52_100, "output_tokens": 300})
        await fetch(running)
        await running.proxy.quiet()
        assert await used(store, "input_tokens") == 102_100
        if stream:  # nobody goes on with what was left in the middle
            return
        factor = running.proxy.factor("mock-1")
        running.provider.script = lambda _: Said(raw=json.dumps(maker.response()).encode())
        await running.post({"model": "mock-1", "input": "go on", "previous_response_id": ID})
        await running.proxy.quiet()
        assert running.proxy.factor("mock-1") <= factor, "what the provider has is no sign of dense text"


GUARDED = {"forbidden": {"deny": ["delete_*"]}, "allowed by people": {"approval": ["delete_*"]}}


@pytest.mark.parametrize("tools", GUARDED.values(), ids=GUARDED)
async def test_calls_that_nobody_may_have_unjudged(store: Store, tools: Json) -> None:
    """What is fetched later is not looked into: so it is not asked for where a call in it may be forbidden."""
    named = [{"type": "function", "name": "delete_all", "parameters": {"type": "object"}}]
    policy = {"refuse": "enforce"}
    async with live(store, surface=responses, tools=tools, policy=policy) as running:
        Maker(running)
        body = {"model": "m", "input": unique("hi"), "background": True}
        for stream in (False, True):
            answer = await running.post(body | {"tools": named, "stream": stream})
            assert (answer.status, answer.json["error"]["param"]) == (400, "background")
        assert running.provider.got == []
        assert (await running.post(body)).status == 200, "it has no calls"
    async with live(store, tools=tools, policy=policy) as running:
        chats = [{"type": "function", "function": one} for one in named]
        asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "deferred": True, "tools": chats}
        answer = await running.post(asked)
        assert (answer.status, answer.json["error"]["param"]) == (400, "deferred")


async def test_one_that_was_not_asked_for_is_charged_in_full_all_the_same(store: Store) -> None:
    async with live(store, surface=responses, budgets=LIMITED) as running:
        maker = Maker(running)
        await begin(running, background=False)
        assert await used(store) == MOST
        maker.done(USED)
        await fetch(running)
        await running.proxy.quiet()
        assert await used(store) == 300


async def test_it_is_settled_in_the_window_that_it_was_charged_in(store: Store) -> None:
    """The next day's budget has nothing of it; the day's row of usage is put right, and so is its file."""
    async with live(store, surface=responses, budgets=[budget("org", "output_tokens", 20_000)]) as running:
        running.offset_ms = at("2026-11-29T23:59:00+00:00")
        maker = Maker(running)
        await begin(running)
        yesterday = running.offset_ms
        running.offset_ms = at("2026-11-30T00:01:00+00:00")
        maker.answer = "resp_2"
        await begin(running)
        maker.answer = ID
        maker.done(USED)
        await fetch(running)
        await running.proxy.quiet()
        assert sorted((await counters(store)).values()) == [(300, 0), (MOST, 0)]
        assert (await row(store, yesterday))["output_tokens"] == 300
        assert await store.usages.corrected("default", 0) == ["2026-11-29"]


async def test_the_figures_of_metrics(store: Store) -> None:
    async with live(store, surface=responses, budgets=LIMITED, prices=PRICES) as running:
        maker = Maker(running)
        await begin(running)
        maker.done(USED)
        await fetch(running)
        await running.proxy.quiet()
        series = running.proxy.telemetry.snapshot().series
        assert series["guardproxy.background"] == {("default", "charged"): [1.0], ("default", "settled"): [1.0]}
        spent = sum(cell[0] for cell in series["guardproxy.cost.usd"].values())
        returned = sum(cell[0] for cell in series["guardproxy.background.returned.usd"].values())
        assert spent - returned == pytest.approx(COST / 1e6)


@both
async def test_it_is_fetched_unencoded_and_where_it_is_made(store: Store, stream: bool) -> None:
    """An encoding that cannot be read would leave it charged in full; another upstream does not have it."""
    async with several(store, surface=responses, names="bc", budgets=LIMITED) as run:
        maker = Maker(run.running)
        busy = Said(status=503)
        run.say(b=busy)
        run.providers["c"].script = maker.says
        assert await begin(run.running, model="gpt-1", stream=stream) == 200
        run.say(b=Said("of another"))
        maker.done(USED)
        answer = await fetch(run.running, headers={"Accept-Encoding": "br, zstd"})
        assert answer.headers["x-guardproxy-upstream"] == "c"
        assert run.providers["c"].got[-1].headers.get("Accept-Encoding", "identity") == "identity"
        await run.running.proxy.quiet()
        assert await used(store) == 300
        await fetch(run.running, f"/v1/responses/{ID}/cancel", "POST")
        assert run.providers["c"].got[-1].path.endswith("/cancel")


DEFERRED = {"request_id": "f15c114e-F47d-40ca-8d5c-8c23d656eeb6"}


async def test_a_deferred_completion(store: Store) -> None:
    """xAI's: the answer names a request, and the completion is fetched under that name, once it is there."""
    path = f"/v1/chat/deferred-completion/{DEFERRED['request_id']}"
    done = Said("x" * 40, usage={"prompt_tokens": 50, "completion_tokens": 300, "total_tokens": 350})
    async with live(store, surface=chat, budgets=LIMITED, prices=PRICES) as running:
        running.provider.script = lambda _: Said(raw=json.dumps(DEFERRED).encode())
        body = {"model": "grok", "messages": [{"role": "user", "content": "hi"}], "deferred": True}
        answer = await running.post(body)
        assert (answer.status, answer.json["error"]["param"]) == (400, "max_completion_tokens")
        answer = await running.post(body | {"max_completion_tokens": MOST})
        assert answer.json == DEFERRED
        await running.proxy.quiet()
        assert await used(store) == MOST
        running.provider.script = lambda _: Said(raw=b"", status=202)
        assert (await fetch(running, path)).status == 202
        running.provider.script = lambda _: done
        for _ in range(2):
            assert (await fetch(running, path)).json["usage"]["completion_tokens"] == 300
        await running.proxy.quiet()
        assert (await used(store), await used(store, "cost_microusd")) == (300, COST)


# ------------------------------------------------------------------------------------------------ its parts alone


class Away:
    """A store that is away until `back`."""

    def __init__(self, *, sends: bool) -> None:
        self.sends, self.back, self.told = sends, False, list[str]()

    async def look(self, org: str, name: str) -> None:
        raise StoreError("away")

    def settle_soon(self, org: str, name: str, *rest: object) -> bool:
        if self.sends:
            asyncio.get_running_loop().call_soon(rest[2], None)
        return self.sends

    async def settle(self, org: str, name: str, *_rest: object) -> bool:
        if not self.back:
            raise StoreError("away")
        self.told.append(name)
        return True


@pytest.mark.parametrize("sends", [False, True])
async def test_what_the_store_cannot_hear_waits(sends: bool) -> None:
    away = Away(sends=sends)
    told = background.Background(lambda: away)  # type: ignore[arg-type, return-value]
    assert await told.look("o", "n") is None
    heard: list[int] = []
    told.settle(background.Settled("o", "n", {}, (), 0, 0), lambda: heard.append(1))
    await asyncio.sleep(0)
    assert told.under_way == 0
    with pytest.raises(StoreError):
        await told.pay()
    away.back = True
    await told.pay()
    await told.pay()
    assert (away.told, heard) == (["n"], [1])


SAYS = {
    "once": ('{"a":1}', ""),
    "twice": ('{"a":1,"b":2,"a":1}', "a"),
    "in capital letters": ('{"b":1,"B":2}', "b"),
    "inside another": ('{"a":1,"c":{"a":1}}', ""),
    "in a text": ('{"a":"\\"a\\":1, \\"a\\":2"}', ""),
    "as a number": ('{"\\u0061":1,"a":2}', "a"),
    "a sign that is folded": ('{"\u212a":1,"k":2}', "k"),
    "its number": ('{"\\u212A":1,"k":2}', "k"),
    "no JSON": ('{"a":1,"a":', ""),
    "no object": ('["a","a"]', ""),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("body", "key"), SAYS.values(), ids=SAYS)
def test_what_a_body_says_twice(body: str, key: str) -> None:
    assert said_twice(body.encode(), ("a", "b", "k")) == key


NAMED = {
    "a name": (DEFERRED, DEFERRED["request_id"], "queued"),
    "none": ({"request_id": ""}, "", ""),
    "no text": ({"request_id": 7}, "", ""),
    "an error": ({"request_id": "r", "error": {"message": "no"}}, "", ""),
    "of vectors": ({"request_id": "r", "data": []}, "", ""),
    "with usage": ({"request_id": "r", "usage": {"prompt_tokens": 1}}, "", ""),
    "a completion": ({"request_id": "r", "id": "c", "choices": [{"finish_reason": "stop"}]}, "c", "stop"),
}


@pytest.mark.parametrize(("payload", "name", "finish"), NAMED.values(), ids=NAMED)
def test_an_answer_that_names_a_request(payload: Json, name: str, finish: str) -> None:
    answer = AnswerRead()
    answer.take(payload)
    assert (answer.id, answer.first.finish, answer.done) == (name, finish, finish == "queued")


def test_what_another_version_wrote_is_nothing() -> None:
    assert background.read('{"surface": 1}') is None
    assert background.read("") is None
    assert background.read('{"surface":"responses","model":"m","more":1}') == About("responses", "m")
