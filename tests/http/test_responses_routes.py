"""What only /v1/responses has: routes beside it, WebSockets, tools of the provider's own, streams that break off."""

from __future__ import annotations

import asyncio
import json

import pytest

from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.store.redis import Store
from tests.api.responses_cases import GOLDEN, payloads
from tests.http.test_room import budget, counters
from tests.live import Answer, Got, Json, Live, Said, live, unique
from tests.scenes import Heard
from tests.surfaces import responses

both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


async def test_a_websocket_is_refused_with_426(store: Store) -> None:
    """Codex goes on with POST at once; at 405 it would try seven times, at 400 end the run."""
    async with live(store, surface=responses) as running:
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        for path in ("/v1/responses", "/s/run-1/v1/responses"):
            async with running.client.get(running.url + path, headers=upgrade) as answer:
                assert answer.status == 426
                assert (await answer.json())["error"]["code"] == "upgrade_required"
        async with running.client.get(running.url + "/v1/responses") as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        posted = {"Content-Type": "application/json", "Upgrade": "websocket"}
        async with running.client.post(
            running.url + "/v1/responses", data=b'{"model":"m","input":"hi"}', headers=posted
        ) as answer:
            assert answer.headers["x-guardproxy-verdict"] == "pass", "only a GET is a WebSocket's beginning"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_1?include=reasoning.encrypted_content"),
        ("DELETE", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("GET", "/v1/responses/resp_1/input_items?limit=2"),
        ("POST", "/v1/responses/input_tokens"),
        ("POST", "/v1/responses/compact"),
        ("POST", "/v1/conversations"),
    ],
)
async def test_routes_beside_it_pass(store: Store, method: str, path: str) -> None:
    async with live(store, surface=responses) as running:
        async with running.client.request(method, running.url + path, data=b'{"a": 1.10}') as answer:
            assert answer.status == 200
            assert await answer.read() == running.provider.sent[-1]
        got = running.provider.got[-1]
        assert (got.method, got.path, got.body) == (method, path, b'{"a": 1.10}')


def search(query: str, number: int) -> Json:
    return {
        "id": f"mcp_{number}",
        "type": "mcp_call",
        "name": "lookup",
        "server_label": "s",
        "arguments": json.dumps({"q": query}),
        "output": "nothing",
        "error": None,
        "approval_request_id": None,
    }


def given(items: list[Json], number: int, *, stream: bool) -> Said:
    """A response with these items."""
    base = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    last: Json = {**base, "output": items, "usage": None}
    events = [{"type": "response.created", "response": {**base, "status": "in_progress", "output": []}}]
    for at, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": at, "item": item})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    events.append({"type": "response.completed", "response": last})
    chunks = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events]
    return Said(raw=chunks if stream else json.dumps(last).encode())


class Agent:
    """An agent whose provider looks things up by itself, and whose own call is another one each time."""

    def __init__(self, running: Live, *, stream: bool, times: int = 1) -> None:
        self.running, self.stream, self.times = running, stream, times
        self.history: list[Json] = [{"role": "user", "content": unique("look it up")}]

    async def turn(self, number: int) -> Answer:
        own = {"id": f"fc_{number}", "type": "function_call", "call_id": f"call_{number:06}", "name": "note"}
        own |= {"arguments": json.dumps({"n": f"page {number * 7919}"}), "status": "completed"}
        items = [*[search("x", 100 * number + at) for at in range(self.times)], own]
        self.running.provider.script = lambda _: given(items, number, stream=self.stream)
        tools = [{"type": "mcp", "server_label": "s"}, {"type": "function", "name": "note"}]
        body = {"model": "m", "input": self.history, "tools": tools, "stream": self.stream}
        answer = await self.running.post(body)
        told = {"type": "function_call_output", "call_id": own["call_id"], "output": f"kept {number * 104729}"}
        self.history = [*self.history, *items, told]
        return answer


@both
async def test_the_providers_own_calls_are_steps(store: Store, heard: Heard, stream: bool) -> None:
    """Looked up again and again with the same result, between other calls that bring news: seen, and told once."""
    async with live(store, heard, surface=responses) as running:
        agent = Agent(running, stream=stream)
        verdicts = [(await agent.turn(number)).verdict for number in range(1, 5)]
        assert verdicts == ["pass"] * 4, "what brings news beside it is no loop"
        report = [await heard.next() for _ in range(4)][-1]
        assert report.view.steps == 6, "three of the provider's own and three of the client's; the last have no result"


async def test_in_one_answer_equal_calls_are_one(store: Store, heard: Heard) -> None:
    async with live(store, heard, surface=responses) as running:
        agent = Agent(running, stream=True, times=9)
        verdicts = [(await agent.turn(number)).verdict for number in range(1, 3)]
        assert verdicts == ["pass", "pass"]


async def test_a_stream_that_breaks_off(store: Store) -> None:
    async with live(store, surface=responses) as running:
        raw = (GOLDEN / "streams" / "half.sse").read_bytes()
        running.provider.script = lambda _: Said(raw=[raw])
        answer = await running.post({"model": "m", "input": "hi", "stream": True})
        found = payloads(answer.body)
        assert answer.body.startswith(raw)
        assert found[-1]["type"] == "response.failed"
        assert found[-1]["response"]["id"] == "resp_1"
        assert found[-1]["response"]["error"]["code"] == "upstream_broken"
        assert [one["sequence_number"] for one in found] == list(range(len(found)))


async def test_errors_are_openais(store: Store) -> None:
    async with live(store, surface=responses) as running:
        answer = await running.post({"input": "hi"})
        assert answer.status == 400
        assert answer.json["error"]["param"] == "model"
        assert answer.headers["x-should-retry"] == "false"


async def test_what_is_made_in_the_background(store: Store) -> None:
    """A queued response is no empty answer: asking the same again is no loop of empty turns."""
    async with live(store, surface=responses) as running:
        queued = {"id": "resp_1", "object": "response", "status": "queued", "output": [], "background": True}
        running.provider.script = lambda _: Said(raw=json.dumps(queued).encode())
        body = {"model": "m", "input": unique("hi"), "background": True}
        for _ in range(6):
            answer = await running.post(body)
            assert answer.json == queued
            assert GUARD_MARK not in str(running.provider.got[-1].json["input"])


async def test_what_is_made_in_the_background_is_charged_as_it_was_held(store: Store) -> None:
    """What it used is said to whoever fetches it: a budget would be passed by answers that cost nothing so far."""
    async with live(store, surface=responses, budgets=[budget("org", "output_tokens", 2000)]) as running:
        queued = {"id": "resp_1", "object": "response", "status": "queued", "output": [], "usage": None}
        running.provider.script = lambda _: Said(raw=json.dumps(queued).encode())
        statuses = []
        for _ in range(4):
            body = {"model": "m", "input": unique("hi"), "background": True, "max_output_tokens": 900}
            statuses.append((await running.post(body)).status)
            await running.proxy.quiet()
        assert statuses == [200, 200, 400, 400]
        assert [one for name, one in (await counters(store)).items() if "output_tokens" in name] == [(1800, 0)]


async def test_a_stream_of_the_background_that_is_left_goes_on(store: Store) -> None:
    never = asyncio.Event()
    async with live(store, surface=responses, budgets=[budget("org", "output_tokens", 2000)]) as running:
        begun = {"type": "response.created", "response": {"id": "resp_1", "status": "queued", "usage": None}}
        event = f"data: {json.dumps(begun)}\n\n".encode()
        running.provider.script = lambda _: Said(raw=[event, event], stall=(1, never.wait()))
        body = {"model": "m", "input": unique("hi"), "background": True, "stream": True, "max_output_tokens": 900}
        headers = {"Authorization": "Bearer k"}
        answer = await running.client.post(running.url + "/v1/responses", json=body, headers=headers)
        await answer.content.readany()
        answer.close()
        async with asyncio.timeout(5):
            while (900, 0) not in (await counters(store)).values():
                await asyncio.sleep(0.01)
        never.set()


def on(server: str, number: int, name: str = "search") -> Json:
    """A call of a server's tool, as Codex has it: its namespace stands beside the name."""
    call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number:06}", "name": name}
    return {**call, "namespace": f"mcp__{server}", "arguments": '{"q":"refunds"}', "status": "completed"}


SERVERS = ("mail", "wiki", "crm", "chat", "files")
OFFERED = [
    {"type": "namespace", "name": f"mcp__{one}", "tools": [{"type": "function", "name": "search", "parameters": {}}]}
    for one in SERVERS
]


@both
async def test_tools_of_one_name_of_several_servers_are_several_tools(store: Store, stream: bool) -> None:
    """The same is asked of one after the other, none of which knows it: no loop. One asked again and again is one."""
    async with live(store, surface=responses) as running:
        history: list[Json] = [{"role": "user", "content": unique("find it")}]
        verdicts = []
        for number, server in enumerate((*SERVERS, "crm", "crm", "crm")):
            call = on(server, number)
            running.provider.script = lambda _, call=call, number=number: given([call], number, stream=stream)
            answer = await running.post({"model": "m", "input": history, "tools": OFFERED, "stream": stream})
            verdicts.append(answer.verdict)
            history += [call, {"type": "function_call_output", "call_id": call["call_id"], "output": "no results"}]
        answer = await running.post({"model": "m", "input": history, "tools": OFFERED, "stream": stream})
        assert verdicts[:6] == ["pass"] * 6
        assert answer.verdict == "nudge"
        assert "`mcp__crm__search`" in json.dumps(running.provider.got[-1].json["input"][-1])


@both
async def test_a_rule_names_a_servers_tool_as_it_does_for_every_client(store: Store, stream: bool) -> None:
    policy = {"refuse": "enforce", "arguments": {"mode": "enforce"}}
    async with live(store, surface=responses, policy=policy, tools={"deny": ["mcp__crm__*"]}) as running:
        asked = {"model": "m", "input": unique("find it"), "tools": OFFERED, "stream": stream}
        running.provider.script = lambda _: given([on("crm", 1), on("wiki", 2)], 1, stream=stream)
        answer = await running.post(asked)
        text = answer.body.decode().replace(" ", "")
        assert ('"namespace":"mcp__crm"' in text, '"namespace":"mcp__wiki"' in text) == (False, True)
        back: list[list[Json]] = []

        def script(got: Got) -> Said:
            back.append(got.json["input"])
            return given([on("crm", 4)], 3, stream=stream) if len(back) == 1 else Said("Done.")

        running.provider.script = script
        answer = await running.post({**asked, "input": unique("find it elsewhere")})
        assert [on("crm", 4)["namespace"]] == [item["namespace"] for item in back[1] if item.get("namespace")]
        assert "Done." in answer.body.decode()
