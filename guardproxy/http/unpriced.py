"""Models that a configuration names and nobody has a price for: `guardproxy check` says so, before a run is counted.

Only names are looked up; what a glob stands for is known when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from guardproxy.http.prices import SHOWN, Prices

if TYPE_CHECKING:
    from guardproxy.config import Config

NAMED = 10
"""Models that are named; of more it is said how many."""

GLOB = frozenset("*?[")

MEND = "give it one in prices.models or prices.file"
"""How each is helped."""


def warnings(config: Config) -> Iterator[str]:
    """One sentence, if there are any: which, where they stand, what becomes of them, and what to do."""
    table, fallback = config.price_table()
    url = "" if config.upstreams else config.upstream.url  # as a worker looks them up
    prices = Prices(table, fallback, config.price_list(), unknown="default", url=url)
    found = {model: where for model, where in _named(config).items() if not prices.rates(model).known}
    if not found:
        return
    told = ", ".join(f"{model[:SHOWN]!r} ({where})" for model, where in list(found.items())[:NAMED])
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    yield f"no price is known for {told}{more}: {_then(config)}; {MEND}"


def _named(config: Config) -> dict[str, str]:
    """Models by the names that clients ask for, which are what is priced; and the setting that names each first."""
    found: dict[str, str] = {}
    for one in config.upstreams:
        places = {"models": one.models, "rename": tuple(one.rename)}
        for setting, globs in places.items():
            found |= {glob: f"upstreams.{one.name}.{setting}" for glob in globs if glob not in found}
    for name, policy in config.policies.items():
        found |= {glob: f"policies.{name}.models" for glob in policy.models if glob not in found}
    found |= {one.match: "budgets" for one in config.budgets if one.scope == "model" and one.match not in found}
    return {model: where for model, where in found.items() if not GLOB & set(model)}


def _then(config: Config) -> str:
    """What becomes of a request for such a model."""
    prices = config.prices
    if prices.unknown == "block":
        return "a request for it is refused with HTTP 400 unknown_price (prices.unknown: block)"
    heard = "a line in the log and guardproxy_prices_unknown_total say so" if prices.unknown == "alert" else "unsaid"
    rates = f"{prices.default.input:g} dollars per million tokens of input and {prices.default.output:g} of output"
    return f"it is counted at {rates} (prices.default), {heard} (prices.unknown: {prices.unknown})"
