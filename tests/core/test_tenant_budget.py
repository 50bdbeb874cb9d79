"""Which budgets a request counts against, what fits, how long it is worth waiting, and what is nearly used up."""

from __future__ import annotations

import pytest

from guardproxy.core import tenant_budget
from guardproxy.core.budget import Need
from guardproxy.core.model import Line
from guardproxy.core.pricing import Rates
from guardproxy.core.tenant import Tenant
from guardproxy.core.tenant_budget import Crossed, Due
from guardproxy.core.view import Spent, View
from guardproxy.core.windows import NOW, Budget, Zone, chosen

AT = 1_790_000_012_345
RED = Tenant(team="red", key="k1", user="ann")
NEED = Need(input_tokens=300, output_tokens=50, cost_microusd=7)


def zone(name: str, _at_ms: int) -> Zone:
    return Zone(name)


def names(*budgets: Budget, tenant: Tenant = RED, model: str = "gpt-5-mini") -> list[str]:
    found, _ = tenant_budget.dues(budgets, tenant, model, AT, zone)
    return [chosen(one.key, AT)[0] for one in found]


def cost(scope: str, match: str = "*", window: str = "total", limit: int = 10, **more: object) -> Budget:
    return Budget(scope, "cost_microusd", window, limit, match=match, **more)  # type: ignore[arg-type]


WHOSE = [
    (cost("org"), ["t:org:"]),
    (cost("team"), ["t:team:red"]),
    (cost("team", "r*"), ["t:team:red"]),
    (cost("team", "b*"), []),
    (cost("key"), ["t:key:k1"]),
    (cost("user", "ann"), ["t:user:ann"]),
    (cost("user", "bob"), []),
    (cost("model", "gpt-5*"), ["t:model:gpt-5*"]),
    (cost("model", "GPT-5*"), ["t:model:GPT-5*"]),
    (cost("model", "gpt-4*"), []),
    (cost("team", of="team:red"), ["t:team:red"]),
    (cost("key", of="key:k1"), ["t:key:k1"]),
    (cost("user", of="team:red"), ["t:user:team%3Ared%2Fann"]),
    (cost("user", "bob", of="team:red"), []),
    (cost("model", "gpt-5*", of="key:k1"), ["t:model:key%3Ak1%2Fgpt-5*"]),
]


@pytest.mark.parametrize(("budget", "expected"), WHOSE, ids=[f"{b.scope} {b.match} {b.of}" for b, _ in WHOSE])
def test_whose_counters(budget: Budget, expected: list[str]) -> None:
    assert names(budget) == expected


def test_nobody_takes_the_counters_of_others_by_a_name() -> None:
    """Names of users come from clients: one may be what the counters of another key's user are called."""
    common, theirs = cost("user"), [cost("user", of="key:k1"), cost("user", of="team:red")]
    taken = set(names(*theirs))
    called = ["key:k1/ann", "team:red/ann", "/key:k1/ann", "//key:k1/ann", "/ann", "ann", "a/ann", "key", "t:user:ann"]
    found = [names(common, tenant=Tenant(user=name))[0] for name in called]
    assert not taken & set(found)
    assert len(set(found)) == len(called)
    assert found[5:7] == ["t:user:ann", "t:user:a%2Fann"], "others are called as they were"


@pytest.mark.parametrize("scope", ["team", "key", "user"])
def test_a_budget_of_nobody_is_none(scope: str) -> None:
    assert names(cost(scope), tenant=Tenant()) == []


def test_of_two_limits_on_the_same_counters_the_tighter_holds_and_it_is_counted_once() -> None:
    budgets = (cost("org", limit=9), cost("org", limit=5), cost("org", limit=7), cost("org", window="hour", limit=1))
    found, _ = tenant_budget.dues(budgets, RED, "m", AT, zone)
    assert [one.budget.limit for one in found] == [5, 1]


def test_keys_are_made_anew_when_the_first_window_ends() -> None:
    budgets = (cost("org"), cost("org", window="month"), cost("org", window="day"), cost("org", window="minute"))
    _, until = tenant_budget.dues(budgets, RED, "m", AT, zone)
    assert until == (AT // 86_400_000 + 1) * 86_400_000
    assert tenant_budget.dues(budgets[:1], RED, "m", AT, zone)[1] == 0


@pytest.mark.parametrize(
    ("dimension", "hold"),
    [
        ("cost_microusd", 7),
        ("input_tokens", 300),
        ("output_tokens", 50),
        ("total_tokens", 350),
        ("requests", 1),
        ("concurrent_requests", 1),
    ],
)
@pytest.mark.parametrize("enforce", [True, False])
def test_lines(dimension: str, hold: int, enforce: bool) -> None:
    due = Due(Budget("org", dimension, "total", 99), "t:org:")
    expected = Line("org", dimension, hold, 99 if enforce else -1, "t:org:")
    assert tenant_budget.lines([due], NEED, enforce=enforce) == (expected,)


SOFT = [
    # used, percentages, passed
    (0, (50, 80), None),
    (49, (50, 80), None),
    (50, (50, 80), 50),
    (79, (50, 80), 50),
    (80, (50, 80), 80),
    (500, (50, 80), 80),
    (100, (100,), 100),
    (99, (100,), None),
    (99, (), None),
]


@pytest.mark.parametrize(("used", "soft", "passed"), SOFT)
@pytest.mark.parametrize("now", [0, 10])
def test_soft_limits(used: int, soft: tuple[int, ...], passed: int | None, now: int) -> None:
    due = Due(cost("org", limit=100, soft=soft), "t:org:")
    spent = (
        Spent(Line("session", "cost_microusd", 1), 900, 0),
        Spent(Line("org", "cost_microusd", 5, 100, "t:org:"), used - now, 99),
    )
    found = tenant_budget.crossed([due], View("s", "t", 1, AT, spent=spent), (lambda _: now) if now else None)
    assert found == (() if passed is None else (Crossed(due, passed, used),))


def short(*rows: tuple[str, str, int, int, int, int]) -> View:
    """Lines as (key, dimension, hold, limit, used, held), all of them without room."""
    spent = tuple(Spent(Line("org", name, hold, limit, key), used, held) for key, name, hold, limit, used, held in rows)
    return View("s", "t", 1, AT, admitted=False, short=tuple(one.line for one in spent), spent=spent)


MINUTE = "m:org:\x1e60000"
LEFT = 60_000 - AT % 60_000
WAITS = [
    (short((MINUTE, "requests", 1, 5, 5, 0)), LEFT),  # used up: nothing before the next minute
    (short((MINUTE, "requests", 1, 5, 3, 2)), 50),  # held by others: they may give it back
    (short(("n:org:", "concurrent_requests", 1, 5, 0, 5)), 50),
    (short(("n:org:", "concurrent_requests", 1, 5, 0, 5), (MINUTE, "requests", 1, 5, 5, 0)), LEFT),
]


@pytest.mark.parametrize(("view", "wait_ms"), WAITS)
def test_how_long_it_is_worth_waiting(view: View, wait_ms: int) -> None:
    assert tenant_budget.wait_ms(view, 50) == wait_ms


HARD = [
    (Line("org", "requests", 1, 5, MINUTE), False),
    (Line("org", "output_tokens", 6, 5, MINUTE), True),  # more than a whole minute has
    (Line("org", "requests", 1, 5, "d:org::UTC\x1ea\x1e1\x1eb\x1e2\x1ec\x1e3"), True),
    (Line("org", "requests", 1, 5, "t:org:"), True),
    (Line("org", "concurrent_requests", 1, 5, "n:org:"), False),
    (Line("session", "turns", 1, 5), True),
]


@pytest.mark.parametrize(("line", "hard"), HARD)
def test_what_no_waiting_helps(line: Line, hard: bool) -> None:
    assert tenant_budget.is_hard(line) is hard


RATES = Rates(input=1.0, output=10.0)
BIG = Need(input_tokens=1000, output_tokens=4000, cost_microusd=41_000)
FITS = [
    # a short line, choices, what fits
    (("output_tokens", 4000, 5000, 3000, 1000), 1, 1000),
    (("output_tokens", 4000, 5000, 3000, 1000), 2, 500),
    (("output_tokens", 4000, 5000, 4990, 0), 1, 0),  # too little for an answer
    (("output_tokens", 4000, 5000, 6000, 0), 1, 0),
    (("total_tokens", 5000, 5000, 3000, 0), 1, 1000),
    (("total_tokens", 5000, 5000, 4500, 0), 1, 0),
    (("cost_microusd", 41_000, 20_000, 0, 0), 1, 1900),
    (("cost_microusd", 41_000, 20_000, 19_500, 0), 1, 0),
    (("input_tokens", 1000, 500, 0, 0), 1, 0),
    (("requests", 1, 5, 5, 0), 1, 0),
]


@pytest.mark.parametrize(("row", "choices", "tokens"), FITS)
def test_what_fits(row: tuple[str, int, int, int, int], choices: int, tokens: int) -> None:
    assert tenant_budget.fitting(short(("t:org:", *row)), BIG, RATES, choices) == tokens


def test_the_tightest_of_all_lines_says_what_fits() -> None:
    rows = (("t:org:", "output_tokens", 4000, 5000, 3000, 0), ("t:team:a", "output_tokens", 4000, 5000, 4000, 0))
    assert tenant_budget.fitting(short(*rows), BIG, RATES, 1) == 1000
    assert tenant_budget.fitting(short(*rows, ("t:key:a", "requests", 1, 5, 5, 0)), BIG, RATES, 1) == 0


def test_what_is_observed_only_is_still_seen() -> None:
    due = Due(cost("org", limit=100), "t:org:")
    for used, held, passed in ((50, 50, False), (50, 51, True)):
        spent = (Spent(Line("org", "cost_microusd", 5, -1, "t:org:"), used, held),)
        found = tenant_budget.overspent([due], View("s", "t", 1, AT, spent=spent))
        assert (found is not None) is passed
    enforced = (Spent(Line("org", "cost_microusd", 5, 100, "t:org:"), 500, 0),)
    assert tenant_budget.overspent([due], View("s", "t", 1, AT, spent=enforced)) is None


def test_concurrent_requests_are_of_the_moment() -> None:
    assert names(Budget("org", "concurrent_requests", NOW, 5)) == ["n:org:"]
