"""The worker's routes and bounds over HTTP: paths, methods, health, panic, modes, drain."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from guardproxy.core.view import Identity
from guardproxy.http import app, intake
from guardproxy.http.app import Bounds, Proxy
from guardproxy.http.request import Request
from guardproxy.store.redis import Store
from tests.as_written import as_written
from tests.http_store import held
from tests.live import Answer, Got, Json, Live, Said, live, unique
from tests.scenes import Heard

USER = {"role": "user", "content": "Hello"}
GOOD: Json = {"model": "mock-1", "messages": [USER]}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
CALL = Said(calls=[("f", "{}", "call_000000001")])


async def request(running: Live, method: str, path: str, **more: Any) -> Answer:
    """Any request; the path stands as it is, and no header is added."""
    async with running.client.request(method, URL(running.url + path, encoded=True), **more) as answer:
        return Answer(answer.status, dict(answer.headers), await answer.read())


HEALTH = [
    ("GET", "/healthz", 200),
    ("HEAD", "/healthz", 200),
    ("GET", "/readyz", 200),
    ("HEAD", "/", 200),
    ("HEAD", "/v1", 200),
    ("HEAD", "/s/run-1", 200),
    ("HEAD", "/s/run-1/", 200),
    ("HEAD", "/s/run-1/v1/", 200),
]


@pytest.mark.parametrize(("method", "path", "status"), HEALTH)
async def test_signs_of_life(method: str, path: str, status: int, store: Store) -> None:
    async with live(store) as running:
        answer = await request(running, method, path)
        assert answer.status == status
        assert answer.body == (b"" if method == "HEAD" else b"ok\n")
        assert running.provider.got == []


CHAT = "/v1/chat/completions"
PATHS = {
    # what the client asks for: what the provider is asked for, and the session of the path
    CHAT: (CHAT, ""),
    "/chat/completions": (CHAT, ""),
    f"{CHAT}?api-version=2&x=%2F%20&x=": (f"{CHAT}?api-version=2&x=%2F%20&x=", ""),
    "/s/NAME/v1/chat/completions": (CHAT, "NAME"),
    "/s/NAME/v1/chat/completions?a=b": (f"{CHAT}?a=b", "NAME"),
    "/s/NAME/chat/completions": (CHAT, "NAME"),
}


@pytest.mark.parametrize("path", PATHS)
async def test_paths(path: str, store: Store) -> None:
    upstream, session = PATHS[path]
    name = unique("path")
    async with live(store) as running:
        answer = await request(running, "POST", path.replace("NAME", name), data=json.dumps(GOOD))
        assert answer.status == 200
        (got,) = running.provider.got
        assert got.path == upstream
        found = answer.headers["x-guardproxy-session-id"]
        assert found == name if session else found.startswith("d-")


async def test_a_session_in_the_path_goes_before_all_others(store: Store) -> None:
    name = unique("path")
    async with live(store) as running:
        body = {**GOOD, "metadata": {"session_id": "in-the-body"}}
        answer = await running.post(body, {"x-session-id": "in-a-header"}, path=f"/s/{name}{CHAT}")
        assert answer.headers["x-guardproxy-session-id"] == name
        first = await running.post(body, {"x-guardproxy-session-id": f"{name}-2"}, path=f"/s/{name}{CHAT}")
        assert first.headers["x-guardproxy-session-id"] == f"{name}-2", "but for the one that is said on purpose"


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
async def test_other_methods(method: str, store: Store) -> None:
    async with live(store) as running:
        answer = await request(running, method, CHAT)
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        assert answer.json["error"]["code"] == "method_not_allowed"
        assert running.provider.got == []
        assert (await request(running, "HEAD", CHAT)).status == 405


async def test_a_body_that_is_not_read_does_not_spoil_the_connection(store: Store) -> None:
    """What is refused before its body is read is answered, and the next request is served."""
    async with live(store) as running:
        for _ in range(3):
            refused = await request(running, "PUT", CHAT, data=b"x" * 300_000)
            assert refused.status == 405
            assert (await running.post(GOOD)).status == 200


async def test_options_are_the_providers(store: Store) -> None:
    async with live(store) as running:
        answer = await request(running, "OPTIONS", "/chat/completions")
        assert answer.headers["x-guardproxy-verdict"] == "pass"
        assert [(got.method, got.path) for got in running.provider.got] == [("OPTIONS", CHAT)]


async def raw(running: Live, head: str, body: bytes = b"", *, half: bytes = b"", until: bytes = b"") -> bytes:
    """What comes back for bytes as they stand; the body goes once the server has said something, `half` at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(running.url.rsplit(":", 1)[1]))
    writer.write(head.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + half)
    came = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5) if body else b""
    writer.write(body)
    came += await asyncio.wait_for(reader.readuntil(until) if until else reader.read(), 5)
    writer.close()
    return came


@pytest.mark.parametrize("path", [CHAT, "/v1/rerank"])
async def test_a_client_that_waits_to_be_told(path: str, store: Store) -> None:
    async with live(store) as running:
        body = json.dumps(GOOD).encode()
        head = f"POST {path} HTTP/1.1\nHost: x\nConnection: close\nExpect: 100-continue\nContent-Length: {len(body)}"
        came = await raw(running, head, body)
        assert came.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
        assert [got.body for got in running.provider.got] == [body]


async def test_an_absolute_target(store: Store) -> None:
    async with live(store) as running:
        body = json.dumps(GOOD).encode()
        head = f"POST http://any.host:1{CHAT}?a=b HTTP/1.1\nHost: x\nConnection: close\nContent-Length: {len(body)}"
        assert b" 200 OK" in await raw(running, head, half=body)
        assert [got.path for got in running.provider.got] == [f"{CHAT}?a=b"]


@pytest.mark.parametrize("path", [CHAT, "/v1/rerank"])
async def test_a_body_that_stops_coming(path: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "IDLE_S", 0.3)
    async with live(store, overload={"max_in_flight": 1}) as running:
        head = f"POST {path} HTTP/1.1\nHost: x\nContent-Length: 1000"
        slow = [asyncio.ensure_future(raw(running, head, half=b"{", until=b"request_timeout")) for _ in range(5)]
        await asyncio.sleep(0.1)
        assert (running.proxy.in_flight, running.proxy.arriving) == (0, 5)
        assert (await running.post(GOOD)).status == 200, "what is not there yet takes nobody's place"
        for answer in await asyncio.gather(*slow):
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"Connection: close" in answer
        assert (running.proxy.in_flight, running.proxy.arriving) == (0, 0)
        assert await held(store) == {}


def turn_of(history: list[Json], number: int) -> None:
    """The agent appends the call and its result."""
    message = CALL.message()
    message["tool_calls"][0]["id"] = f"call_{number:09d}"
    history += [message, {"role": "tool", "tool_call_id": f"call_{number:09d}", "content": "same"}]


async def looping(running: Live, turns: int, *, on: str = "", stream: bool = False) -> list[Answer]:
    """An agent that repeats one call and heeds nothing."""
    running.provider.script = lambda _got: CALL
    session = on or unique("loop")
    history: list[Json] = [dict(USER)]
    answers = []
    for number in range(turns):
        body = {"model": "mock-1", "messages": history, "tools": TOOLS, "stream": stream}
        answers.append(await running.post(body, {"x-guardproxy-session-id": session}))
        turn_of(history, number)
    return answers


def verdicts(answers: list[Answer]) -> list[str]:
    return [f"{answer.verdict} {answer.rule}".strip() for answer in answers]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_observe_does_nothing_and_reports_the_first_end(stream: bool, store: Store, heard: Heard) -> None:
    async with live(store, heard, policy={"mode": "observe"}) as running:
        answers = await looping(running, 10, stream=stream)
        assert {answer.verdict for answer in answers} == {"pass", "observe"}
        assert len(running.provider.got) == 10
        for got in running.provider.got:
            assert b"guardproxy" not in got.body
            assert "tool_choice" not in got.json
        reports = [await heard.next() for _ in answers]
        assert [report.decision.would for report in reports] == [
            *["", "", "", "nudge", "firm", "finalize", "cut"],
            *[""] * 3,
        ]
        assert {report.outcome for report in reports} == {""}


@pytest.mark.parametrize("scope", ["span", "session"])
async def test_observed_limits_refuse_nothing(scope: str, store: Store, heard: Heard) -> None:
    limits = {"turns": 2, **({"cost_usd": 0.000001} if scope == "session" else {})}
    policy = {"mode": "observe", "limits": {scope: limits}}
    async with live(store, heard, policy=policy) as running:
        answers = await looping(running, 4)
        assert [answer.status for answer in answers] == [200] * 4
        assert len(running.provider.got) == 4
        would = [(await heard.next()).decision.would for _ in answers]
        assert would.count("deny") == 1
        assert await held(store, {answers[0].headers["x-guardproxy-session-id"]}) == {}


async def test_a_mode_per_rule(store: Store) -> None:
    policy = {"detectors": {"repeated_call": {"mode": "observe"}}}
    async with live(store, policy=policy) as running:
        assert {answer.verdict for answer in await looping(running, 8)} == {"pass", "observe"}
    policy = {"mode": "observe", "detectors": {"repeated_call": {"mode": "enforce"}}}
    async with live(store, policy=policy) as running:
        assert verdicts(await looping(running, 5))[3:] == ["nudge repeated_call", "firm repeated_call"]


async def test_a_rule_that_is_off(store: Store) -> None:
    rules = {rule: {"enabled": False} for rule in ("repeated_call", "interleaved_repeat", "cycle", "same_result")}
    rules["nothing_new"] = {"enabled": False}
    async with live(store, policy={"detectors": rules}) as running:
        assert {answer.verdict for answer in await looping(running, 8)} == {"pass"}


async def test_panic(store: Store) -> None:
    """Switched on, everything passes at once, closed runs and spent budgets too; switched off, it is as before."""
    async with live(store, policy={"limits": {"session": {"turns": 7}}}) as running:
        session = unique("panic")
        before = await looping(running, 8, on=session)
        assert before[-1].verdict == "cut"
        await store.panic(on=True)
        try:
            during = await looping(running, 9, on=session)
            assert set(verdicts(during)) == {"pass"}
            assert {answer.status for answer in during} == {200}
            other = await looping(running, 9)
            assert set(verdicts(other)) == {"pass"}
        finally:
            await store.panic(on=False)
        assert "nudge repeated_call" in verdicts(await looping(running, 5))


@as_written
async def test_a_fault_of_ours_is_an_error_in_shape(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with live(store) as running:

        async def broken(*_args: object) -> web.StreamResponse:
            raise ZeroDivisionError("inside")

        monkeypatch.setattr(Proxy, "_route", broken)
        answer = await running.post(GOOD)
        assert (answer.status, answer.json["error"]["code"]) == (500, "internal_error")
        assert "inside" not in answer.body.decode()
        assert len([record for record in caplog.records if record.exc_info]) == 1
        assert running.proxy.in_flight == 0


ROUTES = ["/v1/images/generations", CHAT, "/v1/embeddings"]


@as_written
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("path", ROUTES)
async def test_an_answer_that_comes_the_moment_its_client_leaves_is_no_fault(
    path: str, stream: bool, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The loop hears of it with the answer, and before it tells the connection: what is sent then cannot be sent."""
    leave, send = asyncio.Event(), Request.send

    def sent(request: Request, data: bytes) -> None:
        request._connection.abort()
        leave.set()
        send(request, data)

    async with live(store) as running:
        monkeypatch.setattr(Request, "send", sent)
        body = {**GOOD, "input": "x", "stream": stream}
        with pytest.raises(aiohttp.ClientError):
            await running.post(body, {"x-guardproxy-session-id": "run"}, path)
        await asyncio.wait_for(leave.wait(), 5)
        await running.proxy.quiet()
        assert running.proxy.in_flight == 0
        assert [record for record in caplog.records if record.exc_info] == []
        assert await held(store) == {}


async def test_estimates_are_corrected_by_what_the_provider_said(store: Store) -> None:
    async with live(store) as running:
        proxy = running.proxy
        assert proxy.factor("m") == 1.0
        for _ in range(60):
            proxy.learn("m", round(100 * proxy.factor("m")), 200)
        assert proxy.factor("m") == pytest.approx(2, rel=0.02)
        proxy.learn("odd", 1, 10**9)
        assert proxy.factor("odd") < 3, "one wild figure moves it by a fifth of the bound"
        proxy.learn("none", 0, 5)
        proxy.learn("none", 5, 0)
        assert proxy.factor("none") == 1.0
        for number in range(5000):
            proxy.learn(f"m{number}", 100, 150)
        assert len(proxy._factors) + len(proxy._factors._older) <= 2 * 2048


def who(number: int, **named: str) -> Identity:
    return replace(Identity("", "", "h", False, (f"l{number}",), "derived"), **named)


async def test_what_was_delivered_is_remembered_within_bounds(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "DELIVERED", 3)
    async with live(store) as running:
        for number in range(9):
            running.proxy.remember(who(number), (f"l{number}",))
        known = [running.proxy.knows(who(number)) for number in range(9)]
        assert (known[:3], known[6:]) == ([False] * 3, [True] * 3)
        assert not running.proxy.knows(who(8, session="another"))
        assert not running.proxy.knows(who(8, thread="another"))


def test_bounds() -> None:
    assert (Bounds().max_body, Bounds().max_expanded, Bounds().max_in_flight) == (64 << 20, 64 << 20, 1024)


async def test_two_runs_at_once_do_not_mix(store: Store) -> None:
    """The same task twice, requests interleaved, no header: each is a run of its own, and no loop."""
    async with live(store) as running:
        task = {"role": "user", "content": unique("task")}

        def script(got: Got) -> Said:
            return Said(calls=[("f", json.dumps({"n": len(got.json["messages"])}), unique("call"))])

        running.provider.script = script
        histories: list[list[Json]] = [[task], [task]]
        names = set()
        for number in range(4):
            for history in histories:
                answer = await running.post({"model": "m", "messages": history, "tools": TOOLS})
                names.add(answer.headers["x-guardproxy-session-id"])
                assert answer.verdict == "pass"
                assert answer.headers["x-guardproxy-turn"] == str(number + 1)
                message = answer.json["choices"][0]["message"]
                call = message["tool_calls"][0]
                history += [message, {"role": "tool", "tool_call_id": call["id"], "content": f"r{number}"}]
        assert len(names) == 2
