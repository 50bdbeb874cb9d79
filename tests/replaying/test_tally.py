"""Sums over runs: a table of small runs whose sums are known."""

from __future__ import annotations

import pytest

from guardproxy.replaying import tally
from guardproxy.replaying.told import SessionReport, Told


def told(step: int, action: str, rule: str = "cycle", would: str = "") -> Told:
    return Told(step, 2 * step + 3, action, rule, 40 - step, "because", would)


CALM = SessionReport("calm", 9, ())
SEEN = SessionReport("seen", 5, (told(1, "observe"),))
NUDGED = SessionReport("nudged", 8, (told(1, "observe"), told(3, "nudge"), told(4, "observe", "nothing_new")))
ENDED = SessionReport("ended", 20, (told(2, "nudge", "monologue"), told(5, "finalize"), told(6, "cut", "monologue")))
SHADOW = SessionReport("shadow", 10, (told(2, "observe", would="firm"), told(4, "observe", would="cut")))
TALKED = SessionReport("talked", 3, (told(3, "cut", "monologue"),))
RUNS = [CALM, SEEN, NUDGED, ENDED, SHADOW, TALKED]


@pytest.mark.parametrize(
    ("run", "saved"),
    [(CALM, 0), (SEEN, 0), (NUDGED, 0), (ENDED, 14), (SHADOW, 5), (TALKED, 0)],
    ids=lambda one: str(one)[:30],
)
def test_saved_is_what_came_after_the_first_end(run: SessionReport, saved: int) -> None:
    assert run.saved == saved


def test_totals() -> None:
    assert tally.totals(RUNS) == tally.Totals(sessions=6, calls=55, spoken=4, ended=3, saved=19)
    assert tally.totals([]) == tally.Totals(0, 0, 0, 0, 0)


def test_a_row_a_rule() -> None:
    cycle, monologue, nothing = tally.by_rule(RUNS)
    assert cycle == tally.RuleTally("cycle", sessions=3, turns=4, noted=2, first=2, at=4, ends=2, saved=19)
    assert monologue == tally.RuleTally("monologue", sessions=2, turns=3, noted=0, first=2, at=3, ends=1, saved=0)
    assert nothing == tally.RuleTally("nothing_new", sessions=0, turns=0, noted=1, first=0, at=None, ends=0, saved=0)


def test_a_row_an_exemption_of_a_rule() -> None:
    one = SessionReport("one", 9, (), {("images", "cycle"): 4, ("other_work", "cycle"): 1})
    two = SessionReport("two", 9, (), {("other_work", "cycle"): 5, ("images", "a_rule"): 1})
    assert tally.by_exemption([one, CALM, two]) == [
        tally.SparedTally("a_rule", "images", sessions=1, turns=1),
        tally.SparedTally("cycle", "other_work", sessions=2, turns=6),
        tally.SparedTally("cycle", "images", sessions=1, turns=4),
    ]


@pytest.mark.parametrize(
    ("ours", "other", "kind"),
    [
        (CALM, SEEN, None),
        (SEEN, CALM, None),
        (NUDGED, NUDGED, None),
        (CALM, NUDGED, "new"),
        (NUDGED, SEEN, "gone"),
        (NUDGED, SHADOW, "earlier"),
        (SHADOW, NUDGED, "later"),
        (NUDGED, SessionReport("", 8, (told(3, "firm"),)), "same"),
        (NUDGED, SessionReport("", 8, (told(3, "nudge"), told(5, "cut"))), "same"),
        (NUDGED, SessionReport("", 8, (told(3, "nudge", "monologue"),)), "same"),
    ],
)
def test_differences(ours: SessionReport, other: SessionReport, kind: str | None) -> None:
    assert [one.kind for one in tally.differences([(ours, other)])] == ([kind] if kind else [])
