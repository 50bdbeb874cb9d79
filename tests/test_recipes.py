"""The recipes of `docs/recipes.md` are configurations: each block is loaded, and does what its heading says."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from guardproxy import config
from guardproxy.http.preparing import wants
from guardproxy.store import embedded
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.live import Got, Json, Said, live

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "recipes.md").read_text("utf-8")
BLOCKS = {
    heading: re.findall(r"```yaml\n(.*?)```", body, re.DOTALL)
    for heading, body in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
}
APPROVALS, FINALS, RESULTS = (
    "A person decides on some calls",
    '"Done" is checked before it counts',
    "Tool results, tidied on their way to the model",
)


def test_the_page_is_linked_and_has_a_block_under_each_heading() -> None:
    assert "(docs/recipes.md)" in (ROOT / "README.md").read_text("utf-8")
    assert list(BLOCKS) == [APPROVALS, FINALS, RESULTS]
    assert {len(found) for found in BLOCKS.values()} == {1}
    assert PAGE.count("```") == 2 * sum(map(len, BLOCKS.values()))


WANTED = {APPROVALS: (False, True, False), FINALS: (False, False, True), RESULTS: (True, True, False)}
"""What there is to look at: tool results, calls, final answers."""


@pytest.mark.parametrize("heading", BLOCKS)
def test_a_block_is_a_configuration(heading: str, tmp_path: Path) -> None:
    file = tmp_path / "guardproxy.yaml"
    file.write_text(BLOCKS[heading][0], "utf-8")

    loaded, _ = config.load(file, {})

    asked = wants(loaded.policy_value(), verifies=str(loaded.policy.verifier.url or ""))
    assert (asked.cleans, asked.calls, asked.finals) == WANTED[heading]


# ----------------------------------------------------------------------------------------------------- and they work


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    with embedded.scratch() as running:
        yield running


@pytest.fixture
async def store(server: Embedded) -> AsyncIterator[Store]:
    made = await Store.connect(socket_path=server.socket_path, timeout_ms=5000)
    yield made
    await made.close()


def sections(heading: str) -> dict[str, Any]:
    """The block without the servers that it names."""
    found: dict[str, Any] = yaml.safe_load(BLOCKS[heading][0])
    found.pop("webhook", None)
    found["policy"].pop("verifier", None)
    return found


TOOLS: list[Json] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": needed},
        },
    }
    for name, needed in (("search_docs", ["query"]), ("delete_file", []), ("run_tests", []))
]


def body(*messages: Json) -> Json:
    return {"model": "m", "messages": [{"role": "user", "content": "Tidy up."}, *messages], "tools": TOOLS}


def called(name: str, arguments: str, result: str) -> list[Json]:
    function = {"name": name, "arguments": arguments}
    return [
        {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "call_1", "content": result},
    ]


CALLS = {
    "shared": ('{"environment": "production"}', False),
    "own": ('{"environment": "test"}', True),
    "secret": ('{"path": "a/.env"}', False),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_waits_for_a_person(store: Store, name: str) -> None:
    arguments, flows = CALLS[name]
    async with live(store, **sections(APPROVALS)) as running:
        running.provider.script = lambda _got: Said(calls=[("delete_file", arguments, "call_1")])
        message = (await running.post(body(), {"x-guardproxy-session-id": name})).json["choices"][0]["message"]
    waits = [one for one in await store.approvals.list("default") if one.session == name]
    assert bool(message.get("tool_calls")) is flows
    assert [one.id in message["content"] for one in waits] == ([] if flows else [True])


async def test_an_answer_that_is_not_done_goes_back(store: Store) -> None:
    def script(got: Got) -> Said:
        return Said('{"summary": "all green"}' if len(running.provider.got) > 1 else "I am done.")

    async with live(store, **sections(FINALS)) as running:
        running.provider.script = script
        answer = await running.post(body(*called("run_tests", "{}", "5 passed in 0.1s")))
        told = running.provider.got[-1].json["messages"][-1]
    assert len(running.provider.got) == 2
    assert json.loads(answer.json["choices"][0]["message"]["content"].split("\n\n")[-1]) == {"summary": "all green"}
    assert answer.headers["x-guardproxy-verification"] == "passed"
    assert told["role"] == "user"
    assert "JSON" in told["content"]


SEEN = {
    "long": ("run_tests", "{}", "x" * 100_000, "[guardproxy]"),
    "empty": ("search_docs", '{"query": "refunds"}', "[]", "no match for refunds"),
    "busy": ("search_docs", '{"query": "refunds"}', "Error: 503 Service Unavailable", "wait about 2 s"),
}


@pytest.mark.parametrize("name", SEEN)
async def test_a_result_is_tidied(store: Store, name: str) -> None:
    tool, arguments, result, said = SEEN[name]
    async with live(store, **sections(RESULTS)) as running:
        running.provider.script = lambda _got: Said("Ok.")
        await running.post(body(*called(tool, arguments, result)), {"x-guardproxy-session-id": name})
        seen = running.provider.got[-1].json["messages"][-1]["content"]
    assert said in seen
    assert len(seen) < 41_000


async def test_a_call_that_does_not_fit_goes_back(store: Store) -> None:
    async with live(store, **sections(RESULTS)) as running:
        running.provider.script = lambda got: Said(
            calls=[("search_docs", '{"q": 1}' if len(got.json["messages"]) == 1 else '{"query": "x"}', "call_1")]
        )
        answer = await running.post(body(), {"x-guardproxy-session-id": "repair"})
    (call,) = answer.json["choices"][0]["message"]["tool_calls"]
    assert call["function"]["arguments"] == '{"query": "x"}'
