"""What tokens cost. Pure arithmetic over rates that are looked up elsewhere; amounts are whole micro-dollars.

A rate in dollars per million tokens is the same number as micro-dollars per token.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from guardproxy.core.model import Usage

BYTES_PER_TOKEN = 4.0
"""Rough size of a token in request bytes; close for English and code, and for raw CJK (3 bytes a character).

Corrected per model by what the provider's usage said before (`Estimate.factor`).
"""


@dataclass(frozen=True, slots=True)
class Rates:
    """Micro-dollars per token. `known` is False where the configured fallback stands in: never silently free."""

    input: float
    output: float
    cached: float = -1.0  # -1: same as input
    cache_write: float = -1.0
    known: bool = True


def cost(rates: Rates, usage: Usage) -> int:
    """Micro-dollars of `usage`, rounded up. Cached tokens are part of `usage.input` (OpenAI's way)."""
    amount = usage.output * rates.output
    if usage.cached or usage.cache_write:
        cached_rate = rates.input if rates.cached < 0 else rates.cached
        write_rate = rates.input if rates.cache_write < 0 else rates.cache_write
        plain = max(0, usage.input - usage.cached - usage.cache_write)
        amount += plain * rates.input + usage.cached * cached_rate + usage.cache_write * write_rate
    elif usage.input > 0:
        amount += usage.input * rates.input
    return int(-(-amount // 1))


def estimate_input(size: int, factor: float = 1.0) -> int:
    """Tokens of a request body of `size` bytes."""
    return max(1, int(size / BYTES_PER_TOKEN * factor))


def estimate_output(characters: int) -> int:
    """Tokens of an answer's text whose provider sent no usage."""
    return int(characters / BYTES_PER_TOKEN) + (characters > 0)


def together(usages: Iterable[Usage]) -> Usage:
    """The sum; estimated where any of it is."""
    rows = list(usages)
    return Usage(
        input=sum(one.input for one in rows),
        output=sum(one.output for one in rows),
        cached=sum(one.cached for one in rows),
        cache_write=sum(one.cache_write for one in rows),
        reasoning=sum(one.reasoning for one in rows),
        estimated=any(one.estimated for one in rows),
    )
