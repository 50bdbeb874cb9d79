"""What tokens cost. Pure arithmetic over rates that are looked up elsewhere; amounts are whole micro-dollars.

A rate in dollars per million tokens is the same number as micro-dollars per token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from guardproxy.core.model import Usage

BYTES_PER_TOKEN = 4.0
"""Rough size of a token in request bytes; close for English and code, and for raw CJK (3 bytes a character).

Corrected per key and model by what the provider's usage said before (`Estimate.factor`).
"""

REACH = 1.5
"""How far above its estimate an input may turn out, so that a tier of higher prices is held in time: dense code has
some 2.7 bytes a token where `BYTES_PER_TOKEN` says 4."""

MOST = 10**9
"""Tokens that are held, or charged, at most where nobody has counted them, whatever was asked: numbers stay exact."""

DUST = 1e-9
"""Micro-dollars below which a rest is no amount but the inexactness of a double: it is not rounded up."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Micro-dollars per token. `known` is False where the configured fallback stands in: never silently free.

    -1 is "no price of its own": cached tokens, cache writes, sound and pictures cost what `input` does, one-hour
    writes what `cache_write` does, reasoning and what is said or drawn what `output` does. `tiers`: the rates of longer
    inputs, the longest first. `request`, `search`, `file_search`: micro-dollars of each, beside its tokens.
    """

    input: float
    output: float
    cached: float = -1.0
    cache_write: float = -1.0
    known: bool = True
    cache_write_1h: float = -1.0
    reasoning: float = -1.0
    tiers: tuple[Tier, ...] = ()
    audio: float = -1.0
    image: float = -1.0
    audio_output: float = -1.0
    image_output: float = -1.0
    request: float = 0.0
    search: float = 0.0
    file_search: float = 0.0

    def at(self, tokens: int) -> Rates:
        """The rates of an input of so many tokens: all of them are priced by the tier that the input is in."""
        for above, rates in self.tiers:
            if tokens > above:
                return rates
        return self


def times(rates: Rates, factor: float) -> Rates:
    """The same with every price of tokens so many times as high."""
    named = ("input", "output", "cached", "cache_write", "cache_write_1h", "reasoning", *MEDIA)
    more = {name: price * factor for name in named if (price := getattr(rates, name)) > 0}
    return replace(rates, **more, tiers=tuple([Tier(above, times(one, factor)) for above, one in rates.tiers]))


MEDIA = ("audio", "image", "audio_output", "image_output")
"""Prices of what is no text."""


class Tier(NamedTuple):
    """`rates` of inputs of more than `above` tokens."""

    above: int
    rates: Rates


def cost(rates: Rates, usage: Usage) -> int:
    """Micro-dollars of one attempt's `usage`, rounded up.

    Cached tokens and cache writes are part of `usage.input`, one-hour writes of the writes, reasoning of the output:
    nothing is counted twice (`api._usage` brings every provider's figures into this form). An attempt that has used
    nothing costs nothing.
    """
    if rates.tiers:
        rates = rates.at(usage.input)
    amount = usage.output * rates.output
    if usage.reasoning and rates.reasoning >= 0:
        amount += min(usage.reasoning, usage.output) * (rates.reasoning - rates.output)
    if rates.audio_output >= 0 or rates.image_output >= 0:
        amount += _made(rates, usage)
    if rates.request and (usage.input or usage.output):
        amount += rates.request
    if usage.searches or usage.file_searches:
        amount += usage.searches * rates.search + usage.file_searches * rates.file_search
    if usage.cached or usage.cache_write or usage.audio or usage.image:
        amount += _input(rates, usage)
    elif usage.input > 0:
        amount += usage.input * rates.input
    return int(-(-(amount - DUST) // 1)) if amount > 0 else 0


def _input(rates: Rates, usage: Usage) -> float:
    cached_rate = rates.input if rates.cached < 0 else rates.cached
    write_rate = rates.input if rates.cache_write < 0 else rates.cache_write
    heard = min(usage.audio, usage.input) if rates.audio >= 0 else 0
    shown = min(usage.image, usage.input - heard) if rates.image >= 0 else 0
    words, cached = usage.input - heard - shown, usage.cached
    if heard or shown:  # which of them was cached is not said, so it was what is cheaper
        cached = min(cached, max(0, words - usage.cache_write))
    plain = max(0, words - cached - usage.cache_write)
    amount = plain * rates.input + cached * cached_rate + usage.cache_write * write_rate
    amount += heard * rates.audio + shown * rates.image
    if usage.cache_write_1h and rates.cache_write_1h >= 0:
        amount += min(usage.cache_write_1h, usage.cache_write) * (rates.cache_write_1h - write_rate)
    return amount


def _made(rates: Rates, usage: Usage) -> float:
    """What sound and pictures cost more than words. Where it is not said how much of the output they are, a model that
    makes them has made nothing else, but for what it thought.
    """
    rest = max(0, usage.output - usage.reasoning)
    heard = _part(usage.audio_output, rest) if rates.audio_output >= 0 else 0
    drawn = _part(usage.image_output, rest - heard) if rates.image_output >= 0 else 0
    return heard * (rates.audio_output - rates.output) + drawn * (rates.image_output - rates.output)


def _part(told: int, most: int) -> int:
    return most if told < 0 else min(told, most)


def hold(rates: Rates, given: int, most: int) -> int:
    """Micro-dollars to hold for an estimated input of `given` tokens and `most` tokens of output, rounded up.

    The same rates, and of each the dearest that may apply: the tier that the input can reach (`REACH`), input that is
    written to the cache, output that is all reasoning, or all sound. What a one-hour cache write costs more is settled,
    not held; so are searches, of which nobody knows how many there will be, and what sound and pictures cost in the
    input: as bytes of a request they are many times their tokens.
    """
    reach = given * REACH
    if not rates.tiers or reach <= rates.tiers[-1].above:
        return _hold(rates, given, most)
    return max(_hold(rates.at(given), given, most), _hold(rates.at(int(reach)), given, most))


def _hold(rates: Rates, given: int, most: int) -> int:
    made = max(rates.output, rates.reasoning, rates.audio_output, rates.image_output)
    amount = given * max(rates.input, rates.cache_write) + most * made + rates.request
    return int(-(-(amount - DUST) // 1)) if amount > 0 else 0


def searched(usage: Usage, tools: Sequence[str]) -> Usage:
    """The same with the searches among the provider's own tools that it has used, where the usage does not say so."""
    if not tools:
        return usage
    searches, files = max(usage.searches, tools.count("web_search")), tools.count("file_search")
    return replace(usage, searches=searches, file_searches=files)


def estimate_input(size: int, factor: float = 1.0) -> int:
    """Tokens of a request body of `size` bytes."""
    return max(1, int(size / BYTES_PER_TOKEN * factor))


def thinks(model: str) -> bool:
    """Whether a model thinks where nobody sees it: most of its output may be in no chunk of a stream."""
    return _THINKING.match(model) is not None


_THINKING = re.compile(r"(?i)(?:.*/)?(?:o\d|gpt-[5-9]|gemini-(?:2\.5|[3-9])|grok-[3-9])")


def estimate_output(characters: int) -> int:
    """Tokens of an answer's text whose provider sent no usage."""
    return int(characters / BYTES_PER_TOKEN) + (characters > 0)


def together(usages: Iterable[Usage]) -> Usage:
    """The sum; estimated where any of it is. Its cost is not that of the sum: a tier is reached by one attempt."""
    rows = list(usages)
    return Usage(
        input=sum(one.input for one in rows),
        output=sum(one.output for one in rows),
        cached=sum(one.cached for one in rows),
        cache_write=sum(one.cache_write for one in rows),
        reasoning=sum(one.reasoning for one in rows),
        estimated=any(one.estimated for one in rows),
        cache_write_1h=sum(one.cache_write_1h for one in rows),
    )
