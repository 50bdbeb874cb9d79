"""Budgets of tenants as people write them, in the file and to the admin API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from guardproxy import _kinds as kinds, _sections, _zones
from guardproxy._kinds import Amount, Number, Text
from guardproxy._settings import Section
from guardproxy.core import windows
from guardproxy.core.budget import DIMENSIONS
from guardproxy.errors import BadAsk


class BudgetSection(Section):
    """What may be spent, by whom, in which window. `match`: globs of names of that scope, `soft`: percentages.

    `minute` and `hour` are rates: a request waits for a moment, and is told when to come again. Concurrent requests
    have no window.
    """

    scope: Literal["org", "team", "key", "user", "model"]
    match: Text = "*"
    dimension: Literal["cost_usd", "input_tokens", "output_tokens", "total_tokens", "requests", "concurrent_requests"]
    window: Literal["minute", "hour", "day", "week", "month", "total"] | None = None
    limit: Annotated[Amount, Field(gt=0, le=kinds.LARGEST_COUNT)]
    timezone: Text = "UTC"
    soft: tuple[Annotated[Number, Field(ge=1, le=100)], ...] = ()

    @model_validator(mode="after")
    def _sound(self) -> BudgetSection:
        if self.dimension == windows.CONCURRENT and self.window is not None:
            raise ValueError("window: concurrent requests have none, they are those of the moment")
        if self.dimension != windows.CONCURRENT and self.window is None:
            raise ValueError(f"window: must be one of {', '.join(windows.WINDOWS)}")
        if self.dimension != "cost_usd" and not self.limit.is_integer():
            raise ValueError("limit: must be a whole number, but for cost_usd")
        if self.dimension == "cost_usd" and self.limit > kinds.LARGEST_USD:
            raise ValueError(f"limit: must not be above {kinds.LARGEST_USD:,}")
        if wrong := _zones.problem(self.timezone):
            raise ValueError(f"timezone: {wrong}")
        if self.soft and (self.window in windows.RATES or self.window is None):
            raise ValueError("soft: rates have no soft limits, they come again in a moment")
        if self.scope == "org" and self.match != "*":
            raise ValueError("match: there is one org; leave it out")
        return self

    def value(self) -> windows.Budget:
        """The same as core's value."""
        row = next(row for row in DIMENSIONS.values() if row.setting == self.dimension)
        limit = max(1, round(self.limit * row.scale))
        soft = tuple(sorted(set(self.soft)))
        kind = self.window or windows.NOW
        return windows.Budget(self.scope, row.name, kind, limit, self.timezone, soft, self.match)


def _distinct(budgets: tuple[BudgetSection, ...]) -> tuple[BudgetSection, ...]:
    """Two limits on the same counters are one too many: which one holds would not be plain."""
    known: set[tuple[str, str, str, str | None, str]] = set()
    for one in budgets:
        counters = (one.scope, one.match, one.dimension, one.window, one.timezone)
        if counters in known:
            said = f"{one.scope} {one.match} {one.dimension} {one.window or windows.NOW}"
            raise ValueError(f"two limits are given for {said}; leave one out")
        known.add(counters)
    return budgets


Budgets = Annotated[tuple[BudgetSection, ...], AfterValidator(_distinct)]
"""The budgets of the default org."""


def read(given: Mapping[str, Any]) -> windows.Budget:
    """A budget that a person has asked for. `BadAsk` names what is wrong."""
    try:
        return BudgetSection.model_validate(given).value()
    except ValidationError as error:
        param, wrong = next(iter(_sections.explain(error, BudgetSection)))
        if not param and ":" in wrong:  # of two fields that do not go together the first word says which
            param, _, wrong = wrong.partition(": ")
        raise BadAsk(wrong, param=param or None) from error


def written(budget: windows.Budget) -> dict[str, Any]:
    """A budget as people write it."""
    row = DIMENSIONS[budget.dimension]
    return {
        "scope": budget.scope,
        "match": budget.match,
        "dimension": row.setting,
        "window": None if budget.window == windows.NOW else budget.window,
        "limit": budget.limit if row.scale == 1 else budget.limit / row.scale,
        "timezone": budget.timezone,
        "soft": list(budget.soft),
    }
