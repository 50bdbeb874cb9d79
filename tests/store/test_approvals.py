"""Approvals: decided once, released once, also over restarts; and what a thread that waits for one is told."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardproxy.errors import GuardError, StoreError
from guardproxy.store import embedded
from guardproxy.store.approvals import Approval
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.store.conftest import binary_of
from tests.store.kit import ORG, Agent, keys, used_held

MINUTE, DAY = 60_000, 86_400_000
SEALED = b"\xff\x00sealed\xfe"


async def asked(
    store: Store, agent: Agent | None = None, minutes: int = 60, *, status: str = "active", **more: Any
) -> Approval:
    """A thread whose call is held: the approval is opened, then the turn settled."""
    agent = agent or Agent(store, session="s")
    view = await agent.begin()
    fields: dict[str, Any] = {"id": "a1", "sealed": SEALED, **more}
    one = Approval(
        org=ORG,
        session=view.session,
        thread=view.thread,
        tool="delete_file",
        asked_ms=view.now_ms,
        expires_ms=view.now_ms + minutes * MINUTE,
        **fields,
    )
    kept = await store.approvals.open(ORG, one)
    await agent.settle("own", waits_for=one.id, status=status)
    agent.took()
    assert kept == one
    return one


async def test_one_is_kept_as_it_was_opened_and_opened_once(store: Store) -> None:
    one = await asked(store)
    assert await store.approvals.get(ORG, "a1") == one
    assert await store.approvals.open(ORG, replace(one, tool="other", sealed=b"other")) == one
    assert await store.approvals.list(ORG) == [one]
    assert await store.approvals.get(ORG, "unknown") is None
    assert await store.approvals.get("other", "a1") is None


async def test_a_thread_waits_from_the_moment_on_at_which_a_person_is_asked(store: Store) -> None:
    """Who holds the request may be killed before it can say so."""
    agent = Agent(store, session="s", lease_ms=1_000)
    await agent.begin()
    await agent.settle()
    agent.took()
    view = await agent.begin()
    now = view.now_ms
    one = Approval("a1", ORG, view.session, view.thread, "delete_file", now, now + DAY, SEALED)
    await store.approvals.open(ORG, one)
    beside = await agent.begin()
    assert (beside.paused, beside.paused_why, beside.approval) == ("approval", "delete_file", "a1")
    assert [held.turn for held in await store.sweep(offset_ms=MINUTE)] == [view.turn]
    agent.offset_ms = MINUTE
    assert (await agent.begin()).paused == "approval"
    await store.approvals.decide(ORG, "a1", "approve", "ann")
    again = await agent.begin()
    assert (again.paused, again.approval, again.approval_state, again.retry) == ("", "a1", "approved", True)
    assert await store.approvals.claim(ORG, "a1", "token")
    await agent.settle()
    agent.took()
    assert (await agent.begin()).approval == ""


@pytest.mark.parametrize("verdict", ["approve", "deny"])
async def test_an_approved_call_waits_until_a_turn_has_taken_it(store: Store, verdict: str) -> None:
    """A turn may go on without it: it had begun before, or the store did not answer when it asked what to release."""
    agent = Agent(store, session="s")
    await asked(store, agent)
    await store.approvals.decide(ORG, "a1", verdict, "ann")
    assert (await agent.begin()).approval == "a1"
    await agent.settle()
    agent.took()
    assert (await agent.begin()).approval == ("a1" if verdict == "approve" else "")
    assert await store.approvals.claim(ORG, "a1", "token") is (verdict == "approve")
    await agent.settle()
    agent.took()
    assert (await agent.begin()).approval == ""


async def test_a_claim_is_given_back_by_who_has_it(store: Store) -> None:
    agent = Agent(store, session="s")
    await asked(store, agent)
    assert not await store.approvals.unclaim(ORG, "unknown", "one")
    await store.approvals.decide(ORG, "a1", "approve", "ann")
    await agent.begin()
    assert await store.approvals.claim(ORG, "a1", "one")
    await agent.settle()
    agent.took()
    assert not await store.approvals.unclaim(ORG, "a1", "other")
    assert not await store.approvals.claim(ORG, "a1", "other")
    assert [await store.approvals.unclaim(ORG, "a1", "one") for _ in range(2)] == [True, False]
    assert (await agent.begin()).approval == "a1"
    assert await store.approvals.claim(ORG, "a1", "other")


DECISIONS = [
    ("approve", "approved", True),
    ("deny", "denied", False),
    ("answer", "answered", False),
    ("expire", "expired", False),
]


@pytest.mark.parametrize(("verdict", "state", "released"), DECISIONS)
async def test_a_decision_is_kept_with_who_and_why_and_what_was_edited(
    store: Store, verdict: str, state: str, released: bool
) -> None:
    one = await asked(store)
    assert not await store.approvals.claim(ORG, "a1", "early")
    assert await store.approvals.decide(ORG, "a1", verdict, "ann", "so it “is”", b"\xffedited") == state
    kept = await store.approvals.get(ORG, "a1")
    assert kept
    assert kept == replace(
        one, state=state, by="ann", why="so it “is”", edited=b"\xffedited", decided_ms=kept.decided_ms
    )
    assert kept.decided_ms >= one.asked_ms
    assert await store.approvals.list(ORG) == []
    assert await store.approvals.list(ORG, state) == await store.approvals.list(ORG, "") == [kept]
    assert await store.approvals.claim(ORG, "a1", "t") is released


@pytest.mark.parametrize("second", ["approve", "deny"])
async def test_a_second_decision_is_a_conflict_that_names_the_first(store: Store, second: str) -> None:
    await asked(store)
    await store.approvals.decide(ORG, "a1", "deny", "ann", "no")
    with pytest.raises(GuardError, match="approval a1 was denied before, by ann") as error:
        await store.approvals.decide(ORG, "a1", second, "bob")
    assert (error.value.status, error.value.code) == (409, "already_decided")
    assert (await store.approvals.list(ORG, ""))[0].by == "ann"


async def test_a_decision_that_is_sent_again_is_the_same_decision(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call whose answer was lost with its connection is sent again."""
    await asked(store)
    monkeypatch.setattr("guardproxy.store.approvals.secrets.token_hex", lambda _: "once")
    assert [await store.approvals.decide(ORG, "a1", "approve", "ann") for _ in range(2)] == ["approved"] * 2


async def test_what_cannot_be_decided(store: Store) -> None:
    for name, verdict, status in (("unknown", "approve", 404), ("a1", "perhaps", 400)):
        with pytest.raises(GuardError) as error:
            await store.approvals.decide(ORG, name, verdict, "ann")
        assert error.value.status == status


async def test_fifty_that_decide_at_once_are_one_decision(store: Store, server: Embedded) -> None:
    await asked(store)
    stores = [await Store.connect(socket_path=server.socket_path, timeout_ms=5000) for _ in range(5)]
    try:
        calls = [stores[n % 5].approvals.decide(ORG, "a1", "approve" if n % 2 else "deny", f"p{n}") for n in range(50)]
        found = await asyncio.gather(*calls, return_exceptions=True)
    finally:
        for one in stores:
            await one.close()
    assert len([one for one in found if isinstance(one, str)]) == 1
    assert {one.status for one in found if isinstance(one, GuardError)} == {409}


async def test_fifty_claims_on_five_connections_release_it_once(store: Store, server: Embedded) -> None:
    await asked(store)
    await store.approvals.decide(ORG, "a1", "approve", "ann")
    stores = [await Store.connect(socket_path=server.socket_path, timeout_ms=5000) for _ in range(5)]
    try:
        won = await asyncio.gather(*(stores[n % 5].approvals.claim(ORG, "a1", f"t{n}") for n in range(50)))
        assert sorted(won) == [False] * 49 + [True]
        again = await asyncio.gather(*(stores[-n % 5].approvals.claim(ORG, "a1", f"t{n}") for n in range(50)))
        assert again == won
    finally:
        for one in stores:
            await one.close()
    kept = await store.approvals.get(ORG, "a1")
    assert kept
    assert kept.token == f"t{won.index(True)}"


@pytest.mark.parametrize("verdict", ["approve", "deny", "answer"])
async def test_after_its_time_nothing_is_decided_and_nothing_released(store: Store, verdict: str) -> None:
    await asked(store, minutes=1)
    assert await store.approvals.list(ORG, offset_ms=MINUTE - 5_000) != []
    late = 2 * MINUTE
    assert await store.approvals.list(ORG, offset_ms=late) == []
    assert [one.state for one in await store.approvals.list(ORG, "expired", offset_ms=late)] == ["expired"]
    with pytest.raises(GuardError, match="was expired before, when its time was over"):
        await store.approvals.decide(ORG, "a1", verdict, "ann", offset_ms=late)
    assert not await store.approvals.claim(ORG, "a1", "t", offset_ms=late)


async def test_one_approved_in_time_is_released_after_its_time(store: Store) -> None:
    await asked(store, minutes=1)
    await store.approvals.decide(ORG, "a1", "approve", "ann")
    assert await store.approvals.claim(ORG, "a1", "t", offset_ms=DAY)


async def test_what_is_over_is_handed_out_once(store: Store) -> None:
    for number, minutes in enumerate((1, 1, 5)):
        await asked(store, Agent(store, session=f"s{number}"), minutes, id=f"a{number}")
    await store.approvals.decide(ORG, "a1", "approve", "ann")
    assert await store.approvals.due(ORG) == []
    found = await asyncio.gather(*(store.approvals.due(ORG, 2 * MINUTE) for _ in range(4)))
    assert [(one.id, one.state, one.by) for some in found for one in some] == [("a0", "expired", "")]
    with pytest.raises(GuardError):
        await store.approvals.decide(ORG, "a0", "approve", "ann")
    with pytest.raises(GuardError):
        await store.approvals.decide(ORG, "a0", "expire", "policy")


async def test_the_list_is_in_the_order_they_were_asked_and_bounded(store: Store) -> None:
    one = await asked(store)
    for number in range(300):
        await store.approvals.open(ORG, replace(one, id=f"b{number:03}", asked_ms=one.asked_ms - number - 1))
    assert [len(await store.approvals.list(ORG, state)) for state in ("pending", "")] == [256, 256]
    found = await store.approvals.list(ORG)
    assert found == sorted(found, key=lambda one: one.asked_ms)


async def test_it_lives_a_week_and_a_day_after_its_time(store: Store) -> None:
    await asked(store, minutes=60)
    for key in ("approval:a1", "approvals", "approvals:pending"):
        left = await store._client.command("PTTL", f"gp:{{{ORG}}}:{key}")
        assert 8 * DAY < int(str(left)) <= 8 * DAY + 60 * MINUTE, key


# ---------------------------------------------------------------------------------------------- the thread that waits


async def test_a_thread_that_waits_is_paused_and_holds_nothing(store: Store) -> None:
    agent = Agent(store, session="s")
    await asked(store, agent)
    before = await used_held(store, "s:s", "turns"), await used_held(store, "s:s", "cost_microusd")
    views = [await agent.begin() for _ in range(3)]
    for number, view in enumerate(views, 1):
        assert (view.admitted, view.closed, view.paused, view.paused_why) == (False, False, "approval", "delete_file")
        assert (view.approval, view.approval_state, view.answers, view.turn) == ("a1", "pending", number, 1)
        assert (view.steps, view.spent, view.counts) == (0, (), {})
    assert before == (await used_held(store, "s:s", "turns"), await used_held(store, "s:s", "cost_microusd"))
    assert (await Agent(store, session="s", thread="other").begin()).admitted
    assert agent.last
    assert await store.begin(agent.last) == views[-1]  # its token again


@pytest.mark.parametrize(("verdict", "state", "released"), DECISIONS)
async def test_after_the_decision_it_goes_on_and_is_told(
    store: Store, verdict: str, state: str, released: bool
) -> None:
    agent = Agent(store, session="s")
    await asked(store, agent)
    await agent.begin()
    await store.approvals.decide(ORG, "a1", verdict, "ann")
    view = await agent.begin()
    assert (view.admitted, view.paused, view.approval, view.approval_state) == (True, "", "a1", state)
    rearmed = state in ("approved", "answered")  # what a person has allowed is no loop: the soft ladder begins anew
    assert (view.turn, view.answers, view.steps) == (2, 0, 1 + rearmed)
    await agent.settle("", "failed")
    view = await agent.begin()  # the client tries again: it is told again
    assert (view.retry, view.approval, view.approval_state) == (True, "a1", state)
    assert await store.approvals.claim(ORG, "a1", "token") is released
    await agent.settle()
    agent.took()
    view = await agent.begin()
    assert (view.approval, view.approval_state) == ("", "")


@pytest.mark.parametrize(("status", "state"), [("need_human", "need_human"), ("active", "paused")])
async def test_what_a_person_is_needed_for(store: Store, status: str, state: str) -> None:
    """A question needs a person, a call that waits is a pause: in both it is said what it waits for."""
    await asked(store, status=status)
    known = await store.session_state(ORG, "s")
    assert known is not None
    assert (known.state, known.by, known.why) == (state, "approval", "a1 delete_file")


@pytest.mark.parametrize("gone", [False, True])
async def test_after_its_time_the_thread_goes_on(store: Store, gone: bool) -> None:
    agent = Agent(store, session="s")
    await asked(store, agent, minutes=1)
    if gone:
        await store._client.command("DEL", f"gp:{{{ORG}}}:approval:a1")
    view = await agent.begin(offset_ms=0 if gone else 2 * MINUTE)
    assert (view.admitted, view.paused, view.approval_state) == (True, "", "expired")


async def test_in_a_panic_nothing_is_paused(store: Store) -> None:
    agent = Agent(store, session="s")
    await asked(store, agent)
    await store.panic(True)
    view = await agent.begin()
    assert (view.admitted, view.paused, view.approval, view.approval_state) == (True, "", "a1", "pending")


async def test_a_side_request_of_the_session_is_not_held_up(store: Store) -> None:
    one = await asked(store)
    view = await Agent(store, session="s", thread=one.thread, tooled=False).begin()
    assert (view.counted, view.admitted, view.paused, view.approval) == (False, True, "", "")


async def test_a_derived_run_is_found_again_days_later(store: Store) -> None:
    """Its links and its latest thread are forgotten sooner where nobody is asked."""
    agent = Agent(store, ids="x")
    one = await asked(store, agent, minutes=5 * 24 * 60)
    assert one.session.startswith("d-")
    for key in await keys(store):  # as after two days
        left = int(str(await store._client.command("PTTL", key)))
        if left > 0:
            await store._client.command("PEXPIRE", key, max(1, left - 2 * DAY))
    await asyncio.sleep(0.01)
    view = await agent.begin(offset_ms=2 * DAY)
    assert (view.session, view.thread, view.paused) == (one.session, one.thread, "approval")
    await store.approvals.decide(ORG, "a1", "approve", "ann", offset_ms=2 * DAY)
    view = await agent.begin(offset_ms=2 * DAY)
    assert (view.session, view.turn, view.approval_state) == (one.session, 2, "approved")


async def test_a_derived_run_is_found_by_its_round_when_another_has_begun_since(store: Store) -> None:
    agent = Agent(store, ids="x")
    view = await agent.begin()
    ends = view.now_ms + 5 * DAY
    one = Approval("a1", ORG, view.session, view.thread, "f", view.now_ms, ends)
    await store.approvals.open(ORG, one)
    await agent.settle("calls", waits_for="a1")
    agent.took()
    for key in await keys(store):  # as after three hours
        left = int(str(await store._client.command("PTTL", key)))
        if left > 0:
            await store._client.command("PEXPIRE", key, max(1, left - 3 * 60 * MINUTE))
    await asyncio.sleep(0.01)
    assert (await Agent(store, ids="y", offset_ms=3 * 60 * MINUTE).begin()).session != one.session
    assert (await agent.begin(offset_ms=3 * 60 * MINUTE)).session == one.session


async def test_killed_between_open_and_decide_nothing_is_lost_and_nothing_released(
    tmp_path: Path, server_name: str
) -> None:
    running = embedded.start(tmp_path, server=binary_of(server_name))
    try:
        store = await Store.connect(socket_path=running.socket_path, timeout_ms=5000)
        agent = Agent(store, session="s")
        one = await asked(store, agent)
        try:
            await store._client.command("WAITAOF", 1, 0, 3000)  # a write may wait for the flush of the second before
        except StoreError:  # Redis before 7.2 has no such command
            await asyncio.sleep(2)
        assert running.process
        running.process.kill()
        running.process.wait()
        await store.close()
        running.stop()
        running = embedded.start(tmp_path, server=binary_of(server_name))
        store = agent.store = await Store.connect(socket_path=running.socket_path, timeout_ms=5000)
        assert await store.approvals.list(ORG) == [one]
        assert not await store.approvals.claim(ORG, "a1", "t")
        assert (await agent.begin()).paused == "approval"
        await store.approvals.decide(ORG, "a1", "approve", "ann")
        assert (await agent.begin()).approval_state == "approved"
        assert await store.approvals.claim(ORG, "a1", "t")
        await store.close()
    finally:
        running.stop()
