"""Cases 1 to 32 and 55 to 64 of `field/gateways.md` section 3: what went wrong with budgets, usage and streams in other
gateways. Those that are tested elsewhere have their number in the name of the test; one here sees to it that each has.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guardproxy.store.redis import Store
from tests.http.test_costs import SETTLED
from tests.http.test_interventions import PLOTS
from tests.http.test_room import budget, counters
from tests.live import Answer, Json, Live, Said, live, unique
from tests.scenes import Heard
from tests.store.kit import amounts
from tests.surfaces import messages, responses

TESTS = Path(__file__).resolve().parents[1]
LIST_OF_CASES = TESTS.parents[1] / "shared" / "field" / "gateways.md"
PRICES = {"models": {"m": {"input": 0, "output": 10}}}  # a thousand tokens of output are a cent
STREAM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def usage(output: int) -> Json:
    return {"prompt_tokens": 1000, "completion_tokens": output, "total_tokens": 1000 + output}


async def ask(running: Live, most: int | None = 1000, session: str = "", **more: Any) -> Answer:
    limit = {} if most is None else {"max_tokens": most}
    body = {"model": "m", "messages": [{"role": "user", "content": unique("q")}], **limit, **more}
    return await running.post(body, {"x-guardproxy-session-id": session or unique("run")})


def together(running: Live, output: int, count: int) -> asyncio.Event:
    """Answers that wait until so many have been asked for."""
    all_there = asyncio.Event()

    async def wait() -> None:
        if len(running.provider.got) >= count:
            all_there.set()
        await asyncio.wait_for(all_there.wait(), 5)

    running.provider.script = lambda _got: Said("ok", usage=usage(output), wait=wait())
    return all_there


@STREAM
@pytest.mark.parametrize("shrinks", [False, True])
async def test_1_two_at_once_of_which_each_alone_would_fit(
    stream: bool, shrinks: bool, store: Store, heard: Heard
) -> None:
    """Of one run, with a limit of a cent and a half: the second is refused, or made to fit; never more is spent."""
    policy = {"limits": {"session": {"cost_usd": 0.015}}, "shrink_to_fit": shrinks}
    budgets = [budget("org", "cost_usd", 0.015)]
    for scope in ({"policy": {"limits": policy["limits"]}}, {"policy": {"shrink_to_fit": shrinks}, "budgets": budgets}):
        async with live(store, heard, prices=PRICES, **scope) as running:
            over = asyncio.Event()
            running.provider.script = lambda got, over=over: Said(
                "ok", usage=usage(got.json["max_tokens"]), wait=asyncio.wait_for(over.wait(), 5)
            )
            session = unique("run")
            asking = [asyncio.ensure_future(ask(running, 1000, session, stream=stream)) for _ in range(2)]
            fits = shrinks and "budgets" in scope
            async with asyncio.timeout(5):
                while len(running.provider.got) + sum(task.done() for task in asking) < 2:
                    await asyncio.sleep(0.01)
            over.set()
            statuses = sorted([(await task).status for task in asking])
            await running.proxy.quiet()
            asked = sorted(got.json["max_tokens"] for got in running.provider.got)
        assert statuses == ([200, 200] if fits else [200, 400])
        assert asked == ([500, 1000] if fits else [1000])
        await store._client.each("FLUSHALL")


async def test_3_a_store_that_knows_nothing_yet_limits_from_the_first_request(store: Store) -> None:
    budgets = [budget("org", "cost_usd", 0.009, window) for window in ("day", "month", "total")]
    async with live(store, budgets=budgets, prices=PRICES) as running:
        assert (await ask(running, 1000)).status == 400
        assert running.provider.got == []
        assert (await ask(running, 900)).status == 200


@pytest.mark.parametrize("most", [None, 1000])
async def test_8_59_what_is_left_is_compared_with_what_the_call_may_cost(most: int | None, store: Store) -> None:
    """The worst case of the call, not a token fee, in the step that admits it: 0.6 cents are left, one is needed."""
    async with live(store, budgets=[budget("org", "cost_usd", 0.05)], prices=PRICES) as running:
        running.provider.script = lambda _got: Said("ok", usage=usage(4400))
        assert (await ask(running, 4096)).status == 200
        await running.proxy.quiet()
        refused = await ask(running, most)
        assert refused.status == 400
        told = refused.json["error"]["budget"]
        assert (told["used"], told["limit"], told["hold"]) == (0.044, 0.05, 0.01 if most else 0.04096)
        assert (await ask(running, 600)).status == 200
        assert len(running.provider.got) == 2


def test_15_what_a_limit_of_tokens_counts_is_said() -> None:
    """Input is counted with every turn, what is sent again too; a limit of cost counts that at the price of a cache."""
    said = (TESTS.parent / "README.md").read_text("utf-8")
    assert "counts what is sent again with every turn" in " ".join(said.split())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_19_zeros_are_what_was_used(stream: bool, store: Store, heard: Heard) -> None:
    """Of an answer without words, and each figure by itself; not all of them of an answer that has words: that would
    make a provider free which cannot count.
    """
    async with live(store, heard, budgets=[budget("org", "total_tokens", 9000)], prices=PRICES) as running:
        for text, (taken, given), counted in (("", (0, 0), (0, 0)), ("ok", (0, 5), (0, 5)), ("ok", (7, 0), (7, 0))):
            said = {"prompt_tokens": taken, "completion_tokens": given, "total_tokens": taken + given}
            running.provider.script = lambda _got, text=text, said=said: Said(text, usage=said)
            await ask(running, stream=stream)
            report = await heard.next()
            assert ((report.usage.input, report.usage.output), report.usage.estimated) == (counted, False)
        assert [*(await counters(store)).values()] == [(12, 0)]
        running.provider.script = lambda _got: Said("ok", usage=dict.fromkeys(said, 0))
        await ask(running, stream=stream)
        assert (await heard.next()).usage.estimated


@STREAM
async def test_25_what_was_settled_is_counted_once(stream: bool, store: Store) -> None:
    """And before the next one is admitted, also of a stream."""
    budgets = [budget("org", "output_tokens", 2500), budget("key", "total_tokens", 10**6), budget("org", "requests", 9)]
    async with live(store, budgets=budgets, prices=PRICES) as running:
        running.provider.script = lambda _got: Said("ok", usage=usage(800))
        statuses = []
        for _ in range(4):
            statuses.append((await ask(running, 900, stream=stream)).status)
            await running.proxy.quiet()
        found = await counters(store)
    assert statuses == [200, 200, 200, 400]
    assert sorted(pair for name, pair in found.items() if name.startswith("d:org")) == [(3, 0), (2400, 0)]


def chunk(*deltas: Json, choice: int = 0) -> bytes:
    one = {"index": choice, "delta": {"tool_calls": list(deltas)}, "finish_reason": None}
    body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [one]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def part(index: int, name: str = "", arguments: str = "", call: str = "") -> Json:
    head = {"id": call, "type": "function"} if call else {}
    return {"index": index, **head, "function": {**({"name": name} if name else {}), "arguments": arguments}}


PARALLEL = [
    chunk(part(0, "read", "", "call_a"), part(1, "write", "", "call_b")),
    chunk(part(1, arguments='{"path":')),
    chunk(part(0, arguments='{"path"')),
    chunk(part(1, arguments='"b"}')),
    chunk(part(2, "list", "{}", "call_c"), part(0, arguments=':"a"}')),
]
END = [
    b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n',
    b"data: [DONE]\n\n",
]
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("read", "write", "list")]


@pytest.mark.parametrize("judged", [False, True])
async def test_26_parallel_calls_keep_their_places(judged: bool, store: Store, heard: Heard) -> None:
    """Interleaved pieces of three calls: the client has the provider's bytes, and each call is seen whole."""
    raw = [*PARALLEL, *END]
    tools = {"deny": ["drop"]} if judged else {}
    policy = {"refuse": "enforce"}
    async with live(store, heard, tools=tools, policy=policy) as running:
        running.provider.script = lambda _got: Said(raw=raw)
        answer = await ask(running, stream=True, tools=TOOLS, stream_options={"include_usage": True})
        report = await heard.next()
    assert answer.body == b"".join(raw)
    assert [name for name, _, _ in report.attempts[-1].calls] == ["read", "write", "list"]


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


BLOCK = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
ITEM = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": "{}"}
ODD: dict[str, tuple[Any, list[bytes]]] = {
    "anthropic: an index of its own, and none": (
        messages,
        [
            event("message_start", message={"id": "msg_1", "role": "assistant", "content": [], "usage": {}}),
            event("content_block_start", index=7, content_block=BLOCK),
            event("content_block_delta", index=7, delta={"type": "input_json_delta", "partial_json": "{}"}),
            event("content_block_delta", delta={"type": "input_json_delta"}),
            event("content_block_stop"),
            event("message_delta", delta={"stop_reason": "tool_use"}),
            event("message_stop"),
        ],
    ),
    "anthropic: nulls": (
        messages,
        [
            event("message_start", message=None),
            event("content_block_start", index=None, content_block=None),
            event("content_block_delta", index=0, delta=None),
            event("message_delta", delta=None, usage=None),
            event("message_stop"),
        ],
    ),
    "responses: a call without what a call has": (
        responses,
        [
            event("response.created", response={"id": "resp_1", "output": None}),
            event("response.output_item.added", output_index=0, item={"type": "function_call", "name": None}),
            event("response.function_call_arguments.delta", item_id=None, delta=None),
            event("response.output_item.done", output_index=0, item=ITEM | {"arguments": None, "call_id": None}),
            event("response.completed", response={"id": "resp_1", "output": [None, {}], "usage": None}),
        ],
    ),
    "responses: nulls": (
        responses,
        [
            event("response.created", response=None),
            event("response.output_item.added", output_index=None, item=None),
            event("response.completed", response=None),
        ],
    ),
}


@pytest.mark.parametrize("which", ODD)
async def test_29_what_is_missing_in_a_stream_breaks_nothing(which: str, store: Store, heard: Heard) -> None:
    surface, raw = ODD[which]
    async with live(store, heard, surface=surface) as running:
        running.provider.script = lambda _got: Said(raw=raw)
        chat = {"model": "m", "messages": [{"role": "user", "content": "Do it."}], "stream": True, "tools": TOOLS}
        answer = await running.post(surface.request(chat))
        report = await heard.next()
        again = await running.post(surface.request(chat))
    assert (answer.status, again.status) == (200, 200)
    assert answer.body.startswith(b"".join(raw[:-1]))
    assert answer.body == b"".join(raw) or which == "responses: nulls", "an end that is none gets one that is"
    assert report.decision.errors == ()


async def test_58_a_hold_is_the_calls_own_and_leaves_room_for_others(store: Store) -> None:
    """Without `max_tokens` a call holds `default_output_hold`, not all that is left: four cents each, three fit."""
    async with live(store, budgets=[budget("org", "cost_usd", 0.13)], prices=PRICES) as running:
        together(running, 10, 3)
        answers = await asyncio.gather(*(ask(running, None) for _ in range(3)))
        await running.proxy.quiet()
        assert [answer.status for answer in answers] == [200] * 3
        unpriced = await running.post({"model": unique("new"), "messages": [{"role": "user", "content": "hi"}]})
        assert unpriced.status == 200, "a model without a price is not refused unless somebody said so"
        await running.proxy.quiet()
        assert {held for _, held in (await amounts(store, "default")).values()} == {0}


# ------------------------------------------------------------------------------------------------- every case is here


def named() -> Iterator[str]:
    """Numbers in the names of tests, of plots, and of rows in the table of what is settled."""
    for file in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found = re.match(r"test((?:_\d{1,2})+)_[a-z]", node.name)
                yield from found[1].strip("_").split("_") if found else ()
    for plot in PLOTS:
        yield from re.findall(r"(?<=^gateway )\d+", plot.case)
    yield from (row.partition(" ")[0] for row in SETTLED)


@pytest.mark.skipif(not LIST_OF_CASES.exists(), reason="the survey of gateways is not beside this repository")
def test_every_case_is_named() -> None:
    text = LIST_OF_CASES.read_text("utf-8").partition("## 3.")[2].partition("## 4.")[0]
    first, _, rest = text.partition("**Sessions and loops**")
    cases = set(re.findall(r"^(\d{1,2})\. ", first + rest.partition("**Added from a last pass**")[2], re.MULTILINE))
    assert cases >= {"1", "15", "26", "29", "32", "55", "58", "64"}
    assert cases - set(named()) == set()
