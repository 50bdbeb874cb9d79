"""Which policy holds for a request, through the front door: by key, model, agent; a client's wish may only tighten."""

from __future__ import annotations

import logging
import re
import timeit
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from guardproxy.core.tenant import Tenant
from guardproxy.core.windows import Budget
from guardproxy.http import chosen
from guardproxy.http.chosen import Chosen, Match, Policies
from guardproxy.http.keyring import Keyring
from guardproxy.secrets import derive
from guardproxy.store.redis import Store
from tests.live import SECRET, Answer, Json, live, unique

HASH = derive(SECRET).key_hash
NAMED: dict[str, Any] = {
    "watched": {"mode": "observe", "models": ["small-*"]},
    "bot": {"limits": {"session": {"turns": 7}}, "models": ["m"], "agents": ["bot-*"]},
    "short": {"limits": {"session": {"turns": 3}}},
    "open": {"unmetered": "pass", "limits": {"session": {"turns": None}}},
}
POLICY = {"limits": {"session": {"turns": 9}}}


def ask(model: str = "m") -> Json:
    return {"model": model, "messages": [{"role": "user", "content": unique("hi")}]}


def turns_left(answer: Answer) -> str:
    """What tells the policies of these tests apart."""
    found = re.search(r'"turns":(\d+)', answer.headers.get("x-guardproxy-budget-remaining", ""))
    return found[1] if found else "none"


CASES: dict[str, tuple[Json, dict[str, str], str]] = {
    "the default": (ask(), {}, "8"),
    "a model, whose policy only watches": (ask("small-1"), {}, "none"),
    "a model and an agent": (ask(), {"x-guardproxy-agent": "bot-7"}, "6"),
    "the agent alone": (ask("large"), {"x-guardproxy-agent": "bot-7"}, "8"),
    "a wish that is tighter": (ask(), {"x-guardproxy-policy": "short"}, "2"),
    "a wish beside an agent": (ask(), {"x-guardproxy-agent": "bot-7", "x-guardproxy-policy": " short "}, "2"),
    "the default by its name": (ask(), {"x-guardproxy-policy": "default"}, "8"),
}


@pytest.mark.parametrize("case", CASES)
async def test_which_holds(store: Store, case: str) -> None:
    body, headers, left = CASES[case]
    async with live(store, policy=POLICY, policies=NAMED) as running:
        answer = await running.post(body, headers)
    assert (answer.status, turns_left(answer)) == (200, left)


REFUSED = {
    "one that is looser": ("open", {}, "policy_not_tighter", "limits.session.turns"),
    "one that only watches": ("watched", {}, "policy_not_tighter", "mode"),
    "back to the default": ("default", {"x-guardproxy-agent": "bot-7"}, "policy_not_tighter", "limits.session.turns"),
    "none": ("nowhere", {}, "policy_not_found", "'nowhere'"),
    "nothing": ("", {}, "policy_not_found", "''"),
    "a long name": ("x" * 5000, {}, "policy_not_found", "'xxx"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_wish_that_is_refused(store: Store, case: str) -> None:
    """Clearly, and before anybody is asked; it names no policy that the client has not named."""
    name, more, code, word = REFUSED[case]
    async with live(store, policy=POLICY, policies=NAMED) as running:
        answer = await running.post(ask(), {"x-guardproxy-policy": name, **more})
        assert running.provider.got == []
    said = answer.json["error"]
    assert (answer.status, said["code"], said["param"]) == (400, code, "x-guardproxy-policy")
    assert word in said["message"]
    assert "x-guardproxy-verdict" not in answer.headers
    assert not [other for other in NAMED if other != name and other in said["message"]]
    assert len(said["message"]) < 600


async def test_the_keys_own(store: Store) -> None:
    """It wins over models and agents; one that is not there (any more) opens nothing; routes that are not read, too."""
    ring = Keyring(store.registry, HASH, "a test")
    made = {name: await ring.make_key(policy=name, routes=["*"]) for name in ("short", "open", "gone", "")}
    budgets = [{"scope": "org", "dimension": "cost_usd", "window": "total", "limit": 1000}]
    sections = {"auth": "keys", "policy": POLICY, "policies": NAMED, "upstream": {"api_key": "sk"}, "budgets": budgets}
    async with live(store, **sections) as running:
        found, passed = {}, {}
        for name, one in made.items():
            headers = {"Authorization": f"Bearer {one.secret}", "x-guardproxy-agent": "bot-1"}
            found[name] = await running.post(ask(), headers)
            passed[name] = (await running.post(ask(), headers, "/v1/rerank")).status
        tight = {"Authorization": f"Bearer {made['open'].secret}", "x-guardproxy-policy": "default"}
        assert turns_left(await running.post(ask(), tight)) == "8"
    assert (turns_left(found["short"]), turns_left(found[""])) == ("2", "6")
    assert (found["open"].status, turns_left(found["open"])) == (200, "none")
    assert (found["gone"].status, found["gone"].json["error"]["code"]) == (403, "policy_not_found")
    assert passed == {"short": 400, "open": 200, "gone": 403, "": 400}


@pytest.mark.parametrize("by", ["the agent", "the key"])
async def test_budgets_of_tenants_hold_whichever_is_chosen(store: Store, by: str) -> None:
    """A policy that only watches, which a client may have by what it calls itself, is no way past a budget."""
    org = unique("org").replace("-", "")
    ring = Keyring(store.registry, HASH, "a test")
    await ring.make_org(org)
    made = await ring.make_key(org, policy="watched" if by == "the key" else "", routes=["*"])
    named = {"watched": {"mode": "observe", "unmetered": "pass", "agents": ["trial"]}}
    one = await store.registry.org(org)
    assert one is not None
    await store.registry.put(replace(one, budgets=(Budget("org", "requests", "total", 2),)))
    async with live(store, auth="keys", policies=named, upstream={"api_key": "sk"}) as running:
        headers = {"Authorization": f"Bearer {made.secret}", "x-guardproxy-agent": "trial"}
        answers = [await running.post(ask(), headers) for _ in range(3)]
        passed = await running.post(ask(), headers, "/v1/rerank")
        await running.proxy.quiet()
    assert [one.status for one in answers] == [200, 200, 400]
    assert answers[2].json["error"]["code"] == "budget_exceeded"
    assert passed.status == 400


async def test_its_version_stands_with_every_decision(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    labels = []
    for turns in (3, 4, 3):
        named = {"short": {"limits": {"session": {"turns": turns}}}}
        async with live(store, policy=POLICY, policies=named) as running:
            await running.post(ask(), {"x-guardproxy-policy": "short"})
            await running.post(ask())
            await running.proxy.quiet()
        labels.append(
            [one.__dict__["guardproxy_fields"]["policy"] for one in caplog.records if one.name == "guardproxy.turn"][
                -2:
            ]
        )
    first, second, again = labels
    assert first == again
    assert first[1] == second[1]
    assert first[0] != second[0]
    assert re.fullmatch(r"short@[0-9a-f]{8}", first[0])
    assert re.fullmatch(r"default@[0-9a-f]{8}", first[1])


def plain(label: str) -> Chosen:
    from guardproxy.core.policy import Policy
    from guardproxy.http.preparing import wants

    return Chosen(label, Policy(), wants(Policy()))


def a_turn(headers: Mapping[str, str], model: str = "m", agent: str = "a", policy: str = "") -> Any:
    declared = SimpleNamespace(agent=agent)
    return SimpleNamespace(
        headers=headers, tenant=Tenant(policy=policy), ask=SimpleNamespace(model=model, declared=declared)
    )


def test_it_costs_next_to_nothing() -> None:
    """Microseconds a request: with one policy, with twenty to choose from, and with a client's wish."""
    one = Policies({"default": plain("d")}, "default")
    every = {"default": plain("d")} | {f"p{n}": plain(f"p{n}") for n in range(20)}
    many = Policies(every, "default", [Match(f"p{n}", (f"model-{n}-*",), ("agent-*",)) for n in range(20)])
    asked = {
        "one": (one, a_turn({}), 1.0),
        "many": (many, a_turn({}, "model-19-x", "agent-7"), 3.0),
        "a wish": (many, a_turn({chosen.HEADER: "p3"}, "model-19-x", "agent-7"), 5.0),
    }
    for name, (policies, turn, most) in asked.items():
        policies.of(turn)
        cost = min(timeit.repeat(lambda p=policies, t=turn: p.of(t), number=2000, repeat=5)) / 2000 * 1e6  # type: ignore[misc]
        assert cost < most, (name, cost)


def test_nobody_leaves_a_policy_by_capital_letters() -> None:
    """There are providers who take a model in whichever letters, and whoever names an agent means the one."""
    matches = [Match("p", ("gpt-5*", "My-*"), ()), Match("q", (), ("CI-*",))]
    policies = Policies({"default": plain("d"), "p": plain("p"), "q": plain("q")}, "default", matches)
    for model in ("gpt-5", "GPT-5", "Gpt-5-x", "my-model", "MY-model"):
        assert policies.of(a_turn({}, model)).label == "p", model
    assert policies.of(a_turn({}, "m", "ci-1")).label == "q"
    assert policies.of(a_turn({}, "x-gpt-5")).label == "d"


def test_what_clients_name_is_remembered_within_bounds() -> None:
    policies = Policies({"default": plain("d"), "p": plain("p")}, "default", [Match("p", ("x*",), ())])
    for number in range(5000):
        assert policies.of(a_turn({}, f"x{number}")).label == "p"
        assert policies.of(a_turn({}, "x" * 10_000, str(number))).label == "p"
    assert len(policies._known) <= 2 * chosen.KEPT
