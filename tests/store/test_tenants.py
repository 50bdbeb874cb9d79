"""Budgets of tenants in the store: which window counts, how long it is kept, and that no limit is ever passed."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import pytest

from guardproxy import _zones
from guardproxy.core.model import Line
from guardproxy.core.usage import FIELDS, day_of, days, payer
from guardproxy.core.windows import CALENDAR, CONCURRENT, NOW, RATES, chosen, key, window
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.store.kit import ORG, Agent, token, used_held

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
ZONE = "Europe/Berlin"


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def offset(text: str) -> int:
    """What makes the store's clock show this moment."""
    return ms(text) - round(time.time() * 1000)


def line(kind: str, dimension: str, hold: int, limit: int, at_ms: int, who: str = "") -> Line:
    name, _ = key(kind, "org", who, _zones.zone(ZONE if kind in CALENDAR else "UTC", at_ms), at_ms)
    return Line("org", dimension, hold, limit, name)


BOUNDARIES = [
    # the store's clock, the windows then: day, week, month
    ("2026-03-28T22:59:50+00:00", "2026-03-28", "2026-W13", "2026-03"),
    ("2026-03-28T23:00:10+00:00", "2026-03-29", "2026-W13", "2026-03"),  # a day of 23 hours begins
    ("2026-03-29T21:59:50+00:00", "2026-03-29", "2026-W13", "2026-03"),
    ("2026-03-29T22:00:10+00:00", "2026-03-30", "2026-W14", "2026-03"),
    ("2026-10-25T22:59:50+00:00", "2026-10-25", "2026-W43", "2026-10"),  # one of 25 ends
    ("2026-10-25T23:00:10+00:00", "2026-10-26", "2026-W44", "2026-10"),
    ("2028-02-28T23:00:10+00:00", "2028-02-29", "2028-W09", "2028-02"),
    ("2028-02-29T23:00:10+00:00", "2028-03-01", "2028-W09", "2028-03"),
    ("2026-12-31T22:59:50+00:00", "2026-12-31", "2026-W53", "2026-12"),
    ("2026-12-31T23:00:10+00:00", "2027-01-01", "2026-W53", "2027-01"),
]


@pytest.mark.parametrize("skew_ms", [0, -5 * SECOND, 5 * SECOND, -20 * MINUTE, 20 * MINUTE, -23 * HOUR, 23 * HOUR])
@pytest.mark.parametrize(("at", "day", "week", "month"), BOUNDARIES)
async def test_the_stores_clock_says_which_window_it_is(
    store: Store, at: str, day: str, week: str, month: str, skew_ms: int
) -> None:
    """A worker whose clock is wrong holds against the same counters as all others."""
    lines = tuple(line(kind, "requests", 1, 9, ms(at) + skew_ms) for kind in (*CALENDAR, *RATES, "total", NOW))
    view = await Agent(store, session="s", lines=lines, offset_ms=offset(at)).begin()
    names = [f"d:org::{ZONE}:{day}", f"w:org::{ZONE}:{week}", f"M:org::{ZONE}:{month}"]
    names += [f"m:org::{ms(at) // MINUTE}", f"h:org::{ms(at) // HOUR}", "t:org:", "n:org:"]
    assert [await used_held(store, f"w:{name}", "requests") for name in names] == [(0, 1)] * 7
    assert [chosen(one.key, view.now_ms)[0] for one in lines] == names  # as the client is told
    assert abs(view.now_ms - ms(at)) < 5 * SECOND
    for one, kind in zip(lines, CALENDAR, strict=False):
        assert chosen(one.key, view.now_ms)[1] == window(_zones.zone(ZONE, view.now_ms), kind, view.now_ms).end_ms


LIVES = [
    ("minute", 3 * HOUR),
    ("hour", 3 * HOUR),
    ("day", 35 * DAY),
    ("week", 35 * DAY),
    ("month", 35 * DAY),
    ("total", None),
    (NOW, 35 * DAY),
]


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize(("kind", "most"), LIVES)
async def test_counters_live_as_long_as_their_window_may_be_asked_for(
    store: Store, kind: str, most: int | None, lost: bool
) -> None:
    one = line(kind, "requests", 1, 9, ms("2026-11-30T10:00:00+00:00"))
    agent = Agent(store, session="s", lines=(one,), offset_ms=offset("2026-11-30T10:00:00+00:00"))
    view = await agent.begin()
    where = f"gp:{{{ORG}}}:w:{chosen(one.key, view.now_ms)[0]}"
    if lost:
        await store._client.command("DEL", where)
    else:
        assert_life(await store._client.command("PTTL", where), most)
    await agent.settle(spent={"requests": 1})
    assert await used_held(store, where.partition("}:")[2], "requests") == (1, 0)
    assert_life(await store._client.command("PTTL", where), most)


def assert_life(left: object, most: int | None) -> None:
    assert left == -1 if most is None else most - MINUTE < int(str(left)) <= most


async def test_what_is_used_goes_to_the_window_it_was_held_in(store: Store) -> None:
    late = "2026-11-30T22:59:58+00:00"
    agent = Agent(store, session="s", lines=(line("month", "tokens", 10, 100, ms(late)),), offset_ms=offset(late))
    await agent.begin()
    agent.offset_ms += MINUTE
    await agent.settle(spent={"tokens": 7})
    assert await used_held(store, f"w:M:org::{ZONE}:2026-11", "tokens") == (7, 0)
    assert await used_held(store, f"w:M:org::{ZONE}:2026-12", "tokens") == (0, 0)


@pytest.mark.parametrize("end", ["settled", "swept", "failed"])
async def test_concurrency_is_over_with_the_call_however_it_ends(store: Store, end: str) -> None:
    lines = (line(NOW, CONCURRENT, 1, 1, 0), line("total", "requests", 1, 9, 0))
    agent = Agent(store, session="s", lines=lines, lease_ms=1000)
    for number in range(3):
        assert (await agent.begin()).admitted
        beside = await Agent(store, session="other", lines=lines).begin()
        assert [one.dimension for one in beside.short] == [CONCURRENT]
        if end == "swept":
            assert len(await store.sweep(2000)) == 1
        else:
            await agent.settle(outcome="failed" if end == "failed" else "answered", spent={"requests": 1})
        assert await used_held(store, "w:n:org:", CONCURRENT) == (0, 0)
        assert await used_held(store, "w:t:org:", "requests") == (number + 1, 0)


async def test_a_further_attempt_is_no_further_request(store: Store) -> None:
    lines = (line(NOW, CONCURRENT, 1, 1, 0), line("total", "requests", 1, 1, 0), line("total", "tokens", 5, 20, 0))
    agent = Agent(store, session="s", lines=lines)
    await agent.begin()
    assert agent.last
    fits = [await store.extend(ORG, agent.last.token, lines) for _ in range(4)]
    assert fits == [True, True, True, False]
    assert await used_held(store, "w:t:org:", "tokens") == (0, 20)
    await agent.settle(spent={"requests": 1, "tokens": 11})
    found = [await used_held(store, "w:t:org:", name) for name in ("requests", "tokens")]
    assert found == [(1, 0), (11, 0)]


async def test_counters_without_a_value_are_zero_and_the_limit_holds(store: Store) -> None:
    one = line("total", "tokens", 5, 9, 0)
    await store._client.command("HSET", f"gp:{{{ORG}}}:w:t:org:", "other", "x")
    first, second = Agent(store, session="a", lines=(one,)), Agent(store, session="b", lines=(one,))
    assert [(await agent.begin()).admitted for agent in (first, second)] == [True, False]


async def test_amounts_are_exact_to_the_last_unit(store: Store) -> None:
    high = 2**53 - 7
    await store._client.command("HSET", f"gp:{{{ORG}}}:w:t:org:", "u:tokens", high - 3)
    agent = Agent(store, session="a", lines=(line("total", "tokens", 3, high, 0),))
    assert (await agent.begin()).admitted
    await agent.settle(spent={"tokens": 2})
    assert await used_held(store, "w:t:org:", "tokens") == (high - 1, 0)


# ------------------------------------------------------------------------------------------------------ the whole load

AT_ONCE, WORKERS, ORGS, TEAMS, KEYS, LEASE = 500, 4, 3, 4, 10, 600_000


@dataclass
class Shadow:
    """What must be true of each counter, known beside the store. `sure`: what it has counted for certain by now."""

    limits: dict[tuple[str, str], int]
    sure: Counter[tuple[str, str]] = field(default_factory=Counter)
    given_back: Counter[tuple[str, str]] = field(default_factory=Counter)  # of `sure`, ever
    used: Counter[tuple[str, str]] = field(default_factory=Counter)
    rows: Counter[tuple[str, tuple[str, ...], str]] = field(default_factory=Counter)  # of the ledger of usage
    admitted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    killed: int = 0


def load_lines(calls: int, org: str, team: str, name: str, model: str, hold: int, at_ms: int) -> tuple[Line, ...]:
    zone = _zones.zone(ZONE, at_ms)
    rows = (
        ("org", "month", "", "cost_microusd", hold, 84 * calls),
        ("team", "day", team, "cost_microusd", hold, 24 * calls),
        ("key", "week", name, "total_tokens", hold, 5 * calls),
        ("user", "total", name, "requests", 1, max(2, calls // 250)),
        ("model", "total", model, "cost_microusd", hold, 45 * calls),
        ("org", NOW, "", CONCURRENT, 1, 50),
    )
    return tuple(
        Line(scope, dimension, amount, limit, key(kind, scope, who, zone, at_ms)[0])
        for scope, kind, who, dimension, amount, limit in rows
    )


async def test_no_admission_passes_a_limit_whoever_is_killed_and_whatever_is_sent_twice(server: Embedded) -> None:
    await no_admission_passes_a_limit(server, 1500)


@pytest.mark.verify
async def test_no_admission_of_ten_thousand_passes_a_limit(own_server: Embedded) -> None:
    """On a server of their own, to which nobody listens: reading along costs more than calling."""
    await no_admission_passes_a_limit(own_server, 10_000)


async def no_admission_passes_a_limit(server: Embedded, calls: int) -> None:
    stores = [await Store.connect(socket_path=server.socket_path, timeout_ms=20_000) for _ in range(WORKERS)]
    await stores[0]._client.command("FLUSHALL")
    chance, shadow, gate = random.Random(os.environ.get("SEED", "tenants")), Shadow({}), asyncio.Semaphore(AT_ONCE)
    at_ms = round(time.time() * 1000)
    began, clock = time.process_time(), time.perf_counter()

    async def call(number: int) -> None:
        async with gate:
            for attempt in range(50):
                if not await one_call(calls, stores, shadow, chance, f"{number}.{attempt}", at_ms):
                    return
                await asyncio.sleep(0.05)  # as the proxy does for a rate

    await asyncio.gather(*(call(number) for number in range(calls)))
    took, lasted = time.process_time() - began, time.perf_counter() - clock
    swept = await stores[0].sweep(LEASE + MINUTE)
    while more := await stores[0].sweep(LEASE + MINUTE):
        swept += more
    assert len(swept) == shadow.killed > 0
    assert len(shadow.refused) == 6 or calls > 2000  # each limit refused something; of many calls the org's does it
    assert shadow.admitted > calls // 10
    assert await standing(stores[0]) == {where: (amount, 0) for where, amount in shadow.used.items()}
    assert await ledger(stores[0], at_ms) == shadow.rows
    print(f"\n{calls} calls: {shadow.admitted} admitted, {shadow.killed} killed, {took / calls * 1e6:.0f} us of Python")
    print(f"{shadow.admitted / lasted:.0f} holds a second, taken and settled")
    print(f"refused by {dict(shadow.refused)}")
    for one in stores:
        await one.close()


async def ledger(store: Store, at_ms: int) -> Counter[tuple[str, tuple[str, ...], str]]:
    """Requests and cost of all rows."""
    found: Counter[tuple[str, tuple[str, ...], str]] = Counter()
    for org in (f"org{number}" for number in range(ORGS)):
        for day in days(day_of(at_ms), day_of(await store.usages.now_ms() + LEASE + MINUTE)):  # as it is swept
            for row in await store.usages.day(org, day):
                for name in ("requests", "cost_microusd", "holds_expired"):
                    found[org, row.by, name] += row.sums[FIELDS.index(name)]
    return found


async def one_call(
    calls: int, stores: list[Store], shadow: Shadow, chance: random.Random, number: str, at_ms: int
) -> bool:
    """Whether it is to be tried again: nothing but a rate was in the way."""
    org, team = f"org{chance.randrange(ORGS)}", f"team{chance.randrange(TEAMS)}"
    name = f"{team}-key{chance.randrange(KEYS)}"
    hold = chance.randrange(1, 4000)
    real = hold * chance.randrange(0, 111) // 100
    model = chance.choice(["small-*", "large-*"])
    lines = load_lines(calls, org, team, name, model, hold, at_ms)
    who = (team, name, name, model, "")
    store, twice = chance.choice(stores), chance.random() < 0.2
    agent = Agent(store, session=f"s{number}", lines=lines, lease_ms=LEASE)
    opening = agent.opening(org=org, token=token(), payer=payer(who), need=(hold, 0, hold))
    before = [shadow.sure[where(org, one, at_ms)] + shadow.given_back[where(org, one, at_ms)] for one in lines]
    views = await asyncio.gather(*(store.begin(opening) for _ in range(1 + twice)))
    assert all(view.admitted == views[0].admitted for view in views)
    agent.last, agent.view = opening, views[0]
    if not views[0].admitted:
        shadow.refused.update(f"{one.scope} {one.dimension}" for one in views[0].short)
        assert any(
            one.used + one.held + one.line.hold > one.line.limit for one in views[0].spent if one.line.limit >= 0
        )
        return {one.dimension for one in views[0].short} == {CONCURRENT}
    shadow.admitted += 1
    spent = {"cost_microusd": real, "total_tokens": real, "requests": 1, "turns": 1}
    for one, stood in zip(lines, before, strict=True):
        place = where(org, one, at_ms)
        assert stood - shadow.given_back[place] + one.hold <= one.limit, "admitted above a limit"
        shadow.sure[place] += one.hold
    for one in views[0].spent:
        assert one.used + one.held <= one.line.limit
    await asyncio.sleep(chance.random() * 0.01)
    if chance.random() < 0.05:  # its worker is killed
        shadow.killed += 1
        for one in lines:
            shadow.used[where(org, one, at_ms)] += 0 if one.dimension == CONCURRENT else one.hold
        shadow.rows.update(
            {(org, who, "requests"): 1, (org, who, "cost_microusd"): hold, (org, who, "holds_expired"): 1}
        )
        return False
    for one in lines:  # while it is settled it may be counted either way
        less = max(0, one.hold - spent.get(one.dimension, 0))
        shadow.sure[where(org, one, at_ms)] -= less
        shadow.given_back[where(org, one, at_ms)] += less
    closing = replace(agent.closing(spent=spent, charge=(1, real, 0, 0, 0, 0, real)), org=org)
    shadow.rows.update({(org, who, "requests"): 1, (org, who, "cost_microusd"): real})
    await asyncio.gather(*(chance.choice(stores).settle(closing) for _ in range(1 + (chance.random() < 0.2))))
    for one in lines:
        shadow.sure[where(org, one, at_ms)] += max(0, spent.get(one.dimension, 0) - one.hold)
        shadow.used[where(org, one, at_ms)] += spent.get(one.dimension, 0)
    return False


def where(org: str, line: Line, at_ms: int) -> tuple[str, str]:
    return f"gp:{{{org}}}:w:{chosen(line.key, at_ms)[0]}", line.dimension


async def standing(store: Store) -> Mapping[tuple[str, str], tuple[int, int]]:
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for raw in await store._client.command("KEYS", "gp:*:w:*"):
        flat = await store._client.command("HGETALL", raw)
        fields = {name.decode(): int(amount) for name, amount in zip(flat[::2], flat[1::2], strict=True)}
        for name in {name[2:] for name in fields}:
            found[raw.decode(), name] = (fields.get(f"u:{name}", 0), fields.get(f"h:{name}", 0))
    return found


@pytest.mark.parametrize("metered", [False, True], ids=["read", "passed on"])
async def test_what_a_user_has_used_in_all_is_kept_for_400_days_after_the_last_request(
    store: Store, metered: bool
) -> None:
    """Users are made up by clients: each would be kept for ever. Who goes on is remembered."""
    windows = ("t:user:ann", "t:user:team web/ann", "t:org:", "t:key:k1", "d:user:ann:UTC:2026-11-30")
    lines = tuple([Line("user", "requests", 1, 99, name) for name in windows])
    days = {}
    for number in range(3):
        agent = Agent(store, session=f"s{number}", lines=lines)
        if metered:
            held = token()
            assert (await store.meter.hold(ORG, held, lines, MINUTE)).admitted
            closing = replace((await began(agent)).closing(), token=held, spent={"requests": 1})
        else:
            await agent.begin()
            closing = agent.closing(spent={"requests": 1})
        for name in windows:
            left = await store._client.command("PTTL", f"gp:{{{ORG}}}:w:{name}")
            assert isinstance(left, int)
            days[name] = round(left / DAY, 1) if left > 0 else left
        assert days == dict(zip(windows, (400 - 300 * (number > 0), 400 - 300 * (number > 0), -1, -1, 35), strict=True))
        await store.settle(closing)
        for name in windows[:2]:
            assert await used_held(store, f"w:{name}", "requests") == (number + 1, 0)
            assert round(await store._client.command("PTTL", f"gp:{{{ORG}}}:w:{name}") / DAY) == 400  # type: ignore[operator]
            await store._client.command("PEXPIRE", f"gp:{{{ORG}}}:w:{name}", 100 * DAY)


async def began(agent: Agent) -> Agent:
    """An agent whose last request is one without any lines of a tenant."""
    lines, agent.lines = agent.lines, ()
    await agent.begin()
    agent.lines = lines
    return agent
