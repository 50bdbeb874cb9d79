"""What a policy asks for beside the decision: what there is to do at all, results tidied, calls looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from guardproxy.core.policy import Policy
from guardproxy.http.preparing import Wants, wants
from guardproxy.store.redis import Store
from tests.http.test_guarded import Agent, paired, then
from tests.live import Json, Said, config_of, live
from tests.scenes import Heard

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
NOTHING = Wants(cleans=False, calls=False, finals=False, holds=False, guards=False, people=False)
CHECK = {"completion": {"required_tools": {"tools": ["search"]}}}
SEEN = {"completion": {"required_tools": {"tools": ["search"], "mode": "observe"}}}
HOLD = {"final": {"hold": True}}


def policy(tools: Json | None = None, **policy: object) -> Policy:
    return config_of(policy=policy, tools=tools or {}).policy_value()


WANTS: dict[str, tuple[Callable[[], Policy], str, set[str]]] = {
    # a policy, the verifier's mode, what there is to do
    "nothing said": (policy, "", set()),
    "of the code": (Policy, "", set()),
    "hygiene": (lambda: policy(hygiene={"empty": {"mode": "observe"}}), "", {"cleans"}),
    "arguments": (lambda: policy(arguments={"mode": "enforce"}), "", {"calls"}),
    "forbidden": (lambda: policy({"deny": ["x"]}, refuse="enforce"), "", {"calls", "guards"}),
    "forbidden, observed": (lambda: policy({"deny": ["x"]}, refuse="observe"), "", {"calls"}),
    "approval": (lambda: policy({"approval": ["x"]}), "", {"calls", "guards", "people"}),
    "approval, all observed": (lambda: policy({"approval": ["x"]}, mode="observe"), "", {"calls"}),
    "a question": (lambda: policy({"human": ["x"]}), "", {"calls", "people"}),
    "a late result": (lambda: policy({"later": ["x"]}), "", set()),
    "a check": (lambda: policy(**CHECK), "", {"finals"}),
    "a check, held": (lambda: policy(**CHECK, **HOLD), "", {"finals", "holds"}),
    "a check that observes, held": (lambda: policy(**SEEN, **HOLD), "", {"finals"}),
    "a check, held, all observed": (lambda: policy(**CHECK, **HOLD, mode="observe"), "", {"finals"}),
    "held for nothing": (lambda: policy(**HOLD), "", set()),
    "a verifier": (policy, "enforce", {"finals"}),
    "a verifier, held": (lambda: policy(**HOLD), "enforce", {"finals", "holds"}),
    "a verifier that observes, held": (lambda: policy(**HOLD), "observe", {"finals"}),
}


@pytest.mark.parametrize("name", WANTS)
def test_wants(name: str) -> None:
    made, verifies, expected = WANTS[name]

    assert wants(made(), verifies=verifies) == NOTHING._replace(**dict.fromkeys(expected, True))


def with_result(agent: Agent, content: str, name: str = "search", times: int = 1) -> None:
    for number in range(times):
        call = {"id": f"call_{number:09d}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        agent.messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        agent.messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


@BOTH
async def test_results_are_tidied_the_same_on_every_turn(store: Store, stream: bool) -> None:
    """What is cut and what is said stands there again, byte for byte, and only the new is told in the report."""
    hygiene = {"truncate": {"mode": "enforce", "max_tokens": 200}, "empty": {"mode": "enforce"}}
    async with live(store, policy={"hygiene": hygiene}) as running:
        running.provider.script = then(Said(calls=[("read", "{}", "call_read00001")]), Said("done"))
        agent = Agent(running, stream=stream)
        with_result(agent, "long " * 2000)
        await agent.turn()
        agent.messages[-1]["content"] = ""
        await agent.turn()
        first, second = [got.json["messages"] for got in running.provider.got]
        assert len(first[2]["content"]) < 2000
        assert second[: len(first)] == first
        assert "[guardproxy]" in second[-1]["content"]
        assert agent.messages[2]["content"] == "long " * 2000


GONE = "Error: this tool has been disabled by the administrator"


@BOTH
@pytest.mark.parametrize("on_fatal", ["tell", "finalize", "pause"])
async def test_a_tool_that_is_gone_for_good(store: Store, on_fatal: str, stream: bool) -> None:
    hygiene = {"errors": {"mode": "enforce", "on_fatal": on_fatal, "fatal_after": 1}}
    async with live(store, policy={"hygiene": hygiene}) as running:
        running.provider.script = then(Said("I stop."))
        agent = Agent(running, stream=stream)
        with_result(agent, GONE)
        answer = await agent.turn()
        expected = {
            "tell": ("pass", ""),
            "finalize": ("finalize", "hygiene.errors"),
            "pause": ("pause", "hygiene.errors"),
        }
        assert (answer.verdict, answer.rule) == expected[on_fatal]
        assert len(running.provider.got) == (0 if on_fatal == "pause" else 1)
        if on_fatal == "finalize":
            assert running.provider.got[0].json["tool_choice"] == "none"
        await running.proxy.quiet()
        state = await store.session_state("default", agent.session)
        assert state
        assert state.state == ("paused" if on_fatal == "pause" else "active")


@pytest.mark.parametrize("mode", ["observe", "enforce"])
async def test_what_was_tidied_is_reported(store: Store, heard: Heard, mode: str) -> None:
    async with live(store, heard, policy={"hygiene": {"empty": {"mode": mode}}}) as running:
        running.provider.script = then(Said("done"))
        agent = Agent(running, stream=False)
        with_result(agent, "")
        await agent.turn()
        told = await heard.next()
        assert told.hygiene == (("empty", mode, "search"),)
        changed = running.provider.got[0].json["messages"] != agent.messages[:-1]
        assert changed is (mode == "enforce")


async def test_a_tool_past_its_deadline_is_reported(store: Store, heard: Heard) -> None:
    policy = {"hygiene": {"deadlines": {"mode": "enforce"}}}
    async with live(store, heard, policy=policy, tools={"deadlines": {"read": 60}}) as running:
        running.provider.script = then(Said(calls=[("read", "{}", "call_read00001")]), Said("done"))
        agent = Agent(running, stream=False)
        await agent.turn()
        await heard.next()
        running.offset_ms = 61_000
        await agent.turn()
        told = await heard.next()
        assert told.late == ("read",)
        assert "[guardproxy]" in running.provider.got[1].json["messages"][-1]["content"]


BROKEN: Any = ("search", '{"q": ', "call_bad000001")


@BOTH
@pytest.mark.parametrize(("mode", "attempts"), [("off", 1), ("observe", 1), ("enforce", 2)])
async def test_arguments_are_looked_at_where_the_policy_says_so(
    store: Store, heard: Heard, mode: str, attempts: int, stream: bool
) -> None:
    async with live(store, heard, policy={"arguments": {"mode": mode}}) as running:
        running.provider.script = then(Said(calls=[BROKEN]), Said("Then not."))
        agent = Agent(running, stream=stream)
        await agent.turn()
        told = await heard.next()
        assert len(running.provider.got) == attempts
        assert [one.reason for one in told.attempts] == ["first", "repair"][:attempts]
        assert [(one.rule, one.mode) for one in told.objected] == ([("arguments", mode)] if mode != "off" else [])
        assert all(paired(got.json["messages"]) for got in running.provider.got)


@pytest.mark.parametrize(
    ("tools", "asked", "status"),
    [({"deny": ["delete"]}, 2, 400), ({"approval": ["delete"]}, 2, 400), ({"deny": ["delete"]}, 1, 200), ({}, 2, 200)],
)
async def test_several_answers_are_no_way_around_the_rules(
    store: Store, tools: dict[str, list[str]], asked: int, status: int
) -> None:
    async with live(store, policy={"refuse": "enforce"}, tools=tools) as running:
        function = {"name": "delete", "parameters": {"type": "object"}}
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "n": asked}
        answer = await running.post({**body, "tools": [{"type": "function", "function": function}]})
        assert answer.status == status
        assert status == 200 or answer.json["error"]["param"] == "n"
