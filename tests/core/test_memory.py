"""Local memory: what `begin` and `settle` mean, as tables; and the same conversations through the real scripts."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from guardproxy.core import budget, session
from guardproxy.core.budget import Limit, Need
from guardproxy.core.fact import unpack_all
from guardproxy.core.memory import LocalMemory
from guardproxy.core.model import Ask, Call, Kind, Line
from guardproxy.core.view import Closing, Opening, View
from guardproxy.core.windows import Zone, key
from guardproxy.store import embedded
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.core.talk import PRINTER, Json, ask, called, result, said, user

ORG = "org"
NEED = Need(10, 5, 7)
_numbers = itertools.count()


@dataclass
class Agent:
    """A conversation, and what is sent of it."""

    limits: tuple[Limit, ...] = ()
    session: str = ""
    messages: list[Json] = field(default_factory=list)
    opening: Opening | None = None
    calls: int = 0
    one_id: bool = False  # the provider gives all answers the same id, and the client takes them for one message

    def __post_init__(self) -> None:
        self.task = f"Task {next(_numbers)}."
        self.messages = self.messages or [user(self.task)]

    def asks(self, at_ms: int = 0) -> Opening:
        self.opening = Opening(
            token=f"t{next(_numbers)}",
            org=ORG,
            identity=session.identify(self._ask(), PRINTER, ORG),
            fact=session.observe(self._ask(), PRINTER, at_ms),
            lines=budget.price(self.limits, NEED),
            lease_ms=60_000,
            offset_ms=at_ms,
        )
        return self.opening

    def _ask(self) -> Ask:
        return ask(*self.messages, session=self.session)

    def closing(self, view: View, message: Json | None, outcome: str = "answered", **more: Any) -> Closing:
        """The end of the turn, with the provider's message (None: there is none)."""
        assert self.opening
        message = message or {}
        seen = ask(message).tail[0] if message else None
        text, calls = (seen.text, seen.calls) if seen else ("", ())
        answer = "calls" if calls else "text" if text else "empty"
        given = outcome == "answered" and answer != "empty"
        who = self.opening.identity
        before = who.links if view.carried and not who.spoken and not (given and calls) else ()
        made = Closing(
            self.opening.token,
            ORG,
            view.session,
            view.thread,
            outcome,
            answer if outcome == "answered" else "",
            {"turns": 1, "tool_calls": len(calls), "input_tokens": 12, "output_tokens": 3, "total_tokens": 15},
            delivered=session.round_digest(PRINTER, calls, text) if given else "",
            links=(*(session.links(PRINTER, ORG, who.head, calls, text) if given else ()), *before),
            count=len(self.messages),
            offset_ms=self.opening.offset_ms,
        )
        return replace(made, **more)

    def call(self, *tools: str) -> tuple[Json, list[Json]]:
        """An assistant message with calls, and the results that the client appends."""
        made = []
        for tool in tools:
            self.calls += 1
            made.append((tool, "{}", f"call_{self.task}{self.calls:05d}"))
        return called(*made), [result(f"result of {tool}", call_id) for tool, _, call_id in made]

    def append(self, message: Json | None, after: list[Json]) -> None:
        """Take the answer into the history. `one_id`: as one message with the round before, ever longer."""
        at = max((at for at, one in enumerate(self.messages) if one.get("tool_calls")), default=len(self.messages))
        answered = {one["role"] for one in self.messages[at + 1 :]} == {"tool"}
        if self.one_id and answered and message and message.get("tool_calls"):
            grown = self.messages[at]
            self.messages[at] = {**grown, "tool_calls": [*grown["tool_calls"], *message["tool_calls"]]}
            message = None
        self.messages += [*([message] if message else []), *after]


@dataclass
class Talk:
    """An agent that talks to local memory; `play` is a word a turn."""

    agent: Agent = field(default_factory=Agent)
    memory: LocalMemory = field(default_factory=LocalMemory)
    views: list[View] = field(default_factory=list)
    now: int = 0

    def play(self, line: str) -> View:
        for word in line.split():
            self._turn(word)
        return self.views[-1]

    def _turn(self, word: str) -> None:
        """`f`, `f,g`: calls; `say`: an answer, then new words; `end`: without; `nil`, `fail`, `left`; `!f`: cut."""
        self.now += 1000
        view = self.memory.begin(self.agent.asks(self.now), self.now)
        self.views.append(view)
        if not view.admitted or view.closed:
            return
        outcome = {"fail": "failed", "left": "abandoned"}.get(word, "answered")
        message, after = None, []
        if word in ("say", "end"):
            message, after = said("Done."), [user(f"More {self.now}.")] if word == "say" else []
        elif word not in ("nil", "fail", "left"):
            message, after = self.agent.call(*word.lstrip("!").split(","))
        close = "repeated_call" if word.startswith("!") else ""
        self.memory.settle(self.agent.closing(view, message, outcome, close=close), self.now)
        if message and word != "end":
            self.agent.append(message, after)

    def words(self, text: str) -> None:
        self.agent.messages.append(user(text))


def kinds(view: View) -> str:
    return " ".join({Kind.CALL: one.tool}.get(one.kind, one.kind.name.lower()) for one in unpack_all(view.ring))


def column(talk: Talk, name: str) -> list[Any]:
    return [getattr(view, name) for view in talk.views]


RINGS = {
    # turns played, then one more request: the ring, turn and steps that it sees (two boundaries in a row do no harm)
    "f g,h f": ("f g h f", 4),
    "say f": ("boundary boundary text f", 3),
    "f say f": ("f boundary boundary text f", 4),
    "f fail f": ("f f", 3),
    "f left left f": ("f f", 3),
    "nil": ("empty", 2),
    "nil nil f": ("empty empty f", 4),
    "f end end f": ("f f", 5),
}


@pytest.mark.parametrize("line", RINGS)
def test_ring_and_turns(line: str) -> None:
    ring, turn = RINGS[line]
    talk = Talk()
    view = talk.play(f"{line} f")

    assert (kinds(view), view.turn, view.steps) == (ring, turn, len(ring.split()))


def test_a_retry_keeps_the_turn_and_appends_nothing() -> None:
    talk = Talk(Agent(limits=(Limit("span", "turns", 9),)))
    talk.play("f fail left f g")

    assert column(talk, "retry") == [False, False, True, True, False]
    assert column(talk, "turn") == [1, 2, 2, 2, 3]
    assert column(talk, "steps") == [0, 1, 1, 1, 2]
    assert [view.spent[0].used + view.spent[0].held for view in talk.views] == [1, 2, 1 + 1, 1 + 1, 3]


def test_equal_requests_are_counted_until_another_comes() -> None:
    talk = Talk()
    talk.play("f end end end f f")

    assert column(talk, "equal") == [0, 0, 1, 2, 3, 0]
    assert column(talk, "turn") == [1, 2, 3, 4, 5, 6]


def test_spans() -> None:
    """New words after a final answer open one; the same words, words after a call, and failures do not."""
    talk = Talk()
    talk.play("f say f")
    talk.words("Words after a call.")
    talk.play("f say fail f say f")

    assert column(talk, "span") == [1, 1, 2, 2, 2, 3, 3, 3, 4]
    assert talk.views[-1].span_started_ms == talk.now


def test_limits_of_a_span_begin_anew_with_it() -> None:
    talk = Talk(Agent(limits=(Limit("span", "turns", 2), Limit("span", "wall_ms", 2500))))
    talk.play("f say f f f")

    assert column(talk, "admitted") == [True, True, True, True, False]
    assert talk.views[-1].short[0].dimension == "turns"
    talk.now += 10_000
    assert {line.dimension for line in talk.play("f").short} == {"turns", "wall_ms"}


def test_refused_is_refused_whole() -> None:
    talk = Talk(Agent(limits=(Limit("session", "turns", 1), Limit("session", "input_tokens", 100))))
    talk.play("f f f f")
    first, last = talk.views[1], talk.views[-1]

    assert not first.admitted
    assert first.short == (Line("session", "turns", 1, 1),)
    assert (first.turn, first.steps, first.spent) == (last.turn, last.steps, last.spent)
    assert {spent.held for spent in last.spent} == {0}
    assert next(spent.used for spent in last.spent if spent.line.dimension == "input_tokens") == 12


def test_a_closed_thread_counts_its_answers_and_opens_at_new_words() -> None:
    talk = Talk()
    talk.play("f f !f f f")
    assert column(talk, "closed") == [False, False, False, True, True]
    assert column(talk, "answers") == [0, 0, 0, 1, 2]
    assert talk.views[-1].closed_by == "repeated_call"
    for number in range(1, 5):
        talk.words(f"Try otherwise {number}.")
        view = talk.play("!f")
        assert view.closed is (number > 3), "three times at most"
        assert view.rearmed == min(number, 3)
        if not view.closed:
            assert talk.views[-1].span == number + 1
            assert "boundary" in kinds(view).split()


@pytest.mark.parametrize("text", ["Observation: nothing", "  "])
def test_no_other_words_open_a_closed_thread(text: str) -> None:
    talk = Talk()
    talk.play("f !f")
    talk.words(text)

    assert talk.play("f").closed


def test_budgets_are_opened_by_people_only() -> None:
    talk = Talk()
    view = talk.play("f")
    talk.memory.begin(talk.agent.asks(talk.now), talk.now)
    talk.memory.settle(talk.agent.closing(view, None, close="budget.calls_per_tool"), talk.now)
    talk.words("Go on.")

    assert talk.play("f").closed


def test_counters() -> None:
    """Those that the new rounds raised, in this span; a retry sees them again."""
    talk = Talk()
    talk.play("f f,f g fail fail end end")
    tools = [{name: n for name, n in view.counts.items() if name.startswith("tool:")} for view in talk.views]

    assert tools == [{}, {"tool:f": 1}, {"tool:f": 3}, {"tool:g": 1}, {"tool:g": 1}, {"tool:g": 1}, {}]
    talk.play("say f f")
    assert talk.views[-1].counts["tool:f"] == 1, "a new span counts anew"


GROWING = {
    "one call each time": "f f f f",
    "more than a message's calls that are steps": " ".join(["f"] * 70),
    "batches": "f,g f,g f",
    "of other sizes": "f,g f f,f,f f",
    "answers that were lost": "f fail f left f f",
    "new words begin another round": "f f say f f f",
    "an empty answer": "f f nil f f",
}
"""Moves of an agent whose rounds grow into one."""


@pytest.mark.parametrize("name", GROWING)
def test_a_round_that_grows_is_a_new_one_each_time(name: str) -> None:
    """A provider that names all answers alike, and a client that takes them for one message: seen as if it did not."""
    merged, apart = Talk(Agent(one_id=True)), Talk()
    for talk in (merged, apart):
        talk.play(GROWING[name])
    assert len(merged.agent.messages) < len(apart.agent.messages)
    for what in ("steps", "counts", "turn"):
        assert [getattr(view, what) for view in merged.views] == [getattr(view, what) for view in apart.views]
    kept = [kinds(talk.views[-1]) for talk in (merged, apart)]
    assert kept[0] == kept[1]


def test_a_batch_that_comes_whole_is_no_round_that_has_grown() -> None:
    """Its last call is the answer that the client did not append: nothing is new."""
    agent = Agent()
    talk = Talk(agent)
    talk.play("f,g end end")
    fact = agent.asks().fact
    whole = fact.rounds
    assert not fact.grown("another")
    assert fact.rounds is whole
    assert fact.grown(session.round_digest(PRINTER, (Call("g", "{}", ""),), ""))
    assert [len(one.facts) for one in fact.rounds] == [1]
    assert not fact.grown(fact.rounds[0].digest), "once is enough"


def test_settle_twice_and_of_nothing() -> None:
    agent, memory = Agent(), LocalMemory()
    view = memory.begin(agent.asks(), 0)
    message, _ = agent.call("f")
    closing = agent.closing(view, message, facts=(b"f",), episodes=(b"e",), ledger={"3:x:0": b"one"})
    for _ in range(2):
        memory.settle(closing, 0)
    memory.settle(replace(closing, token="unknown", episodes=(b"no",)), 0)
    agent.messages += [message]
    again = memory.begin(agent.asks(), 0)

    assert (again.steps, again.episodes, again.ledger) == (2, (b"e",), {"3:x:0": b"one"})
    assert {(s.line.dimension, s.used) for s in again.spent} >= {("turns", 1), ("input_tokens", 12)}


def test_the_first_text_at_a_place_stays() -> None:
    agent, memory = Agent(), LocalMemory()
    for text in (b"one", b"two"):
        view = memory.begin(agent.asks(), 0)
        memory.settle(agent.closing(view, None, "failed", ledger={"0:x:0": text}), 0)

    assert memory.begin(agent.asks(), 0).ledger == {"0:x:0": b"one"}


def test_only_degraded_memory_says_so() -> None:
    assert not LocalMemory().begin(Agent().asks(), 0).degraded
    assert LocalMemory(degraded=True).begin(Agent().asks(), 0).degraded


@pytest.mark.parametrize(
    ("answer", "close", "seconds", "is_main"),
    [
        ("text", "", 1, True),
        ("calls", "", 1, False),
        ("calls", "", 601, True),
        ("own", "cycle", 1, True),
        ("own", "", 1, False),
        ("", "", 601, False),
    ],
)
@pytest.mark.parametrize("examples", [False, True])
def test_a_new_conversation_of_a_session_is_main_once_main_is_through(
    answer: str, close: str, seconds: int, is_main: bool, examples: bool
) -> None:
    main = Agent(session="s")
    memory = LocalMemory()
    view = memory.begin(main.asks(), 0)
    if answer:
        memory.settle(main.closing(view, None, answer=answer, close=close), 0)
    shown = [user("Example."), said("Shown."), user("New words.")]
    view = memory.begin(Agent(session="s", messages=shown if examples else []).asks(), seconds * 1000)
    assert (view.main, view.span) == (is_main, 1 + is_main)


@pytest.mark.parametrize("name", ["", "s"], ids=["derived", "declared"])
def test_examples_in_a_prompt_are_nobodys_history(name: str) -> None:
    """Also where an answer was the very one that the examples end in."""
    memory, threads = LocalMemory(), set()
    for number in range(3):
        agent = Agent(session=name, messages=[user("Example."), said("Good."), user(f"Document {number}.")])
        view = memory.begin(agent.asks(), 0)
        memory.settle(agent.closing(view, said("Good.")), 0)
        threads.add((view.session, view.thread))
    assert len(threads) == 3


@pytest.mark.parametrize("name", ["", "s"], ids=["derived", "declared"])
def test_a_job_that_comes_every_minute_is_refused_for_two_minutes(name: str) -> None:
    memory, agent = LocalMemory(), Agent(session=name)
    view = memory.begin(agent.asks(), 0)
    memory.settle(agent.closing(view, None, answer="own", close="cycle"), 0)
    closed = [memory.begin(agent.asks(), minutes * 60_000 - 1000).closed for minutes in range(1, 6)]
    assert closed == [True, True, False, False, False]


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    with embedded.scratch() as running:
        yield running


MOVES = st.sampled_from(
    [
        "f",
        "f",
        "g",
        "f,g",
        "f,f",
        "say",
        "say again",
        "harness",
        "mute",
        "nil",
        "fail",
        "left",
        "forget",
        "drop",
        "cut",
        "speak",
        "anew",
        "examples",
    ]
)
LIMITS = (
    Limit("span", "turns", 7),
    Limit("session", "turns", 12),
    Limit("session", "input_tokens", 120),
    Limit("span", "wall_ms", 3_600_000),
)
COMPARED = (
    "turn retry admitted short spent closed closed_by answers rearmed equal steps episodes ledger counts span "
    "new_session counted main status missing carried"
).split()


@example(moves=[("f", 2), ("drop", 2), ("examples", 2), ("say", 2)], limited=False, declared=False, one_id=False)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    moves=st.lists(st.tuples(MOVES, st.sampled_from([2, 2, 200, 1000, 4000])), max_size=14),
    limited=st.booleans(),
    declared=st.booleans(),
    one_id=st.booleans(),
)
@example(  # a run is found by the history at which it was given the round, not by what it was asked since
    moves=[("f", 2), ("drop", 2), ("examples", 2), ("say", 2)], limited=False, declared=False, one_id=False
)
@example(  # a round that nobody has any more, though several had it
    moves=[("drop", 2), ("say", 2), ("nil", 2), ("speak", 2)], limited=False, declared=False, one_id=False
)
def test_the_store_answers_the_same(
    server: Embedded, moves: list[tuple[str, int]], limited: bool, declared: bool, one_id: bool
) -> None:
    """`replay` and an outage judge as the store does, for one client at a time."""

    async def main() -> None:
        store = await Store.connect(socket_path=server.socket_path, timeout_ms=5000)
        try:
            name = f"s{next(_numbers)}" if declared else ""
            await side_by_side(store, Agent(LIMITS if limited else (), name, one_id=one_id), moves)
        finally:
            await store.close()

    asyncio.run(main())


async def side_by_side(store: Store, agent: Agent, moves: list[tuple[str, int]]) -> None:
    memory, now = LocalMemory(), 0
    for number, (move, seconds) in enumerate([*moves, ("f", 2)]):
        now += seconds * 1000
        opening = agent.asks(now)
        other = replace(opening, fact=copy(opening.fact))
        view = await store.begin(opening)
        local = memory.begin(other, view.now_ms)
        compare(view, local, number)
        message, after = answer(agent, move, number)
        if view.admitted and not view.closed:
            outcome = {"fail": "failed", "left": "abandoned"}.get(move, "answered")
            more = {
                "close": "cycle" if move == "cut" else "",
                "episodes": (b"e%d" % number,),
                "ledger": {"a": b"%d" % number},
            }
            await store.settle(agent.closing(view, message, outcome, **more))
            memory.settle(agent.closing(local, message, outcome, **more), view.now_ms)
        elif move not in ("speak", "anew", "examples"):
            continue
        if move in ("anew", "examples"):  # another thread of a declared session, another run of a derived one
            agent.messages = []
        agent.append(message if move not in ("forget", "drop") else None, after)


def answer(agent: Agent, move: str, number: int) -> tuple[Json | None, list[Json]]:
    """What the provider answers to a move, and what the client appends behind it."""
    match move:
        case "nil" | "fail" | "left":
            return None, []
        case "say" | "drop" | "say again" | "harness" | "mute":
            words = {
                "say": f"More {number}.",
                "drop": f"And {number}.",
                "say again": "Go on.",
                "harness": "Observation: none",
            }.get(move)
            return said("Done."), [user(words)] if words else []
        case "speak" | "anew":
            return None, [user(f"Speak {number}, {agent.task}")]
        case "examples":
            return None, [user(agent.task), said("Done."), user(f"Speak {number}.")]
        case "cut" | "forget":
            return agent.call("f")
        case _:
            return agent.call(*move.split(","))


def compare(view: View, local: View, number: int) -> None:
    ours = {name: getattr(view, name) for name in COMPARED}
    assert {name: getattr(local, name) for name in COMPARED} == ours, f"at request {number}"
    assert unpack_all(local.ring) == unpack_all(view.ring), f"at request {number}"
    if not view.closed:
        assert local.now_ms - local.span_started_ms == view.now_ms - view.span_started_ms


def test_what_is_waited_for_and_since_when() -> None:
    agent, memory = Agent(), LocalMemory()
    first = memory.begin(agent.asks(), 1_000)
    assert (first.since_ms, first.status, first.missing) == (0, "active", False)
    message, after = agent.call("f")
    memory.settle(replace(agent.closing(first, message, "answered"), status="waiting"), 2_000)
    agent.messages += [message, *after]
    second = memory.begin(agent.asks(), 33_000)
    assert (second.since_ms, second.status) == (31_000, "waiting")
    memory.settle(agent.closing(second, None, "failed"), 34_000)
    assert memory.begin(agent.asks(), 40_000).since_ms == 38_000


def test_one_more_attempt_is_held_whole_or_not_at_all() -> None:
    lines = (Line("session", "turns", 1, 1), Line("session", "cost_microusd", 100, 250), Line("span", "tokens", 5))
    agent, memory = Agent(), LocalMemory()
    opening = replace(agent.asks(), lines=lines)
    view = memory.begin(opening, 0)
    assert [memory.extend(opening.token, lines, 1_000) for _ in range(3)] == [True, False, False]
    memory.settle(replace(agent.closing(view, None, "failed"), token=opening.token, spent={"cost_microusd": 40}), 2_000)
    again = memory.begin(replace(agent.asks(), lines=lines), 3_000)
    assert [(one.used, one.held) for one in again.spent] == [(0, 0), (40, 100), (0, 5)]  # a retry is no turn
    assert not memory.extend("unknown", lines, 0)


def test_one_more_attempt_ends_with_the_clock() -> None:
    lines = (Line("span", "wall_ms", 0, 5_000, clock=True),)
    opening, memory = replace(Agent().asks(), lines=lines), LocalMemory()
    memory.begin(opening, 0)
    assert [memory.extend(opening.token, lines, at) for at in (4_000, 6_000)] == [True, False]


# ------------------------------------------------------------------------------------- budgets that outlive a session


AT_MS = 1_795_993_200_000


def tenant_line(window: str, dimension: str, hold: int, limit: int, at_ms: int) -> Line:
    return Line("org", dimension, hold, limit, key(window, "org", "", Zone(), at_ms)[0])


def opening(session: str, *lines: Line) -> Opening:
    return replace(Agent(session=session).asks(), lines=lines)


def closing(memory: LocalMemory, begun: Opening, view: View, now_ms: int, **spent: int) -> None:
    ended = Closing(begun.token, ORG, view.session, view.thread, "answered", "text", spent)
    memory.settle(ended, now_ms)


def test_a_tenants_budget_is_shared_by_its_sessions_and_ends_with_its_window() -> None:
    memory, day = LocalMemory(), 86_400_000
    found = []
    for number, now_ms in enumerate((AT_MS, AT_MS + 1, AT_MS + 2, AT_MS + day)):
        begun = opening(f"s{number}", tenant_line("day", "requests", 1, 2, now_ms))
        view = memory.begin(begun, now_ms)
        found.append((view.admitted, [(one.used, one.held) for one in view.spent]))
        if view.admitted:
            closing(memory, begun, view, now_ms, requests=1)
    assert found == [(True, [(0, 1)]), (True, [(1, 1)]), (False, [(2, 0)]), (True, [(0, 1)])]


def test_what_is_used_goes_to_the_window_held_and_concurrency_is_over_with_its_call() -> None:
    memory, late = LocalMemory(), AT_MS + 60_000 - AT_MS % 60_000 - 1
    lines = (tenant_line("minute", "requests", 1, 1, late), tenant_line("now", "concurrent_requests", 1, 1, late))
    first = opening("a", *lines)
    view = memory.begin(first, late)
    assert [line.dimension for line in memory.begin(opening("b", *lines), late).short] == [
        "requests",
        "concurrent_requests",
    ]
    assert [line.dimension for line in memory.begin(opening("b", *lines), late + 1).short] == ["concurrent_requests"]
    closing(memory, first, view, late + 1, requests=1)
    assert memory.begin(opening("b", *lines), late + 1).admitted
    assert [line.dimension for line in memory.begin(opening("c", *lines), late).short] == [
        "requests",
        "concurrent_requests",
    ]


def test_a_further_attempt_holds_of_a_tenant_what_it_holds_of_a_session() -> None:
    memory = LocalMemory()
    lines = (tenant_line("total", "output_tokens", 5, 12, AT_MS), tenant_line("total", "requests", 1, 1, AT_MS))
    begun = opening("a", *lines)
    memory.begin(begun, AT_MS)
    assert [memory.extend(begun.token, lines, AT_MS) for _ in range(2)] == [True, False]
    assert memory.begin(opening("b", lines[0]), AT_MS).spent[0].held == 10
