"""What a turn adds: retries, equal requests, new facts, counters, asides, what settle keeps."""

from __future__ import annotations

from typing import Any

import pytest

from guardproxy.core.view import View
from guardproxy.store.redis import Store
from tests.store.kit import BLANK, ORG, Agent, a_round, facts, used_held


@pytest.mark.parametrize("outcome", ["failed", "abandoned"])
async def test_a_retry_keeps_the_turn_and_appends_and_holds_no_turn(store: Store, outcome: str) -> None:
    agent = Agent(store, session="s")
    await agent.turn()
    first = await agent.begin()
    await agent.settle("", outcome)
    again = await agent.begin()
    assert (again.retry, again.turn, again.steps, again.ring) == (True, first.turn, first.steps, first.ring)
    assert [(s.used, s.held) for s in again.spent] == [(2, 0), (2, 0), (140, 100)]
    await agent.settle()
    assert await used_held(store, "s:s", "turns") == (2, 0)
    assert await used_held(store, "s:s", "cost_microusd") == (210, 0)


async def test_beside_an_open_attempt_the_second_is_a_retry_and_the_third_a_turn(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.turn()
    views = [await agent.begin() for _ in range(3)]
    assert [(view.retry, view.turn) for view in views] == [(False, 2), (True, 2), (False, 3)]
    assert [view.steps for view in views] == [1, 1, 1]


@pytest.mark.parametrize("late", ["the answer", "the failure"])
async def test_an_attempt_that_fails_beside_one_that_is_answered_changes_nothing(store: Store, late: str) -> None:
    first, second = Agent(store, session="s"), Agent(store, session="s")
    for agent in (first, second):
        agent.took()
    await first.begin()
    await second.begin()
    for one in (first, second)[:: 1 if late == "the answer" else -1]:
        await (one.settle("", "abandoned") if one is first else one.settle())
    again = await second.begin()
    assert (again.retry, again.equal) == (False, 1)


async def test_a_first_request_is_open_while_one_of_its_attempts_is(store: Store) -> None:
    one, two = Agent(store, session="s", thread="t"), Agent(store, session="s", thread="t")
    await one.begin()
    assert not (await two.begin()).retry  # without an assistant turn it is a turn of its own
    await one.settle("", "failed")
    assert not (await two.begin()).retry


async def test_the_late_end_of_an_earlier_attempt_changes_nothing(store: Store) -> None:
    slow = Agent(store, session="s")
    await slow.begin()
    fast = Agent(store, session="s", count=4, rounds=[a_round("did0", 2)])
    await fast.begin()
    await slow.settle("", "failed")
    assert (await fast.begin()).retry  # beside the open one, not after a failure
    assert not (await fast.begin()).retry  # the third


async def test_equal_requests_after_an_empty_answer_are_blank_steps(store: Store) -> None:
    agent = Agent(store)
    views = []
    for _ in range(4):
        views.append(await agent.begin())
        await agent.settle("empty")
    assert [view.turn for view in views] == [1, 2, 3, 4]
    assert views[-1].ring == (BLANK,) * 3
    assert views[-1].equal == 0
    assert len({view.session for view in views}) == 1


async def test_an_agent_that_forgets_to_append_is_counted_and_adds_no_facts(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.turn()
    views = []
    for _ in range(4):
        views.append(await agent.begin())
        await agent.settle()
    assert [view.equal for view in views] == [0, 1, 2, 3]
    assert [view.turn for view in views] == [2, 3, 4, 5]
    assert {view.ring for view in views} == {facts("did0")}
    agent.took("did1")
    assert (await agent.begin()).equal == 0


async def test_a_thread_that_is_new_brings_all_its_rounds(store: Store) -> None:
    agent = Agent(store, session="s", count=8, rounds=[a_round(f"old{i}", 2 + 2 * i, facts=2) for i in range(20)])
    view = await agent.begin()
    assert view.steps == len(view.ring) == 40
    assert view.ring[:2] == a_round("old0", 2, facts=2).facts


async def test_only_rounds_from_the_delivered_one_on_are_new(store: Store) -> None:
    agent = Agent(store, session="s")
    for _ in range(3):
        await agent.turn()
    view = await agent.begin()
    assert view.ring == facts("did0", "did1", "did2")
    await agent.settle("", "failed")
    agent.count += 1  # a hint from the harness; the delivered round is taken already
    agent.user = "other"
    assert (await agent.begin()).steps == 3


async def test_a_rewritten_history_is_aligned_by_message_count(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.turn()
    await agent.begin()
    await agent.settle(did="never sent back")
    agent.took("something else")
    assert (await agent.begin()).ring == facts("did0", "something else")
    shorter = Agent(store, session="s", thread=agent.view.thread if agent.view else "", count=3)
    shorter.rounds = [a_round("compacted", 1)]
    assert (await shorter.begin()).ring == facts("did0", "something else")


@pytest.mark.parametrize(
    ("added", "delivered", "trips"),
    [(1, 0, 1), (2, 0, 1), (3, 0, 2), (6, 0, 2), (6, 5, 1), (1, None, 2), (3, None, 2)],
)
async def test_older_rounds_are_sent_when_they_are_needed(
    store: Store, monkeypatch: pytest.MonkeyPatch, added: int, delivered: int | None, trips: int
) -> None:
    agent = Agent(store, session="s")
    for _ in range(4):
        await agent.turn()
    await agent.begin()
    await agent.settle(did="nobody's" if delivered is None else f"new{delivered}")
    for number in range(added):
        agent.took(f"new{number}", counts={"tool:x": 1})
    asked = []
    run = store._client.run

    async def counted(*arguments: Any) -> object:
        asked.append(arguments[0])
        return await run(*arguments)

    monkeypatch.setattr(store._client, "run", counted)
    view = await agent.begin()
    new = [f"new{number}" for number in range(delivered or 0, added)]
    assert view.ring == facts("did0", "did1", "did2", "did3", *new)
    assert view.counts == {"tool:x": len(new)}
    assert asked == ["begin"] * trips


async def test_a_compacted_thread_that_this_worker_knows_by_another_head_is_whole(store: Store) -> None:
    known = Agent(store, session="s", thread="one")
    await known.turn()
    other = Agent(store, session="s", thread="two", count=20, rounds=[a_round(f"d{i}", 2 + 2 * i) for i in range(9)])
    assert (await other.begin()).ring == facts(*[f"d{i}" for i in range(9)])


async def test_the_newest_of_equal_delivered_rounds_counts(store: Store) -> None:
    agent = Agent(store, session="s")
    for _ in range(5):
        view = await agent.turn(did="same")
    assert view.ring == facts(*["same"] * 4)


async def test_the_ring_keeps_64_facts_and_the_ordinal_goes_on(store: Store) -> None:
    agent = Agent(store, session="s")
    for number in range(70):
        await agent.begin()
        await agent.settle(did=f"d{number}")
        agent.took(f"d{number}")
    view = await agent.begin()
    assert (view.steps, len(view.ring)) == (70, 64)
    assert view.ring == facts(*[f"d{i}" for i in range(6, 70)])


async def test_counters_of_a_span_are_raised_and_told_again_to_a_retry(store: Store) -> None:
    agent = Agent(store, session="s")
    seen: list[View] = []
    for number in range(3):
        await agent.begin()
        await agent.settle(did=f"d{number}")
        agent.took(f"d{number}", counts={"tool:bash": 2, f"call:{number}": 1})
        seen.append(await agent.begin())
        await agent.settle("", "failed")
    assert [dict(view.counts) for view in seen] == [{"tool:bash": 2 * n + 2, f"call:{n}": 1} for n in range(3)]
    assert (await agent.begin()).counts == seen[-1].counts


async def test_a_request_without_tools_beside_a_session_with_them_costs_but_is_no_turn(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.turn()
    title = Agent(store, session="s", head="b" * 32, tooled=False)
    view = await title.begin()
    assert (view.counted, view.thread, view.turn, view.ring) == (False, "aside", 1, ())
    assert [(s.used, s.held) for s in view.spent] == [(1, 0), (1, 0), (70, 100)]
    await title.settle("text")
    assert await used_held(store, "s:s", "turns") == (1, 0)
    assert await used_held(store, "s:s", "cost_microusd") == (140, 0)
    assert (await agent.begin()).turn == 2
    state = await store.session_state(ORG, "s")
    assert state
    assert state.threads == ("aaaaaaaaaaaa-1",)


async def test_a_summary_given_aside_continues_the_thread_it_was_made_from(store: Store) -> None:
    agent = Agent(store)
    first = await agent.turn()
    agent.tooled = False
    assert not (await agent.begin()).counted
    await agent.settle("text", did="summary", links=("text/summary",))
    after = Agent(store, head="b" * 32, count=3, rounds=[a_round("summary", 1)])
    opening = after.opening()
    view = await after.begin(identity=type(opening.identity)("", "", "b" * 32, False, ("text/summary",), "test"))
    assert (view.session, view.thread, view.turn) == (first.session, "main", 2)


async def test_a_session_that_never_had_tools_has_plain_turns(store: Store) -> None:
    agent = Agent(store, session="s", tooled=False)
    assert [(await agent.turn()).counted for _ in range(2)] == [True, True]


async def test_episodes_ledger_and_records_are_kept_bounded_and_in_order(store: Store) -> None:
    agent = Agent(store, session="s")
    for number in range(70):
        await agent.begin()
        many = {"episodes": (b"\xffe%d" % number,), "ledger": {f"anchor{number}": b"\xfft%d" % number}}
        await agent.settle(did=f"d{number}", record=b"\xffr%d" % number, facts=(b"own",), **many)
        agent.took(f"d{number}")
    view = await agent.begin()
    assert view.episodes == tuple(b"\xffe%d" % n for n in range(54, 70))
    assert view.ledger == {f"anchor{n}": b"\xfft%d" % n for n in range(6, 70)}
    assert (await store.records(ORG, "s")) == [b"\xffr%d" % n for n in range(70)]
    assert view.steps == 140


async def test_the_first_text_at_an_anchor_stays(store: Store) -> None:
    agent = Agent(store, session="s")
    for text in (b"first", b"second"):
        await agent.begin()
        await agent.settle(ledger={"anchor": text})
        agent.took()
    assert (await agent.begin()).ledger == {"anchor": b"first"}


async def test_the_first_traceparent_is_the_sessions(store: Store) -> None:
    agent = Agent(store, session="s")
    seen = [(await agent.begin(traceparent=text)).traceparent for text in ("00-one", "00-two")]
    assert seen == ["00-one", "00-one"]


@pytest.mark.parametrize("size", [1, 250, 255, 256, 65_535, 65_536])
async def test_facts_of_any_size_are_kept_whole(store: Store, size: int) -> None:
    agent = Agent(store, session="s")
    kept: list[bytes] = []
    for number in range(110):
        view = await agent.begin()
        own = (b"\xc4o%d" % number).ljust(size if number % 40 == 7 else 9, b"\xc5")
        await agent.settle(did=f"d{number}", facts=(own,))
        agent.took(f"d{number}")
        assert view.ring == tuple(kept[-64:])
        kept += [own, *agent.rounds[-1].facts]
    assert view.steps == 218
    stored = await store._client.command("GET", f"gp:{{{ORG}}}:r:s\x1f{view.thread}")
    assert isinstance(stored, bytes)
    assert stored.count(b"\xc4o") <= 64  # half of them, and some slack


async def test_what_was_told_is_known_after_turns_without_anything_to_tell(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.begin()
    await agent.settle(episodes=(b"e",), ledger={"anchor": b"text"})
    agent.took()
    views = [await agent.turn() for _ in range(3)]
    assert [(view.episodes, view.ledger) for view in views] == [((b"e",), {"anchor": b"text"})] * 3
