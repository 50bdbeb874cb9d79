"""Ends, false ends and the money of a policy."""

from __future__ import annotations

import pytest

from guardproxy.calibrating.fate import fate, sums
from guardproxy.replaying.told import SessionReport, Told
from tests.calibrating.test_figures import run

NUDGE, CUT = Told(1, 3, "nudge", "cycle", 3, ""), Told(2, 5, "cut", "cycle", 6, "")


def told(*decisions: Told) -> SessionReport:
    return SessionReport("s", 9, decisions)


@pytest.mark.parametrize(
    ("outcome", "decisions", "turn", "expected"),
    [
        ("finished", (), -1, (0, 0, 0, 0, 0)),
        ("finished", (NUDGE,), -1, (1, 0, 0, 0, 0)),
        ("abandoned", (NUDGE, CUT), 2, (1, 1, 0, 70, 0)),
        ("finished", (NUDGE, CUT), 2, (1, 1, 1, 0, 30)),
        ("abandoned", (CUT,), 9, (1, 1, 0, 0, 0)),
    ],
)
def test_one_run(outcome: str, decisions: tuple[Told, ...], turn: int, expected: tuple[int, ...]) -> None:
    found = sums("p", [fate(run(outcome=outcome, spent=(10, 20, 30, 40)), told(*decisions), turn)])

    assert (found.spoken, found.cut, found.false, found.saved, found.wasted) == expected
    assert found.runs == 1
    assert found.finished == (outcome == "finished")
    assert found.spoken_finished == (found.spoken and found.finished)


def test_rules_and_names() -> None:
    other = Told(2, 5, "observe", "monologue", 6, "", would="cut")
    found = sums(
        "p", [fate(run(1), told(CUT), 0), fate(run(2, outcome="cut"), told(CUT), 0), fate(run(3), told(other), 0)]
    )

    assert found.by_rule == (("cycle", 2, 1), ("monologue", 1, 1))
    assert found.false_ids == ("a-1", "a-3")
