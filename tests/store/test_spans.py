"""Request spans, cuts, and what re-arms after one."""

from __future__ import annotations

import pytest

from guardproxy.store.redis import Store
from tests.store.kit import BOUNDARY, Agent, facts, used_held

SPANS = [
    ("text", "new words", 2, True),
    ("text", "task", 1, False),
    ("text", "", 1, False),
    ("calls", "new words", 1, False),
    ("own", "new words", 1, False),
    ("empty", "new words", 1, False),
]


@pytest.mark.parametrize(("answer", "user", "span", "boundary"), SPANS)
async def test_a_genuine_user_message_opens_a_span(
    store: Store, answer: str, user: str, span: int, boundary: bool
) -> None:
    agent = Agent(store, session="s")
    first = await agent.turn(answer, user=user)
    view = await agent.begin(offset_ms=5_000)
    assert (first.span, view.span) == (1, span)
    assert view.span_started_ms - view.session_started_ms == (view.now_ms - first.now_ms if boundary else 0)
    assert (BOUNDARY in view.ring) is boundary
    assert view.spent[0].used == (0 if boundary else 1)


async def test_on_another_thread_it_is_a_boundary_and_no_span(store: Store) -> None:
    await Agent(store, session="s").turn()
    sub = Agent(store, session="s", thread="sub", user="sub task")
    await sub.turn("text", user="more")
    view = await sub.begin()
    assert (view.span, view.ring) == (1, (BOUNDARY, *facts("did0")))


async def test_a_failed_attempt_opens_its_span_once(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.turn("text", user="more")
    one = await agent.begin()
    await agent.settle("", "failed")
    two = await agent.begin()
    assert (one.span, two.span, one.ring) == (2, 2, two.ring)


async def test_a_cut_closes_the_thread_and_not_its_session(store: Store) -> None:
    agent = Agent(store, session="s")
    cut = await agent.begin()
    await agent.settle("own", close="repeated_call")
    agent.took()
    views = [await agent.begin() for _ in range(3)]
    assert [(v.closed, v.closed_by, v.answers) for v in views] == [(True, "repeated_call", n) for n in (1, 2, 3)]
    assert {(v.turn, v.steps) for v in views} == {(cut.turn, cut.steps)}
    assert await used_held(store, "b:s:s", "turns") == (1, 0)
    assert not (await Agent(store, session="s", thread="other").begin()).closed


async def test_a_closed_session_closes_every_thread_for_good(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.begin()
    await agent.settle("own", close="budget_cost", close_session=True)
    agent.took(user="new words")
    views = [await agent.begin(), await Agent(store, session="s", thread="other", user="hello").begin()]
    assert [(v.closed, v.closed_by, v.answers) for v in views] == [(True, "budget_cost", 1), (True, "budget_cost", 2)]


async def test_new_words_re_arm_a_cut_thread_three_times(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.begin()
    await agent.settle("own", close="repeated_call")
    for number in range(1, 4):
        agent.took()
        assert (await agent.begin()).closed  # the same words do not
        agent.user = f"words {number}"
        view = await agent.begin()
        assert (view.closed, view.rearmed, view.span, view.ring[-2]) == (False, number, number + 1, BOUNDARY)
        await agent.settle("own", close="repeated_call")
    agent.took(user="words 4")
    assert (await agent.begin()).closed


async def test_a_budget_is_not_re_armed_by_words(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.begin()
    await agent.settle("own", close="budget")
    agent.took(user="please")
    assert (await agent.begin()).closed
