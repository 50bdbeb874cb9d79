"""What a policy would have done with runs that happened: ends, ends of runs that finished, and the money."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from guardproxy.calibrating.happened import Run
from guardproxy.replaying.told import SessionReport


@dataclass(frozen=True, slots=True)
class Fate:
    """One run under a policy. `turn`: the turn at which it would have been ended, -1 = never; `rule`: by what."""

    run: Run
    turn: int = -1
    rule: str = ""
    heard: frozenset[str] = frozenset()

    @property
    def ended(self) -> bool:
        """Whether it would have been ended."""
        return self.turn >= 0

    @property
    def after(self) -> int:
        """Micro-dollars that were spent from there on: at most these are saved."""
        return sum(self.run.spent[self.turn :]) if self.ended else 0


@dataclass(frozen=True, slots=True)
class Fates:
    """All runs under one policy. `cut`: ended; `false`: those of them that finished; `spoken`: heard anything.

    `saved`: micro-dollars spent after the end of runs that did not finish, at most; `wasted`: what finished runs had
    spent when they would have been ended. `by_rule`: (ends, false ones) of each rule.
    """

    name: str
    runs: int
    finished: int
    spoken: int
    spoken_finished: int
    cut: int
    false: int
    saved: int
    wasted: int
    by_rule: tuple[tuple[str, int, int], ...]
    false_ids: tuple[str, ...]


def fate(run: Run, report: SessionReport, turn: int) -> Fate:
    """The fate of one run. `turn`: where `report.end` lies, counted as `run.spent` is."""
    heard = frozenset(told.rule for told in report.decisions if told.heard)
    return Fate(run, turn, report.end.rule, heard) if report.end else Fate(run, heard=heard)


def sums(name: str, fates: Iterable[Fate]) -> Fates:
    """The sums of all runs under the policy called `name`."""
    rows: Sequence[Fate] = list(fates)
    ended = [one for one in rows if one.ended]
    false = [one for one in ended if one.run.finished]
    ends, wrong = Counter(one.rule for one in ended), Counter(one.rule for one in false)
    return Fates(
        name=name,
        runs=len(rows),
        finished=sum(one.run.finished for one in rows),
        spoken=sum(bool(one.heard) for one in rows),
        spoken_finished=sum(bool(one.heard) and one.run.finished for one in rows),
        cut=len(ended),
        false=len(false),
        saved=sum(one.after for one in ended if not one.run.finished),
        wasted=sum(one.run.cost_microusd - one.after for one in false),
        by_rule=tuple((rule, count, wrong[rule]) for rule, count in ends.most_common()),
        false_ids=tuple(one.run.id for one in false),
    )
