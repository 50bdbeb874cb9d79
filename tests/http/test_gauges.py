"""How things stand, as the parent tells it: runs by state, budgets of orgs and teams in their own units."""

from __future__ import annotations

import pytest

from guardproxy.core.windows import Budget
from guardproxy.errors import StoreError
from guardproxy.http.gauges import Gauges
from guardproxy.http.keyring import Keyring
from guardproxy.secrets import derive
from guardproxy.store.redis import Store
from guardproxy.store.registry import Org, Team
from guardproxy.telemetry import Telemetry
from tests.http.test_room import PRICES, USED, ask
from tests.live import SECRET, Said, live
from tests.store.kit import Agent
from tests.telemetry.reports import settings

COST = 100 * 10 + 50 * 100
"""Micro-dollars of one request with USED at PRICES."""

ORG = (
    Budget("org", "cost_microusd", "day", 2 * 10**6),
    Budget("team", "requests", "month", 90, match="w*"),
    Budget("key", "requests", "week", 90),
    Budget("user", "requests", "total", 90),
)
TEAM = (Budget("team", "cost_microusd", "total", 10**9),)
IN_FILE = (Budget("org", "requests", "day", 7),)


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry(settings(), b"k" * 32, "test")


def shown(telemetry: Telemetry, name: str) -> dict[tuple[str, ...], float]:
    return {labels: cell[0] for labels, cell in telemetry.snapshot().series.get(name, {}).items()}


async def test_budgets_of_orgs_and_teams(store: Store, telemetry: Telemetry) -> None:
    ring = Keyring(store.registry, derive(SECRET).key_hash, "a test")
    await store.registry.put(Org("acme", budgets=ORG))
    for team in ("web", "ops"):
        await store.registry.put(Team("acme", team, budgets=TEAM if team == "web" else ()))
    made = await ring.make_key("acme", "web", user_header="x-user")
    async with live(store, telemetry, auth="keys", upstream={"api_key": "sk-provider"}, prices=PRICES) as running:
        running.provider.script = lambda _got: Said("ok", usage=USED)
        running.settled = True
        for _ in range(2):
            answer = await ask(running, headers={"Authorization": f"Bearer {made.secret}", "x-user": "ann"})
            assert answer.status == 200
    gauges = Gauges(store, telemetry, lambda: IN_FILE)
    await gauges.step()

    names = {
        ("acme", "", "org", "cost_usd", "day"): (2.0, 2 * COST / 1e6),
        ("acme", "web", "team", "requests", "month"): (90.0, 2.0),
        ("acme", "web", "team", "cost_usd", "total"): (1000.0, 2 * COST / 1e6),
    }
    limit, used = (shown(telemetry, f"guardproxy.budget.{which}") for which in ("limit", "used"))
    end, now = shown(telemetry, "guardproxy.budget.window.end"), await store.usages.now_ms() / 1000
    mine = {labels: (limit[labels], used[labels]) for labels in limit if labels[0] == "acme"}
    assert mine == names
    assert end["acme", "web", "team", "cost_usd", "total"] == 0
    assert now < end["acme", "", "org", "cost_usd", "day"] <= now + 86400
    assert made.key.id not in repr((limit, used))
    assert "ann" not in repr((limit, used))
    cost = telemetry.snapshot().series["guardproxy.cost.usd"]
    assert {labels[:2] for labels in cost} == {("acme", "web")}

    await store.registry.put(Org("acme"), (await store.registry.org("acme")).etag)  # type: ignore[union-attr]
    await gauges.round()
    assert ("acme", "", "org", "cost_usd", "day") not in shown(telemetry, "guardproxy.budget.limit")


async def test_the_tighter_of_two_is_shown(store: Store, telemetry: Telemetry) -> None:
    await Agent(store, session="s").turn()
    budgets = (Budget("org", "requests", "day", 9), Budget("org", "requests", "day", 5, "Asia/Tokyo"))
    await store.registry.put(Org("acme", budgets=budgets))
    await Gauges(store, telemetry, tuple).round()

    assert shown(telemetry, "guardproxy.budget.limit") == {("acme", "", "org", "requests", "day"): 5}


async def test_runs_by_state(store: Store, telemetry: Telemetry) -> None:
    for name, closing in (("a", {}), ("b", {"status": "need_human"}), ("c", {"close": "cycle"}), ("d", {})):
        agent = Agent(store, session=name)
        await agent.begin()
        await agent.settle("own", **closing)  # type: ignore[arg-type]
    gauges = Gauges(store, telemetry, tuple)
    await gauges.step()
    first = shown(telemetry, "guardproxy.sessions.active")
    await store.runs.pause("acme", "d", "ann")
    await gauges.step()  # not yet time
    same = shown(telemetry, "guardproxy.sessions.active")
    await gauges.round()

    assert first == same == {("active",): 2, ("paused",): 0, ("need_human",): 1, ("waiting",): 0}
    assert shown(telemetry, "guardproxy.sessions.active")["paused",] == 1
    assert shown(telemetry, "guardproxy.sessions.active")["active",] == 1


async def test_an_org_that_is_away_costs_only_its_own_numbers(
    store: Store, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for org in ("acme", "away"):
        await Agent(store, session="s").turn() if org == "acme" else await store._register("away")
    tally = store.runs.tally

    async def some(org: str) -> dict[str, int]:
        if org == "away":
            raise StoreError("gone")
        return await tally(org)

    monkeypatch.setattr(store.runs, "tally", some)
    await Gauges(store, telemetry, tuple).round()

    assert shown(telemetry, "guardproxy.sessions.active")["active",] == 1
