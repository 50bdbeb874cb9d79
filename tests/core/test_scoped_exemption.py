"""What a person called a false alarm is only observed: where, until when, and nothing beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from guardproxy.core import scoped_exemption
from guardproxy.core.budget import Limit
from guardproxy.core.episode import pack_episode
from guardproxy.core.exemption import Exemption
from guardproxy.core.model import Decision, Declared
from guardproxy.core.policy import Policy, decide
from guardproxy.core.scoped_exemption import ScopedExemption, agent_of, moment, standing
from tests.core.talk import PRINTER, ask, called, result, steps, system, user, view_of

END = 1_800_000_000_000
EXEMPT = ScopedExemption("l1", "repeated_call", "session", "s", END)
DAY = 86_400_000
PLAIN = Policy()


def play(
    line: str, *exempt: ScopedExemption, lost: bool = False, policy: Policy = PLAIN, **more: Any
) -> list[Decision]:
    """A decision after each step, its episode kept for the next."""
    ring, found, marks = steps(line), [], []
    for number in range(1, len(ring) + 1):
        view = view_of(ring[:number], episodes=tuple(marks), **more)
        decision = decide(view, policy, lost=lost and bool(marks), exempt=exempt)
        if decision.episode:
            marks.append(pack_episode(decision.episode))
        found.append(decision)
    return found


def said(decisions: list[Decision]) -> dict[int, str]:
    return {
        n: f"{one.action} {one.rule}" for n, one in enumerate(decisions, 1) if one.action not in ("pass", "observe")
    }


LADDER = {
    3: "nudge repeated_call",
    4: "firm repeated_call",
    5: "finalize repeated_call",
    6: "cut repeated_call",
}
LAPS = "a b a b a b a b a b a b a b a b"
PLAYED: dict[str, tuple[str, tuple[ScopedExemption, ...], Mapping[int, str]]] = {
    "nothing exempted": ("a a a a a a", (), LADDER),
    "its rule": ("a a a a a a a a a a a a a a", (EXEMPT,), {}),
    "another rule": ("a a a a a a", (replace(EXEMPT, rule="cycle"),), LADDER),
    "its rule with its tool": ("a a a a a a", (replace(EXEMPT, tool="a"),), {}),
    "its rule with another tool": ("a a a a a a", (replace(EXEMPT, tool="b"),), LADDER),
    "of two tools the second": ("a a a a a a", (replace(EXEMPT, tool="b"), replace(EXEMPT, tool="a")), {}),
    "one tool of a cycle": ("a b a b a b", (replace(EXEMPT, rule="cycle", tool="b"),), {}),
    "a tool beside a cycle": ("c a b a b a b", (replace(EXEMPT, rule="cycle", tool="c"),), {7: "nudge cycle"}),
    "the loop is left, another begins": (
        "a a a a b b b b b b",
        (replace(EXEMPT, tool="a"),),
        {7: "nudge repeated_call", 8: "firm repeated_call", 9: "finalize repeated_call", 10: "cut repeated_call"},
    ),
    "less precise rules do not speak in its place": (LAPS, (replace(EXEMPT, rule="cycle"),), {}),
    "more precise rules do": (
        LAPS,
        (replace(EXEMPT, rule="interleaved_repeat"), replace(EXEMPT, rule="nothing_new")),
        {6: "nudge cycle", 8: "firm cycle", **dict.fromkeys(range(10, 17), "cut cycle")},
    ),
    "less precise rules about other calls do": (
        f"{LAPS} c d e c c c c",
        (replace(EXEMPT, rule="cycle"),),
        {22: "nudge repeated_call", 23: "firm repeated_call"},
    ),
    "a limit's name": ("a a a a a a", (replace(EXEMPT, rule="budget.turns"),), LADDER),
}


@pytest.mark.parametrize("name", PLAYED)
def test_what_is_held(name: str) -> None:
    line, exempt, expected = PLAYED[name]

    assert said(play(line, *exempt)) == dict(expected)


def test_what_is_held_says_so() -> None:
    found = play("a a a a a a", EXEMPT)

    told = scoped_exemption.words(EXEMPT)
    assert told == "exempted by a person until 2027-01-15 08:00 UTC (label l1)"
    assert [one.action for one in found] == ["pass", "observe", *["observe"] * 4]
    assert [one.exempted for one in found] == [(), (), *[("l1",)] * 4]
    last = found[-1]
    assert (last.rule, last.count, last.mode, last.would, last.episode) == ("repeated_call", 6, "enforce", "", None)
    assert told in last.reason
    assert [one.because for one in last.spared] == [Exemption.FALSE_ALARM]
    assert last.reason.endswith(f"; {told}")
    assert last.finding in last.findings
    assert not found[1].spared  # it would have said nothing


def test_advice_that_was_lost_is_not_given_again() -> None:
    """A nudge was given before the exemption; the conversation was compacted."""
    ring = steps("a a a")
    first = decide(view_of(ring), Policy())
    assert first.episode
    view = view_of(steps("a a a a"), episodes=(pack_episode(first.episode),))

    assert decide(view, Policy(), lost=True).action == "firm"
    assert decide(view, Policy(), lost=True, exempt=(EXEMPT,)).action == "observe"


def test_a_firm_loop_that_goes_on_is_held_too() -> None:
    """An episode goes on without its detector (case B10): it bears its rule's name, and is exempted by it."""
    line = "a b a b a b a b a a"
    marks = [one.episode for one in play(line)[:-1] if one.episode]
    view = view_of(steps(line), episodes=tuple(map(pack_episode, marks)))

    free = decide(view, Policy())
    assert (free.action, free.rule) == ("cut", "cycle")
    assert "goes on after" in free.reason
    held = decide(view, Policy(), exempt=(replace(EXEMPT, rule="cycle"),))
    assert (held.action, held.rule, held.exempted) == ("observe", "cycle", ("l1",))


BACK = {
    "nothing exempted": ((), {"cut"}),
    "its rule": ((ScopedExemption("l1", "cycle", "session", "s", END),), {"observe", "pass"}),
    "with a tool of it": ((ScopedExemption("l1", "cycle", "session", "s", END, "b"),), {"observe", "pass"}),
    "with a tool beside it": ((ScopedExemption("l1", "cycle", "session", "s", END, "c"),), {"cut"}),
}


@pytest.mark.parametrize("name", BACK)
def test_a_loop_that_comes_back_in_another_shape(name: str) -> None:
    """Cut as a cycle, allowed, left for other work and back: no cycle yet, but the same calls again and again."""
    exempt, expected = BACK[name]
    marks = [pack_episode(one.episode) for one in play("a b a b a b a b a b") if one.episode]
    view = view_of(steps("a b a b a b a b a b a b a b a b c c a b"), episodes=tuple(marks))
    view = replace(view, steps=40)  # those marks are of before the ladder was re-armed

    assert decide(view, Policy(), exempt=exempt).action in expected


def test_another_loop_of_the_run_is_none_of_it() -> None:
    """The same marks; now other calls go round, one of the old ones among them, and a less precise rule sees it."""
    marks = [pack_episode(one.episode) for one in play("a b a b a b a b a b") if one.episode]
    view = view_of(steps("c a d d c a a c d c a d d a c c a d c"), episodes=tuple(marks))
    view = replace(view, steps=40)

    told = decide(view, Policy(), exempt=BACK["its rule"][0])
    assert (told.action, told.rule) == ("cut", "nothing_new")


def test_limits_stay() -> None:
    policy = Policy(limits=(Limit("span", "same_call", 6),))
    found = play("a a a a a a", EXEMPT, policy=policy, counts={"call:1": 6})

    assert said(found)[6] == "deny budget.same_call"
    assert found[-1].exempted == ("l1",)


def test_equal_requests() -> None:
    view = view_of(steps("a"), equal=8)
    both = (replace(EXEMPT, rule="equal_request"), replace(EXEMPT, rule="equal_request", tool="a"))

    assert decide(view, Policy()).action == "cut"
    held = decide(view, Policy(), exempt=both[:1])
    assert (held.action, held.rule, held.exempted) == ("observe", "equal_request", ("l1",))
    assert scoped_exemption.words(EXEMPT) in held.reason
    assert [one.because for one in held.spared] == [Exemption.FALSE_ALARM]
    assert decide(view, Policy(), exempt=both[1:]).action == "cut"  # it is about no tool
    quiet = decide(replace(view, equal=2), Policy(), exempt=both[:1])
    assert (quiet.action, quiet.exempted) == ("observe", ())


def test_observe_mode_keeps_its_shadow() -> None:
    """What is exempted would not have been done either."""
    found = play("a a a a a a", EXEMPT, policy=Policy(mode="observe"))

    assert {one.would for one in found} == {""}


AGENT = ScopedExemption("l2", "cycle", "agent", "digest", END)
TOOL = ScopedExemption("l3", "cycle", "tool", "", END, "f")
STANDING = {
    "its session": (EXEMPT, "s", "x", END - 1, True),
    "another session": (EXEMPT, "t", "x", END - 1, False),
    "at its end": (EXEMPT, "s", "x", END, False),
    "its agent, any session": (AGENT, "t", "digest", 0, True),
    "another agent": (AGENT, "t", "other", 0, False),
    "an agent after its end": (AGENT, "t", "digest", END + DAY, False),
    "a tool, anywhere": (TOOL, "t", "other", 0, True),
    "a tool after its end": (TOOL, "t", "other", END, False),
    "an agent that nobody knows": (replace(AGENT, subject=""), "t", "other", 0, False),
}


@pytest.mark.parametrize("name", STANDING)
def test_where_and_until_when(name: str) -> None:
    one, session, agent, now_ms, holds = STANDING[name]

    assert standing((one,), session, lambda: agent, now_ms) == ((one,) if holds else ())


def test_an_agent_is_looked_at_only_where_one_is_meant() -> None:
    def never() -> str:
        raise AssertionError

    assert standing((EXEMPT, TOOL), "s", never, 0) == (EXEMPT, TOOL)


TASK = user("book a flight")
SAME = {
    "the task is another": ((system("You plan."), user("book a train")), True),
    "later in the conversation": ((system("You plan."), TASK, called(("f", "{}", "i")), result("x", "i")), True),
    "its prompt is another": ((system("You cook."), TASK), False),
    "no prompt": ((TASK,), False),
}


@pytest.mark.parametrize("name", SAME)
def test_agents(name: str) -> None:
    messages, same = SAME[name]
    first = agent_of(ask(system("You plan."), TASK), PRINTER)

    assert (agent_of(ask(*messages), PRINTER) == first) is same


def test_an_agent_is_the_same_tomorrow() -> None:
    today, tomorrow = (ask(system(f"You plan. Now: 2026-11-{day}T10:00:00Z"), TASK) for day in (29, 30))

    assert agent_of(today, PRINTER) == agent_of(tomorrow, PRINTER)


def test_an_agent_without_a_prompt_is_known_by_its_task_and_its_program() -> None:
    first = agent_of(ask(TASK), PRINTER)

    assert agent_of(ask(TASK, called(("f", "{}", "i")), result("x", "i")), PRINTER) == first
    assert agent_of(ask(user("book a train")), PRINTER) != first
    assert agent_of(replace(ask(TASK), declared=Declared(agent="codex")), PRINTER) != first


def test_moments_are_in_utc() -> None:
    assert moment(0) == "1970-01-01 00:00 UTC"
