"""What a turn costs, over HTTP: what is held before the call and what is settled after it, at one model's rates."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest

from guardproxy.http.prices import Prices
from guardproxy.store.redis import Store
from guardproxy.telemetry.report import TurnReport
from tests.http.test_scenes import Heard
from tests.live import Answer, Json, Live, Said, live, unique
from tests.surfaces import responses

STREAM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
LIMIT = 50.0
LIMITED = {"limits": {"session": {"cost_usd": LIMIT, "input_tokens": 10**9}}}
POLICY = {"limits": {"session": {"cost_usd": LIMIT}}}
MODELS = {
    "sonnet": {"input": 3, "output": 15, "cached_input": 0.3, "cache_write": 3.75, "cache_write_1h": 6},
    "thinker": {"input": 1, "output": 2, "reasoning": 5},
    "long": {
        "input": 1,
        "output": 10,
        "cached_input": 0.1,
        "tiers": [{"above": 200_000, "input": 4}, {"above": 100_000, "input": 2, "output": 20, "cached_input": 0.2}],
    },
    "free": {"input": 0, "output": 0},
    "speaker": {"input": 1, "output": 2, "input_audio": 10, "output_audio": 20, "thousand_requests": 3},
}
MODELS["speaker"] |= {"thousand_searches": 10, "thousand_file_searches": 2.5}
LISTED = {
    "sample_spec": {"mode": "one of: chat"},
    "listed": {
        "input_cost_per_token": 3e-6,
        "output_cost_per_token": 1.5e-5,
        "cache_read_input_token_cost": 3e-7,
        "input_cost_per_token_above_200k_tokens": 6e-6,
        "output_cost_per_token_above_200k_tokens": 2.25e-5,
    },
    "sonnet": {"input_cost_per_token": 1, "output_cost_per_token": 1},
    "served first": {
        "input_cost_per_token": 1e-6,
        "output_cost_per_token": 1e-5,
        "input_cost_per_token_priority": 2e-6,
        "output_cost_per_token_priority": 3e-5,
    },
    "broken": {"input_cost_per_token": -1},
}


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Prices, "_said", set())


async def ask(running: Live, heard: Heard, model: str, usage: Json | None, **body: Any) -> tuple[Answer, TurnReport]:
    """One request of a session of its own, whose answer states `usage`."""
    running.provider.script = lambda _got: Said("Done.", usage=usage)
    answer = await running.post(
        {"model": model, "messages": [{"role": "user", "content": "Do it."}], **body},
        {"x-guardproxy-session-id": unique("cost")},
    )
    return answer, await heard.next()


def held(report: TurnReport, dimension: str = "cost_microusd") -> int:
    """What was held for the call."""
    (line,) = [spent.line for spent in report.view.spent if spent.line.dimension == dimension]
    return line.hold


def chat(taken: int, given: int, /, **more: Any) -> Json:
    return {"prompt_tokens": taken, "completion_tokens": given, "total_tokens": taken + given, **more}


SETTLED: dict[str, tuple[str, Json, int]] = {
    # case 20 of gateways.md: $0.054399, however it is spelled
    "20 anthropic's own spelling": (
        "sonnet",
        {"input_tokens": 3, "cache_creation_input_tokens": 12_304, "cache_read_input_tokens": 0, "output_tokens": 550},
        54_399,
    ),
    "20 as openai's, the writes inside": (
        "sonnet",
        chat(12_307, 550, cache_creation_input_tokens=12_304, prompt_tokens_details={"cached_tokens": 0}),
        54_399,
    ),
    "20 as openai's, the writes apart": (
        "sonnet",
        {"prompt_tokens": 3, "completion_tokens": 550, "cache_creation_input_tokens": 12_304},
        54_399,
    ),
    # case 24: writes of five minutes and of an hour
    "24 writes of an hour": (
        "sonnet",
        {
            "input_tokens": 0,
            "output_tokens": 0,
            "cache_creation_input_tokens": 1000,
            "cache_creation": {"ephemeral_5m_input_tokens": 600, "ephemeral_1h_input_tokens": 400},
        },
        4650,
    ),
    "nothing but writes": ("sonnet", {"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 4}, 15),
    "cached, openai's: inside": ("sonnet", chat(1000, 10, prompt_tokens_details={"cached_tokens": 900}), 720),
    "cached, anthropic's: apart": (
        "sonnet",
        {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 10},
        720,
    ),
    "cached, anthropic's: apart, though it would fit inside": (
        "sonnet",
        {"input_tokens": 1000, "cache_read_input_tokens": 900, "output_tokens": 10},
        3420,
    ),
    "reasoning inside": ("thinker", chat(100, 50, completion_tokens_details={"reasoning_tokens": 40}), 320),
    "reasoning apart": (
        "thinker",
        {
            "prompt_tokens": 100,
            "completion_tokens": 10,
            "total_tokens": 150,
            "completion_tokens_details": {"reasoning_tokens": 40},
        },
        320,
    ),
    "below the tiers": ("long", chat(100_000, 10), 100_100),
    "a tier": ("long", chat(100_001, 10), 200_202),
    "the next tier keeps what it does not say": (
        "long",
        chat(200_001, 10, prompt_tokens_details={"cached_tokens": 200_000}),
        40_204,
    ),
    "anthropic's cached tokens reach the tier": (
        "long",
        {"input_tokens": 1, "cache_read_input_tokens": 100_000, "output_tokens": 0},
        20_002,
    ),
    "free on purpose": ("free", chat(10**6, 10**6), 0),
    "sound": (
        "speaker",
        chat(100, 50, prompt_tokens_details={"audio_tokens": 80}, completion_tokens_details={"audio_tokens": 40}),
        20 + 800 + 20 + 800 + 3000,
    ),
    "advised by a dearer model": (
        "thinker",
        {
            "input_tokens": 100,
            "output_tokens": 10,
            "iterations": [
                {"type": "message", "input_tokens": 100, "output_tokens": 10},
                {"type": "advisor_message", "model": "sonnet", "input_tokens": 1000, "output_tokens": 100},
                {"type": "advisor_message", "model": "free", "input_tokens": 10, "output_tokens": 0},
                {"type": "advisor_message", "model": "nobody's", "input_tokens": 1, "output_tokens": 0},
            ],
        },
        100 + 20 + 3000 + 1500 + 10 + 1,
    ),
    "searched": (
        "speaker",
        {"input_tokens": 10, "output_tokens": 0, "server_tool_use": {"web_search_requests": 3}},
        10 + 3000 + 3 * 10_000,
    ),
    "sound that nobody told of": ("speaker", chat(100, 50), 100 + 1000 + 3000),
    "of the file": ("listed", chat(200_000, 100, prompt_tokens_details={"cached_tokens": 100_000}), 331_500),
    "of the file, a tier": ("listed", chat(200_001, 100), 1_202_256),
    "unknown": ("nobody's", chat(1000, 100), 4500),
    "bad in the file": ("broken", chat(1000, 100), 4500),
}


@STREAM
@pytest.mark.parametrize("name", SETTLED)
async def test_what_is_settled(name: str, stream: bool, store: Store, heard: Heard, tmp_path: Path) -> None:
    model, usage, expected = SETTLED[name]
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(LISTED))
    async with live(store, heard, policy=POLICY, prices={"models": MODELS, "file": str(path)}) as running:
        answer, report = await ask(running, heard, model, usage, stream=stream)
        known = await store.session_state(running.proxy.org, report.session)

    assert answer.status == 200
    assert report.cost_microusd == expected
    assert known is not None
    assert dict(known.used)["cost_microusd"] == expected, "what is settled is what is reported"


LONG = "word " * 60_000  # 300 KB: some 75,000 tokens, which may turn out to be more than 100,000


HELD: dict[str, tuple[str, float, float]] = {
    # dollars per million tokens of input and of output
    "a short input": ("long", 1, 10),
    "cache writes": ("sonnet", 3.75, 15),
    "reasoning": ("thinker", 1, 5),
    "free": ("free", 0, 0),
    "unknown": ("nobody's", 3, 15),
}


@pytest.mark.parametrize("name", HELD)
async def test_what_is_held(name: str, store: Store, heard: Heard) -> None:
    """The dearest that may come: the write price for the input, the reasoning price for the output."""
    model, given, output = HELD[name]
    async with live(store, heard, policy=LIMITED, prices={"models": MODELS}) as running:
        _, report = await ask(running, heard, model, chat(1, 1), max_tokens=100)
    tokens = held(report, "input_tokens")

    assert tokens > 10
    assert held(report) == math.ceil(tokens * given + 100 * output)


async def test_a_tier_that_the_request_can_reach_is_held(store: Store, heard: Heard) -> None:
    messages = [{"role": "user", "content": LONG}]
    async with live(store, heard, policy=POLICY, prices={"models": MODELS}) as running:
        _, report = await ask(running, heard, "long", chat(101_000, 100), messages=messages, max_tokens=100)

    assert report.cost_microusd == 204_000
    assert 150_000 <= held(report) - 2000 <= 151_000, "75,000 tokens at the second tier's price"


async def test_23_usage_in_the_last_chunk_of_content(store: Store, heard: Heard) -> None:
    """Mistral's way, and an early chunk with less: the last word of each field counts, never the sum."""
    chunks = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Do"}}], "usage": chat(1000, 1)},
        {"choices": [{"index": 0, "delta": {"content": "ne."}, "finish_reason": "stop"}], "usage": chat(1000, 40)},
    ]
    raw = [f"data: {json.dumps(one)}\n\n".encode() for one in chunks] + [b"data: [DONE]\n\n"]
    async with live(store, heard, policy=POLICY, prices={"models": MODELS}) as running:
        running.provider.script = lambda _got: Said(raw=raw)
        body = {"model": "sonnet", "stream": True, "messages": [{"role": "user", "content": "Do it."}]}
        answer = await running.post(body)
        report = await heard.next()

    assert answer.body == b"".join(raw)
    assert report.cost_microusd == 3600
    assert not report.usage.estimated


async def test_24_who_leaves_pays_for_what_was_written(store: Store, heard: Heard) -> None:
    """Not for all that might have come, and not for nothing: the input, and the output that was seen."""
    forever = asyncio.Event()
    said = Said("x" * 4000, usage=chat(10**6, 10**6), stall=(3, forever.wait()))
    body = {"model": "thinker", "stream": True, "messages": [{"role": "user", "content": "Do it."}]}
    async with live(store, heard, policy=LIMITED, prices={"models": MODELS}) as running:
        running.provider.script = lambda _got: said
        async with running.client.post(f"{running.url}/v1/chat/completions", json=body) as answer:
            while b"xxx" not in await answer.content.readany():
                pass
        report = await heard.next()
        forever.set()
        known = await store.session_state(running.proxy.org, report.session)

    assert report.usage.estimated
    assert 500 <= report.usage.output <= 1001
    assert report.cost_microusd == held(report, "input_tokens") + 2 * report.usage.output
    assert known is not None
    assert dict(known.used)["cost_microusd"] == report.cost_microusd


@STREAM
async def test_55_what_costs_more_than_was_held_is_charged_in_full(stream: bool, store: Store, heard: Heard) -> None:
    """Above the limit, too; then the next call is refused, without a call to the provider."""
    policy = {"limits": {"session": {"cost_usd": 1}}}
    headers = {"x-guardproxy-session-id": unique("cost")}
    async with live(store, heard, policy=policy, prices={"models": MODELS}) as running:
        running.provider.script = lambda _got: Said("Done.", usage=chat(1000, 100_000))
        answers = []
        for task in ("One.", "Two."):
            body = {"model": "sonnet", "messages": [{"role": "user", "content": task}], "stream": stream}
            answers.append(await running.post(body, headers))
            await heard.next()
        known = await store.session_state(running.proxy.org, headers["x-guardproxy-session-id"])
        calls = len(running.provider.got)

    assert [answer.status for answer in answers] == [200, 400]
    assert answers[1].json["error"]["code"] == "budget_exceeded"
    assert calls == 1
    assert known is not None
    assert dict(known.used)["cost_microusd"] == 1_503_000


@pytest.mark.parametrize("text", ["Do it.", LONG], ids=["short", "long"])
@pytest.mark.parametrize(
    ("service", "times"), [("priority", 2), ("fast", 2), ("flex", 1), ("auto", 1), (["priority"], 1)]
)
async def test_7_a_request_that_is_served_first(
    service: object, times: int, text: str, store: Store, heard: Heard, tmp_path: Path
) -> None:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(LISTED))
    async with live(store, heard, policy=LIMITED, prices={"file": str(path)}) as running:
        body = {"service_tier": service, "max_tokens": 100, "messages": [{"role": "user", "content": text}]}
        _, report = await ask(running, heard, "served first", chat(1000, 0), **body)

    assert report.cost_microusd == 1000 * times
    assert held(report) == held(report, "input_tokens") * times + (3000 if times == 2 else 1000)


@pytest.mark.parametrize(
    ("said", "factor"),
    [
        ({}, 1),
        ({"speed": "fast"}, 6),
        ({"speed": "standard", "service_tier": "priority"}, 2.5),
        ({"service_tier": "fast"}, 2.5),
        ({"service_tier": "default"}, 1),
    ],
)
@pytest.mark.parametrize("text", ["Do it.", LONG], ids=["short", "long"])
async def test_what_is_served_at_a_higher_price_is_held_and_counted_so(
    said: Json, factor: float, text: str, store: Store, heard: Heard
) -> None:
    """Where no price of its own is known: no tenant's word makes a call dearer than a budget sees."""
    async with live(store, heard, policy=LIMITED) as running:
        body = {**said, "max_tokens": 100, "messages": [{"role": "user", "content": text}]}
        _, report = await ask(running, heard, "gpt-4.1", chat(1000, 100), **body)

    assert report.cost_microusd == (2000 + 800) * factor
    assert held(report) == (held(report, "input_tokens") * 2 + 800) * factor


HIDDEN = {"include_usage": False}


@pytest.mark.parametrize(
    ("options", "budgets", "asked"),
    [
        (HIDDEN, [{"scope": "org", "dimension": "cost_usd", "window": "day", "limit": 5}], True),
        ({"include_usage": 0}, [{"scope": "org", "dimension": "total_tokens", "window": "day", "limit": 10**6}], True),
        (HIDDEN, [{"scope": "org", "dimension": "requests", "window": "day", "limit": 5}], False),
        (HIDDEN, [], False),
    ],
    ids=["money", "tokens", "requests", "none"],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_nobody_hides_what_a_budget_counts(
    path: str, options: Json, budgets: list[Json], asked: bool, store: Store, heard: Heard
) -> None:
    """Thoughts are in no chunk of a stream but that of its usage: whoever leaves it out would think for nothing."""
    async with live(store, heard, budgets=budgets, prices={"models": MODELS}) as running:
        usage = chat(10, 5000, completion_tokens_details={"reasoning_tokens": 4990})
        running.provider.script = lambda _got: Said("Yes.", usage=usage)
        body = {"model": "thinker", "stream": True, "stream_options": options, "prompt": "Think."}
        answer = await running.post({**body, "messages": [{"role": "user", "content": "Think."}]}, path=path)
        report = await heard.next()

    assert running.provider.got[-1].json["stream_options"]["include_usage"] == (
        True if asked else options["include_usage"]
    )
    assert b"usage" not in answer.body
    assert (report.usage.output == 5000) is asked


async def test_what_the_provider_has_searched_is_counted(store: Store, heard: Heard) -> None:
    """Of Responses no usage says so: each search is an item of the answer."""
    items = [{"type": kind, "id": f"i{at}", "status": "completed"} for at, kind in enumerate(SEARCHES)]
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    made = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": items, "usage": usage}
    async with live(store, heard, surface=responses, prices={"models": MODELS}) as running:
        running.provider.script = lambda _got: Said(raw=json.dumps(made).encode())
        answer = await running.post({"model": "speaker", "input": "Find it."})
        report = await heard.next()

    assert answer.status == 200
    assert report.cost_microusd == 10 + 5 * 20 + 3000 + 2 * 10_000 + 2500


SEARCHES = ["web_search_call", "file_search_call", "web_search_call", "code_interpreter_call"]


@pytest.mark.parametrize("unknown", ["default", "alert", "block"])
async def test_a_model_without_a_price(
    unknown: str, store: Store, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="guardproxy")
    async with live(store, heard, policy=POLICY, prices={"models": MODELS, "unknown": unknown}) as running:
        body = {"model": "nobody's", "messages": [{"role": "user", "content": "Do it."}]}
        answers = [await running.post(body, {"x-guardproxy-session-id": unique("cost")}) for _ in range(3)]
        known = await running.post(body | {"model": "free"})
        upstream = [got.json["model"] for got in running.provider.got]
        counted = heard.snapshot().series.get("guardproxy.prices.unknown", {})
        sessions = await store.list_sessions(running.proxy.org)

    assert known.status == 200
    assert len([line for line in caplog.messages if "nobody's" in line]) == 1
    if unknown == "block":
        assert [answer.status for answer in answers] == [400] * 3
        error = answers[0].json["error"]
        assert (error["code"], error["param"], error["type"]) == ("unknown_price", "model", "invalid_request_error")
        assert "nobody's" in error["message"]
        assert "prices.models" in error["message"]
        assert answers[0].headers["x-should-retry"] == "false"
        assert upstream == ["free"], "no call is made"
        assert len(sessions) == 1, "nothing is counted or held"
    else:
        assert [answer.status for answer in answers] == [200] * 3
        assert upstream == ["nobody's"] * 3 + ["free"]
        reports = [await heard.next() for _ in answers]
        assert [report.cost_microusd for report in reports] == [105] * 3, "at the default, never free"
    assert counted == ({} if unknown == "default" else {("nobody's",): [3.0]})


async def test_attempts_are_priced_one_by_one(store: Store, heard: Heard) -> None:
    """A call that is sent back is a second attempt: two inputs of 60,000 tokens reach no tier above 100,000."""
    policy = {**POLICY, "refuse": "enforce"}
    tool = {"type": "function", "function": {"name": "drop", "parameters": {"type": "object"}}}
    said = [
        Said(calls=[("drop", "{}", "call_000000001")], usage=chat(60_000, 10)),
        Said("As you wish.", usage=chat(60_100, 10)),
    ]
    async with live(store, heard, policy=policy, prices={"models": MODELS}, tools={"deny": ["drop"]}) as running:
        running.provider.script = lambda _got: said[len(running.provider.got) - 1]
        body = {"model": "long", "messages": [{"role": "user", "content": "Go."}], "tools": [tool]}
        answer = await running.post(body, {"x-guardproxy-session-id": unique("cost")})
        report = await heard.next()
        known = await store.session_state(running.proxy.org, report.session)

    assert answer.json["choices"][0]["message"]["content"] == "As you wish."
    assert len(report.attempts) == 2
    assert report.usage.input == 120_100
    assert report.cost_microusd == 60_100 + 60_200
    assert known is not None
    assert dict(known.used)["cost_microusd"] == 60_100 + 60_200
