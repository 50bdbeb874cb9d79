"""Sums over recorded runs, and how the same runs fare under two configurations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low

from guardproxy.replaying.told import SessionReport, Told


@dataclass(frozen=True, slots=True)
class Totals:
    """All runs together. `saved`: calls recorded after the first end of a run, at most."""

    sessions: int
    calls: int
    spoken: int
    ended: int
    saved: int


@dataclass(frozen=True, slots=True)
class RuleTally:
    """One rule. `sessions` and `turns` in which it was heard, `noted` turns on which it only saw something,
    `first`: sessions in which nobody spoke before it, `at`: the median call of its first word (from 1; the lower of
    two), `ends` and `saved`: runs that it was the first to end, and the calls after that.
    """

    rule: str
    sessions: int
    turns: int
    noted: int
    first: int
    at: int | None
    ends: int
    saved: int


@dataclass(frozen=True, slots=True)
class SparedTally:
    """One exemption of one rule: in how many runs and on how many turns it held the rule back."""

    rule: str
    because: str
    sessions: int
    turns: int


@dataclass(frozen=True, slots=True)
class Difference:
    """One run, judged twice, with different first words or ends."""

    ours: SessionReport
    other: SessionReport

    @property
    def kind(self) -> str:
        """How the other's first word stands to ours: gone, new, earlier, later or same (then the rest differs)."""
        ours, other = self.ours.alarm, self.other.alarm
        if ours is None or other is None:
            return "same" if ours is other else "gone" if other is None else "new"
        if ours.message == other.message:
            return "same"
        return "earlier" if other.message < ours.message else "later"


def totals(reports: Sequence[SessionReport]) -> Totals:
    """The sums of all runs."""
    return Totals(
        len(reports),
        sum(report.steps for report in reports),
        sum(report.alarm is not None for report in reports),
        sum(report.end is not None for report in reports),
        sum(report.saved for report in reports),
    )


def by_rule(reports: Iterable[SessionReport]) -> list[RuleTally]:
    """A tally of each rule that saw anything, the one heard in most sessions first."""
    seen: dict[str, list[tuple[SessionReport, list[Told]]]] = {}
    for report in reports:
        own: dict[str, list[Told]] = {}
        for told in report.decisions:
            own.setdefault(told.rule, []).append(told)
        for rule, decisions in own.items():
            seen.setdefault(rule, []).append((report, decisions))
    found = [_tally(rule, rows) for rule, rows in seen.items()]
    return sorted(found, key=lambda one: (-one.sessions, -one.noted, one.rule))


def _tally(rule: str, rows: list[tuple[SessionReport, list[Told]]]) -> RuleTally:
    heard = [told for _, decisions in rows if (told := next((t for t in decisions if t.heard), None))]
    turns = sum(told.heard for _, decisions in rows for told in decisions)
    ended = [report for report, _ in rows if report.end and report.end.rule == rule]
    return RuleTally(
        rule,
        sessions=len(heard),
        turns=turns,
        noted=sum(len(decisions) for _, decisions in rows) - turns,
        first=sum(report.alarm is not None and report.alarm.rule == rule for report, _ in rows),
        at=median_low([told.call for told in heard]) if heard else None,
        ends=len(ended),
        saved=sum(report.saved for report in ended),
    )


def by_exemption(reports: Iterable[SessionReport]) -> list[SparedTally]:
    """A tally of each exemption and rule, by rule, the one on most turns first."""
    sessions, turns = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for report in reports:
        sessions.update(report.spared.keys())
        turns.update(report.spared)
    found = [SparedTally(rule, because, sessions[because, rule], count) for (because, rule), count in turns.items()]
    return sorted(found, key=lambda one: (one.rule, -one.turns, one.because))


def differences(pairs: Iterable[tuple[SessionReport, SessionReport]]) -> list[Difference]:
    """The runs whose first word or first end is not the same under both."""
    return [
        Difference(ours, other)
        for ours, other in pairs
        if _key(ours.alarm) != _key(other.alarm) or _key(ours.end) != _key(other.end)
    ]


def _key(told: Told | None) -> tuple[int, str, str] | None:
    return (told.message, told.act, told.rule) if told else None
