"""Percentiles of finished runs by agent, and the limits that follow from them. Arithmetic, no output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from guardproxy.calibrating.happened import Run
from guardproxy.core.budget import Limit

ENOUGH = 20
"""Finished runs from which on a P95 says something: of fewer it is their largest, whatever that is."""

ENOUGH_FOR_P99 = 100
"""The same for a P99."""

MARGIN = 0.5
"""Above P95: a limit is for runs that went wrong, and the next version of an agent may need somewhat more."""

BINS = 24
"""Bars of a plot."""

PERCENTS = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Measure:
    """What is measured of a run: its name, the limit that bounds it (scope and setting), and how to read it.

    `dimension` is the limit's, in the unit counted; `scale` turns the measure into that.
    """

    name: str
    scope: str
    setting: str
    dimension: str
    read: Callable[[Run], float | None]
    scale: int = 1


MEASURES = (
    Measure("turns", "span", "turns", "turns", lambda run: run.turns),
    Measure("tool calls", "span", "tool_calls", "tool_calls", lambda run: run.tool_calls),
    Measure("tokens", "session", "total_tokens", "total_tokens", lambda run: run.tokens),
    Measure("cost ($)", "session", "cost_usd", "cost_microusd", lambda run: run.cost_microusd / 1e6, 1_000_000),
    Measure("seconds", "span", "wall_seconds", "wall_ms", lambda run: run.seconds, 1000),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """One measure of one agent's finished runs. `percentiles` are as in `PERCENTS`, None = of too few runs.

    `proposed` None: too few runs, or all of them are 0; `above`: how many of the runs it would have ended. `now`: the
    tightest limit in force. `bars` count the runs in
    `BINS` equal parts from 0 to the largest.
    """

    measure: Measure
    sample: int
    percentiles: tuple[float | None, ...]
    largest: float
    proposed: float | None
    above: int
    now: float | None
    above_now: int
    bars: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """One agent: all its runs by outcome, the figures of the finished ones, and rules heard in these."""

    agent: str
    outcomes: Counter[str]
    estimated: bool
    figures: tuple[Figures, ...]
    heard: Counter[str]

    @property
    def finished(self) -> int:
        """How many came to their end by themselves."""
        return self.outcomes["finished"]


def groups(runs: Iterable[Run], limits: Sequence[Limit], margin: float = MARGIN) -> list[Group]:
    """The agents, the one with most runs first."""
    by_agent: dict[str, list[Run]] = {}
    for run in runs:
        by_agent.setdefault(run.agent, []).append(run)
    found = [_group(agent, some, limits, margin) for agent, some in by_agent.items()]
    return sorted(found, key=lambda one: (-one.outcomes.total(), one.agent))


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that at least so many percent do not exceed (nearest rank): one that really occurred."""
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]


def propose(p95: float, margin: float) -> float | None:
    """A limit above P95, rounded up to two digits. None where there is nothing to bound."""
    wanted = p95 * (1 + margin)
    if wanted <= 0:
        return None
    unit = 10.0 ** (floor(log10(wanted)) - 1)
    return float(f"{ceil(round(wanted / unit, 9)) * unit:.10g}")


def _group(agent: str, runs: Sequence[Run], limits: Sequence[Limit], margin: float) -> Group:
    finished = [run for run in runs if run.finished]
    rows = tuple(found for measure in MEASURES if (found := _figures(measure, finished, limits, margin)) is not None)
    heard = Counter(rule for run in finished for rule in run.heard)
    return Group(agent, Counter(run.outcome for run in runs), any(run.estimated for run in runs), rows, heard)


def _figures(measure: Measure, finished: Sequence[Run], limits: Sequence[Limit], margin: float) -> Figures | None:
    values = sorted(value for run in finished if (value := measure.read(run)) is not None)
    if not values:
        return None
    enough = len(values) >= ENOUGH
    told = tuple(_told(values, percent) for percent in PERCENTS)
    now = _now(measure, limits)
    above = 0 if now is None else sum(value > now for value in values)
    proposed = propose(percentile(values, 95), margin) if enough else None
    if proposed is not None and measure.scale == 1:
        proposed = float(ceil(proposed))
    beyond = 0 if proposed is None else sum(value > proposed for value in values)
    return Figures(measure, len(values), told, values[-1], proposed, beyond, now, above, _bars(values))


def _told(values: Sequence[float], percent: int) -> float | None:
    few = (percent == 95 and len(values) < ENOUGH) or (percent == 99 and len(values) < ENOUGH_FOR_P99)
    return None if few else percentile(values, percent)


def _now(measure: Measure, limits: Sequence[Limit]) -> float | None:
    found = [one.limit for one in limits if one.dimension == measure.dimension and one.limit >= 0]
    return min(found) / measure.scale if found else None


def _bars(values: Sequence[float]) -> tuple[int, ...]:
    largest = values[-1]
    counts = [0] * BINS
    for one in values:
        counts[min(BINS - 1, int(one / largest * BINS)) if largest else 0] += 1
    return tuple(counts)
