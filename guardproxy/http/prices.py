"""Rates per model: the configuration's table, else its price file, else the `genai-prices` data, else the default.

A model is resolved once and its rates are kept for a while: the library needs about 95 µs a look-up (NUMBERS, Speed).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from time import monotonic
from typing import Any

from genai_prices import data_snapshot
from genai_prices.types import ModelPrice, TieredPrices

from guardproxy.core.pricing import Rates, Tier, times
from guardproxy.errors import BadAsk
from guardproxy.price_file import NOTHING, PriceList

_log = logging.getLogger(__name__)

SAID = 20
"""Unknown models that one process names in its log: made-up names must not fill it."""

SHOWN = 80
"""Characters of a model's name in the log and in an error."""

KEPT = 4096
"""Models remembered; beyond that the memory starts anew, so that made-up names cannot fill it."""

LONGEST = 256
"""Characters of a model's name that are looked at. A body may hold a name of megabytes: to search for it and to keep it
would cost all requests of the worker dearly."""

DEARER = {"priority": 2.5, "fast": 6.0}
"""Ways of being served that cost more, and how many times as much at most where no price of their own is known:
OpenAI's `service_tier: priority` (1.7 to 2.5 times, by model), Anthropic's `speed: fast`.
"""

KEPT_S = 300.0
"""Seconds for which they are: some published prices change with the hour of the day, and from a date on."""


class Prices:
    """Looks up `Rates`. `table` maps model globs to rates, `fallback` stands in for models that nobody knows.

    `unknown`: what becomes of those: default, block, alert (`prices.unknown`); in both latter `alert` gets the name.
    `url`: the provider's address, for what several of them sell at different prices.
    """

    _said: set[str] = set()  # noqa: RUF012 - over all reloads

    def __init__(
        self,
        table: Mapping[str, Rates],
        fallback: Rates,
        listed: PriceList = NOTHING,
        *,
        unknown: str = "alert",
        url: str = "",
        alert: Callable[[str], None] = lambda _model: None,
    ) -> None:
        self._table = dict(table)
        self._fallback = fallback
        self._listed = listed
        self._unknown = unknown
        self._url = url
        self._alert = alert
        self._known: dict[str, Rates] = {}
        self._until = 0.0

    def rates(self, model: str, service: object = None) -> Rates:
        """Rates of `model`; `known` is False where the fallback stands in. Raises BadAsk where that is blocked.

        `service`: how the request asks to be served. Only what is dearer counts: nobody makes it cheap by asking for
        `flex`.
        """
        if len(model) > LONGEST:
            model = model[:LONGEST]
        now = monotonic()
        if now >= self._until:
            self._known.clear()
            self._until = now + KEPT_S
        way = service if isinstance(service, str) and service in DEARER else ""
        key = f"{model}\0{way}" if way else model  # no name has that sign
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= KEPT:
                self._known.clear()
            found = self._known[key] = self._look_up(model, way)
        if not found.known:
            self._missed(model)
        return found

    def known(self, model: str, instead: Rates) -> Rates:
        """Rates of a model that an answer names; `instead` where they are not known. Never raises."""
        found = self._look_up(model[:LONGEST], "")
        return found if found.known else instead

    def _look_up(self, model: str, way: str) -> Rates:
        for pattern, rates in self._table.items():
            if fnmatchcase(model, pattern):
                return rates
        found, known = self._listed.find(model, first=way == "priority"), way == "priority"
        if found is None:
            found, known = _published(model, self._url, self._fallback.output), False
        if found and way and not known:
            found = times(found, DEARER[way])
        found = found or self._in_other_letters(model)
        if found is None:
            self._say(model)
        return found or self._fallback

    def _in_other_letters(self, model: str) -> Rates | None:
        """What the table says of a model that is called otherwise there but for its letters: Azure takes either."""
        name = model.lower()
        return next((rates for pattern, rates in self._table.items() if fnmatchcase(name, pattern.lower())), None)

    def _missed(self, model: str) -> None:
        if self._unknown == "default":
            return
        self._alert(model)
        if self._unknown == "block":
            raise BadAsk(
                f"no price is known for model {model[:SHOWN]!r}, and what it costs must be known here "
                "(prices.unknown: block); give it one in prices.models or prices.file",
                code="unknown_price",
                param="model",
            )

    def _say(self, model: str) -> None:
        shown = model[:SHOWN]
        if shown in Prices._said or len(Prices._said) >= SAID:
            return
        Prices._said.add(shown)
        price = f"{self._fallback.input:g} and {self._fallback.output:g} dollars per million tokens (prices.default)"
        what = "it is refused (prices.unknown)" if self._unknown == "block" else f"it is counted at {price}"
        level = logging.INFO if self._unknown == "default" else logging.WARNING
        _log.log(level, "no price is known for model %r: %s", shown, what)


def _published(model: str, url: str, output: float) -> Rates | None:
    """What `genai-prices` knows. `output`: the price of output where only that of input is known (embeddings)."""
    for name, provider, address in _places(model, url):
        try:
            _, found = data_snapshot.get_snapshot().find_provider_model(name, None, provider, address)
            prices = found.get_prices(datetime.now(UTC))
        except LookupError:
            continue
        rates = _rates(prices, output)
        if rates is not None:
            return rates
    return None


def _places(model: str, url: str) -> Iterator[tuple[str, str | None, str | None]]:
    """Where a model may be found: at this address, by its name, and by the name behind its provider's."""
    if url:
        yield model, None, url
    yield model, None, None
    provider, slash, name = model.partition("/")
    if slash and provider and name:
        yield name, provider, None


MTOK: Mapping[str, str] = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "reasoning": "output_reasoning_mtok",
    "audio": "input_audio_mtok",
    "image": "input_image_mtok",
    "audio_output": "output_audio_mtok",
    "image_output": "output_image_mtok",
}
"""A field of `Rates` and the library's name for it."""

EACH: Mapping[str, str] = {
    "request": "requests_kcount",
    "search": "web_searches_kcount",
    "file_search": "storage_searches_kcount",
}
"""The same of what is sold by the piece, beside tokens: dollars for a thousand."""


def _rates(prices: ModelPrice, output: float) -> Rates | None:
    parts = {field: price for field, name in MTOK.items() if (price := getattr(prices, name)) is not None}
    if "input" not in parts:
        return None
    starts = {tier.start for price in parts.values() if isinstance(price, TieredPrices) for tier in price.tiers}
    pieces: dict[str, Any] = {field: _piece(prices, name) for field, name in EACH.items()}
    base = replace(Rates(0.0, output), **pieces, **_amounts(parts, 0))
    tiers = [Tier(start, replace(base, **_amounts(parts, start + 1))) for start in sorted(starts, reverse=True)]
    return replace(base, tiers=tuple(tiers))


def _piece(prices: ModelPrice, name: str) -> float:
    """Micro-dollars of one."""
    found = getattr(prices, name)
    return float(found) * 1000 if isinstance(found, Decimal) else 0.0


def _amounts(parts: Mapping[str, Decimal | TieredPrices], tokens: int) -> dict[str, Any]:
    """The fields of `Rates` for an input of so many tokens."""
    return {field: _amount(price, tokens) for field, price in parts.items()}


def _amount(price: Decimal | TieredPrices, tokens: int) -> float:
    """Dollars per million tokens of an input of so many."""
    if not isinstance(price, TieredPrices):
        return float(price)
    return float(next((tier.price for tier in reversed(price.tiers) if tokens > tier.start), price.base))
