"""The store while it answers, local memory while it does not, and what is owed afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from guardproxy.core.model import Line
from guardproxy.core.view import Closing, Identity, Opening, RoundFact, TurnFact, View
from guardproxy.errors import StoreError
from guardproxy.http import books as module
from guardproxy.http.books import Books

LINE = Line("session", "turns", 1, 3)
_tokens = itertools.count()


def opening(conversation: str = "c1", rounds: tuple[RoundFact, ...] = ()) -> Opening:
    identity = Identity("s", "t", "head", not rounds, (), "test")
    fact = TurnFact(conversation, 2, rounds, "", b"boundary", b"blank")
    return Opening(f"token-{next(_tokens)}", "org", identity, fact, (LINE,), 60_000)


def closing(of: Opening) -> Closing:
    return Closing(of.token, "org", "s", "t", "answered", "calls", {"turns": 1})


class Scripted:
    """A store that answers while `up`, and writes down what it was told."""

    def __init__(self, *, admitted: bool = True) -> None:
        self.up = True
        self.admitted = admitted
        self.begun: list[Opening] = []
        self.settled: list[Closing] = []
        self.renewed: list[tuple[str, int]] = []
        self.extended: list[tuple[str, str, tuple[Line, ...], int]] = []
        self.room = True
        self.forestalled: list[tuple[str, str]] = []
        self.metered: list[tuple[str, tuple[Line, ...]]] = []
        self.heard = False  # while it is away it may have heard what it was told

    def _reach(self) -> None:
        if not self.up:
            error = StoreError("away")
            error.unsent = not self.heard
            raise error

    async def forestall(self, org: str, token: str) -> None:
        self._reach()
        self.forestalled.append((org, token))

    async def begin(self, opening: Opening) -> View:
        self._reach()
        self.begun.append(opening)
        return View("s-of-the-store", "t", 7, 0, admitted=self.admitted)

    async def settle(self, closing: Closing) -> None:
        self._reach()
        self.settled.append(closing)

    @property
    def meter(self) -> Scripted:
        return self

    async def hold(self, _org: str, token: str, lines: Sequence[Line], *_: object) -> View:
        self._reach()
        self.metered.append((token, tuple(lines)))
        return View("", "", 0, 0, admitted=self.admitted or token.endswith("-late"))

    async def renew(self, org: str, token: str, lease_ms: int) -> None:
        self._reach()
        self.renewed.append((token, lease_ms))

    async def extend(self, org: str, token: str, lines: Sequence[Line], offset_ms: int = 0) -> bool:
        self._reach()
        self.extended.append((org, token, tuple(lines), offset_ms))
        return self.room


def books(store: Scripted, on_failure: str = "open") -> Books:
    return Books(store, on_failure=on_failure, now_ms=lambda: 1_000)


def never() -> Opening:
    raise AssertionError("the whole window is read only for a memory that has nothing")


def same(one: Opening) -> Callable[[], Opening]:
    return lambda: one


async def test_the_store_answers() -> None:
    store = Scripted()
    kept, one = books(store), opening()
    view = await kept.begin(one, never)

    assert (view.turn, view.degraded) == (7, False)
    await kept.renew(500)
    assert store.renewed == [(one.token, 500)]
    await kept.settle(closing(one))
    await kept.renew(500)
    assert len(store.renewed) == 1, "a settled hold is not renewed"
    assert await kept.pay() == 0
    assert (len(store.begun), len(store.settled)) == (1, 1)


async def test_what_was_not_admitted_is_not_renewed() -> None:
    store = Scripted(admitted=False)
    kept = books(store)
    await kept.begin(opening(), never)
    await kept.renew(500)

    assert store.renewed == []


HARD = {
    "of an org": (Line("org", "cost_microusd", 5, 100, "M:org:"), True),
    "of a key, for ever": (Line("key", "requests", 1, 10, "t:key:k1"), True),
    "of a model": (Line("model", "total_tokens", 1, 10, "d:model:m"), True),
    "that is used up": (Line("user", "cost_microusd", 1, 0, "w:user:ann"), True),
    "that is only counted": (Line("org", "cost_microusd", 5, -1, "M:org:"), False),
    "a rate": (Line("org", "requests", 1, 10, "m:org:"), False),
    "places": (Line("org", "concurrent_requests", 1, 10, "n:org:"), False),
    "of the session": (LINE._replace(limit=9), False),
}
"""A line, and whether it may not go on where workers would count it alone."""


@pytest.mark.parametrize("on_failure", ["open", "by_budget", "closed"])
@pytest.mark.parametrize("which", HARD)
async def test_who_goes_on_without_the_store(which: str, on_failure: str) -> None:
    store, (line, hard) = Scripted(), HARD[which]
    store.up = False
    kept, one = books(store, on_failure), replace(opening(), lines=(LINE, line))
    refused = on_failure == "closed" or (on_failure == "by_budget" and hard)
    if refused:
        with pytest.raises(StoreError, match=f"store.on_failure: {on_failure}") as told:
            await kept.begin(one, never)
        assert (told.value.status, told.value.code) == (503, "store_unavailable")
        with pytest.raises(StoreError, match=f"store.on_failure: {on_failure}"):
            await kept.meter("org", "t", (line,), 1, 0)
    else:
        assert (await kept.begin(one, same(one))).admitted == (line.limit != 0)
        assert await kept.meter("org", "t", (line,), 1, 0) is None
    other = opening()  # begun while the store was there
    store.up = True
    await kept.begin(other, never)
    store.up = False
    assert await kept.extend(other, (line,)) is not refused


@pytest.mark.parametrize("heard", [True, False])
async def test_what_was_refused_is_let_go_where_the_store_may_have_heard_of_it(heard: bool) -> None:
    store, line = Scripted(), HARD["of an org"][0]
    store.up, store.heard = False, heard
    kept, one = books(store, "by_budget"), replace(opening(), lines=(line,))
    with pytest.raises(StoreError):
        await kept.begin(one, never)
    with pytest.raises(StoreError):
        await kept.meter("org", "unread", (line,), 1, 0)
    store.up = True
    tokens = [one.token, "unread"] if heard else []

    assert await kept.pay() == len(tokens)
    assert store.forestalled == [("org", token) for token in tokens]
    assert [(told.token, told.outcome, told.spent) for told in store.settled] == [
        (token, "abandoned", {}) for token in tokens
    ]


async def test_what_holds_a_request_that_is_not_read_is_judged_by_its_whole_lines() -> None:
    store, line = Scripted(), HARD["of an org"][0]
    store.up = False
    counted = (line._replace(limit=-1),)
    with pytest.raises(StoreError, match="by_budget"):
        await books(store, "by_budget").meter("org", "t", counted, 1, 0, under=(line,))
    assert await books(store).meter("org", "t", counted, 1, 0, under=(line,)) is None


@pytest.mark.parametrize("refused", [False, True])
async def test_what_requests_that_are_not_read_spent_meanwhile_is_told_once(refused: bool) -> None:
    store, line = Scripted(admitted=not refused), HARD["of an org"][0]
    store.up = False
    kept = books(store)
    assert await kept.meter("org", "t", (line,), 1, 0) is None
    assert await kept.pay() == 0
    await kept.settle(Closing("t", "org", "", "", "answered", "", {"cost_microusd": 7}))
    assert await kept.pay() == 0, "still away"
    store.up = True
    assert await kept.pay() == 1
    assert await kept.pay() == 0
    free = (line._replace(limit=-1, hold=0),)
    assert store.metered == [("t", free), ("t-late", free)][: 1 + refused]
    told = [(one.token, one.spent) for one in store.settled]
    assert told == [("t-late" if refused else "t", {"cost_microusd": 7})]


async def test_a_turn_that_the_store_refused_unheard_is_counted_under_another_token() -> None:
    class Refuses(Scripted):
        async def begin(self, opening: Opening) -> View:
            view = await super().begin(opening)
            return view if opening.token.endswith("-late") else replace(view, admitted=False, short=(LINE,))

    store = Refuses()
    store.up = False
    kept, one = books(store), opening()
    await kept.begin(one, same(one))
    await kept.settle(closing(one))
    store.up = True
    assert await kept.pay() == 1
    assert [told.token for told in store.settled] == [f"{one.token}-late"]
    assert {(line.limit, line.hold) for one in store.begun for line in one.lines} == {(-1, 0)}


async def test_open_goes_on_with_what_the_request_shows() -> None:
    store = Scripted()
    store.up = False
    kept = books(store)
    shown = RoundFact("d1", 1, (b"fact",), {})
    one = opening("c2")
    view = await kept.begin(one, same(Opening(**{**fields(one), "fact": opening("c2", (shown,)).fact})))

    assert view.degraded
    assert view.ring == (b"fact",), "a worker's memory begins with the whole window"
    assert view.spent[0].used + view.spent[0].held >= 0
    await kept.settle(closing(one))
    turns = [await begin_and_settle(kept, f"c{n}") for n in range(3, 6)]
    assert [view.admitted for view in turns] == [True, True, False], "budgets are counted here meanwhile"


def fields(one: Opening) -> dict[str, object]:
    return {name: getattr(one, name) for name in Opening.__slots__}


async def begin_and_settle(kept: Books, conversation: str) -> View:
    one = opening(conversation)
    view = await kept.begin(one, same(one))
    await kept.settle(closing(one))
    return view


async def test_what_was_counted_here_is_told_once() -> None:
    store = Scripted()
    kept = books(store)
    store.up = False
    ones = [opening(f"c{n}") for n in range(3)]
    for one in ones:
        await kept.begin(one, same(one))
        await kept.settle(closing(one))
    assert await kept.pay() == 0, "still away"
    store.up = True
    assert await kept.pay() == 3
    assert await kept.pay() == 0

    assert [one.token for one in store.begun] == [one.token for one in ones]
    assert {(line.limit, line.hold) for one in store.begun for line in one.lines} == {(-1, 0)}, "it has happened"
    assert [(one.token, one.session) for one in store.settled] == [(one.token, "s-of-the-store") for one in ones]


async def test_a_store_that_goes_away_in_mid_call_is_owed_the_end() -> None:
    store = Scripted()
    kept, one = books(store), opening()
    await kept.begin(one, never)
    store.up = False
    await kept.renew(500)
    await kept.settle(closing(one))
    assert store.settled == []
    store.up = True
    assert await kept.pay() == 1

    assert len(store.begun) == 1, "it was begun there"
    assert [told.token for told in store.settled] == [one.token]


async def test_debts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Books(Scripted(), on_failure="open", now_ms=lambda: 0)._owed.maxlen == module.OWED
    store = Scripted()
    monkeypatch.setattr(module, "OWED", 5)
    kept = books(store)
    store.up = False
    for n in range(9):
        await begin_and_settle(kept, f"c{n}")
    store.up = True

    assert await kept.pay() == 5


@pytest.mark.parametrize(
    ("up", "on_failure", "room", "expected"),
    [
        (True, "open", True, True),
        (True, "open", False, False),
        (True, "closed", True, True),
        (True, "closed", False, False),
        (False, "open", False, True),  # nobody knows: a policy that is open goes on
        (False, "closed", True, False),
    ],
)
async def test_room_for_one_more_attempt(up: bool, on_failure: str, room: bool, expected: bool) -> None:
    store = Scripted()
    kept, one = books(store, on_failure), opening()
    await kept.begin(one, never)
    store.up, store.room = up, room

    assert await kept.extend(one, (LINE,)) is expected
    assert store.extended == ([("org", one.token, (LINE,), 0)] if up else [])
    await kept.renew(500)
    assert store.renewed == ([(one.token, 500)] if up else []), "one lease for all attempts"


async def test_a_turn_that_was_begun_here_is_extended_here() -> None:
    """The store has never heard of its token: what it says of it is no answer."""
    store = Scripted()
    store.up = False
    kept, one = books(store), opening()
    await kept.begin(one, same(one))
    store.up, store.room = True, False

    assert await kept.extend(one, (LINE,))
    assert store.extended == []
