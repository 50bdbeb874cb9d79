"""Percentiles that really occurred, proposals only from enough runs, and what is above the limits in force."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from guardproxy.calibrating.figures import BINS, ENOUGH, ENOUGH_FOR_P99, Figures, groups, percentile, propose
from guardproxy.calibrating.happened import Run
from guardproxy.core.budget import Limit


def run(turns: int = 1, *, outcome: str = "finished", agent: str = "a", **more: object) -> Run:
    values = {"tool_calls": turns, "tokens": 0, "seconds": None, "spent": (0,)} | more
    return Run(id=f"{agent}-{turns}", agent=agent, outcome=outcome, turns=turns, **values)  # type: ignore[arg-type]


def figures(runs: list[Run], name: str = "turns", limits: tuple[Limit, ...] = (), margin: float = 0.5) -> Figures:
    (group,) = groups(runs, limits, margin)
    return next(one for one in group.figures if one.measure.name == name)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [(range(1, 101), 95, 95), (range(1, 101), 50, 50), ([7], 99, 7), ([1, 2], 50, 1), (range(1, 21), 95, 19)],
)
def test_percentiles(values: list[int], percent: int, expected: int) -> None:
    assert percentile([*values], percent) == expected


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=200).map(sorted), st.sampled_from([50, 90, 95, 99]))
def test_a_percentile_occurred_and_bounds_its_share(values: list[int], percent: int) -> None:
    found = percentile(values, percent)

    assert found in values
    assert sum(one <= found for one in values) * 100 >= percent * len(values)


@pytest.mark.parametrize(
    ("p95", "margin", "expected"),
    [
        (11, 0.5, 17),
        (100, 0.5, 150),
        (69, 0.5, 110),
        (0.07, 0.5, 0.11),
        (1_131_327, 0.5, 1_700_000),
        (10, 0, 10),
        (0, 1, None),
    ],
)
def test_proposals(p95: float, margin: float, expected: float) -> None:
    assert propose(p95, margin) == expected
    assert propose(0, margin) is None


@given(st.floats(0.0001, 1e9), st.floats(0, 3))
def test_a_proposal_is_never_below_what_it_is_made_from(p95: float, margin: float) -> None:
    assert (propose(p95, margin) or 0) >= p95 * (1 + margin) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("count", "p95", "p99", "proposed"),
    [(ENOUGH - 1, None, None, None), (ENOUGH, 19, None, 29), (ENOUGH_FOR_P99, 95, 99, 150)],
)
def test_too_few_runs_say_nothing(count: int, p95: int | None, p99: int | None, proposed: int | None) -> None:
    found = figures([run(turns) for turns in range(1, count + 1)])

    assert (found.sample, found.percentiles[2:], found.proposed) == (count, (p95, p99), proposed)


def test_only_finished_runs_are_measured() -> None:
    found = figures([*[run(turns) for turns in range(1, 31)], *[run(999, outcome="cut")] * 30])

    assert (found.sample, found.largest, found.proposed) == (30, 30, 44)


def test_limits_in_force() -> None:
    limits = (Limit("session", "turns", 25), Limit("span", "turns", 28), Limit("span", "tool_calls", -1))
    runs = [run(turns) for turns in range(1, 31)]

    assert (figures(runs, limits=limits).now, figures(runs, limits=limits).above_now) == (25, 5)
    assert figures(runs, "tool calls", limits).now is None


def test_units() -> None:
    runs = [run(seconds=90.5, spent=(1_500_000, 500_000)) for _ in range(30)]
    limits = (Limit("session", "cost_microusd", 1_000_000), Limit("span", "wall_ms", 100_000))
    money, time = figures(runs, "cost ($)", limits), figures(runs, "seconds", limits)

    assert (money.largest, money.now, money.above_now, money.proposed) == (2, 1, 30, 3)
    assert (time.largest, time.now, time.above_now, time.proposed) == (90.5, 100, 0, 140)


def test_a_proposal_says_whom_it_would_have_ended() -> None:
    found = figures([*[run(10)] * 39, run(900)])

    assert (found.proposed, found.above) == (15, 1)


def test_what_is_not_known_is_not_measured() -> None:
    (group,) = groups([run()], ())

    assert "seconds" not in {one.measure.name for one in group.figures}


def test_agents_apart_the_largest_first() -> None:
    few, many = [run(agent="few", heard=frozenset({"cycle"}))], [run(agent="many", outcome="cut")] * 2
    found = groups([*few, *many], ())

    assert [(one.agent, one.finished, dict(one.heard)) for one in found] == [("many", 0, {}), ("few", 1, {"cycle": 1})]


@given(st.lists(st.integers(0, 500), min_size=1, max_size=80))
def test_all_runs_are_in_the_bars(turns: list[int]) -> None:
    found = figures([run(one) for one in turns])

    assert (len(found.bars), sum(found.bars)) == (BINS, len(turns))
