"""The content of a decided approval: the edit is of the call that was asked about, and of nothing that is forbidden."""

from __future__ import annotations

import asyncio
import json

import pytest

from guardproxy.core.tool_rules import ToolRule
from guardproxy.errors import GuardError
from guardproxy.http import verdict
from guardproxy.http.approvals import Desk
from guardproxy.store.redis import Store
from tests.http.test_approving import BOTH, DELETE, HOLD, TOOL, asked_of, desk, go_on
from tests.http.test_guarded import Agent, paired, then
from tests.http_store import held
from tests.live import Said, live

READ = ("read", '{"path":"a"}', "call_read00001")


@BOTH
@pytest.mark.parametrize("way", ["answer", "hold"])
@pytest.mark.parametrize("wanted", ['{"path":"b \ud83d"}', '{"path":"b \\ud83d"}', '{"path":"b"}', '{"path":"a"}'])
async def test_an_edit_changes_the_call_that_was_asked_about(store: Store, wanted: str, way: str, stream: bool) -> None:
    """Also where half a character stands in its arguments, or an equal call beside it."""
    other = ("drop", "{}", "call_drop00001")
    policy = {"refuse": "enforce", "approvals": {"way": way, "hold_seconds": 20}}
    async with live(store, policy=policy, tools={**TOOL, "deny": ["drop"]}) as running:
        running.provider.script = then(Said(calls=[other, READ, ("delete", wanted, DELETE[2])]), Said("done"))
        agent = Agent(running, stream=stream)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        asked = await asked_of(store, agent.session)
        if way == "answer":
            await turn
        await desk(store).approve(asked.id, "ann", arguments='{"path": "safe"}')
        if way == "answer":
            go_on(agent)
            turn = asyncio.get_running_loop().create_task(agent.turn())
        await turn
        made = [call["function"] for message in agent.messages for call in message.get("tool_calls") or ()]
        assert {call["name"]: json.loads(call["arguments"])["path"] for call in made} == {"read": "a", "delete": "safe"}


DENY = {"tool": "*", "paths": ["/etc"], "reason": "it is not ours"}


@BOTH
@pytest.mark.parametrize("way", ["answer", "hold"])
async def test_an_edit_that_is_forbidden_is_not_released(store: Store, way: str, stream: bool) -> None:
    """It is refused as such, once; the desk of these tests knows no rules, as one with another configuration."""
    tools = {**TOOL, "deny": [DENY]}
    policy = {"refuse": "enforce", **(HOLD if way == "hold" else {})}
    async with live(store, policy=policy, tools=tools) as running:
        running.provider.script = then(Said(calls=[DELETE]), Said("I leave it."), Said("Nothing."))
        agent = Agent(running, stream=stream)
        turn = asyncio.get_running_loop().create_task(agent.turn())
        asked = await asked_of(store, agent.session)
        if way == "answer":
            await turn
        await desk(store).approve(asked.id, "ann", arguments='{"path": "/etc/passwd"}')
        if way == "answer":
            go_on(agent)
            turn = asyncio.get_running_loop().create_task(agent.turn())
        await turn
        assert (agent.executed, agent.text) == ([], "I leave it.")
        denied = await asked_of(store, agent.session, "denied")
        assert (denied.id, denied.by, denied.why, denied.token) == (asked.id, "tools.deny", DENY["reason"], "")
        go_on(agent, "And?")
        await agent.turn()
        assert agent.text == "Nothing."
        for got in running.provider.got[1:]:
            told = got.json["messages"]
            assert paired(told)
            assert sum("The rules of this run forbid it" in str(message["content"]) for message in told) == 1
        assert await held(store) == {}


async def test_a_rule_that_is_only_observed_forbids_nothing(store: Store) -> None:
    async with live(store, policy={"mode": "observe"}, tools={"deny": [DENY]}) as running:
        assert verdict.forbidden(running.proxy.policies.default.policy) == ()
    async with live(store, policy={"refuse": "enforce"}, tools={"deny": [DENY]}) as running:
        assert [rule.paths for rule in verdict.forbidden(running.proxy.policies.default.policy)] == [("/etc",)]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [('{"path": "/etc/passwd"}', "forbidden"), ('{"path": "/tmp/x"}', ""), (None, "")],
)
async def test_a_person_is_told_what_nobody_can_allow(store: Store, arguments: str | None, code: str) -> None:
    rule = ToolRule("*", paths=("/etc",), reason="it is not ours")
    async with live(store, tools=TOOL) as running:
        running.provider.script = then(Said(calls=[DELETE]))
        agent = Agent(running, stream=False)
        await agent.turn()
        asked = await asked_of(store, agent.session)
        knowing = Desk(store, running.proxy.sealer, "default", lambda: (rule,))
        if not code:
            assert (await knowing.approve(asked.id, "ann", arguments=arguments)).approval.state == "approved"
            return
        with pytest.raises(GuardError, match="forbids this call of delete: it is not ours") as refused:
            await knowing.approve(asked.id, "ann", arguments=arguments)
        assert (refused.value.status, refused.value.code) == (409, code)
        assert (await asked_of(store, agent.session)).state == "pending"
