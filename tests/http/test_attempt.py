"""What may go wrong while an answer is judged: each turn ends well-formed, gives its hold back, and is charged once.

Over HTTP with a scripted provider: an answer is refused and asked for again, and the second attempt fails, or comes in
another form than the first.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Sequence

import pytest

from guardproxy.errors import StoreError
from guardproxy.http import outlet
from guardproxy.store.redis import Store
from tests.http.test_guarded import TOOLS, Agent, joined, paired, then
from tests.http_store import counted, held
from tests.live import Got, Json, Live, Said, live

FORBIDDEN = ("delete", "{}", "call_del000001")
ALLOWED = ("read", '{"path":"c"}', "call_read00002")
FIRST = Said("I clean up.", calls=[FORBIDDEN])
POLICY = {"refuse": "enforce"}
DENY = {"deny": ["delete"]}
ERROR = b'{"error": {"message": "overloaded", "type": "server_error"}}'
GZIP = {"Content-Encoding": "gzip"}
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def never() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


def half(text: str) -> list[bytes]:
    """The beginning of a stream, which then ends."""
    return Said(text).chunks(usage=False)[:3]


def packed(said: Said, *, stream: bool) -> Said:
    """An answer in an encoding that nobody asked for."""
    body = b"".join(said.chunks(usage=True)) if stream else said.body()
    return Said(raw=gzip.compress(body), headers=GZIP)


FAILS: dict[str, tuple[Callable[[], Said], int]] = {
    # what the second attempt is, and characters of it that reach a client that is streamed to
    "500": (lambda: Said(raw=ERROR, status=500), 0),
    "429": (lambda: Said(raw=ERROR, status=429), 0),
    "400": (lambda: Said(raw=ERROR, status=400), 0),
    "not JSON": (lambda: Said(raw=b"<html>gateway</html>", content_type="text/html"), 0),
    "an empty body": (lambda: Said(raw=b""), 0),
    "an error that is none by its status": (lambda: Said(raw=ERROR, content_type="application/json"), 0),
    "half a stream": (lambda: Said(raw=b"".join(half("Then I read."))), 12),
    "too late": (lambda: Said("x", wait=never()), 0),
    "in an unknown encoding": (lambda: Said(raw=b"\1\2", headers={"Content-Encoding": "zork"}), 0),
    "broken in its encoding": (lambda: Said(raw=gzip.compress(b"x" * 99)[:-20], headers=GZIP), 0),
}


@BOTH
@pytest.mark.parametrize("name", FAILS)
async def test_a_second_attempt_that_fails(store: Store, name: str, stream: bool) -> None:
    second, flowed = FAILS[name]
    upstream = {"first_byte_seconds": 0.4, "idle_seconds": 0.4}
    async with live(store, policy=POLICY, tools=DENY, upstream=upstream) as running:
        running.provider.script = then(FIRST, second(), Said("Better."))
        agent = Agent(running, stream=stream)
        answer = await agent.turn()
        await running.proxy.quiet()
        assert (answer.status, agent.executed, len(running.provider.got)) == (200, [], 2)
        begun = "I clean up.\n\nThen I read.\n\n[guardproxy] " if flowed and stream else "I clean up.\n\n[guardproxy] "
        assert agent.text.startswith(begun)
        assert await held(store) == {}
        used = await counted(store, agent.session)
        assert used["s:turns"] == (1, 0)
        produced = stream and flowed > 0
        # What may have been made may be billed: so a whole one is charged as it was held.
        lost = name in ("too late", "in an unknown encoding") or (name == "half a stream" and not stream)
        assert used["s:output_tokens"][0] == 5 + (flowed // 4 + 1 if produced else 4096 if lost and not stream else 0)
        assert (used["s:input_tokens"][0] > 10) is (produced or lost), "what was refused costs nothing"
        agent.messages.append({"role": "user", "content": "go on"})
        await agent.turn()
        told = running.provider.got[-1].json["messages"]
        assert agent.text == "Better."
        assert paired(told)
        assert [m["role"] for m in told] == ["user", "assistant", "tool", "assistant", "user"]
        assert told[1]["content"] == "I clean up."
        assert told[3]["content"] == begun.removeprefix("I clean up.\n\n") + told[3]["content"].partition("proxy] ")[2]


@BOTH
async def test_a_first_attempt_that_fails_is_the_provider_s_own(store: Store, stream: bool) -> None:
    async with live(store, policy=POLICY, tools=DENY) as running:
        running.provider.script = then(Said(raw=ERROR, status=503))
        agent = Agent(running, stream=stream)
        answer = await agent.turn()
        assert (answer.status, answer.body) == (503, ERROR)
        assert await held(store) == {}


@BOTH
async def test_what_is_judged_is_judged_in_any_encoding(store: Store, stream: bool) -> None:
    async with live(store, policy=POLICY, tools=DENY) as running:
        running.provider.script = then(packed(FIRST, stream=stream), packed(Said("Then I read."), stream=stream))
        agent = Agent(running, stream=stream)
        answer = await agent.turn()
        assert agent.executed == []
        assert agent.text == "I clean up.\n\nThen I read."
        assert "Content-Encoding" not in answer.headers
        await running.proxy.quiet()
        used = await counted(store, agent.session)
        assert (used["s:input_tokens"], used["s:output_tokens"]) == ((20, 0), (10, 0))


@BOTH
@pytest.mark.parametrize(("tools", "status"), [(DENY, 502), ({"human": ["ask"]}, 200)], ids=["forbidden", "no matter"])
async def test_an_answer_that_nobody_can_read(store: Store, stream: bool, tools: Json, status: int) -> None:
    """Where a call may be forbidden it is not handed on; else it passes as what we do not understand."""
    async with live(store, policy=POLICY, tools=tools) as running:
        running.provider.script = then(Said(raw=b"\1\2", headers={"Content-Encoding": "zork"}))
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS, "stream": stream}
        answer = await running.post(body)
        assert answer.status == status
        assert (answer.body == b"\1\2") is (status == 200)
        if status == 502:
            assert answer.json["error"]["code"] == "upstream_encoding"
        assert await held(store) == {}


async def test_what_is_judged_is_judged_by_any_name(store: Store) -> None:
    """A whole answer to a request for a stream, as some text."""
    named = {"Content-Type": "text/plain"}
    async with live(store, policy=POLICY, tools=DENY) as running:
        running.provider.script = then(
            *[Said(raw=said.body(), headers=named) for said in (FIRST, Said("Then I read."))]
        )
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS, "stream": True}
        answer = await running.post(body)
        message = answer.json["choices"][0]["message"]
        assert (message["content"], message.get("tool_calls")) == ("I clean up.\n\nThen I read.", None)
        await running.proxy.quiet()
        used = await counted(store, answer.headers["x-guardproxy-session-id"])
        assert (used["s:input_tokens"], used["s:output_tokens"]) == ((20, 0), (10, 0))


@pytest.mark.parametrize("sent", [FIRST.body(), gzip.compress(FIRST.body()) + b"junk"], ids=["plain", "with junk"])
async def test_an_answer_that_is_not_in_the_encoding_that_it_names(store: Store, sent: bytes) -> None:
    """It was made, so it is charged as it was held. Of a stream the client is told in it (`listen`)."""
    async with live(store, policy=POLICY, tools=DENY) as running:
        running.provider.script = then(Said(raw=sent, headers={"Content-Encoding": "gzip"}))
        answer = await running.post({"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS})
        assert (answer.status, answer.json["error"]["code"]) == (502, "upstream_encoding")
        await running.proxy.quiet()
        used = await counted(store, answer.headers["x-guardproxy-session-id"])
        assert used["s:output_tokens"] == (4096, 0)


@BOTH
async def test_a_model_that_does_not_heed_tool_choice(store: Store, stream: bool) -> None:
    """Refused, refused, made to answer, and still it calls: the calls are dropped, our words are the answer."""
    async with live(store, policy=POLICY, tools=DENY) as running:
        running.provider.script = then(Said(calls=[FORBIDDEN]))
        agent = Agent(running, stream=stream)
        answer = await agent.turn()
        assert (answer.status, agent.executed, len(running.provider.got)) == (200, [], 4)
        assert "[guardproxy]" in agent.text
        last = running.provider.got[-1].json
        assert last["tool_choice"] == "none"
        assert last["tools"] == TOOLS
        assert paired(last["messages"])
        await running.proxy.quiet()
        assert (await counted(store, agent.session))["s:output_tokens"] == (20, 0)
        assert await held(store) == {}
        if not stream:
            assert answer.json["usage"]["completion_tokens"] == 20


@BOTH
async def test_usage_is_estimated_over_all_attempts(store: Store, stream: bool) -> None:
    async with live(store, policy=POLICY, tools=DENY) as running:
        running.provider.script = then(Said("I clean up.", calls=[FORBIDDEN], usage=None), Said("x" * 400, usage=None))
        agent = Agent(running, stream=stream)
        await agent.turn()
        await running.proxy.quiet()
        used = await counted(store, agent.session)
        sizes = [len(got.body) for got in running.provider.got]
        assert used["s:output_tokens"][0] == 101 + (len("I clean up.") + len("{}")) // 4 + 1
        assert used["s:input_tokens"][0] > sizes[0] // 4
        assert await held(store) == {}


@BOTH
async def test_several_choices_pass_unjudged_and_whole(store: Store, stream: bool) -> None:
    """Where nothing is forbidden; where something is, `n` must be 1 (`test_preparing`)."""
    async with live(store, policy={**POLICY, "arguments": {"mode": "enforce"}}) as running:
        running.provider.script = then(Said(calls=[("nobody_has_it", "{", "call_x00000001")]))
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS, "n": 2, "stream": stream}
        body |= {"stream_options": {"include_usage": True}} if stream else {}
        answer = await running.post(body)
        assert answer.status == 200
        assert answer.body == running.provider.sent[0]
        assert len(running.provider.got) == 1


@BOTH
@pytest.mark.parametrize("forbidden", [[127], [0, 5, 64, 127], list(range(128))], ids=["last", "some", "all"])
async def test_128_calls_at_once(store: Store, stream: bool, forbidden: Sequence[int]) -> None:
    calls = [("delete" if n in forbidden else "read", f'{{"path":"{n}"}}', f"call_{n:09d}") for n in range(128)]
    async with live(store, policy=POLICY, tools=DENY) as running:
        running.provider.script = then(Said(calls=calls), Said("done"))
        agent = Agent(running, stream=stream)
        await agent.run()
        assert agent.executed == ["read"] * (128 - len(forbidden))
        assert agent.text == "done"
        told = running.provider.got[-1].json["messages"]
        assert paired(told)
        assert [call["id"] for call in told[1]["tool_calls"]] == [call[2] for call in calls]


@BOTH
async def test_more_calls_than_are_kept_are_not_a_way_past_the_rules(store: Store, stream: bool) -> None:
    calls = [("read", "{}", f"call_{n:09d}") for n in range(1100)] + [("delete", "{}", "call_del000001")]
    async with live(store, policy=POLICY, tools=DENY) as running:
        running.provider.script = then(Said(calls=calls), Said("done"))
        agent = Agent(running, stream=stream)
        await agent.turn()
        assert "delete" not in agent.executed


@BOTH
async def test_huge_arguments(store: Store, stream: bool) -> None:
    huge = json.dumps({"path": "x" * 400_000})
    async with live(store, policy=POLICY, tools=DENY) as running:
        running.provider.script = then(
            Said(calls=[("delete", huge, "call_del000001"), ("read", huge, "call_read00002")]), Said("done")
        )
        agent = Agent(running, stream=stream)
        await agent.run()
        assert agent.executed == ["read"]
        assert agent.messages[1]["tool_calls"][0]["function"]["arguments"] == huge
        told = running.provider.got[-1].json["messages"]
        assert [call["function"]["arguments"] == huge for call in told[1]["tool_calls"]] == [True, True]
        assert paired(told)


def legacy(name: str, *, stream: bool) -> Said:
    """An answer with the call form of 2023."""
    call = {"name": name, "arguments": "{}"}
    base = {"id": "chatcmpl-1", "created": 1, "model": "mock-1"}
    if not stream:
        message = {"role": "assistant", "content": None, "function_call": call}
        choices = [{"index": 0, "message": message, "finish_reason": "function_call"}]
        return Said(raw=json.dumps({**base, "object": "chat.completion", "choices": choices}).encode())
    deltas: list[tuple[Json, str | None]] = [
        ({"role": "assistant", "content": None, "function_call": {"name": name, "arguments": ""}}, None),
        ({"function_call": {"arguments": "{}"}}, None),
        ({}, "function_call"),
    ]
    chunks = [{"index": 0, "delta": delta, "finish_reason": reason} for delta, reason in deltas]
    events = [json.dumps({**base, "object": "chat.completion.chunk", "choices": [one]}) for one in chunks]
    return Said(raw=b"".join(f"data: {one}\n\n".encode() for one in (*events, "[DONE]")))


@BOTH
async def test_a_call_in_the_old_form(store: Store, stream: bool) -> None:
    async with live(store, policy=POLICY, tools=DENY) as running:
        running.provider.script = then(legacy("delete", stream=stream), Said("I leave it."))
        agent = Agent(running, stream=stream)
        await agent.turn()
        assert agent.text == "I leave it."
        _, call, refused = running.provider.got[-1].json["messages"]
        assert call["function_call"] == {"name": "delete", "arguments": "{}"}
        assert (refused["role"], refused["name"]) == ("function", "delete")


@BOTH
@pytest.mark.parametrize("more", [{"mode": "observe"}, {}], ids=["observe", "panic"])
async def test_nothing_is_done_where_nothing_may_be(store: Store, stream: bool, more: Json) -> None:
    """An observing policy, and a panic: calls go to the agent, no answer waits or is sent back, results are as long."""
    policy: Json = {
        "refuse": "enforce",
        "final": {"hold": True},
        "hygiene": {"truncate": {"mode": "enforce", "max_tokens": 200}},
        **more,
    }
    policy["completion"] = {"required_tools": {"tools": ["search"]}}
    async with live(store, policy=policy, tools={**DENY, "approval": ["send"]}) as running:
        if not more:
            await store._client.command("SET", "gp:{default}:panic", "1")
        running.provider.script = then(Said("So:", calls=[FORBIDDEN, ("send", "{}", "call_send0001")]), Said("done"))
        agent = Agent(running, stream=stream)
        agent.messages.append({"role": "assistant", "tool_calls": Said(calls=[ALLOWED]).message()["tool_calls"]})
        agent.messages.append({"role": "tool", "tool_call_id": ALLOWED[2], "content": "long " * 2000})
        answer = await agent.turn()
        assert agent.executed == ["delete", "send"]
        assert answer.verdict == ("observe" if more and not stream else "pass")
        await agent.turn()
        assert agent.text == "done"
        assert len(running.provider.got) == 2
        assert "long " * 2000 in running.provider.got[0].json["messages"][2]["content"]


LEFT: dict[str, tuple[Callable[[], list[Said]], bool, int, int]] = {
    # what the provider says, streamed, attempts, output tokens that are charged
    "before the answer": (lambda: [Said("x", wait=never())], True, 1, 0),
    "before a whole answer": (lambda: [Said("x", wait=never())], False, 1, 4096),
    "while text flows": (lambda: [Said("This is it.", stall=(2, never()))], True, 1, 2),
    "while a call is held": (lambda: [Said("So:", calls=[FORBIDDEN], stall=(5, never()))], True, 1, 2),
    "while it is asked again": (lambda: [FIRST, Said("x", wait=never())], True, 2, 5),
    "while it is asked again, whole": (lambda: [FIRST, Said("x", wait=never())], False, 2, 5 + 4096),
    "in the second answer": (lambda: [FIRST, Said("I will read.", stall=(2, never()))], True, 2, 5 + 2),
}


@pytest.mark.parametrize("name", LEFT)
async def test_a_client_that_leaves(store: Store, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """What was produced is paid for in all attempts, the hold is given back, and the same request may come again."""
    answers, stream, attempts, tokens = LEFT[name]
    async with live(store, policy=POLICY, tools=DENY) as running:
        running.provider.script = then(*answers(), Said("done"))
        agent = Agent(running, stream=stream)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        while len(running.provider.got) < attempts:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        await gone(running, turn)
        assert await held(store) == {}
        used = await counted(store, agent.session)
        assert (used["s:output_tokens"], used["s:turns"]) == ((tokens, 0), (1, 0))
        assert "failed inside guardproxy" not in caplog.text
        await agent.turn()
        assert agent.text == "done"
        assert paired(running.provider.got[-1].json["messages"])


async def gone(running: Live, turn: asyncio.Task[object]) -> None:
    """The client of a turn leaves; its turn is over soon after."""
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    for _ in range(100):
        if not running.proxy.turns:
            break
        await asyncio.sleep(0.01)
    assert not running.proxy.turns
    await running.proxy.quiet()


@BOTH
async def test_a_final_answer_that_is_held_and_empty(store: Store, stream: bool) -> None:
    """`final.hold` with an answer of neither text nor calls: nothing is there to check, it is handed on as it is."""
    policy = {"final": {"hold": True}, "completion": {"required_tools": {"tools": ["search"]}}}
    async with live(store, policy=policy) as running:
        running.provider.script = then(Said(None))
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS, "stream": stream}
        body |= {"stream_options": {"include_usage": True}} if stream else {}
        answer = await running.post(body)
        assert answer.body == running.provider.sent[0]
        assert len(running.provider.got) == 1
        assert await held(store) == {}


class Full:
    """A store without room, or without an answer, for one more attempt. What is missing is made by the real one."""

    def __init__(self, store: Store, answer: bool | None) -> None:
        self._store = store
        self._answer = answer

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def extend(self, *_given: object) -> bool:
        if self._answer is None:
            raise StoreError("away")
        return self._answer


@BOTH
@pytest.mark.parametrize(
    ("answer", "on_failure", "attempts"),
    [(False, "open", 1), (None, "closed", 1), (None, "open", 2)],
    ids=["no room", "away, closed", "away, open"],
)
async def test_room_for_one_more_attempt(
    store: Store, answer: bool | None, on_failure: str, attempts: int, stream: bool
) -> None:
    full = Full(store, answer)
    async with live(full, policy=POLICY, tools=DENY, store={"on_failure": on_failure}) as running:  # type: ignore[arg-type]
        running.provider.script = then(FIRST, Said("Then I stop."))
        agent = Agent(running, stream=stream)
        await agent.turn()
        assert len(running.provider.got) == attempts
        assert agent.text.startswith("I clean up.\n\n[guardproxy]" if attempts == 1 else "I clean up.\n\nThen I stop.")
        assert await held(store) == {}


@BOTH
async def test_a_budget_without_room_for_another_attempt(store: Store, stream: bool) -> None:
    policy = {**POLICY, "limits": {"session": {"output_tokens": 9000}}}
    async with live(store, policy=policy, tools=DENY) as running:
        running.provider.script = then(FIRST)
        agent = Agent(running, stream=stream)
        await agent.turn()
        assert len(running.provider.got) == 2, "two holds fit, a third does not"
        assert "[guardproxy]" in agent.text
        assert await held(store) == {}


@pytest.mark.parametrize("first", ["whole", "stream"])
async def test_a_provider_that_answers_in_another_form_than_before(store: Store, first: str) -> None:
    """A client that is streamed to is sent no body in the middle; the turn ends in our words, and is paid."""

    def script(got: Got) -> Said:
        again = len(got.json["messages"]) > 1
        said = FIRST if not again else Said("Then I read.")
        body = said.body() if again is (first == "stream") else b"".join(said.chunks(usage=True))
        kind = "application/json" if again is (first == "stream") else "text/event-stream"
        return Said(raw=body, headers={"Content-Type": kind})

    async with live(store, policy=POLICY, tools=DENY) as running:
        running.provider.script = script
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS, "stream": True}
        answer = await running.post(body)
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        message = joined(answer.body)
        assert message["content"].startswith("I clean up.\n\n")
        assert "tool_calls" not in message
        assert await held(store) == {}


async def test_a_client_that_waits_for_another_attempt_is_told_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlet, "ALIVE_S", 0.1)
    async with live(store, policy=POLICY, tools=DENY) as running:
        running.provider.script = then(FIRST, Said("Then I read.", wait=asyncio.sleep(0.6)))
        agent = Agent(running, stream=True)
        answer = await agent.turn()
        assert 2 <= answer.body.count(b": keep-alive\n\n") <= 6
        assert agent.text == "I clean up.\n\nThen I read."


@BOTH
async def test_an_error_inside_the_second_answer_is_told_in_the_provider_s_words(store: Store, stream: bool) -> None:
    """In a stream that has begun, as in one that nobody judges; a body that would be one ends in our words."""
    async with live(store, policy=POLICY, tools=DENY) as running:
        raw = b"data: " + ERROR + b"\n\n" if stream else ERROR
        running.provider.script = then(FIRST, Said(raw=raw))
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS, "stream": stream}
        session = {"x-guardproxy-session-id": "error inside"}
        answer = await running.post(body, session)
        assert answer.status == 200
        assert (b"overloaded" in answer.body) is stream
        assert (b"[guardproxy]" in answer.body) is not stream
        assert b"delete" not in answer.body.replace(b"delete is forbidden", b"").replace(b"by delete", b"")
        await running.proxy.quiet()
        assert await held(store) == {}


@BOTH
async def test_calls_that_are_dropped_are_dropped_in_any_encoding(store: Store, stream: bool) -> None:
    """A budget's last turn, of which the provider makes calls all the same, packed."""
    policy = {"limits": {"session": {"output_tokens": 5000}}}
    async with live(store, policy=policy) as running:
        running.provider.script = then(packed(Said("I read.", calls=[ALLOWED]), stream=stream))
        agent = Agent(running, stream=stream)
        answer = await agent.turn()
        assert (agent.executed, agent.text) == ([], "I read.")
        assert "Content-Encoding" not in answer.headers
        assert running.provider.got[0].json["tool_choice"] == "none"
