"""Budgets of tenants: which ones a request counts against, what it holds of each, and what is nearly used up."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial

from guardproxy.core import pricing
from guardproxy.core.budget import Need
from guardproxy.core.model import Line, value
from guardproxy.core.pricing import Rates
from guardproxy.core.tenant import Tenant
from guardproxy.core.view import Spent, View
from guardproxy.core.windows import Budget, Zone, chosen, is_rate, key, kind_of

LEAST_OUTPUT = 64
"""Tokens: a shorter answer is of no use, so none is asked for."""


@value
class Due:
    """A budget that a request counts against. `key`: see `core.windows`."""

    budget: Budget
    key: str


@value
class Crossed:
    """A soft limit that is passed: `percent` of the budget are used."""

    due: Due
    percent: int
    used: int


def dues(
    budgets: Iterable[Budget], tenant: Tenant, model: str, now_ms: int, zone_of: Callable[[str, int], Zone]
) -> tuple[tuple[Due, ...], int]:
    """The budgets that a request counts against, and until when their keys need not be made anew (0 = for ever).

    Of budgets with the same counters only the tightest: they would be counted twice.
    """
    found: dict[tuple[str, str], Due] = {}
    until = 0
    for budget in budgets:
        who = _who(budget, tenant, model)
        if who is None:
            continue
        name, ends = key(budget.window, budget.scope, who, zone_of(budget.timezone, now_ms), now_ms)
        until = min(until or ends, ends or until)
        known = found.get((name, budget.dimension))
        if known is None or budget.limit < known.budget.limit:
            found[name, budget.dimension] = Due(budget, name)
    return tuple(found.values()), until


def _who(budget: Budget, tenant: Tenant, model: str) -> str | None:
    """Whose counters these are; None: the budget is none of this request."""
    if budget.scope == "org":
        return ""
    if budget.scope == "model":
        return counted_as(budget, budget.match) if fnmatchcase(model.lower(), budget.match.lower()) else None
    who: str = {"team": tenant.team, "key": tenant.key, "user": tenant.user}[budget.scope]
    if not (who and fnmatchcase(who, budget.match)):
        return None
    return counted_as(budget, who)


def counted_as(budget: Budget, name: str) -> str:
    """The name of somebody's counters: users and models may be in several documents of an org, and count in each. A
    user who is called as those of a document are has others than they.
    """
    if budget.scope not in ("user", "model"):
        return name
    return f"{budget.of}/{name}" if budget.of or name.startswith(_DOCUMENTS) else name


_DOCUMENTS = ("team:", "key:", "/")


def lines(due: Sequence[Due], need: Need, *, enforce: bool) -> tuple[Line, ...]:
    """The lines to hold. A policy that observes only counts."""
    held = need.holds()
    return tuple(
        [
            Line(
                one.budget.scope,
                one.budget.dimension,
                held.get(one.budget.dimension, 1),
                one.budget.limit if enforce else -1,
                one.key,
            )
            for one in due
        ]
    )


def crossed(due: Sequence[Due], view: View, spent_now: Callable[[str], int] | None = None) -> tuple[Crossed, ...]:
    """The highest soft limit that is passed of each budget. `spent_now`: by dimension, what this turn has used."""
    standing = {(one.line.key, one.line.dimension): one for one in view.spent if one.line.key}
    found = []
    for one in due:
        budget = one.budget
        if not budget.soft or (spent := standing.get((one.key, budget.dimension))) is None:
            continue
        used = spent.used + (spent_now(budget.dimension) if spent_now else 0)
        passed = [percent for percent in budget.soft if used * 100 >= percent * budget.limit]
        if passed:
            found.append(Crossed(one, max(passed), used))
    return tuple(found)


def overspent(due: Sequence[Due], view: View) -> Line | None:
    """The first budget that would have refused this request, where budgets are only observed."""
    limits = {(one.key, one.budget.dimension): one.budget.limit for one in due}
    for spent in view.spent:
        limit = limits.get((spent.line.key, spent.line.dimension))
        if limit is not None and spent.line.limit < 0 and spent.used + spent.held > limit:
            return spent.line._replace(limit=limit)
    return None


def is_hard(line: Line) -> bool:
    """Whether waiting cannot help: a budget, or a rate that this request alone is above."""
    return not is_rate(line.key) or line.hold > line.limit


def budgeted(line: Line) -> bool:
    """Whether a line is of a tenant's budget that is held to, and so has to be counted in one place.

    Rates and places (concurrent requests) protect whoever answers; for a moment each worker may count them alone.
    """
    return bool(line.key) and line.limit >= 0 and not is_rate(line.key)


def wait_ms(view: View, poll_ms: int) -> int:
    """How long to wait before it is worth asking again for what has no room in a rate.

    What running calls hold may come back at any time (`poll_ms`); what is used, only with the next window.
    """
    longest = 0
    for spent in _short(view):
        line = spent.line
        _, ends = chosen(line.key, view.now_ms)
        left = ends - view.now_ms if ends else poll_ms
        hopeful = spent.used + line.hold <= line.limit
        longest = max(longest, min(poll_ms, left) if hopeful else left)
    return longest


def fitting(view: View, need: Need, rates: Rates, choices: int) -> int:
    """How many tokens of output there is room for; 0 where fewer would not help."""
    whole = need.output_tokens // choices
    most = whole
    for spent in _short(view):
        line = spent.line
        room = line.limit - spent.used - spent.held
        if line.dimension == "output_tokens":
            fits = room
        elif line.dimension == "total_tokens":
            fits = room - need.input_tokens
        elif line.dimension == "cost_microusd":
            fits = (
                bisect_right(range(need.output_tokens), room, key=partial(pricing.hold, rates, need.input_tokens)) - 1
            )
        else:
            return 0
        most = min(most, fits // choices)
    return most if LEAST_OUTPUT <= most < whole else 0


def _short(view: View) -> list[Spent]:
    short = set(view.short)
    return [spent for spent in view.spent if spent.line in short]


def named(line: Line) -> str:
    """A budget in a header: whose, of what, in which window."""
    return f"{line.scope} {line.dimension} {kind_of(line.key)}".rstrip()
