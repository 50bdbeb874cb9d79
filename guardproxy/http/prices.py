"""Rates per model: the configuration's table first, then the `genai-prices` data, then the configured fallback.

A model is resolved once and its rates are kept: the library needs about 95 µs a look-up (NUMBERS, Speed).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from fnmatch import fnmatchcase

from genai_prices import data_snapshot
from genai_prices.types import TieredPrices

from guardproxy.core.pricing import Rates

_log = logging.getLogger(__name__)

SAID = 20
"""Unknown models that one process names in its log: made-up names must not fill it."""

SHOWN = 80
"""Characters of a model's name in the log."""

KEPT = 4096
"""Models remembered; beyond that the memory starts anew, so that made-up names cannot fill it."""


class Prices:
    """Looks up `Rates`. `table` maps model globs to rates, `fallback` stands in for models that nobody knows."""

    _said = 0  # over all reloads

    def __init__(self, table: Mapping[str, Rates], fallback: Rates) -> None:
        self._table = dict(table)
        self._fallback = fallback
        self._known: dict[str, Rates] = {}

    def rates(self, model: str) -> Rates:
        """Rates of `model`; `known` is False where the fallback stands in."""
        found = self._known.get(model)
        if found is None:
            if len(self._known) >= KEPT:
                self._known.clear()
            found = self._known[model] = self._look_up(model)
        return found

    def _look_up(self, model: str) -> Rates:
        for pattern, rates in self._table.items():
            if fnmatchcase(model, pattern):
                return rates
        published = _published(model)
        if published is None and Prices._said < SAID:
            Prices._said += 1
            said = f"{self._fallback.input:g} and {self._fallback.output:g} dollars per million tokens (prices.default)"
            _log.warning("no price is known for model %r: it is counted at %s", model[:SHOWN], said)
        return published or self._fallback


def _published(model: str) -> Rates | None:
    try:
        _, found = data_snapshot.get_snapshot().find_provider_model(model, None, None, None)
        prices = found.get_prices(datetime.now(UTC))
    except LookupError:
        return None
    read, written = _amount(prices.input_mtok), _amount(prices.output_mtok)
    if read is None or written is None:
        return None
    cached, stored = _amount(prices.cache_read_mtok), _amount(prices.cache_write_mtok)
    return Rates(read, written, -1.0 if cached is None else cached, -1.0 if stored is None else stored)


def _amount(price: Decimal | TieredPrices | None) -> float | None:
    """Dollars per million tokens; the base of a tiered price (tiers by context length are not counted yet)."""
    if price is None:
        return None
    return float(price.base if isinstance(price, TieredPrices) else price)
