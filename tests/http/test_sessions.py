"""Runs as people see and steer them: over a real store, with runs that a real proxy has served."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest

from guardproxy.errors import BadAsk, GuardError
from guardproxy.http import sessions
from guardproxy.http.in_words import name, paragraphs, row
from guardproxy.http.sealed import CHECKPOINT, Sealer
from guardproxy.http.sessions import Run, Runs, as_json, kept_json, whole_json
from guardproxy.store.known import Known
from guardproxy.store.redis import Store
from tests.live import Json, Live, Said, live, unique

ORG, KEY = "default", b"k" * 32
HOUR = 3_600_000


def runs_of(store: Store, key: bytes = KEY) -> Runs:
    return Runs(store, Sealer(key), ORG)


async def go_round(running: Live, session: str, turns: int, agent: str = "") -> None:
    """An agent that repeats one call with one result."""
    headers = {"x-guardproxy-session-id": session, **({"x-guardproxy-agent": agent} if agent else {})}
    history: list[Json] = [{"role": "system", "content": "You watch."}, {"role": "user", "content": "go"}]
    tools = [{"type": "function", "function": {"name": "status", "parameters": {"type": "object"}}}]
    running.settled = True
    for number in range(turns):
        said = Said(calls=[("status", "{}", f"call_{number:09d}")])
        running.provider.script = lambda _got, said=said: said
        body = {"model": "gpt-4", "messages": history, "tools": tools}
        await running.post(body, headers)
        history += [said.message(), {"role": "tool", "tool_call_id": f"call_{number:09d}", "content": "the same"}]


async def refused(work: object) -> tuple[int, str, str]:
    with pytest.raises(GuardError) as caught:
        await work  # type: ignore[misc]
    return caught.value.status, caught.value.code, caught.value.message


async def test_what_a_list_says(store: Store) -> None:
    async with live(store) as running:
        await go_round(running, "calm", 2)
        await asyncio.sleep(0.005)
        await go_round(running, "looped", 7)
    looped, calm = await runs_of(store).listed()

    assert (name(looped), looped.known.turn, looped.outcome, looped.rule) == ("looped", 7, "cut", "repeated_call")
    assert (name(calm), calm.known.turn, calm.outcome, calm.rule, calm.digest) == ("calm", 2, "", "", "")
    assert (looped.known.state, calm.known.state) == ("closed", "active")
    assert len(looped.digest) > 8
    assert looped.known.used["cost_microusd"] > calm.known.used["cost_microusd"] > 0
    assert re.fullmatch(r"\$0\.\d\d+", row(calm)[4])
    assert row(looped)[:4] == ("looped", "closed by repeated_call", "cut", "7")
    assert row(calm)[:4] == ("calm", "active", "–", "2")
    assert row(looped)[5:7] == (looped.digest[:8], "repeated_call")
    assert [name(one) for one in await runs_of(store).listed(limit=1)] == ["looped"]
    assert [name(one) for one in await runs_of(store).listed(limit=1, skip=1)] == ["calm"]
    assert await runs_of(store).listed(limit=5, skip=2) == []
    shown = await runs_of(store).shown("looped")
    told = as_json(shown)
    counted = looped.known.used
    assert told["used"] == {
        "cost_usd": counted["cost_microusd"] / 1e6,
        **{name: amount for name, amount in counted.items() if name != "cost_microusd"},
    }
    assert any(line.startswith("used       turns 7, tool_calls ") for line in paragraphs(shown))
    assert (told["state"], told["outcome"], told["turns"], told["last_rule"]) == ("closed", "cut", 7, "repeated_call")
    assert "history    nobody changed anything" in paragraphs(shown)


async def test_whose_runs_they_are(store: Store) -> None:
    """By the name that metrics and log have; by the digest of its instructions where it has none."""
    async with live(store) as running:
        await go_round(running, "named", 7, "orders")
        await go_round(running, "calm", 1, "orders")
        await go_round(running, "nameless", 6)
    runs = runs_of(store)
    nameless, calm, named = await runs.listed()

    assert [(one.agent, bool(one.digest)) for one in (named, calm, nameless)] == [
        ("orders", True), ("orders", False), ("", True)]  # fmt: skip
    assert [row(one)[5] for one in (named, calm, nameless)] == ["orders", "orders", nameless.digest[:8]]
    assert [(as_json(one)["agent"], as_json(one)["agent_digest"]) for one in (named, calm, nameless)] == [
        ("orders", named.digest), ("orders", None), (nameless.digest, nameless.digest)]  # fmt: skip
    assert f"agent      orders {named.digest}" in paragraphs(named)
    assert f"agent      {nameless.digest}" in paragraphs(nameless)
    for asked, found in (
        ({"agent": "orders"}, ["calm", "named"]),
        ({"agent": "orders", "state": "closed"}, ["named"]),
        ({"agent": "orders", "limit": 1}, ["calm"]),
        ({"agent": "orders", "limit": 1, "skip": 1}, ["named"]),
        ({"agent": "orders", "skip": 2}, []),
        ({"agent": "order"}, []),
        ({"agent": nameless.digest[:8], "limit": 1}, ["nameless"]),
        ({"agent": nameless.digest[:8]}, ["nameless"]),
        ({"agent": nameless.digest[:7]}, []),
    ):
        assert [name(one) for one in await runs.listed(**asked)] == found, asked  # type: ignore[arg-type]


async def test_of_runs_of_others_little_is_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of one agent's runs looks at up to a thousand runs, each with 256 records."""
    async with live(store) as running:
        for number in range(4):
            await go_round(running, f"other-{number}", 6, "others")
        await go_round(running, "mine", 6, "orders")
        await go_round(running, "nameless", 6)
    read: list[tuple[str, int]] = []
    records = Store.records

    async def counted(self: Store, org: str, session: str, *place: int) -> list[bytes]:
        found = await records(self, org, session, *place)
        read.append((session, len(found)))
        return found

    monkeypatch.setattr(Store, "records", counted)
    assert [name(one) for one in await runs_of(store).listed(agent="orders")] == ["mine"]
    assert sorted(read) == [("mine", 1), ("mine", 6), ("nameless", 1), *[(f"other-{number}", 1) for number in range(4)]]
    monkeypatch.setattr(sessions, "AT_ONCE", 2)
    for limit, skip, expected in ((2, 0, [3, 2]), (2, 2, [1, 0]), (1, 3, [0]), (9, 1, [2, 1, 0]), (2, 4, [])):
        found = await runs_of(store).listed(agent="others", limit=limit, skip=skip)
        assert [name(one) for one in found] == [f"other-{number}" for number in expected]


STEERED = {
    "pause": ([("pause", "ann", "looks odd")], "paused", "ann", "looks odd"),
    "resume": ([("pause", "ann", ""), ("resume", "bob", "it is fine")], "active", "", ""),
    "cut": ([("cut", "ann", "burns money")], "closed", "ann", "burns money"),
    "reset": ([("cut", "ann", ""), ("reset", "bob", "")], "active", "", ""),
}


@pytest.mark.parametrize("name", STEERED)
async def test_steered(name: str, store: Store) -> None:
    deeds, state, by, why = STEERED[name]
    session = unique("s")
    async with live(store) as running:
        await go_round(running, session, 1)
    for verb, who, reason in deeds:
        run = await runs_of(store).act(verb, session, who, reason)

    assert (run.known.state, run.known.by, run.known.why) == (state, by, why)
    assert [(one.what, one.by, one.why) for one in run.history] == deeds
    assert all(abs(time.time() * 1000 - one.at_ms) < 20_000 for one in run.history)
    told = [line for line in paragraphs(run) if line.startswith("  20")]
    verb, who, reason = deeds[-1]
    assert told[-1].endswith(f" UTC  {verb} by {who}: {reason}" if reason else f" UTC  {verb} by {who}")
    assert whole_json(run)["history"] == [
        {"at_ms": one.at_ms, "by": one.by, "what": one.what, "why": one.why} for one in run.history
    ]


async def test_more_of_a_limit(store: Store) -> None:
    session = unique("s")
    async with live(store, policy={"limits": {"session": {"turns": 2}}}) as running:
        await go_round(running, session, 3)
        stopped = await runs_of(store).shown(session)
        assert [(one["turn"], one["action"]) for one in stopped.records] == [
            (1, "pass"), (2, "finalize"), (3, "deny")]  # fmt: skip
        assert (stopped.outcome, stopped.rule) == ("denied", "budget.turns")
        assert row(stopped)[1:3] == ("active, stopped by a limit", "denied")
        told = paragraphs(stopped, " --config g.yaml")
        assert "why        limit turns (session) of 2: 2 used (rule: budget.turns)" in told
        assert f"to go on   guardproxy sessions extend {session} --turns N --config g.yaml" in told
        run = await runs_of(store).extend(session, "ann", "nearly there", {"turns": 2, "cost_usd": 0.5})
        assert (run.known.state, run.outcome, row(run)[1]) == ("active", "", "active")
        assert not any(line.startswith("to go on") for line in paragraphs(run))
        assert (run.history[-1].by, run.history[-1].why) == ("ann", "nearly there")
        assert run.history[-1].what == "extend turns +2, cost_usd +$0.5"
        await go_round(running, session, 4)
    run = await runs_of(store).shown(session)
    assert [(one["turn"], one["action"]) for one in run.records][3:] == [(3, "pass"), (4, "finalize"), (5, "deny")]
    assert run.outcome == "denied"  # again: what was given more is used up


async def test_what_cannot_be_done(store: Store) -> None:
    runs = runs_of(store)
    session = unique("s")
    async with live(store) as running:
        await go_round(running, session, 1)
    cases: list[tuple[int, str, str, *tuple[Any, ...]]] = [
        (404, f"the store has no session 'nobody'; the newest are {session}", "shown", "nobody"),
        (404, "the store has no session 'no?\\x1b'; the newest are", "act", "pause", "no\udc80\x1b", "ann"),
        (404, "the store has no session", "act", "cut", "nobody", "ann"),
        (404, "the store has no session", "extend", "nobody", "ann", "", {"turns": 1}),
        (404, "the store has no session", "checkpoint", "nobody"),
        (404, f"session {session} has no checkpoint", "checkpoint", session),
        (404, f"session {session} has no checkpoint", "take", session, 1, "ann"),
        (400, "must be printable text", "act", "pause", session, "a\nb"),
        (400, "must be printable text of at most 500 characters", "act", "pause", session, "ann", "x" * 501),
        (400, "say what to raise: turns, ", "extend", session, "ann", "", {}),
        (400, "must be a whole number above 0", "extend", session, "ann", "", {"turns": -1}),
    ]
    for status, words, deed, *more in cases:
        found = await refused(getattr(runs, deed)(*more))
        assert found[0] == status, found
        assert words in found[2]
    shown = await runs.shown(session)
    assert (shown.known.state, list(shown.history)) == ("active", [])


OUTCOMES = {
    "ended as a loop": ("closed", "", "repeated_call", "cut", "cut"),
    "cut by a person": ("closed", "operator", "ann", "finished", "cut"),
    "closed by a limit": ("closed", "budget.turns", "budget.turns", "", "denied"),
    "let go on": ("active", "", "", "cut", ""),
    "paused after an end": ("paused", "", "ann", "denied", ""),
    "finished": ("active", "", "", "finished", "finished"),
    "finalized": ("active", "", "", "finalized", "finalized"),
    "under way": ("active", "", "", "", ""),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcomes(name: str) -> None:
    state, closed, by, last, outcome = OUTCOMES[name]
    record: Any = {"outcome": last, "rule": "", "cost_microusd": 1, "action": "pass", "at_ms": 1, "thread": "m"}

    assert Run(known(state=state, closed=closed, by=by), [record]).outcome == outcome


CONFLICTS = {
    "paused twice": (("pause",), "pause", "is paused already, by ann"),
    "resumed and not paused": ((), "resume", "is neither paused nor ended by a loop"),
    "paused and closed": (("cut",), "pause", "is closed, by ann; reset opens it again"),
    "cut twice": (("cut",), "cut", "is closed, by ann; reset opens it again"),
}


@pytest.mark.parametrize("name", CONFLICTS)
async def test_what_was_done_before(name: str, store: Store) -> None:
    before, verb, words = CONFLICTS[name]
    session = unique("s")
    async with live(store) as running:
        await go_round(running, session, 1)
    for deed in before:
        await runs_of(store).act(deed, session, "ann")
    status, _, told = await refused(runs_of(store).act(verb, session, "bob"))

    assert (status, told) == (409, f"session {session} {words}")
    assert [one.what for one in (await runs_of(store).shown(session)).history] == list(before)


MESSAGES = '[ {"role":"user", "content":"行\\u0000 1.10"} ]'.encode()


async def test_a_conversation_is_gone_on_with_once(store: Store) -> None:
    """Two who fetched the same checkpoint: one goes on, the other is told so."""
    session = unique("s")
    async with live(store) as running:
        await go_round(running, session, 1)
    sealer = Sealer(KEY)
    first = await store.checkpoints.put(ORG, session, sealer.seal(CHECKPOINT, session, b"[]"), 60)
    second = await store.checkpoints.put(ORG, session, sealer.seal(CHECKPOINT, session, MESSAGES), 60)
    kept = await runs_of(store).checkpoint(session)

    assert second > first
    assert (kept.generation, kept.messages) == (second, MESSAGES)
    assert kept_json(kept).endswith(b'"messages":' + MESSAGES + b"}")
    assert (await refused(runs_of(store).take(session, first, "ann")))[0] == 409
    assert (await runs_of(store).take(session, second, "ann")).messages == MESSAGES
    status, _, told = await refused(runs_of(store).take(session, second, "bob"))
    assert (status, "ann" in told) == (409, True)
    status, code, _ = await refused(runs_of(store, b"o" * 32).checkpoint(session))
    assert (status, code) == (409, "cannot_open")


async def test_a_checkpoint_of_another_session(store: Store) -> None:
    """What is sealed for one session opens as no other's."""
    one, other = unique("s"), unique("s")
    async with live(store) as running:
        for session in (one, other):
            await go_round(running, session, 1)
    await store.checkpoints.put(ORG, other, Sealer(KEY).seal(CHECKPOINT, one, MESSAGES), 60)

    assert (await refused(runs_of(store).checkpoint(other)))[1] == "cannot_open"


def known(**more: Any) -> Known:
    at = {"started_ms": 0, "at_ms": HOUR, "turn": 3, "span": 1, "closed": "", "main": "m", "traceparent": ""}
    return Known("default", "s\x1b[2J", **{"threads": ("m", "t\n2"), **at, **more})


def test_words_of_clients_steer_no_terminal() -> None:
    run = Run(known(state="paused", by="ann", why="a\x1b[31m" + "b" * 100), [], [])
    text = "\n".join(paragraphs(run))

    assert name(run) == "s\\x1b[2J"
    state = next(line for line in paragraphs(run) if line.startswith("state"))
    assert state.startswith("state      paused by ann: a\\x1b[31m")
    assert state.endswith("… (+46 characters)")
    assert row(run)[1] == "paused by ann"
    assert row(Run(known(state="paused", by="\x1b" + "b" * 60), [], []))[1].startswith("paused by \\x1bbb")
    assert "\x1b" not in text
    assert "threads    2: m, t\\n2" in text


async def test_records_of_another_version_are_left_out(store: Store) -> None:
    session = unique("s")
    async with live(store) as running:
        await go_round(running, session, 4)
    before = await runs_of(store).shown(session)
    await store._client.command("RPUSH", f"gp:{{default}}:x:{session}", b'{"v":99}', b"\xff")

    assert (await runs_of(store).shown(session)).records == before.records


async def test_lists_by_state(store: Store) -> None:
    async with live(store) as running:
        for session in ("a", "b", "c"):
            await go_round(running, session, 1)
    await runs_of(store).act("pause", "b", "ann")

    for state, names in {"paused": ["b"], "active": ["c", "a"], "need_human": [], "": ["c", "b", "a"]}.items():
        assert [name(one) for one in await runs_of(store).listed(state)] == names
    with pytest.raises(BadAsk, match="must be one of active, paused, need_human, waiting, closed"):
        await runs_of(store).listed("open")
