"""Whose turn is it: derived runs, declared sessions, threads, restarts, compaction."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from guardproxy.core.model import Line
from guardproxy.store.redis import Store
from tests.store.kit import NOTHING, ORG, Agent, a_round, facts, keys

HEAD = "a" * 32
MINUTE = 60_000


async def test_a_derived_run_is_named_by_its_head_and_a_number(store: Store) -> None:
    agent = Agent(store)
    first = await agent.turn()
    second = await agent.turn()
    assert (first.session, first.thread, first.turn, first.new_session) == ("d-aaaaaaaaaaaa-1", "main", 1, True)
    assert (second.session, second.thread, second.turn, second.new_session) == ("d-aaaaaaaaaaaa-1", "main", 2, False)


@pytest.mark.parametrize("ids", ["own", ""], ids=["unique call ids", "call ids that repeat"])
async def test_a_hundred_equal_runs_ten_at_once_are_a_hundred_sessions(store: Store, ids: str) -> None:
    seen: list[list[str]] = []

    async def run(number: int) -> None:
        agent = Agent(store, ids=f"{ids}{number}" if ids else "")
        views = []
        for _ in range(4):
            views.append(await agent.turn())
            await asyncio.sleep(0)
        seen.append([view.session for view in views])

    for ten in range(10):
        await asyncio.gather(*(run(ten * 10 + i) for i in range(10)))
    turns = Counter(session for sessions in seen for session in sessions)
    assert len(turns) == 100
    assert set(turns.values()) == {4}
    if ids:  # where ids tell them apart, nobody is ever taken for another; where nothing does, they are exchangeable
        assert all(len(set(sessions)) == 1 for sessions in seen)


async def test_a_run_is_not_mixed_with_one_that_died_after_the_same_round(store: Store) -> None:
    dead, live = Agent(store), Agent(store)
    first = await dead.turn()
    second = await live.turn()
    third = await live.turn()
    assert first.session != second.session == third.session


@pytest.mark.parametrize(
    ("outcome", "answer", "wait_ms", "same_run", "retry"),
    [
        ("failed", "", 100_000, True, True),
        ("abandoned", "", 100_000, True, True),
        ("failed", "", 130_000, False, False),
        ("answered", "calls", 1_000, False, False),
        ("answered", "empty", 100_000, True, False),
        ("answered", "empty", 130_000, False, False),
    ],
)
async def test_an_equal_first_request(
    store: Store, outcome: str, answer: str, wait_ms: int, same_run: bool, retry: bool
) -> None:
    agent = Agent(store)
    first = await agent.begin()
    await agent.settle(answer, outcome)
    again = await agent.begin(offset_ms=wait_ms)
    assert (again.session == first.session, again.retry) == (same_run, retry)
    assert again.turn == (2 if same_run and not retry else 1)


async def test_a_run_whose_retry_was_answered_is_not_retried_again(store: Store) -> None:
    agent = Agent(store)
    first = await agent.begin()
    await agent.settle("", "failed")
    assert (await agent.begin()).session == first.session
    await agent.settle()
    assert (await agent.begin()).session != first.session


async def test_an_equal_first_request_beside_an_open_one_is_another_run(store: Store) -> None:
    first, second = await Agent(store).begin(), await Agent(store).begin()
    assert first.session != second.session
    assert not second.retry


@pytest.mark.parametrize(("wait_ms", "same"), [(9 * MINUTE, True), (11 * MINUTE, False)])
async def test_without_a_link_the_latest_run_of_the_head_is_meant_for_ten_minutes(
    store: Store, wait_ms: int, same: bool
) -> None:
    agent = Agent(store)
    first = await agent.turn()
    agent.rounds[-1] = a_round("rewritten by the client", 2)
    again = await agent.begin(offset_ms=wait_ms)
    assert (again.session == first.session) is same


async def test_several_runs_were_given_the_round_the_longest_shorter_history_is_meant(store: Store) -> None:
    short, long = Agent(store, ids="x"), Agent(store, ids="x", head="b" * 32, count=10)
    await short.turn(did="same")
    of_long = await long.turn(did="same")
    long.head, long.ids = HEAD, "unknown"  # only the digest of the round is left to go by
    assert (await long.begin()).session == of_long.session


async def test_a_conversation_shorter_than_all_candidates_is_the_latest(store: Store) -> None:
    older, newer = Agent(store, head="b" * 32, count=20), Agent(store, head="c" * 32, count=10, offset_ms=5)
    await older.turn(did="same")
    of_newer = await newer.turn(did="same")
    cut = Agent(store, head="d" * 32, count=4, rounds=[a_round("same", 2)])
    assert (await cut.begin()).session == of_newer.session


async def test_compaction_a_round_under_another_head_continues_the_thread(store: Store) -> None:
    agent = Agent(store, ids="x")
    first = await agent.turn()
    compacted = Agent(store, head="b" * 32, ids="x", count=agent.count, rounds=agent.rounds)
    view = await compacted.turn()
    assert (view.session, view.thread, view.turn) == (first.session, "main", 2)
    compacted.rounds[-1] = a_round("nothing known", 4)
    assert (await compacted.begin()).session == first.session  # the new head is known now


@pytest.mark.parametrize("ending", ["cut", "denied"])
async def test_a_restart_after_our_ending_is_the_ended_run_as_often_as_it_was_ended(store: Store, ending: str) -> None:
    agent = Agent(store)
    await agent.turn()
    ended = await agent.begin(lines=(Line("session", "turns", 1, 1),)) if ending == "denied" else await agent.begin()
    if ending == "cut":
        await agent.settle("own", close="repeated_call")
    assert ended.admitted is (ending == "cut")
    one, two = [await Agent(store).begin() for _ in range(2)]
    assert one.session == ended.session
    assert one.closed is (ending == "cut")
    # A cut answers the restart with a cut again, which may be restarted again; a denied run that now fits goes on.
    assert (two.session == ended.session) is (ending == "cut")


async def test_a_restart_that_is_ended_again_counts_once(store: Store) -> None:
    none = (Line("session", "turns", 1, 0),)
    first = await Agent(store).turn()
    agent = Agent(store, count=4, rounds=[a_round("did0", 2)])
    assert not (await agent.begin(lines=none)).admitted
    assert (await Agent(store).begin(lines=none)).session == first.session
    assert (await Agent(store).turn()).session == first.session
    assert (await Agent(store).turn()).session != first.session


async def test_no_restart_beside_another_open_run_of_the_head_nor_after_two_minutes(store: Store) -> None:
    agent = Agent(store)
    await agent.begin()
    await agent.settle("own", close="repeated_call")
    late = await Agent(store).begin(offset_ms=130_000)
    assert late.session != agent.view.session if agent.view else False
    beside = await Agent(store).begin()  # `late` is still open
    assert not beside.closed
    assert beside.session != late.session


async def test_declared_sessions_and_threads(store: Store) -> None:
    main = Agent(store, session="s1", ids="main")
    first, second = await main.turn(), await main.turn()
    sub = Agent(store, session="s1", ids="sub")  # a sub-agent without a thread id: a request without an assistant turn
    third = await sub.turn()
    named = await Agent(store, session="s1", thread="helper", head="c" * 32, ids="helper").turn()
    assert first.thread == second.thread == "aaaaaaaaaaaa-1"
    assert third.thread == "aaaaaaaaaaaa-2"
    assert named.thread == "helper"
    assert [view.turn for view in (first, second, third, named)] == [1, 2, 3, 4]
    assert (await main.turn()).thread == first.thread
    assert (await sub.turn()).thread == third.thread
    state = await store.session_state(ORG, "s1")
    assert state
    assert (state.main, state.threads) == (first.thread, ("aaaaaaaaaaaa-1", "aaaaaaaaaaaa-2", "helper"))


async def test_a_declared_session_is_not_led_astray_by_rounds_of_another(store: Store) -> None:
    other = Agent(store, session="s1", ids="x")
    await other.turn()
    mine = Agent(store, session="s2", ids="x", count=other.count, rounds=list(other.rounds))
    view = await mine.begin()
    assert (view.session, view.thread) == ("s2", "aaaaaaaaaaaa-1")


async def test_a_declared_session_falls_back_to_its_latest_thread_of_the_head(store: Store) -> None:
    agent = Agent(store, session="s1")
    first = await agent.turn()
    agent.rounds[-1] = a_round("rewritten", 2)
    assert (await agent.begin()).thread == first.thread
    stranger = Agent(store, session="s1", head="b" * 32, count=4, rounds=[a_round("unknown", 2)])
    assert (await stranger.begin()).thread == "bbbbbbbbbbbb-2"


async def test_a_cut_declared_thread_is_met_again_by_the_same_first_request(store: Store) -> None:
    agent = Agent(store, session="s1")
    await agent.begin()
    await agent.settle("own", close="monologue")
    assert [(await agent.begin()).answers for _ in range(3)] == [1, 2, 3]
    assert (await agent.begin(offset_ms=130_000)).closed is False


@pytest.mark.parametrize("ids", ["", "own"], ids=["ids that repeat", "own ids"])
@pytest.mark.parametrize("answered", [True, False], ids=["answered", "failed"])
@pytest.mark.parametrize("other_rounds", [1, 3, 5], ids=["shorter", "as long", "longer"])
async def test_a_client_that_takes_back_a_round_has_its_own_run(
    store: Store, ids: str, answered: bool, other_rounds: int
) -> None:
    """The same was done by another run of its head, whose last words were dropped; but at another place."""
    other, agent = Agent(store, ids=f"{ids}2" if ids else ""), Agent(store, ids=ids)
    for made in (other, agent):
        for _ in range(other_rounds if made is other else 4):
            mine = await made.turn(did="same")
        view = await made.begin()
        again = (f"{made.ids}/{made.count - 2}/same", "round/same")  # who drops the words goes on from this round
        if made is other or answered:
            await made.settle("text", did="words", links=("round/words", *again))
        else:
            await made.settle("", "failed")
        assert view.session == mine.session
    agent.rounds.pop()
    agent.count -= 2
    assert (await agent.begin()).session == mine.session


@pytest.mark.parametrize("session", ["", "s1"], ids=["derived", "declared"])
@pytest.mark.parametrize("mine", [0, 1], ids=["the older", "the younger"])
@pytest.mark.parametrize("calls", [0, 2])
async def test_an_empty_answer_is_taken_up_by_the_run_that_it_was_given_to(
    store: Store, session: str, mine: int, calls: int
) -> None:
    """It says nothing; of equal runs neither the youngest is meant nor the one that has asked the same before."""
    equal = [Agent(store, session=session, ids=name) for name in "xy"]
    for agent in equal:
        for _ in range(calls):
            await agent.turn()
        await agent.begin()
    agent = equal[mine]
    before = await agent.turn("empty", user="well?")
    after = await agent.begin()
    assert (after.session, after.thread) == (before.session, before.thread)
    assert after.carried


@pytest.mark.parametrize("session", ["", "s1"], ids=["derived", "declared"])
async def test_an_empty_answer_is_not_taken_up_by_who_asked_the_same_before(store: Store, session: str) -> None:
    """A client that takes back its words is a new run, and is given nothing where the first one was, too."""
    first, again = (Agent(store, session=session, spoken=True) for _ in range(2))
    await first.turn("text", user="more")
    views = []
    for agent in (first, again):
        agent.rounds, agent.count, agent.user = list(first.rounds[:1]), 4, "more"
        await agent.begin()
        assert agent.view
        assert agent.last
        await agent.settle("empty")
        agent.took(NOTHING, user="well?")
        kept = agent.opening().identity.links
        views.append((agent.view, await agent.begin(identity=replace(agent.opening().identity, spoken=False))))
        await agent.settle("text", did="dropped", links=("round/dropped", *kept))
    for before, after in views:
        assert (after.session, after.thread) == (before.session, before.thread)
    assert len({(view.session, view.thread) for view, _ in views}) == 2


async def test_an_equal_run_that_begins_later_does_not_fall_into_one_that_asked_the_same(store: Store) -> None:
    """The client names the calls anew, so that both ask exactly the same: each is found by what it was given."""
    first, second = Agent(store, ids="x"), Agent(store, ids="y")
    for agent, turns in ((first, 5), (second, 4)):
        agent.named = "renamed"
        sessions = {(await agent.turn(did="same")).session for _ in range(turns)}
        assert len(sessions) == 1
    assert first.view
    assert second.view
    assert first.view.session != second.view.session


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside an equal run"])
async def test_a_run_that_has_moved_on_is_not_found_by_its_last_round_any_more(store: Store, beside: bool) -> None:
    agent, other = Agent(store), Agent(store, ids="other")
    if beside:
        await other.turn()
    for _ in range(3):
        await agent.turn()
    await agent.begin()
    found = [key for key in await keys(store) if key[10:12] in ("n:", "m:")]
    assert [key for key in found if "did2" in key] == []
    assert ("gp:{acme}:m:round/did0" in found) is beside
    if beside:
        assert await store._client.command("ZCARD", "gp:{acme}:m:round/did0") == 1


async def test_two_orgs_share_nothing(store: Store) -> None:
    agent = Agent(store, session="s1")
    await agent.turn()
    other = await store.begin(replace(agent.opening(), org="other"))
    assert other.new_session
    assert {key.split("}")[0] for key in await keys(store)} == {"gp:orgs", "gp:{acme", "gp:{other"}


@pytest.mark.parametrize("org", ["", "{}", "a}b{c", "ö"])
async def test_odd_names_keep_their_slot_and_their_parts_apart(store: Store, org: str) -> None:
    agent = Agent(store, session="a\x1fb", thread="c:\ud800")
    view = await store.begin(replace(agent.opening(), org=org))
    assert (view.session, view.thread) == ("a_b", "c:?")
    for key in await keys(store) - {"gp:orgs"}:
        assert key.count("{") == key.count("}") == 1


@pytest.mark.parametrize("session", ["", "s1"], ids=["derived", "declared"])
@pytest.mark.parametrize(("spoken", "same"), [(True, False), (False, True)], ids=["examples", "calls"])
async def test_examples_in_a_prompt_are_nobodys_history(store: Store, session: str, spoken: bool, same: bool) -> None:
    views = []
    for number in range(3):
        prompt = Agent(store, session=session, count=4, rounds=[a_round("example", 2)], spoken=spoken)
        prompt.user = f"document {number}"
        views.append(await prompt.begin())
        await prompt.settle("text", did="label")
    assert len({(view.session, view.thread) for view in views}) == (1 if same else 3)


async def test_an_answer_that_an_example_has_too_is_not_its_run(store: Store) -> None:
    """`positive` was delivered under this head; the next prompt ends in the example `positive`, and is as long."""
    runs = []
    for number in range(3):
        prompt = Agent(store, count=4, rounds=[a_round("positive", 2)], spoken=True, user=f"document {number}")
        await prompt.begin()
        await prompt.settle("text", links=("round/positive",), did="positive")
        assert prompt.last
        identity = replace(prompt.last.identity, links=("round/positive",))
        view = await prompt.begin(identity=identity, fact=replace(prompt.last.fact, conversation=f"another {number}"))
        runs.append((prompt.last.token, view.session))
    assert len({session for _, session in runs}) == 3


@pytest.mark.parametrize(("place", "same"), [(4, True), (10, False)], ids=["where they were said", "further on"])
async def test_words_at_another_place_are_not_those_of_the_run_that_said_them(
    store: Store, place: int, same: bool
) -> None:
    """It was given nothing after them, and may go on from there; but others say `Done.`, too."""
    agent = Agent(store, ids="x")
    await agent.turn()
    first = await agent.turn("text", did="done", user="more")
    agent.spoken = True
    await agent.begin()
    await agent.settle("empty", links=("round/done",))
    agent.rounds[-1], agent.count, agent.user = a_round("done", place), place + 3, "and more"
    said = agent.opening().identity
    view = await agent.begin(identity=replace(said, links=("round/done",)))
    assert (view.session == first.session) is same


async def test_a_chat_goes_on_in_its_run(store: Store) -> None:
    chat = Agent(store)
    first = await chat.turn("text", user="more")
    chat.spoken = True
    assert (await chat.turn("text", user="and more")).session == first.session
    assert (await chat.begin()).session == (await chat.begin()).session == first.session


@pytest.mark.parametrize("session", ["", "s1"], ids=["derived", "declared"])
async def test_a_job_that_comes_every_minute_is_refused_for_two_minutes(store: Store, session: str) -> None:
    agent = Agent(store, session=session)
    await agent.turn()
    await agent.begin()
    await agent.settle("own", close="repeated_call")
    if session:  # a session's thread is met again by the request that was cut
        agent.rounds.clear()
        agent = Agent(store, session="s2")
        await agent.begin()
        await agent.settle("own", close="repeated_call")
    job = Agent(store, session=agent.session)
    closed = [(await job.begin(offset_ms=minutes * MINUTE - 1000)).closed for minutes in range(1, 6)]
    assert closed == [True, True, False, False, False]


ENDED = {
    # Our last words, the links that they leave, seconds until the client goes on with what nobody was given: whose run?
    "cut": ({"answer": "own", "close": "cycle"}, 100, True),
    "long ago": ({"answer": "own", "close": "cycle"}, 130, False),
    "our own words and no end": ({"answer": "own"}, 100, True),
    "a text": ({"answer": "text"}, 100, False),
}


@pytest.mark.parametrize("name", ENDED)
async def test_who_goes_on_after_our_ending_is_not_taken_for_a_younger_run(store: Store, name: str) -> None:
    """Clients drop or rewrite what we say; the newest run of that head is not meant."""
    closing, later, mine = ENDED[name]
    agent, younger = Agent(store, ids="x"), Agent(store, ids="y")
    ended, other = await agent.turn(), await younger.turn()
    await agent.begin()
    await agent.settle(**closing, links=())
    agent.took("what nobody said")
    agent.offset_ms = later * 1000
    view = await agent.begin()
    assert view.session == (ended.session if mine else other.session)
    assert view.closed == ("close" in closing and mine)
    assert (await younger.begin()).session == other.session


@pytest.mark.parametrize("session", ["", "s1"], ids=["derived", "declared"])
@pytest.mark.parametrize("own_ids", [True, False], ids=["own ids", "no ids"])
@pytest.mark.parametrize("name", ENDED)
async def test_who_goes_on_after_our_ending_with_what_another_run_did_meets_it(
    store: Store, session: str, own_ids: bool, name: str
) -> None:
    """It was given the same much nearer to the beginning: nobody gave this one what it goes on with."""
    closing, later, mine = ENDED[name]
    other, agent = (Agent(store, session=session, ids=ids if own_ids else "") for ids in "xy")
    did = await other.turn(did="its own")
    for _ in range(3):
        ended = await agent.turn(did="same")
    await agent.begin()
    await agent.settle(**closing, links=())
    agent.took("its own")
    agent.offset_ms = later * 1000
    last = agent.opening()
    links = last.identity.links if own_ids else last.identity.links[1:]
    view = await agent.begin(identity=replace(last.identity, links=links))
    assert (view.session, view.thread) == ((ended if mine else did).session, (ended if mine else did).thread)
    assert (await other.begin()).thread == did.thread


@pytest.mark.parametrize("ids", [("x", "y"), ("", "")], ids=["own ids", "same ids"])
@pytest.mark.parametrize(("answer", "outcome"), [("own", "answered"), ("text", "answered"), ("", "failed")])
async def test_who_drops_an_answer_is_found_by_the_round_before(
    store: Store, ids: tuple[str, str], answer: str, outcome: str
) -> None:
    """Also beside an equal run, with ids that repeat: each finds its own. Their turns lie a second apart: within one
    millisecond nothing tells them apart, and no model answers so soon.
    """
    agent, equal = (Agent(store, ids=name) for name in ids)
    first = (await agent.turn()).session
    agent.offset_ms = equal.offset_ms = 1000
    runs = {first, (await equal.turn()).session}
    mine = set()
    for _ in range(2):
        agent.offset_ms += 1000
        view = await agent.begin()
        assert view.carried
        assert agent.last
        mine.add(view.session)
        links = agent.closing(answer, outcome).links + agent.last.identity.links
        await agent.settle(answer, outcome, links=links)
        agent.count, agent.user = agent.count + 1, agent.user + " again"
    agent.offset_ms += 1000
    mine.add((await agent.begin()).session)
    equal.offset_ms = agent.offset_ms + 1000
    other = {(await equal.turn()).session for _ in range(3)}
    assert (len(mine), len(other), mine | other) == (1, 1, runs)


@pytest.mark.parametrize("session", ["", "s1"], ids=["derived", "declared"])
@pytest.mark.parametrize(("count", "same"), [(8, True), (4, False)], ids=["grown", "as short as the examples"])
async def test_who_goes_on_after_our_ending_without_our_words_meets_it(
    store: Store, session: str, count: int, same: bool
) -> None:
    agent = Agent(store, session=session)
    await agent.turn("text", user="more")
    agent.spoken = True
    cut = await agent.begin()
    await agent.settle("own", close="monologue")
    agent.took("what we did not say", user="and more")
    view = await agent.begin(fact=replace(agent.opening().fact, count=count, user="task"))
    assert ((view.session, view.thread) == (cut.session, cut.thread), view.closed) == (same, same)


async def test_a_conversation_goes_on_under_another_session_id(store: Store) -> None:
    """Ring, episodes and texts come along; budgets, spans and turns begin anew, and the session left keeps its own."""
    agent = Agent(store, session="one")
    for number in range(3):
        await agent.begin()
        await agent.settle(did=f"did{number}", episodes=(b"e%d" % number,), ledger={f"at{number}": b"text"})
        agent.took()
    agent.session = "two"
    view = await agent.begin()
    assert (view.new_session, view.turn, view.span, view.steps) == (True, 1, 1, 3)
    assert view.ring == facts("did0", "did1", "did2")
    assert (view.episodes, sorted(view.ledger)) == ((b"e0", b"e1", b"e2"), ["at0", "at1", "at2"])
    assert [spent.used for spent in view.spent if spent.line.scope == "session"] == [0, 0]
    assert await agent.begin() != view  # the same request again: an attempt at what is open now
    await agent.settle(episodes=(b"e3",))
    agent.took()
    assert (await agent.begin()).episodes == (b"e0", b"e1", b"e2", b"e3")
    left = Agent(store, session="one", rounds=agent.rounds[:3], count=8)
    assert (await left.begin()).episodes == (b"e0", b"e1", b"e2")


async def test_a_first_request_and_a_known_session_take_nothing_over(store: Store) -> None:
    agent = Agent(store, session="one", ids="x")
    await agent.turn()
    fresh = Agent(store, session="two", ids="x")
    assert (await fresh.begin()).ring == ()
    fresh.rounds, fresh.count = agent.rounds, agent.count
    await fresh.settle()
    assert len((await fresh.begin()).ring) == 1
    unrelated = Agent(store, session="three", ids="y", rounds=[a_round("else", 2)], count=4)
    assert (await unrelated.begin()).ring == facts("else")


@pytest.mark.parametrize("rule", ["budget.turns", "repeated_call"])
async def test_a_closed_thread_is_not_taken_over(store: Store, rule: str) -> None:
    """Its history is judged anew, and budgets are those of the new session."""
    agent = Agent(store, session="one")
    await agent.turn()
    await agent.begin()
    await agent.settle(did="did1", close=rule)
    agent.took()
    agent.session = "two"
    view = await agent.begin()
    assert (view.closed, view.episodes, view.ring) == (False, (), facts("did0", "did1"))
