"""The words and the bookkeeping beside a judged turn: what is noted, what calls are told, how a turn is finalized."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from guardproxy.api import chat
from guardproxy.core.edit import AppendText, DropCalls, ForbidTools
from guardproxy.core.episode import pack_episode
from guardproxy.core.model import NO_FP, Call, Decision, Episode, Rung, Triple
from guardproxy.core.policy import Policy
from guardproxy.core.proposals import Objection
from guardproxy.http import deciding
from guardproxy.http.outcome import Outcome
from tests.core.interventions.loops import FINDING, NEAR, RUN, STEPS
from tests.core.talk import ask, view_of

REFUSED = Objection(0, "refuse", "repeated_call", "No: f again.", "f again", subject=NEAR, members=(NEAR,), count=5)
FIRM = Decision("firm", Rung.FIRM, FINDING.rule, 4, FINDING.reason, finding=FINDING)


def turn(*episodes: Episode, language: str = "en", on_cut: str = "cut", org: str = "default") -> Any:
    """As much of a turn as decisions are made of."""
    return SimpleNamespace(
        outcome=Outcome(),
        decision=FIRM,
        ask=ask(*RUN),
        seen=view_of(STEPS, episodes=tuple(pack_episode(one) for one in episodes)),
        language=language,
        put_back=(),
        surface=chat,
        opening=SimpleNamespace(org=org),
        chosen=SimpleNamespace(policy=Policy(on_cut=on_cut)),
        proxy=SimpleNamespace(where=" --config g.yaml"),
    )


def episode(rung: Rung) -> Episode:
    return Episode(FINDING.rule, NEAR, (NEAR,), rung, 4, 2, Triple(3, 4, 6))


STAGES: dict[str, tuple[tuple[Episode, ...], int, bool, str, str]] = {
    # episodes of the store, how often was asked, whether no call is left: what the turn does, the action
    "the first": ((episode(Rung.FIRM),), 0, True, "reask", "refuse"),
    "the third": ((episode(Rung.FIRM),), 2, True, "finalize", "finalize"),
    "of a loop that had to answer": ((episode(Rung.FINALIZE),), 0, True, "cut", "cut"),
    "beside others": ((episode(Rung.FINALIZE),), 2, False, "reask", "refuse"),
    "of no loop yet": ((), 0, True, "reask", "refuse"),
}


@pytest.mark.parametrize("name", STAGES)
def test_what_the_turn_does(name: str) -> None:
    episodes, asked, alone, over, action = STAGES[name]
    made = turn(*episodes)

    assert deciding.refused(made, REFUSED, asked=asked, alone=alone) == over
    assert (made.decision.action, made.decision.rule, made.decision.count) == (action, "repeated_call", 5)


def test_an_end_may_be_handed_to_a_person() -> None:
    made = turn(episode(Rung.FINALIZE), on_cut="pause")

    assert deciding.refused(made, REFUSED, asked=0, alone=True) == "cut"
    assert (made.decision.action, made.decision.rung) == ("pause", Rung.CUT)


@pytest.mark.parametrize(("action", "expected"), [("refuse", "finalize"), ("firm", "firm"), ("pause", "pause")])
def test_a_turn_that_only_refused_was_made_to_answer(action: str, expected: str) -> None:
    made = turn()
    made.decision = replace(FIRM, action=action)
    deciding.closed(made)

    assert made.decision.action == expected


def test_what_is_only_observed_is_noted_and_changes_little() -> None:
    made = turn()
    made.decision = Decision("pass")
    calls = (Call("f", "{}"), Call("g", "{}"))
    deciding.note(made, (replace(REFUSED, mode="observe"), replace(REFUSED, position=1)), calls)

    assert [(one.mode, call.name, attempt) for one, call, attempt in made.outcome.objected] == [
        ("observe", "f", 1),
        ("enforce", "g", 1),
    ]
    assert made.decision == Decision("pass"), "of a loop the request's side speaks"
    forbidden = replace(REFUSED, mode="observe", rule="tools.deny", subject=NO_FP)
    deciding.note(made, (forbidden,), calls)
    assert (made.decision.action, made.decision.mode, made.decision.would) == ("observe", "observe", "refuse")
    made.outcome.pass_over(None)
    deciding.note(made, (REFUSED,), calls)
    assert made.outcome.objected[-1][2] == 2, "of the second attempt"


def test_each_call_is_told_why_and_those_beside_it_the_first_reason() -> None:
    second = replace(REFUSED, position=2, text="No: g.")

    assert deciding.texts(3, [REFUSED, second]) == ["No: f again.", "No: f again.", "No: g."]
    assert deciding.texts(1, [REFUSED]) == ["No: f again."]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_finalize(language: str) -> None:
    """What the model is asked is a text of ours, and what stands in for an answer that it does not give, too."""
    made = turn(language=language)
    text, drop = deciding.finalize(made)

    assert (made.decision.action, made.decision.rung) == ("finalize", Rung.FINALIZE)
    assert text.startswith("[guardproxy]")
    assert not text.endswith("\n")
    assert drop.text.startswith("[guardproxy]")
    assert drop.text != text


def test_finalize_without_a_place_for_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversation without a message that could carry them."""
    monkeypatch.setattr(deciding.interventions, "carry_out", lambda *_: (ForbidTools(),))
    made = turn()
    text, drop = deciding.finalize(made)

    assert text == ""
    assert drop == DropCalls(deciding.summary(made))
    monkeypatch.setattr(deciding.interventions, "carry_out", lambda *_: (AppendText(1, "\n\nSay."), DropCalls("x")))
    assert deciding.finalize(made) == ("Say.", DropCalls("x"))


def test_the_summary_says_what_was_found() -> None:
    text = deciding.summary(turn())

    assert "nothing here" in text
    assert "f called 3 times in a row" in text


@pytest.mark.parametrize(("org", "more"), [("default", ""), ("a team's", """ --org 'a team'"'"'s'""")])
def test_where_commands_reach_the_run(org: str, more: str) -> None:
    assert deciding.where(turn(org=org)) == f" --config g.yaml{more}"
