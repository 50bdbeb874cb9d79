"""What tokens cost, in whole micro-dollars, rounded up."""

from __future__ import annotations

import pytest

from guardproxy.core.model import Usage
from guardproxy.core.pricing import Rates, cost, estimate_input, estimate_output, together

PLAIN = Rates(2.5, 10.0)
CACHED = Rates(2.5, 10.0, cached=0.25, cache_write=3.125)

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
]


@pytest.mark.parametrize(("rates", "usage", "expected"), COSTS)
def test_cost(rates: Rates, usage: Usage, expected: int) -> None:
    found = cost(rates, usage)

    assert (found, type(found)) == (expected, int)


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
