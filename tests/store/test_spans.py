"""Request spans, cuts, and what re-arms after one."""

from __future__ import annotations

import pytest

from guardproxy.core.model import Line
from guardproxy.store.redis import Store
from tests.store.kit import BOUNDARY, Agent, a_round, facts, used_held

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
    assert await used_held(store, "s:s", "turns") == (1, 0)
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


MINUTE = 60_000
NEXT = [  # what main's last answer was, the rule that cut it, minutes later, tools, the words: is the new thread main?
    ("text", "", 0, True, "hello", True),
    ("text", "", 0, True, "task", False),
    ("text", "", 0, True, "", False),
    ("calls", "", 9, True, "hello", False),
    ("calls", "", 11, True, "hello", True),
    ("own", "repeated_call", 0, True, "hello", True),
    ("own", "", 9, True, "hello", False),
    ("empty", "", 9, True, "hello", False),
    ("", "", 11, True, "hello", False),
    ("text", "", 9, False, "hello", False),
    ("text", "", 11, False, "hello", True),
]


@pytest.mark.parametrize("kind", ["fresh", "examples", "history"])
@pytest.mark.parametrize(("answer", "close", "minutes", "tooled", "user", "is_main"), NEXT)
async def test_a_new_conversation_of_a_session_is_its_main_thread_once_main_is_through(
    store: Store, kind: str, answer: str, close: str, minutes: int, tooled: bool, user: str, is_main: bool
) -> None:
    main = Agent(store, session="s", tooled=tooled)
    first = await main.begin()
    if answer:
        await main.settle(answer, close=close)
    rounds = [] if kind == "fresh" else [a_round("not from here", 2)]
    made = Agent(store, session="s", head="b" * 32, user=user, tooled=tooled, rounds=rounds, spoken=kind == "examples")
    view = await made.begin(offset_ms=minutes * MINUTE)
    expected = is_main and kind != "history"
    assert (first.main, view.thread == first.thread) == (True, False)
    assert (view.main, view.span, view.spent[0].used == 0) == (expected, 1 + expected, expected or answer == "")


async def test_a_side_request_is_never_main(store: Store) -> None:
    await Agent(store, session="s").turn("text")
    view = await Agent(store, session="s", head="b" * 32, user="a title, please", tooled=False).begin()
    assert (view.counted, view.span) == (False, 1)


async def test_a_chat_client_with_one_session_id_is_never_out_of_room_for_good(store: Store) -> None:
    """Each conversation is a span of its own, also one that is taken up again."""
    lines = (Line("span", "turns", 1, 2),)
    chats = [Agent(store, session="s", head=name * 32, ids=name, user=name, lines=lines) for name in "abcd"]
    for number, chat in enumerate([*chats, *chats, *chats]):
        assert (await chat.turn("text", user=f"words {number}")).admitted
    assert chats[-1].view
    assert chats[-1].view.span == 12


async def test_sub_agents_count_into_the_span_of_the_one_that_calls_them(store: Store) -> None:
    lines = (Line("span", "turns", 1, 3),)
    main = Agent(store, session="s", lines=lines)
    await main.turn()
    subs = [Agent(store, session="s", head=name * 32, ids=name, user=name, lines=lines) for name in "bcd"]
    assert [(await sub.turn("text")).admitted for sub in subs] == [True, True, False]
    view = await main.begin()
    assert (view.main, view.admitted, view.span) == (True, False, 1)
