"""Segments of a session's trace: when one begins, who is told of the end of the one before, who may send a root."""

from __future__ import annotations

import asyncio

import pytest

from guardproxy.core.view import View
from guardproxy.store.redis import Store
from guardproxy.telemetry._ids import Segment, read_segment
from tests.store.kit import ORG, Agent

HOUR = 3_600_000
CALLER = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"


def told(view: View) -> Segment:
    return read_segment(view.traceparent)


async def seal(store: Store, view: View, segment: int = 0, **more: bool) -> bool:
    return await store.runs.seal(ORG, view.session, view.session_started_ms, segment, **more)


async def test_one_of_many_may_send_the_root(store: Store) -> None:
    view = await Agent(store, session="s").turn()

    assert sorted(await asyncio.gather(*[seal(store, view) for _ in range(8)])) == [False] * 7 + [True]
    assert not await seal(store, view, finalized=True)


async def test_the_turn_after_the_root_begins_a_segment(store: Store) -> None:
    agent = Agent(store, session="s")
    first = await agent.turn()
    await agent.turn()
    await seal(store, first)
    third, fourth = await agent.turn(), await agent.turn()

    assert (told(first), first.traceparent) == (Segment(), "")
    assert told(third) == told(fourth) == Segment("", 1, third.now_ms, 3)
    assert not await seal(store, first)  # of a segment that is over
    assert await seal(store, first, 1)
    assert told(await agent.turn()).number == 2


async def test_after_a_finalize_only_what_is_new_begins_one(store: Store) -> None:
    agent = Agent(store, session="s")
    first = await agent.turn()
    assert await seal(store, first, finalized=True)
    asked_on = await agent.turn("text", user="and now this")
    assert told(asked_on).number == 0
    assert told(await agent.turn()).number == 1


@pytest.mark.parametrize(("hours", "caller", "number"), [(5.9, "", 0), (6.1, "", 1), (30, CALLER, 0)])
async def test_a_trace_of_our_own_does_not_grow_for_ever(store: Store, hours: float, caller: str, number: int) -> None:
    agent = Agent(store, session="s")
    first = await agent.begin(traceparent=caller)
    await agent.settle()
    agent.took()
    agent.offset_ms = round(hours * HOUR)
    later, next_one = await agent.turn(), await agent.turn()

    assert told(later).number == told(next_one).number == number
    assert told(later).caller == caller
    if number:
        began, ended = told(later).ended or (0, 0)
        assert (began, told(later).since_ms) == (first.session_started_ms, later.now_ms)
        assert first.now_ms <= ended < first.now_ms + HOUR
        assert told(later).begins(later.turn, later.now_ms)
        assert not told(next_one).begins(next_one.turn, next_one.now_ms)  # so that it does not tell of it again


async def test_three_hundred_turns_are_enough_for_one_trace(store: Store) -> None:
    agent = Agent(store, session="s", lines=())
    numbers = [told(await agent.turn()).number for _ in range(302)]

    assert numbers == [0] * 300 + [1] * 2


async def test_of_a_session_that_is_not_kept_everybody_tells(store: Store) -> None:
    assert await store.runs.seal(ORG, "nobody", 1, 0)


async def test_a_run_that_people_cut_is_told_with_the_next_sweep(store: Store) -> None:
    await Agent(store, session="s").turn()
    assert not await store.idle_sessions(15 * 60_000)
    await store.runs.cut(ORG, "s", "me")

    assert [(known.session, known.closed) for known in await store.idle_sessions(15 * 60_000)] == [("s", "operator")]
    assert not await store.idle_sessions(15 * 60_000)
