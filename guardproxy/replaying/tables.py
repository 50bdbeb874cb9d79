"""What `guardproxy replay` prints: a row a session that was spoken to, a row a rule, and what another would do.

Also what held rules back: a row an exemption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table

from guardproxy.replaying import tally
from guardproxy.replaying.tally import Difference
from guardproxy.replaying.told import SessionReport, Told

WIDE = 160
"""Columns of a table that is not shown on a terminal."""


def show(reports: Sequence[SessionReport], out: TextIO) -> None:
    """Print the sessions spoken to, the rules, what held rules back, and one line that sums up."""
    console = _console(out)
    heads = ("session", "calls", "first word at call", "rule", "count", "ended at call", "by", "saved")
    table = Table(*heads, box=None, pad_edge=False)
    for report in reports:
        alarm, end = report.alarm, report.end
        if alarm is None:
            continue
        last = (str(end.call), f"{end.rule} ({end.act})", str(report.saved)) if end else ("", "", "")
        table.add_row(report.id, str(report.steps), f"{alarm.call} ({alarm.act})", alarm.rule, str(alarm.count), *last)
    _print(console, table)
    _print(console, _rules(reports))
    _print(console, _spared(reports))
    console.print(_summary(reports), highlight=False, soft_wrap=True, markup=False)


def compare(pairs: Sequence[tuple[SessionReport, SessionReport]], name: str, out: TextIO) -> None:
    """Print the sessions that fare differently under the configuration called `name`, and the sums of both."""
    console = _console(out)
    found = tally.differences(pairs)
    table = Table("session", "first word", "there", "ended", "there", "saved", "there", box=None, pad_edge=False)
    for one in found:
        ours, other = one.ours, one.other
        words = (_place(ours.alarm), _place(other.alarm), _place(ours.end), _place(other.end))
        table.add_row(ours.id, *words, str(ours.saved), str(other.saved))
    _print(console, table)
    console.print(_compared(pairs, found, name), highlight=False, soft_wrap=True, markup=False)


def labelled(ours: Sequence[SessionReport], theirs: Sequence[SessionReport], ids: frozenset[str], out: TextIO) -> None:
    """Print how many of the runs that a person called false alarms are alarms, without and with the exemptions."""
    if not ids:
        return
    before = [one.alarm is not None for one in ours if one.id in ids]
    after = [one.alarm is not None for one in theirs if one.id in ids]
    there = f"{len(before)} of {len(ids)} labelled false alarms are in this file"
    told = f"{there}; spoken to {sum(before)}, with the exemptions {sum(after)}"
    _console(out).print(told, highlight=False, soft_wrap=True, markup=False)


def _console(out: TextIO) -> Console:
    console = Console(file=out, markup=False)  # a session may be called "[red]"
    if not console.is_terminal:
        console.width = WIDE
    return console


def _print(console: Console, table: Table) -> None:
    table.columns[0].overflow = "fold"  # an id that is cut short cannot be searched for
    if table.row_count:
        console.print(table, "", sep="\n")


def _rules(reports: Sequence[SessionReport]) -> Table:
    heads = ("rule", "sessions", "turns", "noted", "first", "at call", "ends", "saved")
    table = Table(*heads, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for one in tally.by_rule(reports):
        at = "" if one.at is None else str(one.at)
        counts = (one.sessions, one.turns, one.noted, one.first)
        table.add_row(one.rule, *map(str, counts), at, str(one.ends), str(one.saved))
    return table


def _spared(reports: Sequence[SessionReport]) -> Table:
    table = Table("rule", "spared by", "sessions", "turns", box=None, pad_edge=False)
    for column in table.columns[2:]:
        column.justify = "right"
    for one in tally.by_exemption(reports):
        table.add_row(one.rule, one.because, str(one.sessions), str(one.turns))
    return table


def _summary(reports: Sequence[SessionReport]) -> str:
    sums = tally.totals(reports)
    first = Counter(report.alarm.rule for report in reports if report.alarm)
    spoken = ", ".join(f"{rule} {count}" for rule, count in first.most_common())
    return (
        f"{sums.sessions} sessions, {sums.calls} calls; spoken to {sums.spoken}{f' ({spoken})' if spoken else ''}; "
        f"ended {sums.ended}, {sums.saved} calls saved at most"
    )


def _place(told: Told | None) -> str:
    return f"{told.call} {told.rule} ({told.act})" if told else ""


def _compared(pairs: Sequence[tuple[SessionReport, SessionReport]], found: Sequence[Difference], name: str) -> str:
    ours, other = tally.totals([one for one, _ in pairs]), tally.totals([one for _, one in pairs])
    kinds = Counter(one.kind for one in found)
    words = {"new": "spoken to only there", "gone": "only here", "earlier": "earlier there", "later": "later there"}
    how = ", ".join(f"{kinds[kind]} {text}" for kind, text in words.items() if kinds[kind])
    return (
        f"under {name}: spoken to {ours.spoken} -> {other.spoken}, ended {ours.ended} -> {other.ended}, calls saved at "
        f"most {ours.saved} -> {other.saved}; {len(found)} sessions differ{f' ({how})' if how else ''}"
    )
