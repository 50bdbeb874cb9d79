"""Loops are found wherever they stand, verdicts only rise while one goes on, and healthy steps never make one."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings, strategies as st

from tests.properties.runs import (
    HEARD,
    KINDS,
    LOOPS,
    ORDER,
    QUIET,
    Loop,
    Turn,
    bounded,
    fillers,
    heard,
    judged,
    messages,
    runs,
)

each_loop = pytest.mark.parametrize("kind", sorted(LOOPS))


def place_of(turns: list[Turn], number: int) -> int:
    """The index of the message that follows the first `number` turns."""
    return len(messages(turns[:number]))


@settings(bounded, max_examples=60)
@given(fillers(most=20))
def test_healthy_rounds_are_left_alone(run: list[Turn]) -> None:
    """What the other properties rest on."""
    assert heard(judged(messages(run))) == []


@pytest.mark.parametrize("kind", KINDS)
@bounded
@given(st.data(), fillers(least=1, most=12, start=60))
def test_healthy_steps_never_make_a_verdict(kind: str, data: Any, more: list[Turn]) -> None:
    """Whatever was there before: nothing is said on a turn that follows a healthy step."""
    run = data.draw(runs(kind))
    before, after = judged(messages(run)), judged(messages([*run, *more]))
    end = place_of(run, len(run))

    assert [one for one in after if one[0] <= end] == before
    assert heard(one for one in after if one[0] > end) == []


@st.composite
def embedded(draw: st.DrawFn, kind: str) -> tuple[list[Turn], Loop]:
    """Healthy rounds and then a loop."""
    loop = draw(LOOPS[kind]())
    assume(loop.due <= len(loop.turns))  # of a circle of many parallel calls the ring holds too few laps
    return draw(fillers(most=16)), loop


@each_loop
@bounded
@given(st.data())
def test_a_loop_is_found_within_its_threshold(kind: str, data: Any) -> None:
    """Spoken of with the result that reaches the count, not before it can be known for a loop, and up to its end."""
    before, loop = data.draw(embedded(kind))
    run = [*before, *loop.turns]
    said = heard(judged(messages(run)))
    due = place_of(run, len(before) + loop.due)

    assert said, f"{loop.kind} was not found"
    assert place_of(run, len(before) + 1) < said[0][0] <= due, (loop.kind, said[0])
    assert loop.end in ("", said[-1][1]), (loop.kind, said)


UNBROKEN = ("circle", "between", "monologue", "nothing_there", "same_failure", "malformed", "same_plan")
"""Loops that other work between their turns makes another thing."""


@st.composite
def interrupted(draw: st.DrawFn, kind: str) -> tuple[list[Turn], Loop]:
    """A loop, where it may be with healthy rounds between its turns, but never so many that it is left."""
    before, loop = draw(embedded(kind))
    most = 0 if kind in UNBROKEN else 2
    gaps = draw(st.lists(st.integers(0, most), min_size=len(loop.turns), max_size=len(loop.turns)))
    filler = iter(draw(fillers(least=8, most=8, start=20, kinds=QUIET)))
    run = [*before]
    for turn, gap in zip(loop.turns, gaps, strict=True):
        run += [turn, *islice(filler, gap)]
    return run, loop


@each_loop
@bounded
@given(st.data())
def test_verdicts_only_rise_while_a_loop_goes_on(kind: str, data: Any) -> None:
    """What is said is never less than what was said before, and never for a smaller count of the same rule."""
    run, loop = data.draw(interrupted(kind))
    said = heard(judged(messages(run)))

    rungs = [ORDER.index(action) for _, action, _, _ in said]
    assert rungs == sorted(rungs), (loop.kind, said)
    by_rule: dict[str, list[int]] = {}
    for _, _, rule, count in said:
        by_rule.setdefault(rule, []).append(count)
    assert all(counts == sorted(counts) for counts in by_rule.values()), (loop.kind, said)


@pytest.mark.parametrize("kind", sorted({*LOOPS} - {"between"}))  # the reads between are nothing to notice
@bounded
@given(st.data())
def test_a_loop_that_goes_on_is_counted_on(kind: str, data: Any) -> None:
    """From its first word on every turn of an unbroken loop is at least noticed, with counts that never fall."""
    before, loop = data.draw(embedded(kind))
    run = [*before, *loop.turns]
    told = judged(messages(run))
    first = next(message for message, action, _, _ in told if action in HEARD)
    noticed = [one for one in told if one[0] >= first]
    turns = [at for number in range(len(before), len(run)) if (at := place_of(run, number + 1)) >= first]

    ended = any(action == "cut" for _, action, _, _ in noticed)
    assert [one[0] for one in noticed] == (turns[: len(noticed)] if ended else turns), (loop.kind, told)
    for (_, _, rule, count), (_, _, later, further) in pairwise(noticed):
        assert rule != later or further >= count, (loop.kind, told)
