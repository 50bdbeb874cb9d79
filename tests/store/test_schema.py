"""The layout's number: noted, never lowered, refused when too new; and what the layout before reads as."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from guardproxy.core.model import Line
from guardproxy.errors import ConfigError
from guardproxy.store import schema
from guardproxy.store.redis import Store
from tests.store.filling import PAYER, restore
from tests.store.kit import LINES, ORG, Agent, facts, used_held

BEFORE = Path(__file__).parent / "layouts" / "1.json"


async def noted(store: Store) -> dict[bytes, bytes]:
    flat: Any = await store._client.command("HGETALL", schema.KEY)
    return dict(zip(flat[::2], flat[1::2], strict=True))


async def test_an_empty_store_is_noted_once(store: Store) -> None:
    assert await store.check_schema() == 0
    assert await noted(store) == {b"version": b"%d" % schema.VERSION, b"needs": b"%d" % schema.NEEDS}
    assert await store.check_schema() == schema.VERSION


async def test_a_store_without_a_number_is_the_first_layout(store: Store) -> None:
    await Agent(store, session="s").turn()
    assert await store.check_schema() == 1
    assert await store.check_schema() == schema.VERSION


NEWER = [
    ({"version": 9, "needs": 9}, True),
    ({"version": 9}, True),
    ({"version": 9, "needs": schema.VERSION}, False),  # it only added: we may run beside it
]


@pytest.mark.parametrize(("there", "refused"), NEWER)
async def test_a_newer_layout_is_refused_unless_it_only_adds(
    store: Store, there: dict[str, int], refused: bool
) -> None:
    words = [str(part) for pair in there.items() for part in pair]
    await store._client.command("HSET", schema.KEY, *words)
    before = await noted(store)
    if refused:
        with pytest.raises(
            ConfigError, match=r"newer guardproxy \(layout 9, .* this one knows 2\): nothing was changed"
        ):
            await store.check_schema()
    else:
        assert await store.check_schema() == 9
    assert await noted(store) == before  # never lowered


async def test_what_the_layout_before_left_goes_on(store: Store) -> None:
    """`layouts/1.json` was written by the version before: `python -m tests.store.filling` at its commit."""
    await restore(store, json.loads(BEFORE.read_text("utf-8")))
    assert await store.check_schema() == 1
    states = {one.session: (one.state, one.turn) for one in await store.list_sessions(ORG)}
    assert states["run-1"] == ("paused", 3)
    assert states["run-cut"] == ("closed", 3)
    assert [one.id for one in await store.approvals.list(ORG)] == ["a1"]
    assert await store.approvals.decide(ORG, "a1", "approve", "bob") == "approved"
    found = await store.checkpoints.get(ORG, "run-1")
    assert found
    assert (found.generation, found.sealed) == (1, b"sealed")
    key = (await store.registry.find("d" * 64)).key
    assert key
    assert (key.id, key.team) == ("k1", "web")
    assert (await store.tokens.find("e" * 64)).live
    assert [one.id for one in await store.labels.every(ORG)] == ["l-run-1"]
    assert {one.what for one in (await store.audit.read(10))[0]} == {"token.create", "session.pause"}
    assert list((await store.policies.every())[1]) == ["careful"]
    assert await used_held(store, "w:t:org", "cost_microusd") == (420, 100)


async def test_a_run_of_the_layout_before_goes_on_counted_as_it_was(store: Store) -> None:
    await restore(store, json.loads(BEFORE.read_text("utf-8")))
    await store.check_schema()
    total = Line("org", "cost_microusd", 100, 1_000_000, "t:org")
    agent = Agent(store, session="twin-1", head="c" * 32, lines=(*LINES, total))
    agent.took("same", user="and now?")
    view = await agent.begin(payer=PAYER, token="a-later-one")  # others are in the file
    assert (view.admitted, view.turn, facts("same")[0] in view.ring) == (True, 2, True)
    assert view.spent[-1].used == 420
    await agent.settle()
    # what runs from now on can be erased by its user's name
    assert "twin-1" in await store.erasures.find(ORG, "ann")
