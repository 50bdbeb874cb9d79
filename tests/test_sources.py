"""The figures by source: how they are made, and what must be true of them."""

from __future__ import annotations

import pytest

from guardproxy.core.detectors import default_settings
from guardproxy.core.model import Triple
from guardproxy.replaying.told import SessionReport, Told
from tests import sources
from tests.sources import SHARED, Bench, Judged, Moves, best, by_rule, cells, figures, judge, moved

here = pytest.mark.skipif(
    not (SHARED / "dev.jsonl.gz").is_file(), reason="the development runs lie beside the repository and are not here"
)

LOOP = {"source_group": "a", "loop": "yes", "success": True, "intervene_at_call": 7}


def run(*steps: int, action: str = "nudge") -> SessionReport:
    return SessionReport("r", 20, tuple(Told(step, step, action, "cycle", 3, "") for step in steps))


@pytest.mark.parametrize(
    ("report", "hit", "timely", "alarm"),
    [
        (run(), False, False, False),
        (run(7, action="observe"), False, False, False),
        (run(3), False, False, True),  # too early for this loop
        (run(4), True, True, True),
        (run(9), True, True, True),
        (run(10), True, False, True),
        (run(3, 9), True, True, True),
    ],
)
def test_a_loop_is_judged_as_the_score_does(report: SessionReport, hit: bool, timely: bool, alarm: bool) -> None:
    one = judge(report, LOOP)
    assert (one.hit, one.timely, one.alarm, one.won) == (hit, timely, alarm, False)
    assert one.worth == hit


def test_a_false_alarm_weighs_more_than_a_hit() -> None:
    assert judge(run(5), {**LOOP, "loop": "no"}).worth == -sources.WEIGHT
    unlabelled = judge(run(5), {**LOOP, "loop": None})
    assert (unlabelled.worth, unlabelled.label, unlabelled.won) == (0, "", True)


def test_sums() -> None:
    runs = [
        Judged("1", "a", "yes", "cycle", hit=True, timely=True, alarm=True),
        Judged("2", "b", "yes"),
        Judged("3", "b", "no", "cycle", alarm=True, won=True),
    ]
    total = figures(runs)
    assert (total.loops, total.hit, total.timely, total.healthy, total.false) == (2, 1, 1, 1, 1)
    assert (total.successes, total.alarmed, total.recall) == (1, 1, 0.5)
    assert figures([]).recall is None
    assert {source: +cell for source, cell in by_rule(runs)["cycle"].items()} == {
        "a": {"loops": 1},
        "b": {"false": 1, "successes": 1},
    }


def test_a_moved_threshold_takes_later_ones_along_only_where_it_must() -> None:
    cell = ("repeated_call", "triple")
    assert cell in cells()
    assert ("duplicate_calls", "triple") not in cells()
    assert moved([cell], 0) == default_settings()
    assert moved([cell], 1)["repeated_call"].triple == Triple(4, 4, 6)  # type: ignore[attr-defined]
    assert moved([("monologue", "same_text")], -1) == default_settings()  # one reply is no repeat
    assert moved([("no_progress", "unmoved")], 1)["no_progress"].unmoved == Triple(7, 0, 24)  # type: ignore[attr-defined]


def test_the_best_moves() -> None:
    assert best({-1: 0, 0: 0, 1: -1}) == {-1, 0}
    assert best({-1: 3, 0: 2, 1: 2}) == {-1}


def test_which_source_a_choice_turns_on() -> None:
    """A neighbour that finds one more loop in one source, and one that raises a false alarm in another."""
    base = {"1": Judged("1", "a", "yes"), "2": Judged("2", "b", "no")}
    found = {"1": Judged("1", "a", "yes", "cycle", hit=True, timely=True, alarm=True)}
    cried = {"2": Judged("2", "b", "no", "cycle", alarm=True, won=True)}
    moves = Moves(("cycle", "triple"), 3, {-1: found, 1: cried}, base)

    assert moves.change(-1) == (1, 1, 0, 0)
    assert moves.change(1) == (0, 0, 1, 1)
    assert moves.chosen() == {-1}
    assert moves.chosen("a") == {-1, 0}
    assert moves.turning(["a", "b"]) == ["a"]
    assert "| n-1 | a |" in sources.page([*base.values(), *found.values()], [moves])


@here
def test_no_rule_lives_on_one_source() -> None:
    """On the labelled runs: every source by itself is served, and so are all others without it."""
    bench = Bench()
    judged = bench.judged(bench.play(default_settings(), [i for i in bench.ids if sources.labelled(bench.labels[i])]))
    for source in sorted({one.source for one in judged.values()}):
        own = figures(one for one in judged.values() if one.source == source)
        rest = figures(one for one in judged.values() if one.source != source)
        assert (rest.recall or 0) >= 0.93, source
        assert rest.false <= 2, source
        assert own.false <= 1, source
        assert own.loops < 3 or (own.recall or 0) >= 0.9, source
    for rule, where in by_rule(judged.values()).items():
        loops = {source: cell["loops"] for source, cell in where.items() if cell["loops"]}
        assert sum(loops.values()) < 2 or len(loops) > 1, f"{rule} has all its loops from {[*loops]}"
