"""What a refused proposal makes of a decision: asked again, made to answer, ended; and what is only noted."""

from __future__ import annotations

import pytest

from guardproxy.core.model import NO_FP, Decision, Episode, Rung, Trail, Triple
from guardproxy.core.proposals import Objection
from guardproxy.core.refusal import observed, refused, worst
from guardproxy.core.terms import REASKS

A, B = bytes([1] * 16), bytes([2] * 16)
TRAIL = Trail((), first=3)
FIRM = Decision("firm", Rung.FIRM, "repeated_call", 4, "f four times")


def objection(action: str = "refuse", subject: bytes = A, count: int = 5, rule: str = "repeated_call") -> Objection:
    return Objection(0, action, rule, "no", "f again", subject=subject, count=count)


def episode(rung: Rung, subject: bytes = A) -> Episode:
    return Episode("repeated_call", subject, (subject,), rung, 4, 2, Triple(3, 4, 6))


REFUSED: dict[str, tuple[Objection, tuple[Episode, ...], dict[str, int | bool], tuple[str, Rung]]] = {
    # what is objected to, the episodes of the store, how often was asked and whether no call is left: action and rung
    "the first": (objection(), (episode(Rung.FIRM),), {"asked": 0, "alone": True}, ("refuse", Rung.FIRM)),
    "the last that is asked again": (
        objection(), (episode(Rung.FIRM),), {"asked": REASKS - 1, "alone": True}, ("refuse", Rung.FIRM)),
    "often enough": (
        objection(), (episode(Rung.FIRM),), {"asked": REASKS, "alone": True}, ("finalize", Rung.FINALIZE)),
    "of a loop that had to answer before": (
        objection(), (episode(Rung.FINALIZE),), {"asked": 0, "alone": True}, ("cut", Rung.CUT)),
    "of another loop that had to": (
        objection(), (episode(Rung.FINALIZE, B),), {"asked": 0, "alone": True}, ("refuse", Rung.FIRM)),
    "the newest of a loop counts": (
        objection(), (episode(Rung.FINALIZE), episode(Rung.FIRM)), {"asked": 0, "alone": True}, ("refuse", Rung.FIRM)),
    "beside other calls nothing ends": (
        objection(), (episode(Rung.FINALIZE),), {"asked": REASKS, "alone": False}, ("refuse", Rung.FIRM)),
    "wrong arguments end nothing": (
        objection("repair", NO_FP), (episode(Rung.FINALIZE),), {"asked": 9, "alone": True}, ("refuse", Rung.FIRM)),
    "what is forbidden has no loop": (
        objection(subject=NO_FP), (episode(Rung.CUT, NO_FP),), {"asked": 0, "alone": True}, ("refuse", Rung.FIRM)),
    "what is forbidden, too often": (
        objection(subject=NO_FP), (), {"asked": REASKS, "alone": True}, ("finalize", Rung.FINALIZE)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    one, past, how, (action, rung) = REFUSED[name]
    found = refused(FIRM, one, past, TRAIL, asked=int(how["asked"]), alone=bool(how["alone"]))

    assert (found.action, found.rung, found.mode, found.would) == (action, rung, "enforce", "")
    assert (found.rule, found.count, found.reason) == ("repeated_call", 5, "f again")


def test_the_loop_is_counted_on_and_never_falls_back() -> None:
    """The mark that the store keeps: the refused proposal was an occurrence, its place that of the newest step."""
    past = (episode(Rung.FINALIZE),)
    beside = refused(FIRM, objection(), past, TRAIL, asked=0, alone=False).episode
    ended = refused(FIRM, objection(), past, TRAIL, asked=0, alone=True).episode

    assert beside is not None
    assert ended is not None
    assert (beside.rung, beside.count, beside.at_step) == (Rung.FINALIZE, 5, 3)
    assert (ended.rung, ended.count, ended.subject) == (Rung.CUT, 5, A)


def test_a_new_loop_of_this_turn_goes_before_that_of_the_store() -> None:
    decision = Decision("firm", Rung.FIRM, "repeated_call", 4, "", episode=episode(Rung.FIRM))
    found = refused(decision, objection(), (), TRAIL, asked=REASKS, alone=True).episode

    assert found is not None
    assert (found.rung, found.count) == (Rung.FINALIZE, 5)


def test_without_a_loop_the_mark_of_the_turn_stays() -> None:
    mark = episode(Rung.NUDGE, B)
    decision = Decision("nudge", Rung.NUDGE, "cycle", 3, "", episode=mark)

    assert refused(decision, objection(subject=NO_FP), (), TRAIL, asked=0, alone=True).episode == mark
    assert refused(FIRM, objection(subject=NO_FP), (), TRAIL, asked=0, alone=True).episode is None


WORST = {
    "a refusal before a repair": ([("repair", 9), ("refuse", 1)], ("refuse", 1)),
    "a repair before a pause": ([("pause", 9), ("repair", 0)], ("repair", 0)),
    "the higher count": ([("refuse", 4), ("refuse", 6), ("refuse", 5)], ("refuse", 6)),
    "the first of equals": ([("refuse", 4)], ("refuse", 4)),
}


@pytest.mark.parametrize("name", WORST)
def test_worst(name: str) -> None:
    given, expected = WORST[name]
    found = worst([objection(action, count=count) for action, count in given])

    assert (found.action, found.count) == expected


OBSERVED = {
    # action of the objection, what was decided before: what is told
    "a refusal": ("refuse", Decision("pass"), ("observe", Rung.OBSERVE, "refuse")),
    "a repair is a refusal": ("repair", Decision("pass"), ("observe", Rung.OBSERVE, "refuse")),
    "a pause": ("pause", Decision("observe", Rung.OBSERVE), ("observe", Rung.OBSERVE, "pause")),
    "beside advice that was given": ("refuse", FIRM, ("firm", Rung.FIRM, "")),
    "beside what would have been done": (
        "refuse", Decision("observe", Rung.OBSERVE, would="cut"), ("observe", Rung.OBSERVE, "cut")),
}  # fmt: skip


@pytest.mark.parametrize("name", OBSERVED)
def test_observed(name: str) -> None:
    action, before, expected = OBSERVED[name]
    found = observed(before, objection(action))

    assert (found.action, found.rung, found.would) == expected
    changed = found != before
    assert changed is (found.rule == "repeated_call" and before.rule == "")
