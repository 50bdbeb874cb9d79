"""finalize: ask for the answer, forbid calls, and know what to say if the answer is empty."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from guardproxy.core.edit import AppendText, DropCalls, ForbidTools
from guardproxy.core.interventions import finalize
from tests.core.interventions.loops import RUN, check_text, context, decision
from tests.core.talk import ask, called, user

BUDGET = {"rule": "budget.turns", "reason": "turns of this span: 7 of 8 used", "finding": None}


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("more", [{}, BUDGET], ids=["a loop", "a budget"])
def test_three_edits(language: str, more: dict[str, object]) -> None:
    advice, forbid, drop = finalize.carry_out(decision("finalize", **more), ask(*RUN), context(language))

    assert isinstance(advice, AppendText)
    assert advice.index == len(RUN) - 1
    check_text(advice.text)
    assert forbid == ForbidTools()
    assert isinstance(drop, DropCalls)
    assert "nothing here" in drop.text, "the summary says what was found"
    assert not re.search("new message|新消息", drop.text), "the run is not closed: there is nothing to open"
    if more:
        assert "7 of 8 used" in advice.text
        assert "7 of 8 used" in drop.text


def test_where_no_tools_are_offered_none_are_forbidden() -> None:
    edits = finalize.carry_out(decision("finalize"), replace(ask(*RUN), tools=()), context())

    assert [type(edit) for edit in edits] == [AppendText, DropCalls]


def test_without_a_place_for_words_calls_are_forbidden_all_the_same() -> None:
    edits = finalize.carry_out(decision("finalize"), ask(user("x"), called(("f", "{}", "a"))), context())

    assert [type(edit) for edit in edits] == [ForbidTools, DropCalls]
