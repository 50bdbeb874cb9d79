"""The section `prices`: what things cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field, model_validator

from guardproxy import _kinds as kinds
from guardproxy._kinds import Count
from guardproxy._settings import Section
from guardproxy.core.pricing import Rates, Tier


class Apart(Section):
    """Prices that a model may have beside those of input and output."""

    cached_input: kinds.Price | None = None
    cache_write: kinds.Price | None = None
    cache_write_1h: kinds.Price | None = None
    reasoning: kinds.Price | None = None
    input_audio: kinds.Price | None = None
    input_image: kinds.Price | None = None
    output_audio: kinds.Price | None = None
    output_image: kinds.Price | None = None


class PriceTier(Apart):
    """What a request costs whose input has more than `above` tokens, all of its tokens. Absent = as below it."""

    above: Count
    input: kinds.Price | None = None
    output: kinds.Price | None = None


class Price(Apart):
    """Dollars per million tokens; 0 is free.

    Unless said otherwise cached tokens and cache writes cost what input does, one-hour writes what other writes do,
    reasoning what output does, sound and pictures what words do. `thousand_…`: dollars for a thousand requests, and
    searches of the provider's own in the web and in files, beside their tokens.
    """

    input: kinds.Price
    output: kinds.Price
    thousand_requests: kinds.Price = 0
    thousand_searches: kinds.Price = 0
    thousand_file_searches: kinds.Price = 0
    tiers: tuple[PriceTier, ...] = ()

    @model_validator(mode="after")
    def _apart(self) -> Price:
        if len({tier.above for tier in self.tiers}) < len(self.tiers):
            raise ValueError("tiers: two begin at the same number of tokens")
        return self

    def rates(self, *, known: bool) -> Rates:
        """The same as core's value."""
        each = {name: getattr(self, field) * 1000 for field, name in _EACH.items()}
        found = _over(Rates(self.input, self.output, known=known, **each), self)
        below, tiers = found, []
        for tier in sorted(self.tiers, key=lambda one: one.above):
            below = _over(below, tier)
            tiers.append(Tier(tier.above, below))
        return replace(found, tiers=tuple(reversed(tiers)))


def _over(rates: Rates, given: Price | PriceTier) -> Rates:
    """The rates with what was written."""
    written = {_RATES.get(name, name): getattr(given, name) for name in given.model_fields_set - _NO_RATES}
    return replace(rates, **{name: price for name, price in written.items() if price is not None})


_EACH = {
    "thousand_requests": "request",
    "thousand_searches": "search",
    "thousand_file_searches": "file_search",
}
"""Dollars for a thousand of something, and the field of `Rates` that says what one costs, in micro-dollars."""

_NO_RATES = {"above", "tiers", *_EACH}
_RATES = {
    "cached_input": "cached",
    "input_audio": "audio",
    "input_image": "image",
    "output_audio": "audio_output",
    "output_image": "image_output",
}
"""Fields of `core.pricing.Rates` that have another name in the file."""


class Prices(Section):
    """`models` (globs, the first match wins) come first, then the `file` (LiteLLM's price file), then the published
    prices.

    `unknown`: a model that none of them knows costs the `default`, is refused before any call (`block`), or costs the
    default with a line in the log and a metric (`alert`). The default is the price of a large model: an unknown one
    should rather be stopped early than run for free.
    """

    default: Price = Price(input=3.0, output=15.0)
    models: dict[str, Price] = Field(default_factory=dict)
    file: kinds.OptionalText = None
    unknown: Literal["default", "block", "alert"] = "alert"
