"""Prices from a file in LiteLLM's format, `model_prices_and_context_window.json`: a mapping of models to entries.

What a chat costs is read: dollars per token, cached input, cache writes (of an hour, too), reasoning, and the tiers of
longer inputs (`…_above_200k_tokens`, `tiered_pricing`), by which all tokens of a request are priced. Entries of what is
not sold by tokens (images, seconds, pages) are left out; a bad one is named and costs nobody but itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson

from guardproxy import _regular
from guardproxy.core.pricing import Rates, Tier
from guardproxy.errors import ConfigError

LARGEST = 64 << 20
"""Bytes of a price file. LiteLLM's own has 3.5 million, with 4,878 models."""

DEAREST = 100_000
"""Dollars per million tokens, as in the configuration (`_kinds.LARGEST_PRICE`): more is a slip of the unit."""

SHOWN = 80
"""Characters of a model's name in a message."""

NAMED = 20
"""Bad entries that are named one by one."""

SAMPLE = "sample_spec"
"""The entry of LiteLLM's file that describes the format."""

FIELDS: Mapping[str, str] = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cached",
    "cache_creation_input_token_cost": "cache_write",
    "cache_creation_input_token_cost_above_1hr": "cache_write_1h",
    "output_cost_per_reasoning_token": "reasoning",
    "input_cost_per_audio_token": "audio",
    "input_cost_per_image_token": "image",
    "output_cost_per_audio_token": "audio_output",
    "output_cost_per_image_token": "image_output",
}
"""A field of an entry and that of `Rates` which it fills."""

PRIORITY = "_priority"
"""End of the name of a price of requests that ask to be served first."""

REQUEST, SEARCH = "input_cost_per_request", "search_context_cost_per_query"
FILE_SEARCHES = "file_search_cost_per_1k_calls"
"""Fields of an entry: what a request, a thousand searches in files, and a search in the web (by how much of it is read)
cost beside tokens, in dollars."""

NEEDED = ("input_cost_per_token", "output_cost_per_token")
"""Without these an entry does not say what a chat costs."""

INCLUSIVE = ("xai",)
"""Providers whose tiers begin at the number in their name, not above it."""

WORDLESS = ("embedding", "rerank", "moderation")
"""Modes in which nothing is written: no price of output is missing there."""

WORDS = (None, "chat", "completion", "responses")
"""Modes whose entries must have the price of a token; others may be sold by the image, the second or the query."""

_ABOVE = re.compile(r"(?P<field>\w+?)_above_(?P<number>\d{1,12})(?P<kilo>k?)_tokens")
_NOT_ONE: Any = object()


@dataclass(frozen=True, slots=True)
class PriceList:
    """Rates by lower-case name, and a line for each entry that cannot be used.

    `priority`: those of requests that ask to be served first (`service_tier: priority`), where they cost more.
    """

    rates: Mapping[str, Rates]
    wrong: tuple[str, ...] = ()
    priority: Mapping[str, Rates] = field(default_factory=dict)

    def complaints(self) -> list[str]:
        """What is wrong, in lines for a log: the first `NAMED` entries and how many more there are."""
        named = [f"prices.file: the entry {wrong}; it is not used" for wrong in self.wrong[:NAMED]]
        more = len(self.wrong) - len(named)
        return [*named, f"prices.file: and {more} more entries that cannot be used"] if more else named

    def find(self, model: str, *, first: bool = False) -> Rates | None:
        """The rates of `model`, as it is called or without the names of providers before it (`openai/gpt-4o`).

        `first`: the request asks to be served first.
        """
        name = model.lower()
        while name:
            found = self.rates.get(name)
            if found is not None:
                return self.priority.get(name, found) if first else found
            name = name.partition("/")[2]
        return None


NOTHING = PriceList(MappingProxyType({}))
"""No file."""


def read(path: str) -> PriceList:
    """The prices in the file at `path`; the file is read again when it has changed. Raises ConfigError."""
    _regular.check(Path(path), param="prices.file")  # each worker reads it, too
    try:
        known = Path(path).stat()
        return _read(path, known.st_mtime_ns, known.st_size)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else ""
        raise ConfigError(f"prices.file: cannot read {path}: {why or error}", param="prices.file") from error


@lru_cache(maxsize=1)
def _read(path: str, _changed_ns: int, size: int) -> PriceList:
    if size > LARGEST:
        raise ValueError(f"has more than {LARGEST} bytes: that is no price file")
    raw = Path(path).read_bytes()
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"is no JSON ({error})") from error
    if not isinstance(document, dict):
        raise ValueError("must be a mapping of models to prices")  # noqa: TRY004 - as above: what is said of the file
    return of(document)


def of(document: Mapping[str, object]) -> PriceList:
    """The prices of a parsed file. Of names that differ in case only, the first counts. Never raises."""
    rates: dict[str, Rates] = {}
    priority: dict[str, Rates] = {}
    wrong: list[str] = []
    for model, entry in document.items():
        if model == SAMPLE:
            continue
        try:
            found, dearer = _rates(entry), _first(entry)
        except ValueError as error:
            wrong.append(f"{model[:SHOWN]!r}: {error}")
            continue
        if found is not None:
            rates.setdefault(model.lower(), found)
        if dearer is not None:
            priority.setdefault(model.lower(), dearer)
    return PriceList(rates, tuple(wrong), priority)


def _first(entry: object) -> Rates | None:
    """The rates of requests that are served first, with tiers of their own only; None where they have none."""
    own = {name: value for name, value in entry.items() if name.endswith(PRIORITY)} if isinstance(entry, dict) else {}
    if not own or not isinstance(entry, dict):
        return None
    rest = {name: value for name, value in entry.items() if not _ABOVE.fullmatch(name)}
    try:
        return _rates(rest | {name.removesuffix(PRIORITY): value for name, value in own.items()})
    except ValueError as error:
        raise ValueError(f"of its prices for {PRIORITY[1:]} {error}") from error


def _rates(entry: object) -> Rates | None:
    """The rates of one entry; None where it is not sold by tokens. Raises ValueError saying what is wrong."""
    if not isinstance(entry, dict):
        raise ValueError("is no mapping of prices")  # noqa: TRY004 - one kind of error for all that may be wrong
    mode = entry.get("mode")
    steps = [*(_by_range(entry) if mode in WORDS else ()), *_by_name(entry)]
    prices = _prices(entry)
    if steps and steps[0][0] == 0:
        prices = {**prices, **steps.pop(0)[1]}
    if not prices:
        return None
    if mode in WORDLESS:
        prices.setdefault("output", 0.0)
    if missing := [name for name in NEEDED if FIELDS[name] not in prices]:
        if mode in WORDS:
            raise ValueError(f"has no {missing[0]}")
        return None
    below = base = Rates(**prices, **_pieces(entry))
    tiers = []
    for above, more in steps:
        below = replace(below, **more)
        tiers.append(Tier(above - (entry.get("litellm_provider") in INCLUSIVE), below))
    return replace(base, tiers=tuple(reversed(tiers)))


Step = tuple[int, dict[str, Any]]  # the tokens above which it begins, and its prices


def _by_name(entry: Mapping[str, object]) -> list[Step]:
    """The tiers that stand in names of fields (`input_cost_per_token_above_200k_tokens`), the shortest first."""
    found: dict[int, dict[str, Any]] = {}
    for name, value in entry.items():
        match = _ABOVE.fullmatch(name) if "_above_" in name and name.endswith("_tokens") else None
        field = FIELDS.get(match["field"]) if match else None
        if match and field and value is not None:
            above = int(match["number"]) * (1000 if match["kilo"] else 1)
            found.setdefault(above, {})[field] = _price(name, value)
    for prices in found.values():
        if "output" in prices:
            prices.setdefault("reasoning", -1.0)  # the output's of this tier, not that of a lower one
    return sorted(found.items(), key=lambda step: step[0])


def _by_range(entry: Mapping[str, object]) -> Iterator[Step]:
    """The tiers of `tiered_pricing`, the shortest first. What one does not say costs what its own input does."""
    listed = entry.get("tiered_pricing")
    if listed is None:
        return
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise ValueError("tiered_pricing is no list of prices")
    steps = []
    for one in listed:
        start = next(iter(one.get("range") or ()), _NOT_ONE) if isinstance(one.get("range"), list) else _NOT_ONE
        if not isinstance(start, int | float) or isinstance(start, bool) or not 0 <= start < 1e12:
            raise ValueError("tiered_pricing has a range that begins with no number")
        own = {"cached": -1.0, "cache_write": -1.0, "cache_write_1h": -1.0, "reasoning": -1.0}
        steps.append((int(start), own | _prices(one)))
    yield from sorted(steps, key=lambda step: step[0])


def _prices(entry: Mapping[str, object]) -> dict[str, Any]:
    """The fields of `Rates` that an entry, or a step of its `tiered_pricing`, has a price for."""
    return {field: _price(name, entry[name]) for name, field in FIELDS.items() if entry.get(name) is not None}


def _pieces(entry: Mapping[str, object]) -> dict[str, Any]:
    """What is sold by the piece, in micro-dollars; of several prices of a search the highest."""
    listed, thousand = entry.get(SEARCH), entry.get(FILE_SEARCHES) or 0
    searches = [_price(SEARCH, one or 0) for one in listed.values()] if isinstance(listed, dict) else []
    found = {
        "request": _price(REQUEST, entry.get(REQUEST) or 0),
        "file_search": _price(FILE_SEARCHES, thousand / 1000 if isinstance(thousand, int | float) else thousand),
        "search": max(searches, default=0.0),
    }
    return {name: price for name, price in found.items() if price}


def _price(name: str, value: object) -> float:
    """Dollars per token as dollars per million; a text of digits counts as the number that YAML made a text of."""
    try:
        price = _NOT_ONE if isinstance(value, bool) else float(value) * 1e6  # type: ignore[arg-type]  # what fails is said
    except (TypeError, ValueError):
        price = _NOT_ONE
    if price is _NOT_ONE or not math.isfinite(price):
        raise ValueError(f"{name} is no number")
    if not 0 <= price <= DEAREST:
        raise ValueError(f"{name} is {price / 1e6:g} dollars per token")
    return round(price, 9)
