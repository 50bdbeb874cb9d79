"""A file is an action: what decides which one carries out a decision."""

from __future__ import annotations

import pytest

from guardproxy.core.edit import AppendText, DropCalls, ForbidTools, Reject, Reply
from guardproxy.core.interventions import ACTIONS, carry_out
from guardproxy.core.model import Decision
from tests.core.interventions.loops import RUN, context, decision
from tests.core.talk import ask

EDITS = {
    "nudge": [AppendText],
    "firm": [AppendText],
    "finalize": [AppendText, ForbidTools, DropCalls],
    "cut": [Reply],
    "deny": [Reject],
    "pause": [Reply],
}


def test_every_action_is_tested() -> None:
    assert set(ACTIONS) == set(EDITS)


@pytest.mark.parametrize("action", EDITS)
def test_edits(action: str) -> None:
    assert [type(edit) for edit in carry_out(decision(action), ask(*RUN), context())] == EDITS[action]


@pytest.mark.parametrize("action", ["pass", "observe"])
def test_nothing_is_done(action: str) -> None:
    assert carry_out(Decision(action, finding=decision("cut").finding), ask(*RUN), context()) == ()
