"""What tokens cost, in whole micro-dollars, rounded up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from guardproxy.core.model import Usage
from guardproxy.core.pricing import (
    REACH,
    Rates,
    Tier,
    cost,
    estimate_input,
    estimate_output,
    hold,
    thinks,
    times,
    together,
)

PLAIN = Rates(2.5, 10.0)
CACHED = Rates(2.5, 10.0, cached=0.25, cache_write=3.125)
SONNET = Rates(3.0, 15.0, cached=0.3, cache_write=3.75, cache_write_1h=6.0)
THINKING = Rates(1.0, 2.0, reasoning=5.0)
SPEAKING = Rates(2.5, 10.0, cached=1.0, audio=32.0, audio_output=64.0)
DRAWING = Rates(5.0, 10.0, image=8.0, image_output=32.0)
ANSWERING = Rates(1.0, 1.0, request=12_000.0)
TIERED = Rates(
    1.0, 10.0, 0.1, tiers=(Tier(200_000, Rates(4.0, 40.0, 0.4)), Tier(100_000, Rates(2.0, 20.0, 0.2, reasoning=30.0)))
)

COSTS = [
    (PLAIN, Usage(), 0),
    (PLAIN, Usage(input=1000, output=100), 3500),
    (PLAIN, Usage(input=1), 3),  # 2.5 rounded up: a price is never lost
    (Rates(0.05, 0.4), Usage(input=1, output=1), 1),
    (PLAIN, Usage(input=1000, cached=1000), 2500),  # no rate of its own: as input
    (CACHED, Usage(input=1000, cached=800), 700),
    (CACHED, Usage(input=1000, cached=800, cache_write=100), 763),  # 100 * 2.5 + 200 + 312.5
    (PLAIN, Usage(input=-5, output=1), 10),  # a provider's nonsense does not pay anything back
    (CACHED, Usage(input=10, cached=800), 200),  # more cached than input: nothing below zero
    (Rates(0.0, 0.0), Usage(input=10**9, output=10**9), 0),
    (Rates(3.0, 15.0, cached=0.0), Usage(input=100, cached=100), 0),
    (PLAIN, Usage(input=10**12, output=10**12), 12_500_000_000_000),
    # case 20 of gateways.md: input 3, written 12,304, output 550 at 3 / 3.75 / 15 dollars
    (SONNET, Usage(input=12_307, output=550, cache_write=12_304), 54_399),
    (SONNET, Usage(input=1000, cache_write=1000, cache_write_1h=400), 4650),  # 600 * 3.75 + 400 * 6
    (SONNET, Usage(input=1000, cache_write=100, cache_write_1h=400), 3300),  # not more of them than were written
    (CACHED, Usage(input=1000, cache_write=1000, cache_write_1h=1000), 3125),  # no price of its own: as other writes
    (THINKING, Usage(output=100, reasoning=40), 320),  # 60 * 2 + 40 * 5
    (THINKING, Usage(output=100, reasoning=140), 500),
    (PLAIN, Usage(output=100, reasoning=40), 1000),
    (Rates(1.0, 2.0, reasoning=0.0), Usage(output=100, reasoning=40), 120),  # free on purpose
    (TIERED, Usage(input=100_000, output=10), 100_100),
    (TIERED, Usage(input=100_001, output=10), 200_202),  # all tokens, not only those above
    (TIERED, Usage(input=200_001, output=10), 800_404),
    (TIERED, Usage(input=200_001, cached=200_000, output=10), 80_404),  # cached ones are in the length, too
    (TIERED, Usage(input=100_001, output=10, reasoning=5), 200_252),
    (Rates(0.1, 0.2), Usage(input=30, output=15), 6),  # 3.0000000000000004 + 3 is no seven
    (Rates(1e-6, 0.0), Usage(input=1), 1),
    (SPEAKING, Usage(input=1000, output=100, audio=400, audio_output=90), 1500 + 12_800 + 100 + 5760),
    (SPEAKING, Usage(input=1000, output=100, audio_output=0), 3500),  # it was only asked in writing
    (SPEAKING, Usage(input=100, output=100), 250 + 6400),  # how much of it was said is not: all
    (SPEAKING, Usage(input=100, output=100, reasoning=30), 250 + 300 + 4480),  # but what was thought
    (SPEAKING, Usage(input=10, output=10, audio=99, audio_output=99), 320 + 640),  # never more than there are
    (SPEAKING, Usage(input=1000, cached=800, audio=600, audio_output=0), 400 + 19_200),  # cached were words first
    (PLAIN, Usage(input=1000, output=100, audio=400, audio_output=90, image=9, image_output=9), 3500),
    (DRAWING, Usage(input=1000, output=100, image=400, image_output=60), 3000 + 3200 + 400 + 1920),
    (ANSWERING, Usage(input=10, output=10), 12_020),
    (ANSWERING, Usage(), 0),  # it was not asked, or was refused
    (Rates(0.0, 0.0, request=5.0), Usage(output=1), 5),
    (Rates(1.0, 1.0, search=10_000.0, file_search=2500.0), Usage(10, 10, searches=3, file_searches=2), 35_020),
    (PLAIN, Usage(1000, 100, searches=3, file_searches=2), 3500),
]


@pytest.mark.parametrize("model", ["o3", "openai/o1-pro", "gpt-5", "GPT-5.1-codex", "gemini-2.5-flash", "x-ai/grok-4"])
def test_who_thinks_unseen(model: str) -> None:
    assert thinks(model)


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1", "claude-opus-4-5", "gemini-2.0-flash", "omni", "mock-1", ""])
def test_who_does_not(model: str) -> None:
    assert not thinks(model)


@pytest.mark.parametrize("rates", [PLAIN, CACHED, SONNET, THINKING, TIERED, SPEAKING, DRAWING])
def test_times(rates: Rates) -> None:
    """What has no price of its own has none; a request's own price is not that of its tokens."""
    usage = Usage(150_000, 100, 10, 20, 30, cache_write_1h=5, audio=6, image=7, audio_output=8, image_output=9)
    assert abs(cost(times(rates, 3.0), usage) - 3 * cost(rates, usage)) <= 3
    assert times(replace(rates, request=7.0), 2.0).request == 7.0
    assert times(rates, 1.0) == rates


@pytest.mark.parametrize(("rates", "usage", "expected"), COSTS)
def test_cost(rates: Rates, usage: Usage, expected: int) -> None:
    found = cost(rates, usage)

    assert (found, type(found)) == (expected, int)


HOLDS = [
    (PLAIN, 1000, 100, 3500),
    (CACHED, 1000, 100, 4125),  # all of it may be written to the cache
    (Rates(2.5, 10.0, cached=0.25, cache_write=0.5), 1000, 0, 2500),
    (THINKING, 100, 100, 600),  # all of it may be reasoning
    (TIERED, 66_667, 10, 66_767),
    (TIERED, 66_668, 10, 133_636),  # they may turn out to be more than 100,000, and the output to be reasoning
    (TIERED, 199_000, 10, 796_400),
    (TIERED, 300_000, 0, 1_200_000),
    (Rates(0.0, 0.0), 10**6, 10**6, 0),
    (SPEAKING, 100, 100, 6650),  # all of it may be sound
    (DRAWING, 100, 100, 3700),
    (ANSWERING, 100, 100, 12_200),
    (Rates(9.0, 9.0, tiers=(Tier(100, Rates(1.0, 1.0)),)), 80, 0, 720),  # a tier may be cheaper: not for sure
]


@pytest.mark.parametrize(("rates", "given", "most", "expected"), HOLDS)
def test_hold(rates: Rates, given: int, most: int, expected: int) -> None:
    found = hold(rates, given, most)

    assert (found, type(found)) == (expected, int)


ALL = [PLAIN, CACHED, SONNET, THINKING, TIERED, SPEAKING, DRAWING, ANSWERING]
tokens = st.integers(0, 400_000)


@given(st.sampled_from(ALL), tokens, st.floats(0.5, REACH), st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_no_call_that_stays_within_its_estimate_costs_more_than_was_held(
    rates: Rates, estimate: int, more: float, shares: list[float]
) -> None:
    """One-hour writes apart, which are only known afterwards."""
    taken = min(estimate, int(estimate * more))
    cached = int(taken * shares[0])
    written = int((taken - cached) * shares[1])
    output = int(4096 * shares[2])
    used = Usage(taken, output, cached, written, int(output * shares[3]))

    assert cost(rates, used) <= hold(rates, estimate, 4096)


def test_two_short_inputs_are_no_long_one() -> None:
    """Why the cost of a turn is the sum of its attempts' costs, not the cost of their sum."""
    one = Usage(input=60_000, output=10)
    assert cost(TIERED, one) * 2 == 120_200
    assert cost(TIERED, together([one, one])) == 240_400


@pytest.mark.parametrize(
    ("size", "factor", "expected"), [(0, 1.0, 1), (3, 1.0, 1), (400, 1.0, 100), (400, 1.25, 125), (400, 0.001, 1)]
)
def test_estimate_of_input(size: int, factor: float, expected: int) -> None:
    assert estimate_input(size, factor) == expected


@pytest.mark.parametrize(("characters", "expected"), [(0, 0), (1, 1), (4, 2), (400, 101)])
def test_estimate_of_output(characters: int, expected: int) -> None:
    assert estimate_output(characters) == expected


ALL = Usage(input=1, output=2, cached=3, cache_write=4, reasoning=5)

TOGETHER = {
    "nothing": ([], Usage()),
    "one": ([ALL], ALL),
    "several": ([ALL, ALL, Usage(input=10)], Usage(input=12, output=4, cached=6, cache_write=8, reasoning=10)),
    "one of them estimated": ([ALL, Usage(input=1, estimated=True), Usage()], Usage(2, 2, 3, 4, 5, estimated=True)),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_together(name: str) -> None:
    usages, expected = TOGETHER[name]

    assert together(iter(usages)) == expected
