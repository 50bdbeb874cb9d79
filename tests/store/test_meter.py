"""Holds outside of any session: the windows and limits of `begin`, all or nothing, and given back like others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from guardproxy.core.model import Line
from guardproxy.core.view import Closing, View
from guardproxy.core.windows import CALENDAR, CONCURRENT, NOW, RATES
from guardproxy.errors import StoreError
from guardproxy.store.meter import REFUSED_MS, _view
from guardproxy.store.redis import Store
from tests.store.kit import ORG, Agent, token, used_held
from tests.store.test_tenants import BOUNDARIES, MINUTE, ZONE, line, ms, offset

ONE, AT_ONCE = line("total", "requests", 1, 3, 0), line(NOW, CONCURRENT, 1, 2, 0)


def done(name: str, requests: int = 1) -> Closing:
    return Closing(name, ORG, "", "", "answered", "", {"requests": requests})


async def hold(store: Store, *lines: Line, name: str = "", lease_ms: int = MINUTE, offset_ms: int = 0) -> View:
    return await store.meter.hold(ORG, name or token(), lines, lease_ms, offset_ms)


@pytest.mark.parametrize(("at", "day", "week", "month"), BOUNDARIES[:3])
async def test_the_windows_are_those_of_begin(store: Store, at: str, day: str, week: str, month: str) -> None:
    lines = tuple(line(kind, "requests", 1, 9, ms(at)) for kind in (*CALENDAR, *RATES, "total", NOW))
    view = await hold(store, *lines, offset_ms=offset(at))
    names = [f"d:org::{ZONE}:{day}", f"w:org::{ZONE}:{week}", f"M:org::{ZONE}:{month}"]
    names += [f"m:org::{ms(at) // MINUTE}", f"h:org::{ms(at) // (60 * MINUTE)}", "t:org:", "n:org:"]
    assert [await used_held(store, f"w:{name}", "requests") for name in names] == [(0, 1)] * 7
    assert [(one.used, one.held) for one in view.spent] == [(0, 1)] * 7
    beside = await Agent(store, session="s", lines=lines, offset_ms=offset(at)).begin()
    assert [(one.used, one.held) for one in beside.spent if one.line.key] == [(0, 2)] * 7
    left = [await store._client.command("PTTL", f"gp:{{{ORG}}}:w:{name}") for name in names]
    assert [one > 0 for one in left] == [True] * 5 + [False, True]


async def test_all_or_nothing_and_the_view_says_what_was_short(store: Store) -> None:
    assert [(await hold(store, ONE, AT_ONCE)).admitted for _ in range(2)] == [True, True]
    view = await hold(store, ONE, AT_ONCE)
    assert (view.admitted, view.short, [(one.used, one.held) for one in view.spent]) == (
        False, (AT_ONCE,), [(0, 2), (0, 2)],
    )  # fmt: skip
    assert await used_held(store, "w:t:org:", "requests") == (0, 2)
    unlimited = await hold(store, ONE._replace(limit=-1), AT_ONCE._replace(limit=-1))
    assert unlimited.admitted


@pytest.mark.parametrize("requests", [0, 1])
async def test_what_is_sent_twice_counts_once(store: Store, requests: int) -> None:
    for _ in range(2):
        assert (await hold(store, ONE, AT_ONCE, name="one")).spent[0].held == 1
    for _ in range(2):
        await store.settle(done("one", requests))
    assert (await hold(store, ONE, AT_ONCE, name="one")).admitted  # late, and changes nothing
    found = [await used_held(store, "w:t:org:", "requests"), await used_held(store, "w:n:org:", CONCURRENT)]
    assert found == [(requests, 0), (0, 0)]
    full = line("total", "requests", 9, 3, 0)
    assert [(await hold(store, full, name="two")).short for _ in range(2)] == [(full,), (full,)]


@pytest.mark.parametrize("first", [True, False], ids=["begun before", "begun after"])
async def test_what_nobody_waits_for_holds_nothing_whichever_comes_first(store: Store, first: bool) -> None:
    agent = Agent(store, session="s", lines=(ONE, AT_ONCE))
    if first:
        await hold(store, ONE, AT_ONCE, name="meter")
        await agent.begin(token="turn")
    for name in ("meter", "turn"):
        await store.meter.forestall(ORG, name)
        await store.settle(replace(done(name, 0), outcome="abandoned"))
    if not first:
        with pytest.raises(StoreError):
            await hold(store, ONE, AT_ONCE, name="meter")
        with pytest.raises(StoreError):
            await agent.begin(token="turn")
    found = [await used_held(store, "w:t:org:", "requests"), await used_held(store, "w:n:org:", CONCURRENT)]
    assert found == [(0, 0), (0, 0)]
    left = await store._client.command("PTTL", f"gp:{{{ORG}}}:k:turn")
    assert isinstance(left, int)
    assert 0 < left <= REFUSED_MS
    assert await store.sweep(10 * MINUTE) == []
    view = await agent.begin()
    assert (view.admitted, view.turn) == (True, 1)


async def test_a_dead_workers_hold_is_swept_and_a_long_calls_is_not(store: Store) -> None:
    await hold(store, ONE, AT_ONCE, name="dead", lease_ms=1000)
    await hold(store, ONE, AT_ONCE, name="long", lease_ms=1000)
    await store.renew(ORG, "long", MINUTE)
    assert [one.token for one in await store.sweep(2000)] == ["dead"]
    assert await used_held(store, "w:t:org:", "requests") == (1, 1)
    assert await used_held(store, "w:n:org:", CONCURRENT) == (0, 1)
    assert await store.idle_sessions(-MINUTE) == []
    assert await store.list_sessions(ORG) == []


async def test_in_a_panic_no_limit_holds(store: Store) -> None:
    await hold(store, ONE)
    await store.panic(True)
    assert all([(await hold(store, ONE)).admitted for _ in range(4)])


@pytest.mark.parametrize("reply", [None, b"", b"x" * 31, 7])
def test_an_answer_that_is_none(reply: object) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        _view(reply, (ONE,))
