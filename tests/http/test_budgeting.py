"""How budgets stand: the counters that requests really use, for each that a budget is for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from guardproxy.core.usage import payer
from guardproxy.core.windows import Budget
from guardproxy.errors import GuardError
from guardproxy.http.budgeting import Budgeting, Kept
from guardproxy.http.keyring import Keyring
from guardproxy.secrets import derive
from guardproxy.store.redis import Store
from guardproxy.store.registry import Org, Team
from tests.http.test_room import PRICES, USED, ask, at
from tests.live import SECRET, Said, live
from tests.store.test_tenants import ms

MATCH = "gpt-[45]*"
BUDGETS = {
    "org": (
        Budget("org", "requests", "day", 90, "Europe/Berlin"),
        Budget("team", "requests", "month", 90),
        Budget("key", "requests", "week", 90),
        Budget("user", "total_tokens", "total", 90_000, match="a*"),
        Budget("model", "cost_microusd", "total", 10**9, match=MATCH),
        Budget("org", "concurrent_requests", "now", 9),
    ),
    "team:web": (Budget("team", "cost_microusd", "hour", 10**9), Budget("user", "requests", "total", 90)),
    "key": (Budget("key", "output_tokens", "total", 90_000), Budget("model", "requests", "total", 90, match=MATCH)),
}


async def test_what_requests_count_is_what_is_shown(store: Store) -> None:
    ring = Keyring(store.registry, derive(SECRET).key_hash, "a test")
    await store.registry.put(Org("acme", budgets=BUDGETS["org"]))
    for team in ("web", "ops"):
        await store.registry.put(Team("acme", team, budgets=BUDGETS[f"team:{team}"] if team == "web" else ()))
    one, two = [await ring.make_key("acme", team, user_header="x-user") for team in ("web", "ops")]
    await store.registry.put(replace(one.key, budgets=BUDGETS["key"]))
    async with live(store, auth="keys", upstream={"api_key": "sk-provider"}, prices=PRICES) as running:
        running.offset_ms = at("2026-11-30T12:00:00+00:00")
        running.provider.script = lambda _got: Said("ok", usage=USED)
        for made, user, model in ((one, "ann", "gpt-4o"), (one, "bob", "gpt-3"), (two, "al", "gpt-5")):
            headers = {"Authorization": f"Bearer {made.secret}", "x-user": user}
            assert (await ask(running, headers=headers, model=model)).status == 200
        now_ms = await store.usages.now_ms() + running.offset_ms
    names = {payer((made.key.team, made.key.id, user, "", "")): (1,) for made, user in ((one, "bob"), (two, "al"))}
    await store.usages.add("acme", names, running.offset_ms)  # beside those of the turns
    budgeting = Budgeting(store, "acme")
    found = {}
    for kept in await budgeting.every():
        standing, ends = await budgeting.standing(kept, now_ms)
        said = kept.of.replace(one.key.id, "one"), kept.budget.scope, kept.budget.dimension
        found[said] = ({who.name: who.used for who in standing}, ends)
    cost = 100 * 10 + 50 * 100
    both = {one.key.id: 2, two.key.id: 1}
    assert {said: used for said, (used, _) in found.items()} == {
        ("org", "org", "requests"): {"": 3},
        ("org", "team", "requests"): {"web": 2, "ops": 1},
        ("org", "key", "requests"): both,
        ("org", "user", "total_tokens"): {"ann": 150, "al": 150},
        ("org", "model", "cost_microusd"): {"": 2 * cost},
        ("org", "org", "concurrent_requests"): {"": 0},
        ("team:web", "team", "cost_microusd"): {"": 2 * cost},
        ("team:web", "user", "requests"): {"ann": 1, "bob": 1},
        ("key:one", "key", "output_tokens"): {"": 100},
        ("key:one", "model", "requests"): {"": 1},
    }
    ends = {said[2]: end for said, (_, end) in found.items() if said[:2] in (("org", "org"), ("team:web", "team"))}
    noon = ms("2026-11-30T12:00:00+00:00")
    assert ends == {"requests": noon + 11 * 3_600_000, "concurrent_requests": 0, "cost_microusd": noon + 3_600_000}


async def test_held_and_who_used_most_first(store: Store) -> None:
    budget = Budget("user", "requests", "total", 9)
    for name, used, held in (("ann", 1, 0), ("bob", 3, 1), ("al", 0, 4)):
        await store._client.command("HSET", f"gp:{{acme}}:w:t:user:{name}", "u:requests", used, "h:requests", held)
        await store.usages.add("acme", {payer(("", "", name, "", "")): (1,)})
    found, _ = await Budgeting(store, "acme").standing(Kept("acme", "org", budget), await store.usages.now_ms())
    assert [(one.name, one.used, one.held) for one in found] == [("al", 0, 4), ("bob", 3, 1), ("ann", 1, 0)]


@pytest.mark.parametrize("of", ["org", "team:web", "key:k00000000000a", "team:", "world", "org:x", "file"])
async def test_documents_that_are_not_there(store: Store, of: str) -> None:
    with pytest.raises(GuardError) as wrong:
        await Budgeting(store, "acme").set(of, Budget("user", "requests", "total", 9))
    assert wrong.value.status == (409 if of == "file" else 404)


async def test_a_change_that_came_before_is_not_lost(store: Store) -> None:
    await store.registry.put(Org("acme"))
    budgeting = Budgeting(store, "acme")
    for scope in ("team", "key", "user", "model"):
        await budgeting.set("org", Budget(scope, "requests", "total", 9))
    assert len(await budgeting.every()) == 4
    assert len({kept.id for kept in await budgeting.every()}) == 4
