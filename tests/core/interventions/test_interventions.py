"""What a decision is once its edits are known: where nothing was said, nothing is said to have been."""

from __future__ import annotations

from dataclasses import replace

import pytest

from guardproxy.core.interventions import carry_out, unsaid
from guardproxy.core.model import Episode, Rung
from tests.core.interventions.loops import FINDING, NEAR, RUN, RUNGS, context, decision
from tests.core.talk import ask, said


@pytest.mark.parametrize("place", [True, False], ids=["a place", "the assistant's words"])
@pytest.mark.parametrize("action", ["nudge", "firm", "finalize", "cut"])
def test_what_found_no_place_was_not_said(action: str, place: bool) -> None:
    mark = Episode(FINDING.rule, NEAR, (NEAR,), RUNGS[action], 3, 2, FINDING.triple)
    decided, request = decision(action, episode=mark), ask(*RUN, *([] if place else [said("So")]))

    told = unsaid(decided, carry_out(decided, request, context()))

    if place or action in ("finalize", "cut"):  # these do more than speak
        assert told == decided
        return
    assert (told.action, told.rung, told.mode, told.would) == ("observe", Rung.OBSERVE, "enforce", "")
    assert told.episode == (None if action == "nudge" else mark)
    assert (told.rule, told.count) == (decided.rule, decided.count)
    assert told.reason.startswith(f"{decided.reason}; not said")


def test_what_has_no_words_was_not_said() -> None:
    vague = decision("nudge", finding=None)
    assert unsaid(vague, carry_out(vague, ask(*RUN), context())).action == "observe"


def test_what_says_nothing_stays() -> None:
    quiet = replace(decision("nudge"), action="observe")
    assert unsaid(quiet, ()) is quiet
