"""What a turn is told of the answer before it: how long ago, what was waited for, and whether it is in the history."""

from __future__ import annotations

import pytest

from guardproxy.core.memory import LocalMemory
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
    for _ in range(2):
        assert (await agent.begin()).status == status  # the same request: nothing has come
        await agent.settle("", "failed")
    assert (await agent.begin()).status == status
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


# What the last start was answered, messages and words of the next one, minutes later, is an answer missing?
STARTS = [
    ("text", 3, "new words", 0, True),
    ("calls", 4, "new words", 0, True),
    ("text", 2, "new words", 0, False),  # another task with the same beginning
    ("text", 3, "task", 0, False),  # the same again, with a reminder in front
    ("text", 3, "", 0, False),
    ("text", 3, "new words", 11, False),
    ("own", 3, "new words", 0, False),
    ("empty", 3, "new words", 0, False),
    ("", 3, "new words", 0, False),  # still running
]


@pytest.mark.parametrize("session", ["", "s"], ids=["derived", "named"])
@pytest.mark.parametrize(("answer", "count", "user", "minutes", "missing"), STARTS)
async def test_a_start_that_grew_without_an_answer(
    store: Store, session: str, answer: str, count: int, user: str, minutes: int, missing: bool
) -> None:
    """The commonest form of it: the agent appends its own words alone. Each request is a run that says so."""
    first, memory = Agent(store, session=session), LocalMemory()
    view = await first.begin()
    assert first.last
    assert not view.missing
    memory.begin(first.last, view.now_ms)
    if answer:
        await first.settle(answer)
        memory.settle(first.closing(answer), view.now_ms)
    again = Agent(store, session=session, count=count, user=user, offset_ms=minutes * 60_000)
    found = await again.begin()
    assert again.last
    assert (found.missing, found.admitted) == (missing, True)
    assert memory.begin(again.last, found.now_ms).missing is missing


async def test_a_start_after_a_run_that_went_on_is_a_run(store: Store) -> None:
    first = Agent(store)
    await first.turn()
    await first.begin()
    assert not (await Agent(store, count=9, user="new words").begin()).missing


@pytest.mark.parametrize("session", ["", "s"], ids=["derived", "named"])
@pytest.mark.parametrize(("later", "rounds", "missing"), [(1, 1, True), (0, 1, False), (3, 2, False)])
async def test_words_after_a_reply_that_is_not_the_last(
    store: Store, session: str, later: int, rounds: int, missing: bool
) -> None:
    """They may be examples in a prompt, so the run is a new one; it has grown, so it says so."""
    agent, memory = Agent(store, session=session, spoken=True), LocalMemory()
    for number in range(2):
        view = await agent.begin()
        assert agent.last
        assert not view.missing
        memory.begin(agent.last, view.now_ms)
        closing = agent.closing("text", did=f"reply {number}")
        await store.settle(closing)
        memory.settle(closing, view.now_ms)
        if not number:
            agent.took("reply 0", user="more")
    agent.rounds += [a_round("of another", agent.count)] * (rounds - 1)
    agent.count, agent.user = agent.count + later, "new words"
    found = await agent.begin()
    assert agent.last
    assert (found.missing, found.session == view.session and found.thread == view.thread) == (missing, False)
    assert memory.begin(agent.last, found.now_ms).missing is missing
