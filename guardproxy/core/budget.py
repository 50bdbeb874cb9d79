"""What may be spent: the dimensions, the lines to hold for a request, and what the counters say about the next one.

A row in `DIMENSIONS` is a budget dimension: the store and the metrics take its name as data. Rules: DESIGN section 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from guardproxy.core.model import Flag, Kind, Line, Trail, value
from guardproxy.core.view import Spent, View
from guardproxy.core.windows import is_rate


@dataclass(frozen=True, slots=True)
class Dimension:
    """One kind of budget. `setting` is its name in the configuration, `scale` turns a setting into the unit counted.

    `judged`: not held in the store but read off the steps. `clock`: used = time since the scope began. `tenants`: of
    tenants only, no session has a limit of it.
    """

    name: str
    setting: str
    unit: str
    scale: int = 1
    judged: bool = False
    clock: bool = False
    tenants: bool = False

    def show(self, amount: int) -> str:
        """An amount as people read it, in the unit of the setting."""
        if self.scale == 1:
            return f"{amount:,}"
        shown = f"{amount / self.scale:,.4f}".rstrip("0").rstrip(".")
        return f"${shown}" if self.name == "cost_microusd" else f"{shown} s"


def duration(seconds: float) -> str:
    """A stretch of time in its two largest units: `2 d 3 h`, `23 h 59 min`, `40 s`."""
    left = round(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part) or "0 s"


DIMENSIONS: Mapping[str, Dimension] = {
    row.name: row
    for row in (
        Dimension("turns", "turns", "turns"),
        Dimension("tool_calls", "tool_calls", "calls"),
        Dimension("input_tokens", "input_tokens", "tokens"),
        Dimension("output_tokens", "output_tokens", "tokens"),
        Dimension("total_tokens", "total_tokens", "tokens"),
        Dimension("cost_microusd", "cost_usd", "micro-dollars", scale=1_000_000),
        Dimension("wall_ms", "wall_seconds", "milliseconds", scale=1000, clock=True),
        Dimension("consecutive_failures", "consecutive_failures", "failures", judged=True),
        Dimension("same_call", "same_call", "calls", judged=True),
        Dimension("calls_per_tool", "calls_per_tool", "calls", judged=True),
        Dimension("requests", "requests", "requests", tenants=True),
        Dimension("concurrent_requests", "concurrent_requests", "requests", tenants=True),
    )
}

_made = tuple.__new__  # a named tuple of all its fields at half the price

COUNTED = ("turns", "tool_calls", "input_tokens", "output_tokens", "total_tokens", "cost_microusd")
"""Counted per session whether limited or not: the trace and the metrics show them."""


class Limit(NamedTuple):  # a tuple: all limits are hashed with every request
    """A configured limit, in the unit that is counted."""

    scope: str
    dimension: str
    limit: int


@value
class Need:
    """What one attempt may use at most, as far as can be told before it."""

    input_tokens: int
    output_tokens: int
    cost_microusd: int

    def holds(self) -> dict[str, int]:
        """How much to hold by dimension: a turn, at least one call, the estimated tokens and their price."""
        return {
            "turns": 1,
            "tool_calls": 1,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "total_tokens": self.input_tokens + self.output_tokens,
            "cost_microusd": self.cost_microusd,
        }


def price(limits: Iterable[Limit], need: Need) -> tuple[Line, ...]:
    """The lines to hold in one step: every stored limit, and the session's counters without one."""
    limited, counted = _lines(tuple(limits))
    if not limited:
        return counted
    held, lines = need.holds().get, []
    for scope, name, _, limit, key, clock in limited:
        lines.append(_made(Line, (scope, name, held(name, 0), limit, key, clock)))  # see `_made`
    return (*lines, *counted)


@lru_cache(maxsize=64)
def _lines(limits: tuple[Limit, ...]) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    """The lines of limits without what they hold, and of what is only counted. A policy asks with every request."""
    rows = [(limit, DIMENSIONS[limit.dimension]) for limit in limits]
    limited = [Line(one.scope, one.dimension, 0, one.limit, clock=row.clock) for one, row in rows if not row.judged]
    known = {(line.scope, line.dimension) for line in limited}
    counted = [Line("session", name, 0) for name in COUNTED if ("session", name) not in known]
    return tuple(limited), tuple(counted)


def last_affordable(view: View) -> Spent | None:
    """The line by which this turn is the last: after its hold another of the same size would not fit.

    Seconds: time gone plus this span's mean turn exceeds the limit.
    """
    turns = -1  # not looked for yet
    for spent in view.spent:
        (_, dimension, hold, limit, key, clock), used, held = (
            spent  # taken apart: a look by name costs three times that
        )
        if limit < 0 or (key and is_rate(key)):  # of a rate there is more in a moment
            continue
        # Turns that are held are used up; other holds of calls beside this one mostly give something back.
        held = held if dimension == "turns" else hold
        if hold and not clock:
            if used + held + hold > limit:
                return spent
            continue
        if turns < 0:
            turns = _turns(view)
        again = used // max(1, turns) if clock and turns else hold
        if used + held + again > limit and (hold or turns):
            return spent
    return None


def _turns(view: View) -> int:
    """The turns of this request span, where they are counted."""
    for (scope, dimension, *_), used, _ in view.spent:
        if dimension == "turns" and scope == "span":
            return used
    return 0


def judge(trail: Trail, view: View, limits: Iterable[Limit]) -> tuple[Limit, int] | None:
    """The first limit read off the steps that is reached or one short of it, with its count."""
    for limit in limits:
        if not DIMENSIONS[limit.dimension].judged:
            continue
        count = _judged(limit.dimension, trail, view)
        if count >= max(1, limit.limit - 1):
            return limit, count
    return None


def _judged(dimension: str, trail: Trail, view: View) -> int:
    if dimension == "consecutive_failures":
        return failing(trail)
    prefix = "call:" if dimension == "same_call" else "tool:"
    return max((count for name, count in view.counts.items() if name.startswith(prefix)), default=0)


def failing(trail: Trail) -> int:
    """How many of the newest calls failed, without a success between."""
    count = 0
    for step in reversed(trail.steps):
        if step.kind is Kind.CALL and not step.flags & (Flag.THINK | Flag.UNANSWERED):
            if not step.flags & Flag.FAILED:
                break
            count += 1
    return count


def remaining(view: View) -> str:
    """JSON of what is left, the tightest line of each dimension: the value of `x-guardproxy-budget-remaining`."""
    left: dict[str, int] = {}
    for (_, dimension, _, limit, key, clock), used, held in view.spent:
        if limit < 0 or (key and is_rate(key)):
            continue
        rest = limit - used if clock else limit - used - held
        known = left.get(dimension)
        if known is None or rest < known:
            left[dimension] = max(0, rest)
    said = ""
    for name, rest in left.items():
        said = f"{said},{_FORMS[name](rest)}" if said else _FORMS[name](rest)
    return f"{{{said}}}"


def _form(row: Dimension) -> Callable[[int], str]:
    """How a rest is written in JSON, in the unit of the setting; the names are ours: no escapes."""
    if row.scale == 1:
        return f'"{row.setting}":%d'.__mod__
    return lambda rest: f'"{row.setting}":{rest / row.scale:.10g}'


_FORMS = {name: _form(row) for name, row in DIMENSIONS.items()}
