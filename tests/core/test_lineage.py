"""Whose turn a request is, as far as one process knows: runs of one head are kept apart, and each is found again."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import pytest

from guardproxy.core import lineage
from guardproxy.core.memory import LocalMemory
from guardproxy.core.view import Closing, Identity, Opening, RoundFact, TurnFact, View

_tokens = itertools.count()
START_MS = 1_000_000
NOTHING = "nothing"
"""What an empty answer did that the client keeps."""


@dataclass
class Agent:
    """One conversation. `ids` makes its links its own; "" = a provider that gives every run the same ids."""

    memory: LocalMemory
    session: str = ""
    thread: str = ""
    head: str = "a" * 32
    ids: str = ""
    spoken: bool = False
    now_ms: int = START_MS
    rounds: list[RoundFact] = field(default_factory=list)
    token: str = ""
    view: View | None = None

    def _links(self, made: RoundFact) -> tuple[str, ...]:
        return (f"{self.ids}/{made.index}/{made.digest}", f"round/{made.digest}")

    def _empty(self, rounds: list[RoundFact]) -> tuple[str, ...]:
        """The link of an empty answer to such a history."""
        return (f"-{','.join(made.digest for made in rounds)}",)

    def ask(self) -> str:
        """Ask with the conversation as it stands; `session thread turn` of the answer."""
        links = self._links(self.rounds[-1]) if self.rounds else ()
        if self.rounds and self.rounds[-1].digest == NOTHING:
            links = self._empty(self.rounds[:-1])
        said = ",".join(made.digest for made in self.rounds)
        count = 2 + 2 * len(self.rounds)
        fact = TurnFact(f"{self.head}|{said}", count, tuple(self.rounds), "task", b"boundary", b"blank")
        self.token = f"token-{next(_tokens)}"
        identity = Identity(self.session, self.thread, self.head, not self.rounds, links, "test", self.spoken)
        self.view = self.memory.begin(Opening(self.token, "acme", identity, fact, (), 60_000), self.now_ms)
        return f"{self.view.session} {self.view.thread} {self.view.turn}"

    def get(self, digest: str, *, answer: str = "calls", outcome: str = "answered", close: str = "") -> None:
        """The answer to the last request; a round unless it came to nothing."""
        assert self.view
        made = RoundFact(digest, 2 + 2 * len(self.rounds), (digest.encode(),))
        links = self._links(made) if answer in ("calls", "text") and outcome == "answered" else ()
        links, did = (self._empty(self.rounds), "") if digest == NOTHING else (links, digest)
        told = Closing(self.token, "acme", self.view.session, self.view.thread, outcome, answer, {}, did, links)
        self.memory.settle(_with(told, close, 2 + 2 * len(self.rounds)), self.now_ms)
        if links:
            self.rounds.append(made)


def _with(told: Closing, close: str, count: int) -> Closing:
    return replace(told, close=close, count=count)


@pytest.fixture
def memory() -> LocalMemory:
    return LocalMemory()


@pytest.mark.parametrize("ids", [("", ""), ("x", "y")], ids=["same ids", "own ids"])
def test_two_equal_runs_are_two_sessions_and_each_finds_its_own(memory: LocalMemory, ids: tuple[str, str]) -> None:
    agents = [Agent(memory, ids=name) for name in ids]
    names = []
    for agent in agents:
        names.append(agent.ask().split()[0])
        agent.get("one")
    for digest in ("two", "three"):
        turns = set()
        for agent in agents:
            turns.add(agent.ask())
            agent.get(digest)
            assert agent.view
            assert not agent.view.equal
        assert {turn.split()[0] for turn in turns} == set(names)
    rings = [agent.view.ring for agent in agents if agent.view]
    assert rings == [(b"one", b"two")] * 2, "neither ring has the other's rounds"


def test_a_run_that_is_ahead_is_not_taken_for_one_behind(memory: LocalMemory) -> None:
    ahead, behind = Agent(memory), Agent(memory)
    for agent in (ahead, behind):
        agent.ask()
        agent.get("same")
    for _ in range(3):
        ahead.ask()
        ahead.get("same")
    behind.ask()
    assert ahead.view
    assert behind.view
    assert (ahead.view.turn, behind.view.turn) == (4, 2)
    assert ahead.view.session != behind.view.session


@pytest.mark.parametrize("ids", [("", ""), ("x", "y")], ids=["same ids", "own ids"])
@pytest.mark.parametrize("later_ms", [0, lineage.LATEST_MS + 1], ids=["now", "too late to know"])
def test_a_client_that_takes_back_a_round_has_its_own_run(
    memory: LocalMemory, ids: tuple[str, str], later_ms: int
) -> None:
    """The same was done by another run, whose last words were dropped; but nearer to the beginning."""
    other, agent = (Agent(memory, ids=name) for name in ids)
    other.ask()
    other.get("same")
    other.ask()
    assert other.view
    told = Closing(other.token, "acme", other.view.session, "main", "answered", "text", {}, "words", ("round/words",))
    kept = other._links(other.rounds[-1])
    memory.settle(_with(replace(told, links=(*told.links, *kept)), "", 4), other.now_ms)
    for _ in range(4):
        own = agent.ask().split()[0]
        agent.get("same")
    agent.ask()
    agent.rounds.pop()
    agent.now_ms += later_ms
    assert agent.ask().split()[0] == (other.view.session if later_ms else own)


@pytest.mark.parametrize(("spoken", "same"), [(True, False), (False, True)], ids=["words", "calls"])
def test_words_at_another_place_are_not_those_of_the_run_that_said_them(
    memory: LocalMemory, spoken: bool, same: bool
) -> None:
    """It was given something else since; others say `Done.`, too."""
    agent = Agent(memory)
    name = agent.ask().split()[0]
    agent.get("done")
    agent.ask()
    assert agent.view
    links = agent._links(agent.rounds[-1])
    told = Closing(agent.token, "acme", agent.view.session, "main", "answered", "empty", {}, "", links, count=4)
    memory.settle(told, agent.now_ms)
    agent.rounds, agent.spoken = [RoundFact("other", 4, ()), RoundFact("done", 10, ())], spoken
    agent.now_ms += lineage.LATEST_MS + 1  # too late for its head alone
    assert (agent.ask().split()[0] == name) is same


@pytest.mark.parametrize("mine", [0, 1], ids=["the older", "the younger"])
@pytest.mark.parametrize("session", ["", "s"], ids=["derived", "declared"])
def test_an_empty_answer_is_taken_up_by_the_run_that_it_was_given_to(
    memory: LocalMemory, mine: int, session: str
) -> None:
    """It says nothing; of equal runs neither the youngest is meant nor the one that has asked the same before."""
    equal = [Agent(memory, session=session, ids=name) for name in "xy"]
    for one in equal:
        one.ask()
        one.get("one")
    for one in (equal[1 - mine], equal[mine]):  # the other is given nothing, too, and has moved on since
        before = one.ask().split()[:2]
        one.get(NOTHING, answer="empty")
        if one is not equal[mine]:
            one.ask()
    assert equal[mine].ask().split()[:2] == before


@pytest.mark.parametrize(
    ("outcome", "answer", "same", "turn"),
    [
        ("failed", "", True, 1),
        ("abandoned", "", True, 1),
        ("answered", "empty", True, 2),
        ("answered", "text", False, 1),
    ],
)
def test_an_equal_first_request(memory: LocalMemory, outcome: str, answer: str, same: bool, turn: int) -> None:
    """After nothing it is the same run (a retry, or a turn after an empty answer); after content it is a new one."""
    first = Agent(memory)
    name = first.ask().split()[0]
    first.get("said", outcome=outcome, answer=answer)
    again = Agent(memory).ask().split()
    assert ((again[0] == name), int(again[2])) == (same, turn)


@pytest.mark.parametrize(("later_ms", "same"), [(lineage.RETRY_MS, True), (lineage.RETRY_MS + 1, False)])
def test_a_client_that_starts_again_meets_the_cut_for_a_while(memory: LocalMemory, later_ms: int, same: bool) -> None:
    first = Agent(memory)
    name = first.ask().split()[0]
    first.get("said", answer="own", close="cycle")
    again = Agent(memory, now_ms=START_MS + later_ms)
    assert (again.ask().split()[0] == name) is same
    assert again.view
    assert again.view.closed is same


@pytest.mark.parametrize(("later_ms", "mine"), [(lineage.RETRY_MS, True), (lineage.RETRY_MS + 1, False)])
def test_who_goes_on_after_our_ending_is_not_taken_for_a_younger_run(
    memory: LocalMemory, later_ms: int, mine: bool
) -> None:
    """Clients drop or rewrite what we say; the newest run of that head is not meant."""
    agent, younger = Agent(memory, ids="x"), Agent(memory, ids="y")
    names = []
    for one in (agent, younger):
        names.append(one.ask().split()[0])
        one.get("said")
    agent.ask()
    agent.get("ours", answer="own", close="cycle")
    agent.rounds.append(RoundFact("what nobody said", 4, (b"fact",)))
    agent.now_ms += later_ms
    assert agent.ask().split()[0] == names[0 if mine else 1]
    assert agent.view
    assert agent.view.closed is mine
    assert younger.ask().split()[0] == names[1]


@pytest.mark.parametrize("session", ["", "s"], ids=["derived", "declared"])
@pytest.mark.parametrize("ids", [("x", "y"), ("", "")], ids=["own ids", "same ids"])
@pytest.mark.parametrize(("later_ms", "mine"), [(lineage.RETRY_MS, True), (lineage.RETRY_MS + 1, False)])
def test_who_goes_on_after_our_ending_with_what_another_run_did_meets_it(
    memory: LocalMemory, session: str, ids: tuple[str, str], later_ms: int, mine: bool
) -> None:
    """It was given the same much nearer to the beginning: nobody gave this one what it goes on with."""
    other, agent = (Agent(memory, session=session, ids=name) for name in ids)
    did = other.ask().split()[:2]
    other.get("its own")
    for _ in range(3):
        ended = agent.ask().split()[:2]
        agent.get("same")
    agent.ask()
    agent.get("ours", answer="own", close="cycle")
    agent.rounds.append(RoundFact("its own", 8, (b"fact",)))
    agent.now_ms += later_ms
    assert agent.ask().split()[:2] == (ended if mine else did)
    assert agent.view
    assert agent.view.closed is mine
    assert other.ask().split()[:2] == did


def test_threads_of_a_named_session_have_their_own_ring_and_one_sum_of_turns(memory: LocalMemory) -> None:
    agents = [Agent(memory, session="s", head=head * 32) for head in "abc"]
    for agent in agents:
        agent.ask()
        agent.get("same")
    turns = [agent.ask() for agent in agents]
    assert [turn.split()[0] for turn in turns] == ["s"] * 3
    assert len({turn.split()[1] for turn in turns}) == 3
    assert [int(turn.split()[2]) for turn in turns] == [4, 5, 6]
    assert all(agent.view and agent.view.ring == (b"same",) for agent in agents)


def test_a_named_thread_is_taken_by_its_name(memory: LocalMemory) -> None:
    assert Agent(memory, session="s", thread="t").ask() == "s t 1"
    assert Agent(memory, session="s", thread="t", head="b" * 32).ask() == "s t 2"


def test_a_conversation_under_a_new_head_is_known_by_what_it_carries(memory: LocalMemory) -> None:
    agent = Agent(memory, ids="x")
    name = agent.ask().split()[0]
    agent.get("one")
    agent.head = "b" * 32
    assert agent.ask() == f"{name} main 2"


def test_sessions_of_others_are_not_found_by_links(memory: LocalMemory) -> None:
    first = Agent(memory, session="s")
    first.ask()
    first.get("one")
    other = Agent(memory, session="t", rounds=list(first.rounds))
    assert other.ask().split()[0] == "t"


def test_memory_is_bounded(memory: LocalMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    for table in ("SESSIONS", "THREADS", "LINKS", "LINKED"):
        monkeypatch.setattr(lineage, table, 8)
    for number in range(50):
        agent = Agent(memory, ids=str(number))
        agent.ask()
        agent.get("same")
    known = memory._lineage
    assert len(known._threads) == len(known._sessions) == len(known._links) == 8
    assert len(known._links["round/same"]) == 8
