"""`interleaved_repeat`: one pair over and over between other work; gaps, news, acknowledgements."""

from __future__ import annotations

from dataclasses import replace

import pytest

from guardproxy.core.detectors.interleaved_repeat import Settings, detect, spare
from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Kind, Rung, Trail
from tests.core.detectors.scripts import Turn, trails
from tests.core.talk import step

TEST: Turn = ("sh", '{"cmd":"make test"}', "error: undefined symbol")


def read(number: int) -> Turn:
    return ("read", f'{{"p":"f{number}"}}', f"text {number}")


def edit(number: int) -> Turn:
    return ("edit", f'{{"p":"a","new":"v{number}"}}', "ok")


def every(gap: int, times: int, *, of: Turn = TEST) -> list[Turn]:
    """The turn `times` times with `gap` - 1 fresh reads between."""
    turns: list[Turn] = []
    for number in range(times):
        turns += [of, *[read(number * 100 + k) for k in range(gap - 1)]]
    return turns[: len(turns) - (gap - 1)]


@pytest.mark.parametrize(
    ("turns", "count"),
    [
        ([TEST], None),
        ([TEST] * 5, None),  # in a row: `repeated_call`
        (every(2, 2), None),
        (every(2, 4), 4),
        (every(6, 4), 4),
        (every(7, 4), None),
        ([*every(2, 4), read(1)], None),
        (every(2, 4, of=("sh", '{"cmd":"x"}', "still running")), None),
        (every(2, 4, of=("rm", '{"p":"x"}', "")), 4),
        (every(2, 4, of=("delete", '{"p":"x"}', "")), None),
        ([*every(2, 3), edit(1), TEST, read(90), TEST], 2),  # news in between starts the strong count anew
    ],
)
def test_counts(turns: list[Turn], count: int | None) -> None:
    found = detect(trails(turns)[-1], Settings())
    assert (found.count if found else None) == count


@pytest.mark.parametrize(("times", "rung"), [(5, Rung.OBSERVE), (6, Rung.NUDGE), (20, Rung.NUDGE)])
def test_with_news_in_between_it_is_weak(times: int, rung: Rung) -> None:
    turns = [turn for number in range(times) for turn in (edit(number), TEST)]
    found = detect(trails(turns)[-1], Settings())
    assert found is not None
    assert found.rung is rung
    assert found.spared == Spared(Exemption.STATE_CHANGE, "interleaved_repeat", times, tuple(range(1, 2 * times, 2)))


LOOKS: dict[str, Turn] = {
    "a look": ("list_files", '{"path":"."}', "a.py\nb.py"),
    "a plain command": ("bash", '{"command":"ls"}', "a.py  b.py"),
    "green tests": ("bash", '{"command":"go test ./..."}', "ok  \texample.com/x\t0.42s"),
    "all well": ("run_tests", "{}", "all tests passed"),
}


@pytest.mark.parametrize("name", LOOKS)
@pytest.mark.parametrize(("times", "rung"), [(11, Rung.OBSERVE), (12, Rung.NUDGE), (20, Rung.NUDGE)])
def test_looking_again_after_a_change_is_a_check(name: str, times: int, rung: Rung) -> None:
    turns = [turn for number in range(times) for turn in (edit(number), LOOKS[name])]
    found = detect(trails(turns)[-1], Settings())
    assert found is not None
    assert found.rung is rung


def test_without_a_change_a_look_is_as_any_other() -> None:
    found = detect(trails(every(2, 4, of=LOOKS["a look"]))[-1], Settings())
    assert found is not None
    assert found.rung is Rung.NUDGE


def test_what_was_run_meanwhile_is_news_for_a_look() -> None:
    turns = [turn for k in range(4) for turn in (LOOKS["a look"], ("bash", f'{{"command":"./try {k}"}}', f"said {k}"))]
    found = detect(trails(turns[:-1])[-1], Settings())
    assert found is not None
    assert (found.rung, found.spared) == (
        Rung.OBSERVE,
        Spared(Exemption.NEW_INFORMATION, "interleaved_repeat", 4, (0, 2, 4, 6)),
    )


FIX: Turn = ("write_fix", '{"line":1}', "Error: 1 test fails, expected 3")


@pytest.mark.parametrize(
    ("told", "rung"),
    [
        (["the fix misses two lines"] * 4, Rung.NUDGE),  # another try that ends as one did before
        ([f"the fix misses {word}" for word in ("one", "two", "all", "none")], Rung.OBSERVE),
        (["ok"] * 4, Rung.OBSERVE),
    ],
)
def test_other_tries_that_end_like_earlier_ones_are_no_news_for_a_try(told: list[str], rung: Rung) -> None:
    first: Turn = ("write_fix", '{"line":0}', told[0])
    turns = [first, *(turn for k, one in enumerate(told) for turn in (FIX, ("write_fix", f'{{"line":{k + 2}}}', one)))]
    found = detect(trails(turns[:-1])[-1], Settings())
    assert found is not None
    assert found.rung is rung


def wait(seconds: int) -> Turn:
    return ("bash", f'{{"command":"sleep {seconds}"}}', "")


@pytest.mark.parametrize(("seconds", "rung"), [(5, Rung.CUT), (60, Rung.OBSERVE), (300, Rung.OBSERVE)])
def test_a_schedule_is_only_observed(seconds: int, rung: Rung) -> None:
    turns = [turn for k in range(8) for turn in (TEST, read(k), wait(seconds))]
    found = detect(trails(turns[:-2])[-1], Settings())
    assert found is not None
    assert found.rung is rung
    assert (found.spared is not None) == (rung is Rung.OBSERVE)


def test_a_check_that_fails_differently_is_news() -> None:
    lints: list[Turn] = [("sh", '{"cmd":"lint"}', f"error: rule {word}") for word in ("a", "b", "c", "d", "e", "f")]
    turns = [turn for lint in lints for turn in (lint, TEST)]
    found = detect(trails(turns)[-1], Settings())
    assert found is not None
    assert (found.count, found.triple, found.rung) == (6, Settings().weak, Rung.NUDGE)


def test_parallel_work_counts_as_one_step_of_the_gap() -> None:
    busy: list[Turn] = []
    for number in range(4):
        busy += [TEST, [(f"read{k}", f'{{"n":{number}}}', f"{number} {k}") for k in range(9)]]
    found = detect(trails(busy[:-1])[-1], Settings())
    assert found is not None
    assert found.count == 4


def test_evidence_is_of_the_pair_alone() -> None:
    trail = trails(every(2, 4))[-1]
    found = detect(trail, Settings())
    assert found is not None
    assert found.evidence == (0, 2, 4, 6)
    assert found.members == (trail.steps[0].near,)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.CALL])
def test_after_a_step_that_is_no_call_there_is_nothing_to_spare(kind: Kind) -> None:
    """A final answer after a loop, for one, and new words behind it."""
    steps = tuple(step("sh", '{"cmd":"make test"}') for _ in range(6))
    last = replace(steps[-1], kind=kind)
    assert spare(Trail((*steps, last)), Settings()) is None
