"""Budgets of tenants over HTTP: what is held, refused, waited for and made to fit; what the client is told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from multidict import CIMultiDictProxy

from guardproxy.core.tenant import Tenant
from guardproxy.core.windows import Budget
from guardproxy.errors import StoreError
from guardproxy.http import app
from guardproxy.http.keyring import Keyring, Made
from guardproxy.http.request import Request
from guardproxy.secrets import derive
from guardproxy.store.redis import Store
from guardproxy.store.registry import Org, Team
from tests.live import SECRET, Answer, Got, Json, Live, Said, live, unique
from tests.store.kit import amounts, keys

PRICES = {"models": {"*": {"input": 10, "output": 100}}}
USED = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
COST = 100 * 10 + 50 * 100


def at(text: str, now: float | None = None) -> int:
    """The offset that makes the store's clock show this moment."""
    return round((datetime.fromisoformat(text).timestamp() - (now or time.time())) * 1000)


class Named:
    """In the place of `Tenancy`: org, team, key and user come in headers of the test."""

    async def meet(self, request: Request, _surface: object = None) -> None:
        named = {name: request.headers.get(f"x-test-{name}", "") for name in ("team", "key", "user")}
        request.tenant = Tenant(**named)

    def onward(self, headers: CIMultiDictProxy[str]) -> CIMultiDictProxy[str]:
        return headers


def who(running: Live) -> None:
    """Team, key and user come in headers."""
    running.proxy.tenancy = Named()  # type: ignore[assignment]


def body(text: str = "hello", **more: object) -> Json:
    return {"model": "mock-1", "messages": [{"role": "user", "content": text}], **more}


async def ask(running: Live, text: str = "", headers: Mapping[str, str] | None = None, **more: object) -> Answer:
    answer = await running.post(body(text or unique("q"), **more), headers)
    await running.proxy.quiet()
    return answer


LATE_MS = 10**7
"""Past every lease."""


async def counters(store: Store) -> dict[str, tuple[int, int]]:
    """Used and held of all counters outside of sessions."""
    return await amounts(store, "default")


def budget(scope: str, dimension: str, limit: float, window: str | None = "day", **more: object) -> Json:
    made: Json = {"scope": scope, "dimension": dimension, "limit": limit, **more}
    return made | ({"window": window} if window else {})


async def test_every_scope_and_dimension_is_counted_where_it_belongs(store: Store) -> None:
    budgets = [
        budget("org", "cost_usd", 100, timezone="Europe/Berlin"),
        budget("org", "requests", 100, "month"),
        budget("team", "input_tokens", 10**6, "week"),
        budget("key", "output_tokens", 10**6, "total"),
        budget("user", "total_tokens", 10**6, "hour"),
        budget("model", "cost_usd", 100, "total", match="mock-*"),
        budget("model", "cost_usd", 100, "total", match="gpt-*"),
        budget("org", "concurrent_requests", 9, None),
    ]
    async with live(store, budgets=budgets, prices=PRICES) as running:
        who(running)
        running.offset_ms = at("2026-11-30T23:30:00+00:00")
        running.provider.script = lambda _got: Said("ok", usage=USED)
        answer = await ask(running, headers={"x-test-team": "red", "x-test-key": "k1", "x-test-user": "ann"})
        assert answer.status == 200
        hour = datetime(2026, 11, 30, 23, tzinfo=UTC).timestamp() // 3600
        assert await counters(store) == {
            "d:org::Europe/Berlin:2026-12-01 cost_microusd": (COST, 0),
            "M:org::UTC:2026-11 requests": (1, 0),
            "w:team:red:UTC:2026-W49 input_tokens": (100, 0),
            "t:key:k1 output_tokens": (50, 0),
            f"h:user:ann:{hour:.0f} total_tokens": (150, 0),
            "t:model:mock-* cost_microusd": (COST, 0),
            "n:org: concurrent_requests": (0, 0),
        }


async def test_the_denial_says_whose_limit_and_how_to_get_through(store: Store) -> None:
    budgets = [budget("team", "requests", 2, timezone="Europe/Berlin"), budget("team", "cost_usd", 50, "total")]
    async with live(store, budgets=budgets, prices=PRICES) as running:
        who(running)
        running.offset_ms = at("2026-03-29T12:00:00+00:00")  # the day on which the clocks go forward
        red, blue = {"x-test-team": "red"}, {"x-test-team": "blue"}
        found = [(await ask(running, headers=red)).status for _ in range(2)]
        denied = await ask(running, headers=red)
        assert (found, denied.status) == ([200, 200], 400)
        error = denied.json["error"]
        assert error["code"] == "budget_exceeded"
        assert error["rule"] == denied.rule == "budget.requests"
        assert error["budget"] == {
            "scope": "team",
            "kind": "requests",
            "limit": 2,
            "used": 2,
            "held": 0,
            "hold": 1,
            "window": "day",
            "timezone": "Europe/Berlin",
            "resets_at": "2026-03-29T22:00:00Z",
            "how": ["wait until 2026-03-29T22:00:00Z", "have the limit of the team raised by whoever governs it"],
        }
        assert denied.headers["x-should-retry"] == "false"
        assert "Retry-After" not in denied.headers
        assert "red" not in denied.body.decode()
        assert (await ask(running, headers=blue)).status == 200
        assert (await ask(running)).status == 200  # of no team: none of these limits
        running.offset_ms = at("2026-03-29T22:00:01+00:00")
        assert (await ask(running, headers=red)).status == 200
        assert len(running.provider.got) == 5


@pytest.mark.parametrize("status", [400, 402, 403, 422, 429])
async def test_the_status_is_the_policys_and_is_never_worth_a_retry(store: Store, status: int) -> None:
    async with live(store, budgets=[budget("org", "requests", 1)], policy={"deny_status": status}) as running:
        assert (await ask(running)).status == 200
        denied = await ask(running)
        assert (denied.status, denied.json["error"]["code"]) == (status, "budget_exceeded")
        assert (denied.headers["x-should-retry"], denied.headers.get("Retry-After")) == ("false", None)


async def test_63_a_denied_request_costs_nothing(store: Store) -> None:
    async with live(store, budgets=[budget("org", "cost_usd", 0.3, "total")], prices=PRICES) as running:
        running.provider.script = lambda _got: Said("ok", usage=USED)
        assert (await ask(running, max_tokens=10)).status == 200
        before = await counters(store)
        assert {(await ask(running, max_tokens=4000)).status for _ in range(5)} == {400}
        assert await counters(store) == before == {"t:org: cost_microusd": (COST, 0)}
        assert len(running.provider.got) == 1


async def test_what_a_call_really_cost_is_counted_in_full_and_the_next_is_refused(store: Store) -> None:
    dear = {"prompt_tokens": 100, "completion_tokens": 90_000, "total_tokens": 90_100}
    async with live(store, budgets=[budget("org", "cost_usd", 1, "total")], prices=PRICES) as running:
        running.provider.script = lambda _got: Said("ok", usage=dear)
        assert (await ask(running)).status == 200
        assert await counters(store) == {"t:org: cost_microusd": (100 * 10 + 90_000 * 100, 0)}
        assert (await ask(running, max_tokens=1)).status == 400


async def test_a_failed_call_gives_back_all_and_counts_as_a_request(store: Store) -> None:
    budgets = [
        budget("org", "cost_usd", 50),
        budget("org", "requests", 9),
        budget("org", "concurrent_requests", 1, None),
    ]
    async with live(store, budgets=budgets, prices=PRICES) as running:
        running.provider.script = lambda _got: Said(status=500, raw=b'{"error":{"message":"no"}}')
        assert [(await ask(running)).status for _ in range(3)] == [500, 500, 500]
        found = await counters(store)
        assert sorted(found.values()) == [(0, 0), (0, 0), (3, 0)]


# ------------------------------------------------------------------------------------------------------------- rates


async def test_a_full_minute_is_told_when_to_come_again_at_once(store: Store) -> None:
    async with live(store, budgets=[budget("org", "requests", 2, "minute")]) as running:
        running.offset_ms = at("2026-11-30T10:00:20+00:00")
        assert [(await ask(running)).status for _ in range(2)] == [200, 200]
        began = time.monotonic()
        late = await ask(running)
        assert time.monotonic() - began < 1  # 40 s are too long to wait
        error = late.json["error"]
        assert (late.status, error["code"], late.rule) == (429, "rate_limit_exceeded", "rate.requests")
        assert 36 <= int(late.headers["Retry-After"]) <= 40
        assert "x-should-retry" not in late.headers
        assert (error["budget"]["window"], error["budget"]["resets_at"]) == ("minute", "2026-11-30T10:01:00Z")
        running.offset_ms += 41_000
        assert (await ask(running)).status == 200


async def test_a_minute_that_ends_in_a_moment_is_waited_for(store: Store) -> None:
    async with live(store, budgets=[budget("org", "requests", 1, "minute")]) as running:
        running.offset_ms = at("2026-11-30T10:00:58.800+00:00")
        assert (await ask(running)).status == 200
        began = time.monotonic()
        answer = await ask(running)
        assert answer.status == 200
        assert 0.2 < time.monotonic() - began < 2


async def test_concurrent_requests_wait_for_each_other(store: Store) -> None:
    async with live(store, budgets=[budget("org", "concurrent_requests", 2, None)]) as running:
        most = [0, 0]

        async def busy() -> None:
            most[0] += 1
            most[1] = max(most)
            await asyncio.sleep(0.2)
            most[0] -= 1

        running.provider.script = lambda _got: Said("ok", wait=busy())
        answers = await asyncio.gather(*(running.post(body(unique("q"))) for _ in range(6)))
        assert [answer.status for answer in answers] == [200] * 6
        assert most[1] == 2
        await running.proxy.quiet()
        assert await counters(store) == {"n:org: concurrent_requests": (0, 0)}


async def test_who_waits_too_long_is_told_to_come_again(store: Store) -> None:
    async with live(store, budgets=[budget("org", "concurrent_requests", 1, None)]) as running:
        free = asyncio.Event()
        running.provider.script = lambda _got: Said("ok", wait=free.wait())
        first = asyncio.ensure_future(running.post(body("first")))
        while not running.provider.got:
            await asyncio.sleep(0.01)
        began = time.monotonic()
        late = await running.post(body("second"))
        assert 1 < time.monotonic() - began < 2.5
        assert (late.status, late.headers["Retry-After"]) == (429, "1")
        free.set()
        assert (await first).status == 200


async def test_a_rate_that_a_request_alone_is_above_is_no_rate_to_wait_for(store: Store) -> None:
    async with live(store, budgets=[budget("org", "output_tokens", 100, "minute")]) as running:
        assert (await ask(running, max_tokens=100)).status == 200
        never = await ask(running, max_tokens=101)
        assert (never.status, never.json["error"]["code"]) == (400, "budget_exceeded")


@pytest.mark.parametrize(("window", "status", "marks"), [("minute", 429, 0), ("day", 400, 1)])
async def test_a_run_that_came_too_soon_is_not_ended(store: Store, window: str, status: int, marks: int) -> None:
    """What starts with the same words next would join an ended run."""
    async with live(store, budgets=[budget("org", "requests", 1, window)]) as running:
        running.offset_ms = at("2026-11-30T10:00:20+00:00")
        talk = [*body("one")["messages"]]
        talk += [(await ask(running, messages=talk)).json["choices"][0]["message"], {"role": "user", "content": "more"}]
        assert (await ask(running, messages=talk)).status == status
        heads = await keys(store, "gp:{default}:h:*")
        assert [int(await store._client.command("HGET", head, "ended") or 0) for head in heads] == [marks]
        running.offset_ms += 86_400_000
        assert (await ask(running, messages=talk)).headers["x-guardproxy-turn"] == "2"


# ------------------------------------------------------------------------------------------------------ shrink-to-fit


def asked(got: Got) -> dict[str, int]:
    return {name: got.json[name] for name in ("max_tokens", "max_completion_tokens") if name in got.json}


@pytest.mark.parametrize("model", ["mock-1", "gpt-5-mini"])
@pytest.mark.parametrize("given", [{}, {"max_tokens": 3000}, {"max_completion_tokens": 3000}])
@pytest.mark.parametrize("dimension", ["output_tokens", "cost_usd"])
async def test_an_answer_is_made_to_fit(store: Store, model: str, given: dict[str, int], dimension: str) -> None:
    limit = 1000 if dimension == "output_tokens" else 0.1  # 1000 tokens at 100 dollars a million
    sections = {"prices": PRICES, "policy": {"shrink_to_fit": True}, "budgets": [budget("org", dimension, limit)]}
    async with live(store, **sections) as running:
        running.provider.script = lambda _got: Said("ok", usage=USED)
        answer = await running.post({"messages": body()["messages"], **given, "model": model})
        assert answer.status == 200
        assert "max_tokens" in answer.headers["x-guardproxy-edit"]
        sent = asked(running.provider.got[0])
        name = next(iter(given), "max_completion_tokens" if model == "gpt-5-mini" else "max_tokens")
        assert list(sent) == [name]
        assert 900 < sent[name] <= 1000


async def test_without_the_policy_or_room_nothing_is_shortened(store: Store) -> None:
    budgets = [budget("org", "output_tokens", 100)]
    async with live(store, budgets=budgets) as running:
        assert (await ask(running)).status == 400
    async with live(store, budgets=budgets, policy={"shrink_to_fit": True}) as running:
        running.provider.script = lambda _got: Said("ok", usage=USED)
        assert (await ask(running)).status == 200
        refused = await ask(running)  # 50 tokens are left, too few for an answer
        assert refused.status == 400
        assert [asked(got) for got in running.provider.got] == [{"max_tokens": 100}]


async def test_input_that_does_not_fit_is_not_helped_by_less_output(store: Store) -> None:
    budgets = [budget("org", "input_tokens", 100)]
    async with live(store, budgets=budgets, policy={"shrink_to_fit": True}) as running:
        assert (await ask(running, "word " * 400)).status == 400


# --------------------------------------------------------------------------------------------------------- other paths


@pytest.mark.parametrize("path", ["/v1/rerank", "/v1/audio/speech", "/v1/moderations"])
async def test_9_a_route_that_is_not_counted_is_refused_where_there_are_budgets(store: Store, path: str) -> None:
    budgets = [budget("org", "cost_usd", 5)]
    async with live(store, budgets=budgets) as running:
        answer = await running.post({"model": "m", "input": "x"}, path=path)
        assert (answer.status, answer.json["error"]["code"]) == (400, "route_not_metered")
        assert not running.provider.got
    for sections in ({}, {"budgets": budgets, "policy": {"unmetered": "pass"}}):
        async with live(store, **sections) as running:
            assert (await running.post({"model": "m", "input": "x"}, path=path)).status == 200


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1/responses/input_tokens"])
async def test_what_only_counts_tokens_uses_none(store: Store, path: str) -> None:
    budgets = [budget("org", "cost_usd", 5), budget("org", "requests", 1)]
    async with live(store, budgets=budgets) as running:
        running.provider.script = lambda _got: Said(raw=b'{"input_tokens":2095}')
        assert (await running.post({"model": "m", "input": "x"}, path=path)).json == {"input_tokens": 2095}
        await running.proxy.quiet()
        assert sorted(used for used, _ in (await counters(store)).values()) == [0, 1]
        assert (await running.post({"model": "m", "input": "x"}, path=path)).status == 400, "it is a request"


async def test_an_observing_policy_counts_and_refuses_nothing(store: Store) -> None:
    async with live(store, budgets=[budget("org", "requests", 1)], policy={"mode": "observe"}) as running:
        answers = [await ask(running) for _ in range(3)]
        assert [answer.status for answer in answers] == [200] * 3
        assert [answer.rule for answer in answers] == ["", "budget.requests", "budget.requests"]
        assert sum(used for used, _ in (await counters(store)).values()) == 3


async def test_in_a_panic_no_limit_holds(store: Store) -> None:
    async with live(store, budgets=[budget("org", "requests", 1)]) as running:
        await store.panic(True)
        assert [(await ask(running)).status for _ in range(3)] == [200] * 3
        await store.panic(False)
        assert (await ask(running)).status == 400


async def test_a_hundred_at_once_are_exactly_the_limit(store: Store) -> None:
    budgets = [budget("org", "requests", 30), budget("key", "requests", 12, match="k*")]
    async with live(store, budgets=budgets) as running:
        who(running)
        sent = [running.post(body(unique("q")), {"x-test-key": f"k{n % 5}"}) for n in range(100)]
        answers = await asyncio.gather(*sent)
        await running.proxy.quiet()
        assert sum(answer.status == 200 for answer in answers) == len(running.provider.got) == 30
        found = await counters(store)
        assert sum(used for name, (used, _) in found.items() if name.startswith("d:key:")) == 30
        assert max(used for name, (used, _) in found.items() if name.startswith("d:key:")) <= 12
        assert {held for _, held in found.values()} == {0}


async def test_5_clients_that_leave_leave_nothing_held(store: Store) -> None:
    """In the middle of a stream, before it, while waiting for a place: whoever goes gives his place back."""
    budgets = [budget("org", "cost_usd", 50), budget("org", "concurrent_requests", 2, None)]
    async with live(store, budgets=budgets, prices=PRICES) as running:
        never = asyncio.Event()
        running.provider.script = lambda _got: Said("a long answer", wait=never.wait())
        for _ in range(3):
            asking = [asyncio.ensure_future(running.post(body(unique("q"), stream=True))) for _ in range(4)]
            while (await counters(store)).get("n:org: concurrent_requests") != (0, 2):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)  # the other two wait
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            await running.proxy.quiet()
            async with asyncio.timeout(5):
                while any(held for _, held in (await counters(store)).values()):
                    await asyncio.sleep(0.01)
        never.set()
        assert (await ask(running)).status == 200


class Away:
    """A store that does not answer."""

    def __init__(self, store: Store) -> None:
        self._store, self.away = store, True

    def __getattr__(self, name: str) -> object:
        if self.away and name in ("begin", "settle", "settle_soon"):
            return self._gone if name != "settle_soon" else lambda *_args: False
        return getattr(self._store, name)

    async def _gone(self, *_args: object) -> None:
        await asyncio.sleep(0)
        raise StoreError("away")


OPEN = {"store": {"on_failure": "open"}}


@pytest.mark.parametrize("budgets", [[], [budget("org", "requests", 2, "minute")], [budget("org", "cost_usd", 2)]])
async def test_without_the_store_nothing_is_sent_that_a_budget_would_have_to_count(
    store: Store, budgets: list[Json]
) -> None:
    """Unless the owner says otherwise; who has none, and rates alone, goes on."""
    away = Away(store)
    async with live(away, budgets=budgets) as running:  # type: ignore[arg-type]
        hard = bool(budgets) and budgets[0]["window"] == "day"
        told = await ask(running)
        assert told.status == (503 if hard else 200)
        if hard:
            assert told.headers["Retry-After"] == "1"
            assert told.json["error"]["code"] == "store_unavailable"
            assert "budgets" in told.json["error"]["message"]
            assert str(store) not in told.json["error"]["message"]
            assert running.provider.got == []
        away.away = False
        assert (await ask(running)).status == 200


async def test_without_the_store_each_worker_keeps_the_limits_and_tells_what_was_used(store: Store) -> None:
    away = Away(store)
    async with live(away, budgets=[budget("org", "requests", 2)], **OPEN) as running:  # type: ignore[arg-type]
        assert [(await ask(running)).status for _ in range(3)] == [200, 200, 400]
        assert await counters(store) == {}
        away.away = False
        assert await running.proxy.books.pay() == 2
        assert [*(await counters(store)).values()] == [(2, 0)]
        assert (await ask(running)).status == 400


async def test_4_many_at_once_without_the_store_are_exactly_the_limit(store: Store) -> None:
    """Nobody is told that a budget is used up which is not; and what the store hears later is the sum."""
    away = Away(store)
    async with live(away, budgets=[budget("org", "requests", 60, "total")], **OPEN) as running:  # type: ignore[arg-type]
        answers = await asyncio.gather(*(running.post(body(unique("q"))) for _ in range(60)))
        assert {answer.status for answer in answers} == {200}
        assert (await ask(running)).status == 400
        away.away = False
        assert await running.proxy.books.pay() == 60
        assert await counters(store) == {"t:org: requests": (60, 0)}


REFUSING = {"policy": {"refuse": "enforce"}, "tools": {"deny": ["delete"]}}


async def test_a_question_that_is_asked_again_holds_of_the_tenant_too_and_is_one_request(store: Store) -> None:
    budgets = [budget("org", "output_tokens", 10_000, "total"), budget("org", "requests", 5, "total")]
    tool = {"type": "function", "function": {"name": "delete", "parameters": {}}}
    for limit, sent in ((10_000, 2), (5000, 1)):
        await store._client.each("FLUSHALL")
        budgets[0]["limit"] = limit
        async with live(store, budgets=budgets, **REFUSING) as running:
            waiting = [Said(calls=[("delete", "{}", "call_00000001")], usage=USED), Said("then not", usage=USED)]
            running.provider.script = lambda _got, waiting=waiting: waiting.pop(0)
            answer = await ask(running, tools=[tool])
            assert answer.status == 200
            assert len(running.provider.got) == sent
            assert await counters(store) == {"t:org: output_tokens": (50 * sent, 0), "t:org: requests": (1, 0)}


# ------------------------------------------------------------------------------------------- budgets of the registry


async def test_org_team_key_user_and_model_are_held_to_what_their_documents_say(store: Store) -> None:
    """One step over all of them; a change holds within two seconds; another org has counters of its own."""
    ring = Keyring(store.registry, derive(SECRET).key_hash, "a test")
    for org in ("acme", "other"):
        await store.registry.put(Org(org, budgets=(Budget("org", "requests", "total", 9),)))
    team = await store.registry.put(Team("acme", "web", budgets=(Budget("user", "requests", "total", 3),)))
    one, two = [await ring.make_key("acme", "web", user_header="x-user") for _ in range(2)]
    models = (Budget("model", "requests", "total", 2, match="gpt-*"), Budget("key", "requests", "total", 4))
    await store.registry.put(replace(one.key, budgets=models))
    outside = await ring.make_key("other")
    file = [budget("org", "requests", 1, "total")]
    async with live(store, auth="keys", upstream={"api_key": "sk-provider"}, budgets=file) as running:

        async def say(made: Made, user: str = "", model: str = "m") -> str:
            headers = {"Authorization": f"Bearer {made.secret}", **({"x-user": user} if user else {})}
            answer = await ask(running, headers=headers, model=model)
            if answer.status == 200:
                return ""
            found: str = answer.json["error"]["budget"]["scope"]
            return found

        assert [await say(one, "ann") for _ in range(2)] == ["", ""]
        assert [await say(one, "bob", "gpt-5") for _ in range(3)] == ["", "", "model"]
        assert await say(one, "ann") == "key"
        assert [await say(two, "ann", "gpt-5") for _ in range(2)] == ["", "user"]
        assert [await say(two) for _ in range(5)] == ["", "", "", "", "org"]
        assert [await say(outside) for _ in range(10)] == [""] * 9 + ["org"]
        assert await counters(store) == {}  # of the default org, whose file has a limit
        acme = await keys(store, "gp:{acme}:w:*")
        assert {key.partition(":w:")[2] for key in acme} == {
            "t:org:",
            f"t:key:{one.key.id}",
            f"t:model:key%3A{one.key.id}%2Fgpt-*",
            "t:user:team%3Aweb%2Fann",
            "t:user:team%3Aweb%2Fbob",
        }
        await store.registry.put(Org("acme", budgets=(Budget("org", "requests", "total", 10),)))
        await store.registry.put(replace(team, budgets=()))
        async with asyncio.timeout(3):
            while await say(two, "ann"):
                await asyncio.sleep(0.1)
        assert await say(two, "ann") == "org"


@pytest.mark.parametrize("auth", ["none", "passthrough"])
async def test_without_keys_of_ours_the_default_orgs_document_holds_beside_the_file(
    store: Store, auth: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first request on, and within two seconds of a change."""
    monkeypatch.setattr(app, "PAY_S", 0.05)
    org = await store.registry.put(Org("default", budgets=(Budget("org", "requests", "total", 2),)))
    async with live(store, auth=auth, budgets=[budget("org", "requests", 4, "month")]) as running:
        assert [(await ask(running)).status for _ in range(3)] == [200, 200, 400]
        await store.registry.put(replace(org, budgets=(Budget("org", "requests", "total", 3),)))
        async with asyncio.timeout(2):
            while (await ask(running)).status != 200:
                await asyncio.sleep(0.02)
        await store.registry.delete(Org("default"))
        async with asyncio.timeout(2):
            while (await ask(running)).status != 200:
                await asyncio.sleep(0.02)
        answer = await ask(running)
        assert (answer.status, answer.json["error"]["budget"]["window"]) == (400, "month")
