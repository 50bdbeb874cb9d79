"""A reload in the middle of a run changes nothing of what the provider has seen; new runs have the new settings."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from guardproxy.http import shaping
from guardproxy.store.redis import Store
from tests.live import Json, Said, live, unique

LONG = "".join(f"line {number}: some text that stands in a file\n" for number in range(400))
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]


def on(most: int, **more: Any) -> Json:
    return {"hygiene": {"truncate": {"mode": "enforce", "max_tokens": most}}, **more}


class Run:
    """An agent that reads a long file with every turn; a new proxy for each, as after a reload."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.headers = {"x-guardproxy-session-id": unique("run")}
        self.messages: list[Json] = [{"role": "user", "content": unique("read it")}]
        self.sent: list[list[Json]] = []

    async def turn(self, policy: Json, **sections: Any) -> list[Json]:
        """The messages that the provider got."""
        number = len(self.sent)
        async with live(self.store, policy=policy, **sections) as running:
            running.settled = True
            said = Said(calls=[("read", json.dumps({"file": number}), f"call_{number:09d}")])
            running.provider.script = lambda _got: said
            answer = await running.post({"model": "m", "messages": self.messages, "tools": TOOLS}, self.headers)
            await running.proxy.quiet()
            got: list[Json] = running.provider.got[-1].json["messages"]
        self.sent.append(got)
        message = answer.json["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": f"{number}\n{LONG}"}
        self.messages += [message, result]
        return got


def prefixes(sent: list[list[Json]]) -> bool:
    """Whether each request begins with the one before it."""
    return all(later[: len(one)] == one for one, later in pairwise(sent))


CHANGES: dict[str, tuple[list[Json], int]] = {
    "other numbers": ([on(200), on(200), on(400), on(300)], 200),
    "off": ([on(200), on(200), {}, {"mode": "observe"}], 200),
    "another language": ([on(200, language="en"), on(200, language="en"), on(200, language="zh")], 200),
    "on": ([{}, {}, on(200), on(200)], 0),
    "on at the second turn": ([{}, on(200), on(200)], 0),
    "watched, then on": ([{"hygiene": {"truncate": {"mode": "observe"}}}, on(200), on(200)], 0),
}


@pytest.mark.parametrize("case", CHANGES)
async def test_a_prefix_stays(store: Store, case: str) -> None:
    policies, most = CHANGES[case]
    run = Run(store)
    for policy in policies:
        await run.turn(policy)
    assert prefixes(run.sent)
    lengths = {len(one["content"]) for one in run.sent[-1] if one["role"] == "tool"}
    assert lengths == {len(f"0\n{LONG}")} if not most else max(lengths) < 8 * most
    assert len(lengths) == 1


async def test_a_new_run_has_the_settings_of_now(store: Store) -> None:
    old = Run(store)
    await old.turn(on(200))
    await old.turn(on(200))
    new = Run(store)
    for _ in range(2):
        await new.turn(on(400))
    await old.turn(on(400))
    assert prefixes(old.sent)
    assert len(new.sent[1][-1]["content"]) > 1.5 * len(old.sent[1][-1]["content"])


async def test_another_policy_in_the_middle_of_a_run(store: Store) -> None:
    run, named = Run(store), {"tight": on(300), "wide": {"hygiene": {"truncate": {"mode": "off"}}}}
    await run.turn(on(200), policies=named)
    await run.turn(on(200), policies=named)
    run.headers["x-guardproxy-agent"] = "a"
    await run.turn(on(200), policies={"wide": {**named["wide"], "agents": ["a"]}})
    assert prefixes(run.sent)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"{}", b'{"language":"en","truncate":{"max_tokens":1}}', b'{"truncate":1}']
)
def test_what_cannot_be_read_is_nothing(raw: bytes) -> None:
    assert shaping._read(raw) is None
