"""What a request without room is told: whose limit, how much, until when, and the ways through."""

from __future__ import annotations

from dataclasses import replace

import pytest

from guardproxy.core import denial
from guardproxy.core.model import Line, Rung
from guardproxy.core.policy import Policy, decide, handed_over
from guardproxy.core.view import Spent, View
from guardproxy.core.windows import Zone, key

AT = 1_795_993_200_000 + 3_600_000 * 12  # 2026-11-30, 11:00 in UTC
DAY = key("day", "org", "", Zone("UTC"), AT)[0]
MINUTE = "m:org:\x1e60000"
TURNS = Line("session", "turns", 1, 9)
ORG_DAY = Line("org", "cost_microusd", 500_000, 2_000_000, DAY)
RATE = Line("key", "requests", 1, 5, MINUTE)


def view(*spent: tuple[Line, int, int]) -> View:
    lines = tuple(Spent(line, used, held) for line, used, held in spent)
    return View("run-1", "t", 1, AT, admitted=False, short=tuple(line for line, _, _ in spent), spent=lines)


def test_a_limit_of_a_run() -> None:
    found = denial.denied(view((TURNS, 9, 0)), 4096)
    assert (found.action, found.rung, found.rule, found.refused) == ("deny", Rung.CUT, "budget.turns", TURNS)
    assert found.reason == "limit turns (session) of 9: 9 used"
    assert denial.facts(TURNS, view((TURNS, 9, 0))) == {
        "scope": "session",
        "kind": "turns",
        "limit": 9,
        "used": 9,
        "held": 0,
        "hold": 1,
        "window": None,
        "timezone": None,
        "resets_at": None,
        "how": ["have an operator raise it: guardproxy sessions extend run-1 --turns N"],
    }


def test_a_limit_of_a_tenant() -> None:
    seen = view((ORG_DAY, 1_400_000, 200_000))
    found = denial.denied(seen, 4096)
    assert found.rule == "budget.cost_usd"
    assert found.reason == (
        "limit cost_usd (org) of $2 a day (UTC): $1.4 used, $0.2 held for calls that are running, and this request may "
        "need $0.5 (less with a max_tokens below 4,096); it begins anew at 2026-12-01T00:00:00Z"
    )
    told = denial.facts(ORG_DAY, seen, output=500)
    assert [told[name] for name in ("limit", "used", "held", "hold")] == [2.0, 1.4, 0.2, 0.5]
    assert told["resets_at"] == "2026-12-01T00:00:00Z"
    assert told["how"] == [
        "send a max_tokens below 500: this request holds less then",
        "wait for calls that are running: they give back what they do not use",
        "wait until 2026-12-01T00:00:00Z",
        "have the limit of the org raised by whoever governs it",
    ]


def test_a_shorter_answer_is_no_way_where_none_is_held() -> None:
    """Embeddings, and whoever asks for a token."""
    for output in (0, 1):
        assert not any("max_tokens" in one for one in denial.ways(ORG_DAY, view((ORG_DAY, 0, 0)), "", output))


def test_a_run_that_did_not_begin_cannot_be_given_more() -> None:
    """The store has no session of that name: no command, and nothing to hand to a person."""
    seen = replace(view((TURNS, 9, 0)), new_session=True)
    assert denial.ways(TURNS, seen) == ["have policy.limits.session.turns raised by whoever governs it"]
    policy = Policy(on_budget="pause")
    assert decide(seen, policy).action == "deny"
    assert decide(replace(seen, new_session=False), policy).action == "pause"


def test_a_rate_is_no_end_of_a_run() -> None:
    found = denial.denied(view((RATE, 5, 0)), 4096)
    assert (found.action, found.rung, found.rule) == ("deny", Rung.OBSERVE, "rate.requests")
    assert denial.retry_after(view((RATE, 5, 0))) == 60
    assert denial.retry_after(view((Line("org", "concurrent_requests", 1, 5, "n:org:"), 0, 5))) == 1


def test_a_hard_limit_is_told_before_a_rate() -> None:
    assert denial.denied(view((RATE, 5, 0), (TURNS, 9, 0)), 4096).rule == "budget.turns"
    above = RATE._replace(dimension="output_tokens", hold=6)
    assert denial.denied(view((RATE, 5, 0), (above, 0, 0)), 4096).rule == "budget.output_tokens"


@pytest.mark.parametrize(
    ("line", "action"), [(TURNS, "pause"), (ORG_DAY, "deny"), (RATE, "deny")], ids=["run", "tenant", "rate"]
)
def test_only_a_limit_of_the_run_hands_it_to_a_person(line: Line, action: str) -> None:
    assert (
        handed_over(denial.denied(view((line, 2_000_000, 0)), 4096), Policy(on_budget="pause", on_cut="pause")).action
        == action
    )
