"""Any order of begin, extend, settle, sweep and killed workers, most made twice: limits hold and totals are right."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, example, given, settings, strategies as st

from guardproxy.core.memory import LocalMemory
from guardproxy.core.model import Line
from guardproxy.core.view import Opening, View
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.store.kit import NOTHING, ORG, Agent, emptied, used_held

LEASE = 1_000
LIMITED = Line("org", "tokens", 0, 40, key="day")
FREE = Line("session", "cost", 0)

BEGIN = st.tuples(st.just("begin"), st.integers(0, 3), st.integers(0, 25))
SETTLE = st.tuples(st.just("settle"), st.integers(0, 9), st.integers(0, 40))
EXTEND = st.tuples(st.just("extend"), st.integers(0, 9), st.integers(0, 15))
SWEEP = st.tuples(st.just("sweep"), st.integers(0, 3), st.just(0))


@dataclass
class Books:
    """What must be true, kept beside the store."""

    used: int = 0
    cost: dict[str, int] = field(default_factory=dict)
    open: dict[str, tuple[Agent, int, int]] = field(default_factory=dict)  # token: agent, hold, when begun

    @property
    def held(self) -> int:
        return sum(hold for _, hold, _ in self.open.values())

    def end(self, token: str, tokens: int, cost: int) -> None:
        agent, _, _ = self.open.pop(token)
        self.used += tokens
        self.cost[agent.session] = self.cost.get(agent.session, 0) + cost


async def begin(store: Store, books: Books, session: int, hold: int, now: int) -> None:
    agent = Agent(store, session=f"s{session}", thread="t", user=str(now), offset_ms=now, lease_ms=LEASE)
    agent.lines = (LIMITED._replace(hold=hold), FREE._replace(hold=hold))
    opening = agent.opening()
    one, two = await asyncio.gather(store.begin(opening), store.begin(opening))
    assert one == two
    assert one.admitted is (books.used + books.held + hold <= LIMITED.limit)
    agent.last, agent.view = opening, one
    if one.admitted:
        books.open[opening.token] = (agent, hold, now)


async def settle(books: Books, which: int, tokens: int) -> None:
    if not books.open:
        return
    token = list(books.open)[which % len(books.open)]
    agent = books.open[token][0]
    closing = agent.closing(spent={"tokens": tokens, "cost": 1})
    await asyncio.gather(agent.store.settle(closing), agent.store.settle(closing))
    books.end(token, tokens, 1)


async def extend(books: Books, which: int, hold: int, now: int) -> None:
    if not books.open:
        return
    token = list(books.open)[which % len(books.open)]
    agent, held, begun = books.open[token]
    lines = (LIMITED._replace(hold=hold), FREE._replace(hold=hold))
    fits = books.used + books.held + hold <= LIMITED.limit
    assert await agent.store.extend(ORG, token, lines, now) is fits
    if fits:
        books.open[token] = agent, held + hold, begun


async def sweep(store: Store, books: Books, now: int) -> None:
    due = {token: hold for token, (_, hold, begun) in books.open.items() if begun + LEASE < now - 200}
    fresh = {token for token, (_, _, begun) in books.open.items() if begun + LEASE > now + 200}
    swept = await asyncio.gather(store.sweep(now), store.sweep(now))
    found = [one.token for some in swept for one in some]
    assert len(found) == len(set(found))
    assert set(due) <= set(found)
    assert not fresh & set(found)
    for token in found:
        hold = books.open[token][1]
        books.end(token, hold, hold)


async def check(store: Store, books: Books) -> None:
    assert await used_held(store, "w:day", "tokens") == (books.used, books.held)
    for session, cost in books.cost.items():
        assert (await used_held(store, f"s:{session}", "cost"))[0] == cost


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(BEGIN, BEGIN, SETTLE, EXTEND, SWEEP), max_size=30))
def test_limits_hold_and_totals_are_right(server: Embedded, moves: list[tuple[str, int, int]]) -> None:
    async def play(store: Store) -> None:
        books, now = Books(), 0
        for what, one, two in moves:
            now += 300
            if what == "begin":
                await begin(store, books, one, two, now)
            elif what == "extend":
                await extend(books, one, two, now)
            elif what == "settle":
                await settle(books, one, two)
            else:
                now += one * 500
                await sweep(store, books, now)
            await check(store, books)
        await sweep(store, books, now + 10 * LEASE)
        assert await used_held(store, "w:day", "tokens") == (books.used, 0)
        assert await store._client.command("EXISTS", f"gp:{{{ORG}}}:holds") == 0

    async def main() -> None:
        async with emptied(server) as store:
            await play(store)

    asyncio.run(main())


ANSWERS = st.sampled_from(["calls", "calls", "text", "empty", "kept empty", "failed", "forgot", "own", "cut"])
COMPARED = ("turn", "retry", "admitted", "closed", "answers", "rearmed", "equal", "steps", "ring", "episodes", "span")
COMPARED += ("status", "missing", "carried")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(ANSWERS, st.booleans(), st.sampled_from([False, False, False, True])), max_size=12))
@example(  # a failed attempt that is made again under another name brings no new words
    [("calls", False, False), ("failed", False, False), ("text", False, True), ("calls", False, False)]
)
def test_local_memory_answers_a_growing_conversation_as_the_store_does(
    server: Embedded, moves: list[tuple[str, bool, bool]]
) -> None:
    """`replay` and an outage must judge as the store does: same ring, same counts, same spans.

    Also where the client goes on under another session id.
    """

    async def play(store: Store) -> None:
        memory, agent = LocalMemory(), Agent(store, session="s", thread="main")
        for number, (move, speaks, renames) in enumerate(moves):
            if renames:
                agent.session = f"s{number:02}"  # so that of two given a round in one millisecond the later is meant
            view = await agent.begin()
            assert agent.last
            same(view, memory.begin(agent.last, view.now_ms), agent.last)
            if not view.closed:
                outcome = "failed" if move == "failed" else "answered"
                answer = {"failed": "", "forgot": "calls", "cut": "own", "kept empty": "empty"}.get(move, move)
                cut = "repeated_call" if move == "cut" else ""
                closing = agent.closing(answer, outcome, episodes=(b"e%d" % number,), close=cut)
                if view.carried and answer != "calls":
                    closing = replace(closing, links=closing.links + agent.last.identity.links)
                await store.settle(closing)
                memory.settle(closing, view.now_ms)
            if move not in ("failed", "forgot", "empty") or view.closed:
                did = NOTHING if move == "kept empty" else None
                agent.took(did, counts={"tool:x": 1}, user=f"words {number}" if speaks else None)

    async def main() -> None:
        async with emptied(server) as store:
            await play(store)

    asyncio.run(main())


def same(view: View, local: View, opening: Opening) -> None:
    ours = {name: getattr(view, name) for name in COMPARED}
    assert {name: getattr(local, name) for name in COMPARED} == ours, opening
