"""Findings, budgets and the ladder become one decision: which speaks, when it keeps quiet, what the modes change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from guardproxy.core import policy as policies
from guardproxy.core.budget import DIMENSIONS, Limit
from guardproxy.core.detectors import NEEDS, cycle
from guardproxy.core.detectors._signs import EVERY
from guardproxy.core.episode import APART, pack_episode
from guardproxy.core.model import Decision, Line, Rung, Triple
from guardproxy.core.policy import PROFILES, Policy, decide
from guardproxy.core.view import Spent, View
from tests.core.talk import PRINTER, steps, view_of

PLAIN = Policy()
QUIET = Policy(detectors={})


def play(line: str, policy: Policy = PLAIN, *, lost: tuple[int, ...] = (), **more: Any) -> list[Decision]:
    """A decision after each step, its episode kept for the next. `lost`: steps at which advice is no longer there."""
    ring, found, marks = steps(line), [], []
    for number in range(1, len(ring) + 1):
        view = view_of(ring[:number], episodes=tuple(marks), **more)
        decision = decide(view, policy, lost=number in lost)
        if decision.episode:
            marks.append(pack_episode(decision.episode))
        found.append(decision)
    return found


def said(decisions: list[Decision]) -> dict[int, str]:
    """Step (from 1) to action, where one is taken."""
    return {n: one.action for n, one in enumerate(decisions, 1) if one.action not in ("pass", "observe")}


PLAYED: dict[str, tuple[str, Mapping[int, str]]] = {
    "a repeat": ("a a a a a a", {3: "nudge", 4: "firm", 5: "finalize", 6: "cut"}),
    "an end is said every time": ("a a a a a a a", {3: "nudge", 4: "firm", 5: "finalize", 6: "cut", 7: "cut"}),
    "two calls": ("a b c d", {}),
    "laps": ("a b a b a b a b a b", {6: "nudge", 8: "firm", 10: "cut"}),
    "the pair, then one half (B10)": ("a b a b a b a b a a", {6: "nudge", 8: "firm", 10: "cut"}),
    "left and back": ("a a a b c d x y z a a a", {3: "nudge", 12: "firm"}),
    "words in between": ("a a a | a a a a", {3: "nudge", 7: "nudge", 8: "firm"}),
    "another loop soon after": ("a a a b b b", {3: "nudge", 6: "nudge"}),
    "a call that fails": ("!a !a !a !a !a !a", {3: "nudge", 4: "firm", 5: "finalize", 6: "cut"}),
}


@pytest.mark.parametrize("name", PLAYED)
def test_the_ladder(name: str) -> None:
    line, expected = PLAYED[name]

    assert said(play(line)) == dict(expected)


def test_once_per_rung() -> None:
    """The interleaved ladder stays long on a rung: it is said once."""
    found = play(" ".join(f"a {other}" for other in "bcdxyze"))

    assert said(found) == {7: "nudge", 9: "firm", 13: "finalize"}
    assert (found[10].action, found[10].count) == ("observe", 6)


def test_parts_of_a_lap_add_up_while_finalize_is_said() -> None:
    """A finalize that says the same again is no new mark: counted from there, half a lap would be lost each time."""
    only = Policy(detectors={"cycle": cycle.Settings(Triple(3, 4, 6))})
    ladder = {6: "nudge", 8: "firm", 10: "finalize", 11: "finalize", 12: "cut"}

    assert said(play("a b a b a b a b a a a a", only)) == ladder
    assert said(play("a b a b a b a b a b a b", only)) == ladder


def test_two_episodes_are_kept_apart() -> None:
    """A second loop's nudge waits until the first one's is some steps old; escalation does not wait."""
    ring = steps("a a a")
    first = decide(view_of(ring), Policy())
    assert first.episode
    for gap in range(5):
        at = replace(first.episode, subject=b"x" * 16, members=(b"y" * 16,), at_step=2 - gap)
        decision = decide(view_of(ring, episodes=(pack_episode(at),)), Policy())
        assert decision.action == ("nudge" if gap >= APART or at.at_step < 0 else "observe")
        if decision.action == "observe":
            assert f"{gap} steps ago" in decision.reason
            assert decision.episode is None
        firm = decide(view_of(steps("a a a a"), episodes=(pack_episode(at),)), Policy())
        assert firm.action == "firm"


LOST = {
    "advice is still there": ((), {3: "nudge", 4: "firm"}),
    "on the next step": ((4,), {3: "nudge", 4: "firm"}),
    "a nudge on its rung": ((5,), {3: "nudge", 4: "firm", 5: "firm"}),
}


@pytest.mark.parametrize("name", LOST)
def test_lost_advice_is_given_again(name: str) -> None:
    lost, expected = LOST[name]
    long = Policy(detectors={**Policy().detectors, "repeated_call": settings("repeated_call", (3, 4, 9))})

    assert said(play("a a a a a", long, lost=lost)) == expected


def settings(rule: str, triple: tuple[int, int, int]) -> object:
    from guardproxy.core.detectors import RULES
    from guardproxy.core.model import Triple

    return RULES[rule].Settings(triple=Triple(*triple))


def test_what_decides_before_any_loop() -> None:
    ring = steps("a a a a a a")
    line = Line("span", "turns", 1, 8)
    denied = {"admitted": False, "short": (line,), "spent": (Spent(line, 7, 1),)}
    cases = [
        ({"panic": True}, "pass", "", "panic"),
        ({"panic": True, "closed": True, "closed_by": "cycle"}, "pass", "", "panic"),
        ({"panic": True, **denied}, "pass", "", "panic"),
        ({"closed": True, "closed_by": "cycle", "answers": 1}, "cut", "cycle", "asked again once since"),
        (denied, "deny", "budget.turns", "of 8: 7 used, 1 held"),
        ({"counted": False}, "pass", "", "no turn"),
        ({}, "cut", "repeated_call", "6 times"),
    ]
    for more, action, rule, reason in cases:
        decision = decide(view_of(ring, **more), Policy())
        assert (decision.action, decision.rule) == (action, rule)
        assert reason in decision.reason
        assert (decision.refused == line) == (action == "deny")


@pytest.mark.parametrize(("answers", "over"), [(1, False), (2, False), (3, True), (4, True)])
def test_the_last_text_is_given_three_times_in_all(answers: int, over: bool) -> None:
    """The cut itself is the first; two more, then the error."""
    decision = decide(view_of((), closed=True, closed_by="cycle", answers=answers), Policy())

    assert (decision.action, decision.over) == ("cut", over)


def spent(*lines: tuple[str, str, int, int, int, int]) -> tuple[Spent, ...]:
    return tuple(
        Spent(Line(scope, name, hold, limit, clock=DIMENSIONS[name].clock), used, held)
        for scope, name, hold, limit, used, held in lines
    )


BUDGETS = {
    # limits, lines (scope, dimension, hold, limit, used, held), counts: action and rule
    "room": ((), [("span", "turns", 1, 9, 2, 1)], {}, ("pass", "")),
    "the last turn": ((), [("span", "turns", 1, 9, 8, 1)], {}, ("finalize", "budget.turns")),
    "the same call, one short": ([("span", "same_call", 3)], [], {"call:1": 2}, ("finalize", "budget.same_call")),
    "calls of a tool": ([("span", "calls_per_tool", 3)], [], {"tool:a": 3}, ("deny", "budget.calls_per_tool")),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_budgets(name: str) -> None:
    limits, lines, counts, expected = BUDGETS[name]
    policy = Policy(limits=tuple(Limit(*one) for one in limits))
    decision = decide(view_of(steps("a"), spent=spent(*lines), counts=counts), policy)

    assert (decision.action, decision.rule) == expected


@pytest.mark.parametrize("key", ["", "d:org:"])
def test_a_question_by_itself_is_not_finalized(key: str) -> None:
    """No tools, no steps: it is answered as it was asked. What is at work is told whose limit it is that ends it."""
    (last,) = spent(("org" if key else "session", "requests", 1, 2, 1, 1))
    lines = (last._replace(line=last.line._replace(key=key)),)
    for ring, tooled, expected in [("", False, "pass"), ("", True, "finalize"), ("a", False, "finalize")]:
        decision = decide(view_of(steps(ring), spent=lines), Policy(), tooled=tooled)
        assert (decision.action, decision.scope) == (expected, "org" if key and expected == "finalize" else "")
    talk = (*steps("a a a"), PRINTER.boundary(0), PRINTER.text_step("done", "and now?", at_ms=0))
    assert decide(view_of(talk, spent=lines), Policy(), tooled=False).action == "pass", "a chat goes on"


def test_the_higher_rung_speaks() -> None:
    lines = spent(("span", "turns", 1, 9, 8, 1))

    assert decide(view_of(steps("a a a"), spent=lines), Policy()).rule == "budget.turns"
    cut = decide(view_of(steps("a a a a a a"), spent=lines), Policy())
    assert cut.rule == "repeated_call"
    assert cut.findings


@pytest.mark.parametrize(("equal", "action"), [(0, "pass"), (1, "observe"), (7, "observe"), (8, "cut"), (9, "cut")])
def test_an_agent_that_forgets_to_append(equal: int, action: str) -> None:
    decision = decide(view_of((), equal=equal), Policy())

    assert decision.action == action
    assert (decision.rule, decision.count) == (("equal_request", equal + 1) if equal else ("", 0))


def test_observe_does_nothing_and_reports_the_first_end() -> None:
    found = play("a a a a a a a a", Policy(mode="observe"))

    assert {one.action for one in found} <= {"pass", "observe"}
    assert {one.mode for one in found if one.rung >= Rung.NUDGE} == {"observe"}
    assert [one.would for one in found] == ["", "", "nudge", "firm", "finalize", "cut", "", ""]
    assert {one.rule for one in found if one.would} == {"repeated_call"}


def test_observe_reports_the_first_end_of_each_span() -> None:
    found = play("a a a a a a a | a a a a a a a", Policy(mode="observe"))

    assert [n for n, one in enumerate(found, 1) if one.would == "cut"] == [6, 14]


def test_a_rule_in_observe_mode_silences_no_other() -> None:
    """Shadow marks are its own: what it would have said delays and replaces nothing."""
    policy = Policy(modes={"repeated_call": "observe"})
    found = play("a a a a a a b c b c b c", policy)

    assert said(found) == {12: "nudge"}
    assert found[5].would == "cut"
    assert said(play("a a a b a", policy)) == {5: "nudge"}, "the same loop, seen by another rule"
    lines = spent(("span", "turns", 1, 9, 8, 1))
    decision = decide(view_of(steps("a a a a a a"), spent=lines), policy)
    assert (decision.action, decision.rule) == ("finalize", "budget.turns"), "a shadow stands behind what is done"


def test_a_rule_may_be_enforced_alone() -> None:
    policy = Policy(mode="observe", modes={"repeated_call": "enforce"})

    assert said(play("a a a a a a", policy)) == {3: "nudge", 4: "firm", 5: "finalize", 6: "cut"}
    assert said(play("a b a b a b", policy)) == {}


def test_a_limit_in_observe_mode_is_counted_and_refuses_nothing() -> None:
    limits = (Limit("span", "turns", 2), Limit("session", "cost_microusd", 100))
    assert Policy(limits=limits).stored == limits
    policy = Policy(limits=limits, modes={"budget.turns": "observe"})
    assert policy.stored == (Limit("span", "turns", -1), limits[1])
    marks: list[bytes] = []
    would = []
    for used in range(4):
        lines = spent(("span", "turns", 1, -1, used, 1), ("session", "cost_microusd", 1, 100, used, 1))
        decision = decide(view_of(steps("a"), spent=lines, episodes=tuple(marks)), policy)
        marks += [pack_episode(decision.episode)] if decision.episode else []
        assert decision.action in ("pass", "observe")
        would.append(decision.would)
    assert would == ["", "", "deny", ""]


def test_a_detector_that_raises_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(trail: object, settings: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(policies, "RULES", {**policies.RULES, "cycle": SimpleNamespace(detect=broken)})
    decision = decide(view_of(steps("a a a")), Policy())

    assert decision.action == "nudge"
    assert decision.errors == ("cycle: ZeroDivisionError: oh",)


def test_a_rule_that_is_off_says_nothing() -> None:
    assert said(play("a a a a a a", QUIET)) == {}


def test_findings_and_spared_ones_travel_along() -> None:
    decision = decide(view_of(steps("a b a b a b")), Policy())

    assert {"cycle"} <= {one.rule for one in decision.findings}
    assert decision.finding in decision.findings
    assert decision.spared == tuple(one.spared for one in decision.findings if one.spared)


def test_profiles_name_dimensions() -> None:
    settings = {row.setting for row in DIMENSIONS.values()}

    assert {"coding", "qa", "cross_system", "none"} == set(PROFILES)
    assert all(set(limits) <= settings for limits in PROFILES.values())
    assert set(policies.ACTIONS) == set(Rung)


def test_an_empty_view_passes() -> None:
    assert decide(View("s", "main", 1, 0), Policy()) == Decision("pass")


def test_the_detectors_of_a_turn_are_those_whose_signs_are_there() -> None:
    """Worked out once for each set of signs, and for each policy by itself."""
    few = Policy(detectors={"cycle": cycle.Settings()})
    for shown in (0, *NEEDS.values(), EVERY, 5, 8, EVERY, 0):
        wanted = [rule for rule in PLAIN.detectors if NEEDS[rule] & shown]
        assert [rule for rule, _ in PLAIN.asked(shown)] == wanted
        assert [rule for rule, _ in few.asked(shown)] == [rule for rule in wanted if rule == "cycle"]
    assert replace(PLAIN, detectors={}).asked(EVERY) == ()
