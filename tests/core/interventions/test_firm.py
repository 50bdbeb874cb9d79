"""firm: other words than the nudge, the calls named, and a block that a program can read."""

from __future__ import annotations

import json

import pytest

from guardproxy.core.edit import AppendText
from guardproxy.core.interventions import firm, nudge
from tests.core.interventions.loops import NEAR, RUN, check_text, context, decision
from tests.core.talk import ask


@pytest.mark.parametrize("language", ["en", "zh"])
def test_words_and_block(language: str) -> None:
    (edit,) = firm.carry_out(decision("firm"), ask(*RUN), context(language))
    (softer,) = nudge.carry_out(decision("nudge"), ask(*RUN), context(language))

    assert isinstance(edit, AppendText)
    assert isinstance(softer, AppendText)
    assert edit.index == len(RUN) - 1
    assert edit.text != softer.text
    check_text(edit.text)
    assert json.loads(edit.text.splitlines()[-1])["runtime_feedback"] == {
        "pattern": "repeated_call",
        "repeats": 3,
        "new_information": False,
        "required_action": "state_cause_and_one_different_next_step",
        "forbidden_fingerprints": [NEAR.hex()[:16]],
    }


def test_without_a_finding_there_is_nothing_to_say() -> None:
    assert firm.carry_out(decision("firm", finding=None), ask(*RUN), context()) == ()
