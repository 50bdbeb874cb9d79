"""What a turn is told of the answer before it: how long ago, what was waited for, and whether it is in the history."""

from __future__ import annotations

import pytest

from guardproxy.store.redis import Store
from tests.store.kit import Agent, a_round


async def test_how_long_ago_the_last_answer_was(store: Store) -> None:
    agent = Agent(store, session="s", offset_ms=1_000)
    assert (await agent.begin()).since_ms == 0
    await agent.settle("", "failed")
    assert (await agent.begin()).since_ms == 0
    agent.offset_ms = 5_000
    await agent.settle()
    agent.took()
    seen = (await agent.begin(offset_ms=35_000)).since_ms
    assert 30_000 <= seen < 31_000
    await agent.settle("", "failed", offset_ms=40_000)
    assert 45_000 <= (await agent.begin(offset_ms=50_000)).since_ms < 46_000
    assert (await Agent(store, session="s", thread="other", offset_ms=50_000).begin()).since_ms == 0
    title = await Agent(store, session="s", thread="x", head="b" * 32, tooled=False).begin()
    assert (title.counted, title.since_ms) == (False, 0)


@pytest.mark.parametrize("status", ["need_human", "waiting"])
async def test_what_a_thread_waits_for_is_told_to_the_next_turn(store: Store, status: str) -> None:
    agent = Agent(store, session="s", thread="t")
    assert (await agent.begin()).status == "active"
    await agent.settle(status=status)
    assert (await agent.begin()).status == status  # the same request: nothing has come
    await agent.settle(status=status)
    agent.took(user="the answer")
    assert (await agent.begin()).status == status
    assert (await agent.begin()).status == "active"
    await agent.settle()
    agent.took()
    assert (await agent.begin()).status == "active"


# What was answered, did the agent append it, its new words, is it said to be missing?
FORGOT = [
    ("calls", False, "new words", True),
    ("text", False, "new words", True),
    ("calls", True, "new words", False),
    ("text", True, "new words", False),
    ("text", False, "task", False),  # words it had before
    ("text", False, "", False),  # a harness's
    ("own", False, "new words", False),  # clients drop what we say
    ("empty", False, "new words", False),
]


@pytest.mark.parametrize("rounds", [0, 1, 3])
@pytest.mark.parametrize(("answer", "appended", "user", "missing"), FORGOT)
async def test_a_history_without_the_last_answer(
    store: Store, rounds: int, answer: str, appended: bool, user: str, missing: bool
) -> None:
    agent = Agent(store, session="s", thread="t")
    for _ in range(rounds):
        assert not (await agent.turn()).missing
    await agent.begin()
    await agent.settle(answer)
    if appended:
        agent.took(user=user)
    else:
        agent.count, agent.user = agent.count + 1, user
    view = await agent.begin()
    assert (view.missing, view.admitted) == (missing, True)
    await agent.settle()
    agent.took()
    assert not (await agent.begin()).missing


OTHERS = {
    "compacted": {"head": "b" * 32},
    "shorter": {"count": 3},
    "as long": {"count": 4, "user": "other words"},
    "rewritten": {"rounds": [a_round("did0", 2), a_round("in other words", 6)]},
}


@pytest.mark.parametrize("what", OTHERS)
async def test_what_is_no_missing_answer(store: Store, what: str) -> None:
    agent = Agent(store, session="s", thread="t")
    await agent.turn()
    await agent.begin()
    await agent.settle("text")
    agent.count, agent.user = agent.count + 3, "new words"
    for name, changed in OTHERS[what].items():
        setattr(agent, name, changed)
    assert not (await agent.begin()).missing


async def test_one_that_was_left_in_the_middle_is_not_missing(store: Store) -> None:
    """Clients drop what they did not read to its end."""
    agent = Agent(store, session="s", thread="t")
    await agent.turn()
    await agent.begin()
    await agent.settle("text", "abandoned")
    agent.count, agent.user = agent.count + 1, "new words"
    assert not (await agent.begin()).missing
