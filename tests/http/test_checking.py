"""A final answer is checked: sent back with what is wrong, handed on and marked, or the run is ended. Over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from guardproxy.http import in_words, sessions
from guardproxy.http.sessions import Runs
from guardproxy.store.redis import Store
from tests.http.test_guarded import Agent, paired, then
from tests.http_store import counted, held
from tests.live import Answer, Json, Said, live, serve
from tests.scenes import Heard

NEEDED: Json = {"required_tools": {"tools": ["search"]}}
SEARCH = ("search", '{"q":"refund"}', "call_search001")
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def policy(**final: object) -> Json:
    return {"final": {"hold": True, **final}, "completion": NEEDED}


def verified(answer: Answer) -> str:
    return answer.headers.get("x-guardproxy-verification", "")


@BOTH
async def test_an_answer_that_fails_is_sent_back_and_never_seen(store: Store, stream: bool) -> None:
    async with live(store, policy=policy()) as running:
        running.provider.script = then(Said("All done."), Said("I look.", calls=[SEARCH]), Said("Found it."))
        agent = Agent(running, stream=stream)
        first = await agent.turn()
        assert agent.executed == ["search"]
        assert agent.messages[1]["content"] == "I look."
        assert verified(first) == "", "what it is given is a call, and no final answer"
        last = await agent.turn()
        assert agent.text == "Found it."
        assert verified(last) == ("" if stream else "passed")
        begun, again, third = [got.json["messages"] for got in running.provider.got]
        assert [m["role"] for m in again] == ["user", "assistant", "user"]
        assert again[1]["content"] == "All done."
        assert "search" in again[2]["content"]
        assert again[: len(begun)] == begun
        assert third[: len(again)] == again, "it stands there on every later turn"
        assert paired(third)
        await running.proxy.quiet()
        assert (await counted(store, agent.session))["s:output_tokens"] == (15, 0)
        assert await held(store) == {}


ENDS = {
    # what is done in the end: the verdict, what the answer is, whether the run goes on
    "deliver": ("pass", "Done, really.", True),
    "cut": ("cut", "[guardproxy]", False),
    "pause": ("pause", "[guardproxy]", False),
}


@BOTH
@pytest.mark.parametrize("on_failure", ENDS)
async def test_an_answer_that_fails_again_and_again(store: Store, on_failure: str, stream: bool) -> None:
    verdict, text, goes_on = ENDS[on_failure]
    async with live(store, policy=policy(retries=1, on_failure=on_failure)) as running:
        running.provider.script = then(Said("All done."), Said("Done, really."))
        agent = Agent(running, stream=stream)
        answer = await agent.turn()
        assert (answer.status, len(running.provider.got)) == (200, 2)
        assert agent.text.startswith(text)
        assert "All done." not in agent.text
        assert answer.verdict == ("pass" if stream else verdict)
        if stream and verdict != "pass":
            assert f": guardproxy action={verdict} rule=completion.required_tools\n\n".encode() in answer.body
        if not stream:
            assert verified(answer) == "failed"
        await running.proxy.quiet()
        state = await store.session_state("default", agent.session)
        assert state
        assert state.state == {"deliver": "active", "cut": "closed", "pause": "paused"}[on_failure]
        agent.text = ""
        agent.messages.append({"role": "user", "content": "Search, then."})
        await agent.turn()
        # a new word of the user re-arms a run that was cut; one that waits for a person waits
        assert len(running.provider.got) == (2 if on_failure == "pause" else 4 if goes_on or on_failure == "cut" else 2)


@BOTH
async def test_without_retries_the_first_answer_decides(store: Store, stream: bool) -> None:
    async with live(store, policy=policy(retries=0)) as running:
        running.provider.script = then(Said("All done."))
        agent = Agent(running, stream=stream)
        await agent.turn()
        assert (agent.text, len(running.provider.got)) == ("All done.", 1)


@BOTH
@pytest.mark.parametrize("hold", [False, True])
async def test_what_is_not_enforced_is_only_reported(store: Store, heard: Heard, hold: bool, stream: bool) -> None:
    """Not held, or all checks observe: the answer flows as it came, and the report says what was found."""
    checks = {"required_tools": {"tools": ["search"], "mode": "observe" if hold else "enforce"}}
    terms = {"final": {"hold": hold}, "completion": checks}
    async with live(store, heard, policy=terms) as running:
        running.provider.script = then(Said("All done."))
        agent = Agent(running, stream=stream)
        answer = await agent.turn()
        assert (agent.text, len(running.provider.got)) == ("All done.", 1)
        if not stream:
            assert answer.body == running.provider.sent[0]
            assert verified(answer) == "failed"
        told = await heard.next()
    assert (told.verification, told.failed_checks) == ("failed", ("required_tools",))


@BOTH
async def test_calls_of_other_tools_are_no_final_answer(store: Store, stream: bool) -> None:
    async with live(store, policy=policy()) as running:
        running.provider.script = then(Said("I read.", calls=[("read", "{}", "call_read00001")]))
        agent = Agent(running, stream=stream)
        answer = await agent.turn()
        assert agent.executed == ["read"]
        assert (verified(answer), len(running.provider.got)) == ("", 1)


@BOTH
async def test_a_final_tool_hands_over_an_answer(store: Store, stream: bool) -> None:
    """Its call is held until it is checked, and gets what is wrong as its result."""
    final = ("finish", '{"answer":"All done."}', "call_final0001")
    async with live(store, policy=policy(), tools={"final": ["finish"]}) as running:
        running.provider.script = then(Said(calls=[final]), Said("I look.", calls=[SEARCH]), Said(calls=[final]))
        agent = Agent(running, stream=stream)
        await agent.turn()
        assert agent.executed == ["search"]
        again = running.provider.got[1].json["messages"]
        assert [m["role"] for m in again] == ["user", "assistant", "tool"]
        assert again[2]["tool_call_id"] == final[2]
        await agent.turn()
        assert agent.executed == ["search", "finish"]


class Judge:
    """A verifier's server: it lets pass what says so."""

    def __init__(self, answer: Any = None, status: int = 200) -> None:
        self.answer, self.status, self.asked = answer, status, 0

    async def handle(self, request: web.BaseRequest) -> web.Response:
        self.asked += 1
        said = await request.json() if self.answer is None else {}
        told = self.answer or {"passed": "42" in said["text"], "feedback": "say the number"}
        return web.json_response(told, status=self.status)


@BOTH
async def test_a_verifier_of_the_user_s(store: Store, stream: bool) -> None:
    judge = Judge()
    async with serve(judge.handle) as url:
        section = {"url": url, "secret": "long enough for a secret"}
        async with live(store, policy={"final": {"hold": True}, "verifier": section}) as running:
            running.provider.script = then(Said("A number."), Said("It is 42."))
            agent = Agent(running, stream=stream)
            answer = await agent.turn()
            assert (agent.text, judge.asked) == ("It is 42.", 2)
            assert "say the number" in running.provider.got[1].json["messages"][-1]["content"]
            assert verified(answer) == ("" if stream else "passed")


@BOTH
@pytest.mark.parametrize(
    "more",
    [{"fail": "open"}, {"fail": "closed"}, {"fail": "closed", "mode": "observe"}],
    ids=["open", "closed", "observe"],
)
async def test_a_verifier_that_fails(store: Store, more: Json, stream: bool) -> None:
    """The model is not to blame, and not asked again for it."""
    judge = Judge({"no": "verdict"}, 500)
    async with serve(judge.handle) as url:
        section = {"url": url, "secret": "long enough for a secret", **more}
        async with live(store, policy={"final": {"hold": True}, "verifier": section}) as running:
            running.provider.script = then(Said("A number."))
            agent = Agent(running, stream=stream)
            answer = await agent.turn()
            assert (agent.text, len(running.provider.got), judge.asked) == ("A number.", 1, 1)
            assert answer.headers.get("x-guardproxy-notice", "") == ("" if stream else "verifier-without-verdict")


@BOTH
async def test_a_verifier_that_cannot_be_reached_is_named_as_what_failed(store: Store, stream: bool) -> None:
    section = {"url": "http://127.0.0.1:1", "secret": "long enough for a secret", "fail": "closed"}
    final = {"hold": True, "on_failure": "pause"}
    async with live(store, policy={"final": final, "verifier": section}) as running:
        running.provider.script = then(Said("A number."))
        agent = Agent(running, stream=stream)
        answer = await agent.turn()
        assert len(running.provider.got) == 1
        assert "could not be reached" in agent.text
        assert "in circles" not in agent.text
        assert stream or answer.headers["x-guardproxy-notice"] == "verifier-not-reached"
        agent.messages.append({"role": "user", "content": "And?"})
        await agent.turn()
        assert "(verifier: it could not be reached)" in agent.text


@BOTH
@pytest.mark.parametrize("ends", ["cut", "pause"])
async def test_a_person_sees_the_answer_that_was_not_handed_on(store: Store, ends: str, stream: bool) -> None:
    secret = "the answer is ORD-8264"
    async with live(store, policy=policy(retries=0, on_failure=ends)) as running:
        running.provider.script = then(Said(secret))
        agent = Agent(running, stream=stream)
        await agent.turn()
        assert secret not in agent.text
        await running.proxy.quiet()
        runs = Runs(store, running.proxy.sealer, "default")
        run = await runs.shown(agent.session)
        assert run.answer is not None
        assert run.answer.text == secret
        assert "`search`" in run.answer.wrong[0]
        told = "\n".join(in_words.paragraphs(run))
        assert f"{secret} (not handed on)" in told
        assert sessions.whole_json(run)["unaccepted_answer"]["text"] == secret  # type: ignore[index]
        assert sessions.whole_json(run, content=False)["unaccepted_answer"] is None
        kept = await store.checkpoints.get("default", f"{agent.session}\x1fanswer")
        assert kept is not None
        assert secret.encode() not in kept.sealed


@BOTH
async def test_a_check_that_raises_costs_itself_alone(
    store: Store, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from guardproxy.core.completion import required_tools

    def fails(*_given: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(required_tools, "check", fails)
    async with live(store, policy=policy()) as running:
        running.provider.script = then(Said("All done."))
        agent = Agent(running, stream=stream)
        answer = await agent.turn()
        assert (answer.status, agent.text) == (200, "All done.")


@BOTH
async def test_what_is_held_comes_as_it_was(store: Store, stream: bool) -> None:
    """An answer that passes its checks is the provider's, byte for byte."""
    async with live(store, policy=policy()) as running:
        running.provider.script = then(Said(calls=[SEARCH]), Said("Found it. 完成"))
        agent = Agent(running, stream=stream)
        await agent.turn()
        answer = await agent.turn()
        sent = running.provider.sent[1]
        if stream:  # the usage was asked for by us, and is taken out again
            events = sent.split(b"\n\n")
            sent = b"\n\n".join(event for event in events if b'"usage"' not in event)
        assert answer.body == sent
