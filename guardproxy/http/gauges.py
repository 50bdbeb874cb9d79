"""How things stand, for gauges: runs by state, budgets of orgs and teams. Read off the store by the parent.

Every replica shows the same numbers, so dashboards take the largest.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from guardproxy.core.budget import DIMENSIONS
from guardproxy.core.windows import Budget
from guardproxy.errors import StoreError
from guardproxy.http.budgeting import Budgeting, Kept
from guardproxy.store.redis import Store
from guardproxy.telemetry import Telemetry

EVERY_SECONDS = 15.0
"""Between two looks: Prometheus' usual scrape interval."""

MOST_ORGS = 200
"""Orgs looked at, by name: a label has no more values than that."""

Rows = dict[tuple[str, ...], float]


class Gauges:
    """A step of the sweeper. `in_file`: the budgets of the configuration."""

    def __init__(self, store: Store, telemetry: Telemetry, in_file: Callable[[], Sequence[Budget]]) -> None:
        self._store = store
        self._telemetry = telemetry
        self._in_file = in_file
        self._next = 0.0

    async def step(self) -> None:
        """Look, if it is time."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY_SECONDS
            await self.round()

    async def round(self) -> None:
        """Look. An org whose part of the store is away is left out."""
        states: Counter[str] = Counter()
        limit, used, end = Rows(), Rows(), Rows()
        now_ms = await self._store.usages.now_ms()
        for org in (await self._store.orgs())[:MOST_ORGS]:
            try:
                states.update(await self._store.runs.tally(org))
                await self._budgets(org, now_ms, (limit, used, end))
            except StoreError:
                continue
        tell = self._telemetry.standing
        tell("guardproxy.sessions.active", {(state,): float(count) for state, count in states.items()})
        tell("guardproxy.budget.limit", limit)
        tell("guardproxy.budget.used", used)
        tell("guardproxy.budget.window.end", end)

    async def _budgets(self, org: str, now_ms: int, into: tuple[Rows, Rows, Rows]) -> None:
        budgeting = Budgeting(self._store, org, self._in_file())
        kept = [one for one in await budgeting.every() if one.budget.scope in ("org", "team")]
        if not kept:
            return
        known = [team.name for team in await self._store.registry.teams(org)]
        for one in kept:
            teams = [] if one.single else [name for name in known if fnmatchcase(name, one.budget.match)]
            found, ends = await budgeting.standing(one, now_ms, all_names=False, names=teams)
            for standing in found:
                _keep(into, _labels(org, one, standing.name), one.budget, standing.used, ends)


def _labels(org: str, kept: Kept, name: str) -> tuple[str, ...]:
    budget, (kind, _, document) = kept.budget, kept.of.partition(":")
    team = "" if budget.scope == "org" else name or (document if kind == "team" else "")
    return org, team, budget.scope, DIMENSIONS[budget.dimension].setting, budget.window


def _keep(into: tuple[Rows, Rows, Rows], labels: tuple[str, ...], budget: Budget, used: int, ends: int) -> None:
    """Of two with the same labels the one that leaves less."""
    limit, spent, end = into
    scale = DIMENSIONS[budget.dimension].scale
    if labels in limit and limit[labels] - spent[labels] <= (budget.limit - used) / scale:
        return
    limit[labels], spent[labels], end[labels] = budget.limit / scale, used / scale, ends / 1000
