"""/v1/completions and /v1/embeddings through the proxy: counted, priced, held and settled; their bytes untouched.

And what is passed on unread: what its answer says was used is counted where the policy lets it pass.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Mapping
from typing import Any

import pytest

from guardproxy.store.redis import Store
from tests.http.test_room import at, budget, counters, who
from tests.http.test_tenancy import ring
from tests.live import Answer, Got, Json, Live, Said, live
from tests.scenes import Heard

COMPLETIONS, EMBEDDINGS = "/v1/completions", "/v1/embeddings"
PRICES = {"models": {"m*": {"input": 1.0, "output": 10.0}}}
DONE = b"data: [DONE]\n\n"


def completion(text: str = "one two", **usage: int) -> Json:
    choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": "stop"}
    made: Json = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m-1", "choices": [choice]}
    return {**made, "usage": usage} if usage else made


def said(got: Got) -> Said:
    """A provider of both: whole, or with its usage in a stream that asks for it."""
    asked = got.json
    if got.path.startswith(EMBEDDINGS):
        data = [{"object": "embedding", "index": 0, "embedding": [0.25, -1e-7]}]
        usage = {"prompt_tokens": 40, "total_tokens": 40}
        return Said(raw=json.dumps({"object": "list", "data": data, "model": "m-e", "usage": usage}).encode())
    if not asked.get("stream"):
        return Said(raw=json.dumps(completion(prompt_tokens=30, completion_tokens=5)).encode())
    events = [completion("one "), completion("two")]
    if (asked.get("stream_options") or {}).get("include_usage"):
        events.append({**completion(prompt_tokens=30, completion_tokens=5), "choices": []})
    return Said(raw=[b"data: " + json.dumps(event).encode() + b"\n\n" for event in events] + [DONE])


ASKED: dict[str, tuple[str, Json, tuple[int, int, int]]] = {
    # path, body, settled: input, output, micro-dollars
    "completion": (COMPLETIONS, {"model": "m", "prompt": "Say", "max_tokens": 8}, (30, 5, 80)),
    "completion stream": (COMPLETIONS, {"model": "m", "prompt": "Say", "max_tokens": 8, "stream": True}, (30, 5, 80)),
    "embedding": (EMBEDDINGS, {"model": "m", "input": ["a", "b"]}, (40, 0, 40)),
}


async def post(running: Live, name: str, headers: Mapping[str, str] | None = None, prefix: str = "") -> Answer:
    path, body, _ = ASKED[name]
    answer = await running.post(body, headers, path=prefix + path + "?a=1")
    await running.proxy.quiet()
    return answer


@pytest.mark.parametrize("name", ASKED)
async def test_counted_priced_and_untouched(store: Store, heard: Heard, name: str) -> None:
    path, body, (given, made, cost) = ASKED[name]
    async with live(store, heard, prices=PRICES, budgets=[budget("org", "cost_usd", 1)]) as running:
        running.provider.script = said
        for prefix, headers in (("/s/run-1", {}), ("", {"x-guardproxy-session-id": "run-1"})):
            answer = await post(running, name, headers, prefix)
            assert (answer.status, answer.verdict) == (200, "pass"), answer.body
            assert answer.headers["x-guardproxy-session-id"] == "run-1"
            report = await heard.reports.get()
            assert (report.surface, report.route) == (path.rsplit("/", 1)[1], path)
            assert (report.usage.input, report.usage.output, report.usage.estimated) == (given, made, False)
            assert report.cost_microusd == cost
            assert name != "embedding" or (report.outcome, report.view.thread) == ("", "aside")
            got = running.provider.got[-1]
            assert got.path == path + "?a=1"
            sent = running.provider.sent[-1]
            if body.get("stream"):
                assert got.json == {**body, "stream_options": {"include_usage": True}}
                assert answer.headers["x-guardproxy-edit"] == "usage"
                assert answer.body == b"".join(one for one in _events(sent) if b'"choices": []' not in one)
            else:
                assert got.body == json.dumps(body).encode()
                assert answer.body == sent
        assert {*(await counters(store)).values()} == {(2 * cost, 0)}


def _events(raw: bytes) -> list[bytes]:
    return [event + b"\n\n" for event in raw.split(b"\n\n") if event]


@pytest.mark.parametrize("name", ASKED)
async def test_held_before(store: Store, name: str) -> None:
    """While a request is under way, what it may cost is held: 1 + 8 tokens of output, or none of an embedding."""
    path, body, _ = ASKED[name]
    async with live(store, prices=PRICES, budgets=[budget("org", "output_tokens", 1000)]) as running:
        free = asyncio.Event()
        running.provider.script = lambda got: Said(raw=said(got).raw, wait=free.wait())
        asking = asyncio.ensure_future(running.post(body, path=path))
        async with asyncio.timeout(5):
            while not running.provider.got:
                await asyncio.sleep(0.005)
        assert [held for _, held in (await counters(store)).values()] == [0 if path == EMBEDDINGS else 8]
        free.set()
        assert (await asking).status == 200
        await running.proxy.quiet()
        assert [held for _, held in (await counters(store)).values()] == [0]


@pytest.mark.parametrize("name", ASKED)
async def test_a_budget_that_is_used_up_denies(store: Store, name: str) -> None:
    async with live(store, budgets=[budget("team", "requests", 1)]) as running:
        who(running)
        running.provider.script = said
        red = {"x-test-team": "red"}
        assert (await post(running, name, red)).status == 200
        denied = await post(running, name, red)
        error = denied.json["error"]
        assert (denied.status, error["code"], error["type"]) == (400, "budget_exceeded", "invalid_request_error")
        assert (denied.verdict, denied.rule) == ("deny", "budget.requests")
        assert denied.headers["x-should-retry"] == "false"
        assert len(running.provider.got) == 1


@pytest.mark.parametrize("name", ASKED)
async def test_the_limits_of_its_session_hold(store: Store, name: str) -> None:
    """A run that has spent its money asks for no more of it on another surface either."""
    async with live(store, prices=PRICES, policy={"limits": {"session": {"cost_usd": 0.00015}}}) as running:
        running.provider.script = said
        run = {"x-guardproxy-session-id": "run-1"}
        statuses = [(await post(running, name, run)).status for _ in range(8)]
        assert statuses[0] == 200
        assert statuses[-1] == 400
        assert len(running.provider.got) == statuses.count(200) < 6
        assert (await post(running, name, {"x-guardproxy-session-id": "run-2"})).status == 200


async def test_only_the_models_of_the_key(store: Store) -> None:
    keys = ring(store)
    made = await keys.make_key(models=["m-*"], routes=[])
    async with live(store, auth={"mode": "keys"}) as running:
        running.provider.script = said
        key = {"Authorization": f"Bearer {made.secret}"}
        for name, (path, body, _) in ASKED.items():
            refused = await post(running, name, key)
            assert (refused.status, refused.json["error"]["code"]) == (404, "model_not_found")
            assert (await running.post({**body, "model": "m-1"}, key, path=path)).status == 200
        assert (await running.post({"model": "m-1"}, key, path="/v1/rerank")).status == 403


WRONG = [
    (COMPLETIONS, b"{", "invalid_json"),
    (COMPLETIONS, b'{"model":"m","prompt":5}', "invalid_type"),
    (EMBEDDINGS, b'{"model":"m"}', "missing_required_parameter"),
    (EMBEDDINGS, b'{"input":"x"}', "missing_required_parameter"),
]


async def test_errors_have_openais_shape(store: Store) -> None:
    async with live(store, upstream={"url": "http://127.0.0.1:9/v1"}) as running:
        for path, raw, code in WRONG:
            answer = await running.post(raw, path=path)
            assert (answer.status, answer.json["error"]["code"]) == (400, code)
            assert {*answer.json["error"]} >= {"message", "type", "param", "code"}
        for name in ASKED:
            gone = await post(running, name)
            assert (gone.status, gone.json["error"]["code"]) == (502, "upstream_unreachable")
        async with running.client.get(running.url + EMBEDDINGS) as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "POST")


async def test_an_error_of_the_provider_is_passed_on_and_costs_nothing(store: Store) -> None:
    raw = b'{ "error": {"message": "no such model", "type": "x"} }'
    async with live(store, budgets=[budget("org", "cost_usd", 1)]) as running:
        running.provider.script = lambda _got: Said(raw=raw, status=404)
        for name in ASKED:
            answer = await post(running, name)
            assert (answer.status, answer.body) == (404, raw)
        assert {*(await counters(store)).values()} == {(0, 0)}


@pytest.mark.parametrize("name", ASKED)
async def test_a_client_that_leaves_holds_nothing(store: Store, name: str) -> None:
    """The place is free again, whatever its request has cost."""
    path, body, _ = ASKED[name]
    async with live(store, prices=PRICES, budgets=[budget("org", "concurrent_requests", 1, None)]) as running:
        never = asyncio.Event()
        running.provider.script = lambda _got: Said(raw=b"{}", wait=never.wait())
        asking = asyncio.ensure_future(running.post(body, path=path))
        async with asyncio.timeout(5):
            while not running.provider.got:
                await asyncio.sleep(0.005)
            assert await counters(store) == {"n:org: concurrent_requests": (0, 1)}
            asking.cancel()
            while await counters(store) != {"n:org: concurrent_requests": (0, 0)}:
                await asyncio.sleep(0.005)
        never.set()
        running.provider.script = said
        assert (await post(running, name)).status == 200


async def test_a_stream_that_breaks_off_is_told_and_paid_for(store: Store, heard: Heard) -> None:
    async with live(store, heard) as running:
        event = b"data: " + json.dumps({**completion("x" * 400), "choices": [{"text": "x" * 400}]}).encode() + b"\n\n"
        running.provider.script = lambda _got: Said(raw=[event])
        answer = await post(running, "completion stream")
        assert answer.body.startswith(event)
        assert b'"code":"upstream_broken"' in answer.body[len(event) :]
        report = await heard.reports.get()
        assert (report.usage.output, report.usage.estimated) == (101, True)


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("headers", [{}, {"x-guardproxy-session-id": "nightly"}], ids=["derived", "named"])
async def test_the_same_again_is_no_loop(store: Store, name: str, headers: Json) -> None:
    """A health check, a cache that is none, best of n: nobody is told, or refused, anything."""
    async with live(store) as running:
        running.provider.script = said
        for _ in range(12):
            answer = await post(running, name, headers)
            assert (answer.status, answer.verdict, answer.rule) == (200, "pass", "")
            assert "x-guardproxy-notice" not in answer.headers


async def test_nothing_is_kept_of_an_embedding_that_is_nobodys(store: Store) -> None:
    """There are many of them, and no run comes back to one."""
    async with live(store, budgets=[budget("org", "cost_usd", 1)]) as running:
        running.provider.script = said
        for _ in range(3):
            answer = await post(running, "embedding")
            assert answer.headers["x-guardproxy-session-id"].startswith("aside ")
        named = await post(running, "embedding", {"x-guardproxy-session-id": "aside x"})
        assert named.headers["x-guardproxy-session-id"] == "aside%20x"
        kept = [key.decode() for key in await store._client.command("KEYS", "gp:{default}:*") if b":k:" not in key]
        assert not [key for key in kept if "aside " in key], kept
        assert "gp:{default}:s:aside%20x" in kept
        assert await store._client.command("ZRANGE", "gp:{default}:idle", "0", "-1") == [b"aside%20x"]
        assert await store._client.command("ZCARD", "gp:{default}:holds") == 0


async def test_an_embedding_is_no_turn_and_not_the_main_thread(store: Store) -> None:
    """An agent looks up what it knows before it asks: its first turn is still the first, its words still a span's."""
    async with live(store) as running:
        running.provider.script = lambda got: said(got) if "chat" not in got.path else Said("ok")
        run = {"x-guardproxy-session-id": "run-1"}
        chat = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [_tool()]}
        turns = []
        for path, body in ((EMBEDDINGS, ASKED["embedding"][1]), ("", chat), (EMBEDDINGS, ASKED["embedding"][1])):
            answer = await running.post(body, run, path=path)
            await running.proxy.quiet()
            turns.append(answer.headers["x-guardproxy-turn"])
        assert turns == ["0", "1", "1"]
        (known,) = [one for one in await store.list_sessions("default") if one.session == "run-1"]
        assert known.state == "active"


def _tool() -> Json:
    return {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


async def test_rules_for_calls_and_final_answers_do_not_concern_them(store: Store) -> None:
    policy: Json = {
        "completion": {"output_schema": {"mode": "enforce", "json_schema": {"type": "object"}}},
        "hygiene": {"truncate": {"mode": "enforce"}},
        "checkpoints": {"enabled": True},
        "refuse": "enforce",
    }
    async with live(store, policy=policy, tools={"deny": ["rm*"], "approval": ["pay*"]}) as running:
        running.provider.script = said
        for name in ASKED:
            answer = await post(running, name, {"x-guardproxy-session-id": "run-1"})
            assert (answer.status, answer.verdict) == (200, "pass"), answer.body


async def test_a_run_that_was_ended_is_over_here_too(store: Store) -> None:
    async with live(store) as running:
        running.provider.script = said
        run = {"x-guardproxy-session-id": "run-1"}
        for name in ASKED:
            assert (await post(running, name, run)).status == 200
        await store.runs.cut("default", "run-1", "operator", "enough")
        whole, streamed, numbers = [await post(running, name, run) for name in ASKED]
        assert (whole.status, whole.verdict) == (200, "cut")
        assert whole.json["object"] == "text_completion"
        assert whole.json["choices"][0]["text"].startswith("[guardproxy]")
        assert streamed.body.endswith(DONE)
        assert (numbers.status, numbers.json["error"]["code"], numbers.verdict) == (400, "session_cut", "cut")
        assert len(running.provider.got) == 3


# --------------------------------------------------------------------------------------------- what is passed on unread

IMAGES: Json = {"model": "m-image", "prompt": "a cat"}
USED = {"input_tokens": 10, "output_tokens": 100, "total_tokens": 110}
ANSWERS: dict[str, tuple[str, str, Any, Mapping[str, str]]] = {
    "json": ("/v1/images/generations", "application/json", json.dumps({"data": [], "usage": USED}).encode(), {}),
    "gzip": (
        "/v1/images/edits",
        "application/json",
        gzip.compress(json.dumps({"data": [], "usage": USED}).encode()),
        {"Content-Encoding": "gzip"},
    ),
    "long": (
        "/v1/images/generations",
        "application/json",
        json.dumps({"data": [{"b64_json": "x" * (2 << 20)}], "usage": USED}).encode(),
        {},
    ),
    "events": (
        "/v1/audio/speech",
        "text/event-stream",
        b"data: " + json.dumps({"type": "speech.audio.done", "usage": USED}).encode() + b"\n\n",
        {},
    ),
}


@pytest.mark.parametrize("several", [False, True], ids=["one upstream", "several"])
@pytest.mark.parametrize("name", ANSWERS)
async def test_what_an_answer_says_was_used_is_counted(store: Store, name: str, several: bool) -> None:
    path, kind, raw, headers = ANSWERS[name]
    budgets = [budget("org", "cost_usd", 1), budget("org", "total_tokens", 1000), budget("org", "requests", 9)]
    more: Json = {"upstreams": [{"name": "o", "url": "http://127.0.0.1:9/v1", "models": ["no"]}]} if several else {}
    async with live(store, prices=PRICES, budgets=budgets, policy={"unmetered": "pass"}, **more) as running:
        running.offset_ms = at("2026-03-29T12:00:00+00:00")
        running.provider.script = lambda _got: Said(raw=raw, content_type=kind, headers=headers)
        answer = await running.post(IMAGES, path=path)
        assert (answer.status, answer.body) == (200, raw)
        await running.proxy.quiet()
        found = {name.rsplit(" ", 1)[1]: one for name, one in (await counters(store)).items()}
        assert found == {"cost_microusd": (1010, 0), "total_tokens": (110, 0), "requests": (1, 0)}


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/batches/b-1"), ("POST", "/v1/responses/r/cancel"), ("DELETE", "/v1/files/f")]
)
async def test_an_answer_about_what_was_paid_before_is_not_paid_again(store: Store, method: str, path: str) -> None:
    budgets = [budget("org", "cost_usd", 1)]
    async with live(store, budgets=budgets, policy={"unmetered": "pass"}) as running:
        running.provider.script = lambda _got: Said(raw=ANSWERS["json"][2])
        async with running.client.request(method, running.url + path) as answer:
            assert answer.status == 200
        await running.proxy.quiet()
        assert {*(await counters(store)).values()} <= {(0, 0)}


async def test_what_passes_passes_and_what_is_known_is_refused(store: Store) -> None:
    """`policy.unmetered: pass` means it; but what was spent there is missing to all that is metered."""
    budgets = [budget("org", "cost_usd", 0.001)]
    async with live(store, prices=PRICES, budgets=budgets, policy={"unmetered": "pass"}) as running:
        running.provider.script = lambda _got: Said(raw=ANSWERS["json"][2])
        for _ in range(3):
            assert (await running.post(IMAGES, path="/v1/images/generations")).status == 200
            await running.proxy.quiet()
        for name in ASKED:
            refused = await post(running, name)
            assert (refused.status, refused.json["error"]["code"]) == (400, "budget_exceeded")
        assert {*(await counters(store)).values()} == {(3 * 1010, 0)}


DEAR = {"models": {"cheap": {"input": 1.0, "output": 10.0}, "dear": {"input": 10.0, "output": 100.0}}}
FORMS = {"Content-Type": "multipart/form-data; boundary=B"}
PART = b'--B\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
DECOYS: dict[str, tuple[bytes, Mapping[str, str], str]] = {
    "cheap": (b'{"model":"cheap"}', {}, ""),
    "further in": (b'{"metadata":{"model":"cheap"},"model":"dear"}', {}, ""),
    "twice": (b'{"model":"dear","model":"cheap"}', {}, ""),
    "encoded": (gzip.compress(b'{"model":"dear"}'), {"Content-Encoding": "gzip"}, ""),
    "in a part": (PART % (b"a", b'name="model"\r\n\r\ncheap') + PART % (b"model", b"dear"), FORMS, ""),
    "behind a file": (PART % (b"a", b"x" * 100_000) + PART % (b"model", b"dear") + b"--B--", FORMS, ""),
    "the answer's own": (b'{"model":"cheap"}', {}, "dear"),
    "an answer's of no price": (b'{"model":"dear"}', {}, "dear-2026"),
}


async def test_no_decoy_makes_it_cheaper(store: Store) -> None:
    """The dearest of the models that are named is paid for, wherever they stand, and whatever the answer is called."""
    more: Json = {"prices": {**DEAR, "default": {"input": 1000.0, "output": 1000.0}}, "policy": {"unmetered": "pass"}}
    async with live(store, budgets=[budget("org", "cost_usd", 100)], **more) as running:
        paid = 0
        for name, (body, headers, own) in DECOYS.items():
            raw = json.dumps({"usage": USED, **({"model": own} if own else {})}).encode()
            running.provider.script = lambda _got, raw=raw: Said(raw=raw, content_type="text/plain")
            answer = await running.post(body, headers, path="/v1/images/edits")
            assert (answer.status, answer.body) == (200, raw)
            await running.proxy.quiet()
            (spent,) = {*(await counters(store)).values()}
            assert (name, spent[0] - paid) == (name, 1010 if name == "cheap" else 10_100)
            paid = spent[0]


async def test_a_model_given_twice_is_refused_where_it_says_which_upstream(store: Store) -> None:
    upstreams = [{"name": "o", "url": "http://127.0.0.1:9/v1", "models": ["no"]}]
    async with live(store, upstreams=upstreams) as running:
        refused = await running.post(b'{"model":"a","model":"b"}', path="/v1/rerank")
        assert (refused.status, refused.json["error"]["param"]) == (400, "model")
        assert not running.provider.got
