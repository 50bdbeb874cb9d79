"""Several upstreams, over HTTP: who is asked, in what order, how often, with which key; what is told of it."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from guardproxy.http.assembly import assemble
from guardproxy.secrets import derive
from guardproxy.store.redis import Store
from guardproxy.telemetry import Telemetry, TurnReport, log
from tests.http.test_guarded import Agent
from tests.http_store import counted, held
from tests.live import SECRET, Answer, Json, Live, Provider, Said, config_of, live, serve, unique
from tests.scenes import Heard

ASK: Json = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}]}
KEYS = {name: f"sk-planted-{name}-0123456789" for name in ("a", "b", "c")}


@dataclass
class Several:
    """Providers by name behind one proxy, whose clock for what is put aside stands still."""

    running: Live
    providers: dict[str, Provider]
    now: list[float] = field(default_factory=lambda: [1000.0])

    @property
    def asked(self) -> list[str]:
        """How often each was asked."""
        return [name for name, provider in self.providers.items() for _ in provider.got]

    def say(self, **scripts: Said | Callable[[Any], Said]) -> None:
        """What each answers from now on."""
        for name, script in scripts.items():
            self.providers[name].got.clear()
            self.providers[name].script = (lambda _got, said=script: said) if isinstance(script, Said) else script

    async def post(self, session: str = "", *, stream: bool = False, **more: Any) -> Answer:
        headers = {"x-guardproxy-session-id": session} if session else {}
        return await self.running.post({**ASK, "stream": stream, **more}, headers)


@asynccontextmanager
async def several(
    store: Store, heard: Telemetry | None = None, names: str = "ab", entries: Json | None = None, **sections: Any
) -> AsyncIterator[Several]:
    """`entries` adds to the entries of the configuration, by name."""
    providers = {name: Provider() for name in names}
    async with AsyncExitStack() as stack:
        upstreams = []
        for name, provider in providers.items():
            url = await stack.enter_async_context(serve(provider.handle))
            entry = {"name": name, "url": f"{url}/v1", "api_key": KEYS[name], "models": ["gpt-*", "m"]}
            upstreams.append(entry | (entries or {}).get(name, {}))
        running = await stack.enter_async_context(live(store, heard, upstreams=upstreams, **sections))
        found = Several(running, {**providers, "default": running.provider})
        clocked(running, found.now)
        yield found


def clocked(running: Live, now: list[float]) -> None:
    assert running.proxy.upstreams is not None
    running.proxy.upstreams._clock = lambda: now[0]


async def until(seen: Callable[[], object]) -> None:
    """Wait for it, not for ever."""
    async with asyncio.timeout(5):
        while not seen():
            await asyncio.sleep(0.01)


ANSWERS = {
    # status and headers of the first: who is asked then, what the client gets
    "well": (Said("from a"), ["a"], 200, "a"),
    "a bad request": (Said(status=400), ["a"], 400, "a"),
    "a bad key": (Said(status=401), ["a"], 401, "a"),
    "no such model": (Said(status=404), ["a"], 404, "a"),
    "a conflict": (Said(status=409), ["a"], 409, "a"),
    "too large": (Said(status=413), ["a"], 413, "a"),
    "busy": (Said(status=429), ["a", "b"], 200, "b"),
    "busy for a time": (Said(status=429, headers={"Retry-After": "20"}), ["a", "b"], 200, "b"),
    "a fault": (Said(status=500), ["a", "b"], 200, "b"),
    "a bad gateway": (Said(status=502), ["a", "b"], 200, "b"),
    "unavailable": (Said(status=503), ["a", "b"], 200, "b"),
    "late behind its gateway": (Said(status=504), ["a", "b"], 200, "b"),
    "overloaded, as Anthropic has it": (Said(status=529), ["a", "b"], 200, "b"),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", ANSWERS)
async def test_who_is_asked(store: Store, heard: Heard, name: str, stream: bool) -> None:
    first, asked, status, upstream = ANSWERS[name]
    async with several(store, heard) as run:
        run.say(a=first, b=Said("from b"))
        answer = await run.post(stream=stream)
        assert (answer.status, answer.headers["x-guardproxy-upstream"]) == (status, upstream)
        assert run.asked == asked
        report = await heard.next()
        assert [one.server.name for one in report.attempts if one.server] == asked
        assert [one.reason for one in report.attempts] == ["first", "failover"][: len(asked)]
        assert [one.status for one in report.attempts] == [first.status, 200][: len(asked)]
        assert report.server_port == report.attempts[-1].server.port  # type: ignore[union-attr]
        if status == 200:
            assert report.usage.input == 10 if not stream else report.usage.input > 0
            assert report.error_type == ""
        assert await held(store) == {}


def ports(report: TurnReport) -> list[int]:
    return [one.server.port for one in report.attempts if one.server]


async def test_what_is_counted_and_logged(store: Store, heard: Heard) -> None:
    async with several(store, heard, failover={"failures": 1}) as run:
        run.say(a=Said(status=503), b=Said("ok"))
        await run.post()
        report = await heard.next()
        await run.running.proxy.quiet()
        series = heard.snapshot().series
        assert series["guardproxy.upstream.attempts"] == {
            ("a", "first", "503", "503"): [1.0],
            ("b", "failover", "200", ""): [1.0],
        }
        assert series["guardproxy.upstream.asides"] == {("a", "failures"): [1.0]}
        assert "guardproxy.reasks" not in series
        assert log.fields_of(report)["upstream"] == "b"


async def test_a_turn_with_a_failover_is_one_turn_with_one_hold(store: Store, heard: Heard) -> None:
    limits = {"session": {"total_tokens": 100_000}, "span": {"turns": 10}}
    async with several(store, heard, policy={"limits": limits}) as run:
        run.say(a=Said(status=503, usage=None), b=Said("ok"))
        answer = await run.post(unique("one"))
        report = await heard.next()
        await run.running.proxy.quiet()
        session = answer.headers["x-guardproxy-session-id"]
        used = await counted(store, session)
        assert used["s:total_tokens"] == (15, 0)
        assert used["p:turns"] == (1, 0)
        assert len(set(ports(report))) == 2
        assert report.attempts[0].usage.input == 0
        assert report.attempts[0].error_type == "503"
        assert report.overhead_request_ns < report.attempts[0].ended_ns - report.started_ns  # not the first one's time


@asynccontextmanager
async def mute(behaviour: str) -> AsyncIterator[str]:
    """A server that takes connections and no more: it closes when it is asked, or says nothing."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read(1 if behaviour == "breaks" else -1)
        except ConnectionResetError:
            pass
        finally:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0.01)  # the connections end, too


def closed_port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


BROKEN = {
    # behaviour of the first, scheme, whether the second may be asked, status, error
    "nobody listens": ("closed", "http", True, 200, "upstream_unreachable"),
    "no TLS in time": ("silent", "https", True, 200, "upstream_timeout"),
    "no TLS at all": ("breaks", "https", True, 200, "upstream_unreachable"),
    "closed after the request": ("breaks", "http", False, 502, "upstream_broken"),
    "no answer in time": ("silent", "http", False, 504, "upstream_timeout"),
}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/rerank"], ids=["surface", "other"])
@pytest.mark.parametrize("name", BROKEN)
async def test_what_may_have_been_carried_out_is_not_asked_again(
    store: Store, heard: Heard, name: str, path: str
) -> None:
    behaviour, scheme, moved, status, error = BROKEN[name]
    async with AsyncExitStack() as stack:
        where = closed_port() if behaviour == "closed" else await stack.enter_async_context(mute(behaviour))
        entry = {"url": f"{scheme}://{where}/v1", "connect_seconds": 0.3, "first_byte_seconds": 0.3}
        run = await stack.enter_async_context(several(store, heard, entries={"a": entry}))
        run.say(b=Said("from b"))
        answer = await run.running.post(ASK, path=path)
        assert answer.status == status
        assert run.asked == (["b"] if moved else [])
        assert (answer.headers.get("x-guardproxy-upstream") == "b") is moved
        if not moved:
            assert answer.json["error"]["code"] == error
        if path.endswith("completions"):
            report = await heard.next()
            told = [(one.reason, one.status, one.error_type) for one in report.attempts]
            assert told == [("first", 0, error), ("failover", 200, "")][: len(told)]
            assert len(told) == 1 + moved
            assert await held(store) == {}


async def test_after_the_first_byte_nobody_else_is_asked(store: Store, heard: Heard) -> None:
    async def breaks(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(Said("half of it").chunks(usage=False)[1])
        assert request.transport
        request.transport.abort()
        return response

    async with serve(breaks) as url, several(store, heard, entries={"a": {"url": f"{url}/v1"}}) as run:
        answer = await run.post(stream=True)
        assert answer.headers["x-guardproxy-upstream"] == "a"
        assert b"upstream_broken" in answer.body
        assert run.asked == []
        assert len((await heard.next()).attempts) == 1


@pytest.mark.parametrize(("most", "asked"), [(1, "a"), (2, "ab"), (3, "abc")])
async def test_no_more_are_asked_than_allowed(store: Store, most: int, asked: str) -> None:
    async with several(store, names="abc", failover={"most": most}) as run:
        run.say(
            **{name: Said(status=500 + at, raw=b'{"error":{"message":"%d"}}' % at) for at, name in enumerate("abc")}
        )
        answer = await run.post()
        assert "".join(run.asked) == asked
        assert answer.status == 499 + most  # the last one's own words
        assert answer.body == b'{"error":{"message":"%d"}}' % (most - 1)
        assert answer.headers["x-guardproxy-upstream"] == asked[-1]


async def test_a_retry_after_puts_an_upstream_aside_for_that_long(store: Store) -> None:
    async with several(store, failover={"stay": "none"}) as run:
        run.say(a=Said(status=429, headers={"Retry-After": "20"}), b=Said("b"))
        assert (await run.post()).headers["x-guardproxy-upstream"] == "b"
        run.say(a=Said("a"))
        for later, upstream in ((0.0, "b"), (19.9, "b"), (20.1, "a"), (20.2, "a")):
            run.now[0] = 1000 + later
            assert (await run.post()).headers["x-guardproxy-upstream"] == upstream, later


async def test_if_all_are_aside_the_one_that_is_due_first_is_asked(store: Store) -> None:
    async with several(store) as run:
        run.say(a=Said(status=429, headers={"Retry-After": "20"}), b=Said(status=429, headers={"Retry-After": "10"}))
        assert (await run.post()).headers["Retry-After"] == "10"
        run.say(a=Said("a"), b=Said(status=429, headers={"Retry-After": "9"}))
        answer = await run.post()
        assert run.asked == ["b"], "one attempt: the provider says best that it has no room"
        assert (answer.status, answer.headers["Retry-After"]) == (429, "9")


async def test_one_that_fails_repeatedly_is_put_aside_and_tried_by_one_request(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    counts: list[tuple[str, dict[str, object]]] = []
    heard = Heard()
    heard.count = lambda name, labels, *_: counts.append((name, dict(labels)))  # type: ignore[method-assign]
    caplog.set_level(logging.INFO)
    async with several(store, heard, failover={"failures": 2, "aside_seconds": 30, "stay": "none"}) as run:
        run.say(a=Said(status=500), b=Said("b"))
        for _ in range(5):
            assert (await run.post()).headers["x-guardproxy-upstream"] == "b"
        assert run.asked.count("a") == 2
        run.now[0] += 31
        await run.post()
        assert run.asked.count("a") == 3, "tried by one request"
        await run.post()
        assert run.asked.count("a") == 3, "aside again at once"
        run.now[0] += 31
        gate = asyncio.Event()
        run.say(a=Said("a", wait=gate.wait()), b=Said("b"))
        trial = asyncio.get_running_loop().create_task(run.post())
        await until(lambda: run.providers["a"].got)
        others = await asyncio.gather(*[run.post() for _ in range(5)])
        assert {one.headers["x-guardproxy-upstream"] for one in others} == {"b"}
        gate.set()
        assert (await trial).headers["x-guardproxy-upstream"] == "a"
        run.say(a=Said("a"))
        assert (await run.post()).headers["x-guardproxy-upstream"] == "a"
    asides = [labels for name, labels in counts if name == "upstream.asides"]
    assert asides == [{"name": "a", "reason": "failures"}] * 2
    attempts = [labels for name, labels in counts if name == "upstream.attempts"]
    assert attempts[0] == {"name": "a", "reason": "first", "status_code": 500, "error.type": "500"}
    assert attempts[1] == {"name": "b", "reason": "failover", "status_code": 200, "error.type": ""}
    told = [record.getMessage() for record in caplog.records if "upstream a" in record.getMessage()]
    assert told[0] == "upstream a is put aside for 30 s: 2 failures in a row, the last: 500"
    assert told[-1] == "upstream a answers again"


async def test_a_client_that_leaves_a_trial_does_not_close_the_way(store: Store) -> None:
    async with several(store, failover={"failures": 1, "aside_seconds": 5, "stay": "none"}) as run:
        run.say(a=Said(status=500), b=Said("b"))
        await run.post()
        run.now[0] += 6
        run.say(a=Said("a", wait=asyncio.Event().wait()), b=Said("b"))
        gone = asyncio.get_running_loop().create_task(run.post())
        await until(lambda: run.providers["a"].got)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await run.running.proxy.quiet()
        await until(lambda: not run.running.proxy.in_flight)
        run.say(a=Said("a"))
        assert (await run.post()).headers["x-guardproxy-upstream"] == "a"


@pytest.mark.parametrize("stay", ["session", "none"])
async def test_a_session_stays_where_it_was_served(store: Store, stay: str) -> None:
    async with several(store, failover={"stay": stay}) as run:
        moved, at_a = unique("moved"), unique("at-a")
        run.say(a=Said("a"), b=Said("b"))
        assert (await run.post(at_a)).headers["x-guardproxy-upstream"] == "a"
        run.say(a=Said(status=429, headers={"Retry-After": "20"}))
        assert (await run.post(moved)).headers["x-guardproxy-upstream"] == "b"
        run.now[0] += 21
        run.say(a=Said("a"))
        seen = [(await run.post(name)).headers["x-guardproxy-upstream"] for name in (moved, at_a, unique("new"))]
        assert seen == (["b", "a", "a"] if stay == "session" else ["a", "a", "a"])
        await run.running.proxy.quiet()
        again = await another_worker(run, store, moved, stay)
        assert again == seen[0], "also in another worker"
        run.say(b=Said(status=503))
        assert (await run.post(moved)).headers["x-guardproxy-upstream"] == "a", "while it is healthy"


async def another_worker(run: Several, store: Store, session: str, stay: str) -> str:
    """Where a worker that does not know the session sends it."""
    first = run.running.proxy.upstreams
    assert first
    urls = {one.name: one.base for one in first}
    entries = [{"name": name, "url": urls[name], "models": ["gpt-*"]} for name in "ab"]
    config = config_of(upstreams=entries, failover={"stay": stay})
    keys = derive(SECRET)
    proxy = assemble(config, keys, store, Telemetry(config.telemetry, keys.trace, "other"))
    await proxy.start()
    try:
        async with serve(proxy.server()) as url:
            other = Live(run.running.provider, proxy, url, run.running.client)
            answer = await other.post(ASK, {"x-guardproxy-session-id": session})
            return answer.headers["x-guardproxy-upstream"]
    finally:
        await proxy.close()


async def test_keys_go_to_their_own_upstream_and_nowhere_else(
    store: Store, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bare = {"b": {"api_key": None}}
    async with several(store, heard, names="abc", entries=bare) as run:
        wrong = Said(status=503)
        run.say(a=wrong, b=wrong, c=wrong)
        answer = await run.post(unique("keys"))
        sent = {
            name: provider.got[0].headers["Authorization"] for name, provider in run.providers.items() if provider.got
        }
        assert sent == {"a": f"Bearer {KEYS['a']}", "b": "Bearer k", "c": f"Bearer {KEYS['c']}"}
        report = await heard.next()
        async with run.running.client.get(f"{run.running.url}/v1/models") as models:
            seen = f"{models.headers} {await models.read()!r}"
        config = repr(run.running.proxy.upstreams) + seen
        keys = list(await store._client.command("KEYS", "*"))  # type: ignore[attr-defined]
        values = [await store._client.command("DUMP", key) for key in keys]
        for key in KEYS.values():
            for where in (answer.body, answer.headers, repr(report), caplog.text, config, repr(values)):
                assert key not in str(where)


async def test_the_model_says_which_and_is_renamed(store: Store) -> None:
    entries = {
        "a": {"models": ["gpt-*"], "rename": {"gpt-4o": "deploy/4o", "gpt-4*": "four"}},
        "b": {"models": ["claude-*", "gpt-5"]},
    }
    async with several(store, entries=entries) as run:
        run.say(a=Said("a"), b=Said("b"), default=Said("d"))
        table = {"gpt-4o": "a", "gpt-4.1": "a", "claude-x": "b", "gpt-5": "a", "llama": "default", "GPT-4o": "default"}
        for model, upstream in table.items():
            answer = await run.post(model=model)
            assert answer.headers["x-guardproxy-upstream"] == upstream, model
        assert [got.json["model"] for got in run.providers["a"].got] == ["deploy/4o", "four", "gpt-5"]
        raw = b'{ "x":1.10, "model" : "gpt-4o" ,"messages":[{"role":"user","content":"\\u00e9 \\"model\\": 1"}]}'
        await run.running.post(raw)
        assert run.providers["a"].got[-1].body == raw.replace(b'"gpt-4o"', b'"deploy/4o"')


async def test_a_model_that_nobody_serves(store: Store, heard: Heard) -> None:
    async with several(store, heard, upstream=None) as run:
        run.say(a=Said("a"))
        answer = await run.post(model="llama")
        assert (answer.status, answer.json["error"]["code"]) == (404, "model_not_found")
        assert answer.json["error"]["param"] == "model"
        assert answer.headers["x-should-retry"] == "false"
        assert run.asked == []
        assert (await heard.next()).attempts == ()
        assert await held(store) == {}
        async with run.running.client.get(f"{run.running.url}/v1/models") as models:
            assert models.headers["x-guardproxy-upstream"] == "a", "without a model and a default: the first"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_judged_turns_fail_over_too_in_every_attempt(store: Store, heard: Heard, stream: bool) -> None:
    """The first attempt and the one asked again: each may move; a failover is no re-ask."""
    sections: Json = {"policy": {"refuse": "enforce"}, "tools": {"deny": ["delete"]}, "failover": {"stay": "none"}}
    async with several(store, heard, **sections) as run:
        delete = Said(calls=[("delete", "{}", "call_del000001")])
        turns = {"a": 0}

        def a(_got: Any) -> Said:
            turns["a"] += 1
            return Said(status=503)

        run.say(a=a, b=lambda got: Said("done") if got.json["messages"][-1]["role"] == "tool" else delete)
        agent = Agent(run.running, stream=stream)
        agent_body = await agent.turn()
        assert (agent.text, agent.executed, agent_body.status) == ("done", [], 200)
        report = await heard.next()
        assert [one.reason for one in report.attempts] == ["first", "failover", "reask", "failover"]
        assert [one.server.name for one in report.attempts if one.server] == ["a", "b", "a", "b"]
        assert report.asked == ("reask",)
        assert turns["a"] == 2


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_judged_turn_whose_upstreams_all_fail_ends_in_the_last_ones_error(store: Store, stream: bool) -> None:
    sections: Json = {"policy": {"refuse": "enforce"}, "tools": {"deny": ["delete"]}}
    async with several(store, **sections) as run:
        run.say(a=Said(status=500), b=Said(status=503, raw=b'{"error":{"message":"full"}}'))
        answer = await Agent(run.running, stream=stream).turn()
        assert (answer.status, answer.json["error"]["message"]) == (503, "full")


async def test_one_upstream_is_told_nothing_of_all_this(store: Store, heard: Heard) -> None:
    async with live(store, heard) as running:
        running.provider.script = lambda _got: Said(status=503)
        answer = await running.post(ASK)
        assert answer.status == 503
        assert "x-guardproxy-upstream" not in answer.headers
        assert len(running.provider.got) == 1
        report = await heard.next()
        assert [one.server for one in report.attempts] == [None]
        assert json.loads(answer.body)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_56_what_may_have_been_sent_is_never_free(store: Store, heard: Heard, stream: bool) -> None:
    """No answer in time: the hold stays charged, as an estimate, and is not asked again elsewhere."""
    entry = {"first_byte_seconds": 0.3, "idle_seconds": 0.3}
    async with several(
        store, heard, entries={"a": entry}, policy={"limits": {"session": {"total_tokens": 9999}}}
    ) as run:
        run.say(a=Said("late", wait=asyncio.Event().wait()))
        answer = await run.post(unique("lost"), stream=stream)
        assert (answer.status, run.asked) == (504, ["a"])
        report = await heard.next()
        await run.running.proxy.quiet()
        used = await counted(store, answer.headers["x-guardproxy-session-id"])
        assert report.usage.estimated
        assert report.usage.input > 0
        assert report.usage.output == (0 if stream else 4096)
        assert used["s:total_tokens"] == (report.usage.input + report.usage.output, 0)
        assert await held(store) == {}


async def test_many_at_once_while_upstreams_come_and_go(store: Store, heard: Heard) -> None:
    """As long as one is well every client gets its answer; no hold is left, no turn is counted twice."""
    chance = random.Random(5)
    limits = {"session": {"total_tokens": 10**6}, "span": {"turns": 1000}}
    async with several(store, heard, names="abc", policy={"limits": limits}, failover={"failures": 2}) as run:

        def unwell(_got: Any) -> Said:
            return Said(
                status=chance.choice((200, 429, 500, 503, 529)), usage={"prompt_tokens": 10, "completion_tokens": 5}
            )

        run.say(a=unwell, b=unwell, c=Said("c"))
        names = [unique(f"many{number}") for number in range(10)]

        async def one(number: int) -> Answer:
            run.now[0] += 1
            return await run.post(names[number % 10], stream=number % 3 == 0, messages=said(number))

        def said(number: int) -> list[Json]:
            return [{"role": "user", "content": f"question {number}"}]

        answers = [
            answer
            for start in range(0, 200, 50)
            for answer in await asyncio.gather(*map(one, range(start, start + 50)))
        ]
        await run.running.proxy.quiet()
        assert {answer.status for answer in answers} == {200}
        assert {answer.headers["x-guardproxy-upstream"] for answer in answers} == {"a", "b", "c"}
        reports = [await heard.next() for _ in answers]
        attempts = [one.server.name for report in reports for one in report.attempts if one.server]
        assert sorted(attempts) == sorted(run.asked), "every call is an attempt in a report"
        assert max(len(report.attempts) for report in reports) == 3
        assert await held(store) == {}
        told = [await counted(store, name) for name in names]
        assert sum(one["s:total_tokens"][0] for one in told) == sum(
            report.usage.input + report.usage.output for report in reports
        )
        assert run.running.proxy.in_flight == 0
