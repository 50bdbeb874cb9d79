"""Pause, resume, cut, reset, extend: what a session may do then, what it keeps, and what is written of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from guardproxy.core import budget
from guardproxy.core.fact import BOUNDARY
from guardproxy.core.model import Line
from guardproxy.errors import GuardError
from guardproxy.store import runs
from guardproxy.store.approvals import Approval
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.store.kit import LINES, ORG, Agent, facts, keys, used_held

MINUTE, DAY = 60_000, 86_400_000
TURNS = Line("session", "turns", 1)


async def conflict(store: Store, what: str, *rest: Any, session: str = "s") -> str:
    with pytest.raises(GuardError) as error:
        await getattr(store.runs, what)(ORG, session, *rest, "bob")
    assert (error.value.status, error.value.code) in ((409, "conflict"), (404, "not_found"))
    return error.value.message


@pytest.mark.parametrize("who", ["operator", "loop", "budget"])
async def test_a_paused_session_holds_and_appends_nothing_in_any_thread(store: Store, who: str) -> None:
    agent = Agent(store, session="s", thread="main")
    await agent.turn()
    known = await store.runs.pause(ORG, "s", "ann", "have a “look”", who=who)
    assert (known.state, known.by, known.why) == ("paused", "ann", "have a “look”")
    agents = (agent, Agent(store, session="s", thread="new"), Agent(store, session="s", tooled=False))
    for number, one in enumerate(agents, 1):
        view = await one.begin()
        assert (view.admitted, view.closed, view.paused, view.paused_why) == (False, False, who, "have a “look”")
        assert (view.answers, view.steps) == (number, 0)
    assert await used_held(store, "s:s", "turns") == (1, 0)
    assert (await store.session_state(ORG, "s")) == known


async def test_resume_goes_on_from_the_foot_of_the_ladder(store: Store) -> None:
    agent = Agent(store, session="s")
    for _ in range(2):
        await agent.begin()
        await agent.settle(episodes=(b"e",), ledger={"anchor": b"text"})
        agent.took()
    await store.runs.pause(ORG, "s", "ann")
    await agent.begin()
    known = await store.runs.resume(ORG, "s", "bob", "it is fine")
    assert (known.state, known.by, known.why) == ("active", "", "")
    view = await agent.begin()
    assert (view.paused, view.admitted, view.answers, view.turn) == ("", True, 0, 3)
    assert view.episodes == ()
    assert view.ledger == {"anchor": b"text"}  # it is in the conversation, and stays there byte for byte
    assert (view.ring[0], view.ring[-1]) == (facts("did0")[0], facts("did1")[0])
    assert view.ring[-2].startswith(BOUNDARY)
    assert view.steps == len(view.ring) == 3
    assert await used_held(store, "s:s", "turns") == (2, 1)  # what was used stays used


async def test_resume_opens_what_a_loop_closed_and_no_limit(store: Store) -> None:
    agents = {name: Agent(store, session="s", thread=name) for name in ("loop", "limit")}
    for name, agent in agents.items():
        await agent.begin()
        await agent.settle("own", close={"loop": "cycle", "limit": "budget.turns"}[name])
    await store.runs.resume(ORG, "s", "ann")
    assert [(await agent.begin()).closed for agent in agents.values()] == [False, True]


async def test_a_session_that_settle_paused_is_resumed(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.begin()
    await agent.settle("own", pause="loop", pause_why="the same call")
    agent.took(user="new words")  # words do not end it
    view = await agent.begin()
    assert (view.paused, view.paused_why) == ("loop", "the same call")
    await store.runs.resume(ORG, "s", "ann")
    assert (await agent.begin()).paused == ""


async def test_a_pause_by_a_person_is_not_taken_over_by_a_policy(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.begin()
    await store.runs.pause(ORG, "s", "ann", "wait")
    await agent.settle("own", pause="loop", pause_why="the same call")
    view = await agent.begin()
    assert (view.paused, view.paused_why) == ("operator", "wait")


@pytest.mark.parametrize("what", ["pause", "cut"])
async def test_under_another_name_it_is_held_all_the_same(store: Store, what: str) -> None:
    """Clients that send a trace id as a session id have another one with each request."""
    agent = Agent(store, session="s", ids="x")
    await agent.turn()
    await getattr(store.runs, what)(ORG, "s", "ann")
    agent.session = "s2"
    for number in (1, 2):
        view = await agent.begin()
        assert (view.session, view.thread, view.answers) == ("s", "aaaaaaaaaaaa-1", number)
        assert (view.paused, view.closed_by) == (("operator", "") if what == "pause" else ("", "operator"))
    assert await store.session_state(ORG, "s2") is None
    await store.runs.reset(ORG, "s", "ann")
    view = await agent.begin()
    assert (view.session, view.admitted, view.new_session, view.steps) == ("s2", True, True, 2)


async def test_cut_while_a_turn_is_open(store: Store) -> None:
    agent = Agent(store, session="s")
    view = await agent.begin()
    assert await store.runs.stopped(ORG) == {}
    known = await store.runs.cut(ORG, "s", "ann", "enough")
    assert (known.state, known.by, known.why, known.closed) == ("closed", "ann", "enough", "operator")
    stopped = await store.runs.stopped(ORG, view.now_ms)
    assert list(stopped) == ["s"]
    assert stopped["s"] >= view.now_ms
    assert await store.runs.stopped(ORG, stopped["s"] + 1) == {}
    await agent.settle("", "abandoned", close="cycle", close_session=True)  # the worker ended the call
    assert await used_held(store, "s:s", "turns") == (1, 0)
    agent.took(user="new words")
    for number in (1, 2):
        view = await agent.begin()
        assert (view.closed, view.closed_by, view.answers) == (True, "operator", number)
    assert (await Agent(store, session="s", thread="other").begin()).closed
    late = await store.runs.cut(ORG, (await Agent(store, session="s2").begin()).session, "ann", offset_ms=11 * MINUTE)
    assert list(await store.runs.stopped(ORG)) == [late.session]  # after ten minutes no call can have missed it


@pytest.mark.parametrize("closed", ["operator", "budget.cost", "cycle"])
async def test_reset_opens_a_session_with_a_new_span_and_keeps_its_totals(store: Store, closed: str) -> None:
    lines = (*LINES, Line("span", "wall_ms", 0, clock=True))
    agent = Agent(store, session="s", lines=lines)
    await agent.turn()
    agent.took(counts={"tool:bash": 3})
    await agent.begin()
    await agent.settle("own", close=closed if closed != "operator" else "", close_session=closed == "budget.cost")
    if closed == "operator":
        await store.runs.cut(ORG, "s", "ann")
    agent.took(counts={"tool:bash": 1})
    assert (await agent.begin(offset_ms=5_000)).closed
    known = await store.runs.reset(ORG, "s", "bob", offset_ms=10_000)
    assert (known.state, known.closed, known.by, known.span) == ("active", "", "", 2)
    assert await store.runs.stopped(ORG) == {}
    view = await agent.begin(offset_ms=20_000)
    assert (view.closed, view.admitted, view.span, view.answers, view.rearmed) == (False, True, 2, 0, 0)
    assert [(one.used, one.held) for one in view.spent[:3]] == [(0, 1), (2, 1), (140, 100)]
    assert 10_000 <= view.spent[3].used < 11_000
    assert any(fact.startswith(BOUNDARY) for fact in view.ring)
    assert view.counts == {"tool:bash": 1}  # those of the span before are gone


async def test_after_a_reset_words_re_arm_three_times_again(store: Store) -> None:
    agent = Agent(store, session="s")
    for number in range(5):
        view = await agent.begin()
        assert (view.closed, view.rearmed) == (number == 4, min(number, 3))
        await agent.settle("own", close="cycle")
        agent.took(user=f"words {number}")
    await store.runs.reset(ORG, "s", "ann")
    for number in range(5, 10):
        view = await agent.begin()
        assert (view.closed, view.rearmed) == (number == 9, min(number - 5, 3))
        await agent.settle("own", close="cycle")
        agent.took(user=f"words {number}")


async def test_after_a_reset_nothing_is_waited_for(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.begin()
    await agent.settle(status="need_human")
    assert (await store.runs.reset(ORG, "s", "ann")).state == "active"


async def test_a_turn_that_is_open_at_a_reset_counts_into_the_totals_alone(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.begin()
    await store.runs.reset(ORG, "s", "ann")
    assert await used_held(store, "p:s", "turns") == (0, 0)
    await agent.settle()
    assert await used_held(store, "p:s", "turns") == (0, 0)
    assert await used_held(store, "s:s", "turns") == (1, 0)
    agent.took()
    assert (await agent.begin()).admitted


async def test_done_twice(store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.turn()
    await store.runs.pause(ORG, "s", "ann", "wait")
    assert await conflict(store, "pause") == "session s is paused already, by ann (wait)"
    await store.runs.resume(ORG, "s", "ann")
    assert await conflict(store, "resume") == "session s is neither paused nor ended by a loop"
    await store.runs.cut(ORG, "s", "ann", "enough")
    for again in ("cut", "pause", "resume"):
        assert await conflict(store, again) == "session s is closed, by ann (enough); reset opens it again"
    assert [(await store.runs.reset(ORG, "s", "ann")).span for _ in range(2)] == [2, 3]
    assert (await agent.begin()).admitted


async def test_many_at_once_are_one(store: Store) -> None:
    await Agent(store, session="s").turn()
    for what in ("pause", "resume", "cut"):
        calls = [getattr(store.runs, what)(ORG, "s", f"p{number}") for number in range(20)]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(not isinstance(one, GuardError) for one in found) == 1, what
    assert [one.what for one in await store.runs.history(ORG, "s")] == ["pause", "resume", "cut"]


async def test_sent_again_it_is_done_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call whose answer was lost with its connection is sent again."""
    await Agent(store, session="s").turn()
    monkeypatch.setattr("guardproxy.store.runs.secrets.token_hex", lambda _: "once")
    one, two = [await store.runs.reset(ORG, "s", "ann") for _ in range(2)]
    assert (one, one.span) == (two, 2)
    assert len(await store.runs.history(ORG, "s")) == 1


async def test_a_session_there_is_none_of(store: Store) -> None:
    for what, *rest in (("pause",), ("resume",), ("cut",), ("reset",), ("extend", {"turns": 1})):
        assert await conflict(store, what, *rest, session="nobody") == "the store has no session 'nobody'"
    assert await keys(store) == set()
    assert await store.runs.history(ORG, "nobody") == []


async def test_a_thread_that_waits_for_an_approval_is_not_resumed(store: Store) -> None:
    agent = Agent(store, session="s", thread="t")
    view = await agent.begin()
    one = Approval("a1", ORG, "s", "t", "delete_all", view.now_ms, view.now_ms + MINUTE)
    await store.approvals.open(ORG, one)
    await agent.settle("own", waits_for="a1")
    assert "waits for an approval (a1 delete_all)" in await conflict(store, "resume")
    await store.runs.pause(ORG, "s", "ann")
    await store.runs.resume(ORG, "s", "ann")  # what the person paused, not what the tool asks for
    view = await agent.begin()
    assert (view.paused, view.approval_state) == ("approval", "pending")


# --------------------------------------------------------------------------------------------------------- extend

EXTENDED = [  # lines of a session that used one turn and 70, what is raised, the limits that its next turn sees
    ((TURNS._replace(limit=1),), {"turns": 2}, [3]),
    ((Line("span", "turns", 1, 1), TURNS._replace(limit=9)), {"turns": 2}, [3, 11]),
    ((Line("session", "cost_microusd", 100, 150), TURNS), {"cost_microusd": 20, "turns": 5}, [170, -1]),
    ((Line("span", "wall_ms", 0, 0, clock=True), TURNS), {"wall_ms": 600_000}, [600_000, -1]),
    ((Line("session", "wall_ms", 0, 0, clock=True),), {"wall_ms": 600_000}, [600_000]),
    (
        (Line("span", "turns", 1, 9), TURNS._replace(limit=1), Line("org", "turns", 1, 9, "day")),
        {"turns": 1},
        [10, 2, 9],
    ),
]


@pytest.mark.parametrize(("lines", "amounts", "limits"), EXTENDED)
async def test_a_raised_limit_is_the_limit(
    store: Store, lines: tuple[Line, ...], amounts: dict[str, int], limits: list[int]
) -> None:
    agent = Agent(store, session="s", lines=lines)
    await agent.turn()
    await asyncio.sleep(0.002)
    denied = await agent.begin()
    assert not denied.admitted
    await store.runs.extend(ORG, "s", amounts, "ann")
    view = await agent.begin()
    assert (view.admitted, view.turn, view.steps) == (True, 2, 1)
    assert [one.line.limit for one in view.spent] == limits
    assert denied.turn == view.turn  # it goes on at the same turn


async def test_what_is_said_of_the_budget_knows_the_raised_limit(store: Store) -> None:
    lines = (Line("span", "turns", 1, 2), TURNS)
    agent = Agent(store, session="s", lines=lines)
    await agent.turn()
    view = await agent.begin()
    assert (budget.remaining(view), budget.last_affordable(view)) == ('{"turns":0}', view.spent[0])
    await agent.settle("", "failed")
    await store.runs.extend(ORG, "s", {"turns": 3}, "ann")
    view = await agent.begin()
    assert (budget.remaining(view), budget.last_affordable(view)) == ('{"turns":3}', None)
    for _ in range(3):
        await agent.settle()
        agent.took()
        view = await agent.begin()
    assert budget.last_affordable(view) == view.spent[0]
    await agent.settle()
    agent.took()
    view = await agent.begin()
    assert (view.admitted, [line.limit for line in view.short]) == (False, [5])
    assert await store.extend(ORG, agent.last.token if agent.last else "", lines) is False


async def test_what_a_span_was_given_ends_with_it_and_what_the_session_was_given_stays(store: Store) -> None:
    agent = Agent(store, session="s", lines=(Line("span", "turns", 1, 2), TURNS._replace(limit=10)))
    await agent.turn()
    await store.runs.extend(ORG, "s", {"turns": 3}, "ann")
    await store.runs.extend(ORG, "s", {"turns": 1}, "ann")
    assert [one.line.limit for one in (await agent.begin()).spent] == [6, 14]
    await agent.settle("text")
    agent.took(user="new words")
    for _ in range(2):
        view = await agent.begin()
        assert (view.span, [one.line.limit for one in view.spent]) == (2, [2, 14])
        await agent.settle()
        agent.took()
    await store.runs.extend(ORG, "s", {"turns": 1}, "ann")
    assert [one.line.limit for one in (await agent.begin()).spent] == [3, 15]
    await store.runs.reset(ORG, "s", "ann")
    await agent.settle()
    agent.took()
    assert [one.line.limit for one in (await agent.begin()).spent] == [2, 15]


async def test_one_more_attempt_fits_into_the_raised_limit(store: Store) -> None:
    agent = Agent(store, session="s", lines=(Line("session", "cost_microusd", 100, 150),))
    await agent.begin()
    assert agent.last
    assert not await store.extend(ORG, agent.last.token, agent.lines)
    await store.runs.extend(ORG, "s", {"cost_microusd": 50}, "ann")
    assert await store.extend(ORG, agent.last.token, agent.lines)
    assert not await store.extend(ORG, agent.last.token, agent.lines)


ENDED: dict[str, tuple[dict[str, Any], bool]] = {  # how a turn left the session, does it go on when it is extended?
    "thread, by a budget": ({"close": "budget.turns"}, True),
    "session, by a budget": ({"close": "budget.cost", "close_session": True}, True),
    "paused, by a budget": ({"pause": "budget"}, True),
    "thread, by a loop": ({"close": "cycle"}, False),
    "paused, by a loop": ({"pause": "loop"}, False),
}


@pytest.mark.parametrize("what", ENDED)
async def test_extend_opens_what_a_budget_ended(store: Store, what: str) -> None:
    closing, goes_on = ENDED[what]
    agent = Agent(store, session="s")
    await agent.begin()
    await agent.settle("own", **closing)
    agent.took()
    await store.runs.extend(ORG, "s", {"turns": 1}, "ann")
    view = await agent.begin()
    assert (view.admitted and not view.closed and not view.paused) is goes_on


@pytest.mark.parametrize(
    "amounts",
    [{}, {"turns": 0}, {"turns": -1}, {"turns": True}, {"turns": 1.5}, {"turns": 2**60}, {"same_call": 1}, {"x": 1}],
)
async def test_what_cannot_be_raised(store: Store, amounts: dict[str, Any]) -> None:
    await Agent(store, session="s").turn()
    with pytest.raises(GuardError) as error:
        await store.runs.extend(ORG, "s", amounts, "ann")
    assert (error.value.status, error.value.code) == (400, "bad_amount")
    assert await store.runs.history(ORG, "s") == []


# -------------------------------------------------------------------------------------------------------- history


async def test_who_did_what_and_why_is_written_in_order(store: Store) -> None:
    agent = Agent(store, session="s", thread="t")
    view = await agent.begin()
    await agent.settle("own", pause="loop", pause_why="the same call, 5 times")
    await store.runs.resume(ORG, "s", "ann\ud800", "a ‘try’")
    await store.runs.extend(ORG, "s", {"turns": 50, "cost_microusd": 2_500_000, "wall_ms": 60_000}, "ann")
    one = Approval("a1", ORG, "s", "t", "delete_all", view.now_ms, view.now_ms + MINUTE)
    await store.approvals.open(ORG, one)
    await store.approvals.decide(ORG, "a1", "approve", "bob", "fine")
    await store.runs.cut(ORG, "s", "ann", "enough")
    await store.runs.reset(ORG, "s", "cy")
    found = await store.runs.history(ORG, "s")
    assert [(one.by, one.what, one.why) for one in found] == [
        ("loop", "pause", "the same call, 5 times"),
        ("ann?", "resume", "a ‘try’"),
        ("ann", "extend turns +50, cost_usd +$2.5, wall_seconds +60 s", ""),
        ("approval", "asked a1", "delete_all"),
        ("bob", "approved a1", "fine"),
        ("ann", "cut", "enough"),
        ("cy", "reset", ""),
    ]
    assert sorted(found, key=lambda one: one.at_ms) == found


async def test_the_history_is_bounded(store: Store) -> None:
    await Agent(store, session="s").turn()
    for number in range(260):
        await store.runs.extend(ORG, "s", {"turns": 1}, "ann", str(number))
    assert [one.why for one in await store.runs.history(ORG, "s")] == [str(n) for n in range(4, 260)]


async def test_what_people_did_lives_for_days_and_nothing_for_ever(store: Store) -> None:
    agent = Agent(store, session="s", ids="x")
    await agent.turn()
    await store.runs.pause(ORG, "s", "ann")
    await agent.begin()
    for key in ("s:s", "d:s", "v:s", "history:s", "asked", *[f"{kind}:s\x1faaaaaaaaaaaa-1" for kind in "t"]):
        left = await store._client.command("PTTL", f"gp:{{{ORG}}}:{key}")
        assert int(str(left)) > 7 * DAY, key
    await store.runs.cut(ORG, "s", "ann")
    forever = {key for key in await keys(store) if await store._client.command("PTTL", key) == -1}
    assert forever == {"gp:orgs", f"gp:{{{ORG}}}:idle"}


async def test_pausing_and_resuming_among_turns_loses_no_hold(store: Store, server: Embedded) -> None:
    """Turns of ten threads on two connections, while a person pauses, resumes, extends and resets at random moments."""
    other = await Store.connect(socket_path=server.socket_path, timeout_ms=5000)
    agents = [Agent(store if n % 2 else other, session="s", thread=f"t{n}") for n in range(10)]
    await agents[0].turn()
    turns = [1]

    async def run(agent: Agent) -> None:
        for _ in range(12):
            view = await agent.begin()
            assert view.admitted is (view.paused == "")
            if view.admitted:
                await agent.settle()
                agent.took()
                turns[0] += 1

    async def person() -> None:
        for number in range(40):
            what = ("pause", "resume", "reset", "extend")[number * 7 % 4]
            rest = ({"turns": 1},) if what == "extend" else ()
            try:
                await getattr(store.runs, what)(ORG, "s", *rest, "ann")
            except GuardError as error:
                assert error.status == 409  # noqa: PT017  # which of them come in vain is chance

    await asyncio.gather(person(), *(run(agent) for agent in agents))
    await other.close()
    assert await used_held(store, "s:s", "turns") == (turns[0], 0)
    assert await used_held(store, "s:s", "cost_microusd") == (70 * turns[0], 0)


async def test_texts_of_a_turn_that_was_not_admitted_are_kept_beside_its_thread(store: Store) -> None:
    agent = Agent(store, session="s")
    assert await store.runs.note(ORG, "s", "unknown", {"r1": b"x"}) == 0
    view = await agent.begin()
    await agent.settle()
    agent.took()
    assert await store.runs.note(ORG, view.session, view.thread, {"r1": b"\xff1", "r2": b"2"}) == 2
    assert await store.runs.note(ORG, view.session, view.thread, {"r1": b"other"}) == 0, "the first text stays"
    assert (await agent.begin()).ledger == {"r1": b"\xff1", "r2": b"2"}
    many = {f"m{number}": b"x" for number in range(70)}
    await store.runs.note(ORG, view.session, view.thread, many)
    agent.took()
    kept = (await agent.begin()).ledger
    assert len(kept) == 64
    assert "m69" in kept
    assert "r1" not in kept


async def test_the_tally_says_of_each_run_what_a_look_at_it_says(store: Store) -> None:
    """Page by page, also of those that wait for people since before the quarter of an hour in which runs are active."""
    ends: list[dict[str, Any]] = [
        {},
        {"status": "need_human"},
        {"status": "waiting"},
        {"close": "cycle"},
        {"close": "budget.turns", "close_session": True},
        {"pause": "loop", "pause_why": "why"},
    ]
    for number in range(3 * len(ends)):
        agent = Agent(store, session=f"s{number}")
        await agent.begin()
        await agent.settle("own", **ends[number % len(ends)])
    looked = Counter(known.state for known in await store.list_sessions(ORG))
    tally = await store.runs.tally(ORG)
    await store.idle_sessions(0, offset_ms=MINUTE)
    later = await store.runs.tally(ORG)

    assert looked.pop("closed") == 6
    assert tally == looked == {"active": 3, "paused": 3, "need_human": 3, "waiting": 3}
    assert later == {"active": 0, "paused": 3, "need_human": 3, "waiting": 3}
    assert await store.runs.tally("nobody") == dict.fromkeys(looked, 0)


async def test_the_tally_goes_through_all_pages(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "PAGE", 3)
    for number in range(7):
        await Agent(store, session=f"s{number}").turn()
    assert (await store.runs.tally(ORG))["active"] == 7
    monkeypatch.setattr(runs, "MOST", 6)
    assert (await store.runs.tally(ORG))["active"] == 6
