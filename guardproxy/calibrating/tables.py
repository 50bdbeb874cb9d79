"""What `guardproxy calibrate` prints: figures and a plot by agent, proposals as configuration, and what policies do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from guardproxy.calibrating.fate import Fates
from guardproxy.calibrating.figures import ENOUGH, ENOUGH_FOR_P99, PERCENTS, Figures, Group
from guardproxy.telemetry.report import CLOSING

WIDE = 160
"""Columns of a table that is not shown on a terminal."""

_BLOCKS = " ▁▂▃▄▅▆▇█"
_FALSE_SHOWN = 5  # finished runs that a policy would have ended which are named


def show(groups: Sequence[Group], margin: float, out: TextIO) -> None:
    """Print each agent's figures, which rules its finished runs heard, and the limits that follow."""
    console = _console(out)
    for group in groups:
        _say(console, f"agent {group.agent}: {_outcomes(group)}", style="bold")
        if not group.finished:
            _say(console, "  no finished run: nothing follows from the others")
            continue
        _table(console, group)
        _say(console, f"  rules heard in finished runs: {_heard(group)}")
        if group.finished < ENOUGH:
            few = f"{group.finished} finished runs are too few: no limit is proposed from fewer than {ENOUGH}"
            _say(console, f"  {few}")
    proposed = [group for group in groups if any(one.proposed is not None for one in group.figures)]
    if proposed:
        _say(console, f"Limits from these runs (P95 + {margin:.0%}, rounded up), as configuration:", style="bold")
        for line in fragment(proposed):
            _say(console, line)


def compare(fates: Sequence[Fates], groups: Sequence[Group], out: TextIO) -> None:
    """Print what each policy would have done with the same runs, and how they really ended."""
    console = _console(out)
    heads = ("policy", "runs", "spoken to", "(finished)", "ended", "of finished", "saved at most", "wasted")
    table = Table(*heads, box=None, pad_edge=False)
    for one in fates:
        ratio = f" ({one.false / one.finished:.1%})" if one.finished else ""
        counts = (str(one.runs), str(one.spoken), str(one.spoken_finished), str(one.cut), f"{one.false}{ratio}")
        table.add_row(Text(one.name), *counts, dollars(one.saved), dollars(one.wasted))
    console.print(table)
    for one in fates:
        ends = ", ".join(
            f"{rule} {count}{f' ({wrong} of finished)' if wrong else ''}" for rule, count, wrong in one.by_rule
        )
        _say(console, f"{one.name}: ended by {ends or 'nothing'}")
        if one.false_ids:
            named = ", ".join(one.false_ids[:_FALSE_SHOWN])
            _say(
                console, f"  finished runs that it would have ended: {named}{' …' if one.false > _FALSE_SHOWN else ''}"
            )
    _say(
        console,
        "saved at most: what runs that did not finish spent after their end; wasted: what finished ones had spent",
    )
    for line in beside(groups):
        _say(console, line)
    if any(group.estimated for group in groups):
        _say(console, "tokens and money of recordings are estimated from their texts and today's prices")


def beside(groups: Sequence[Group]) -> list[str]:
    """What is said beside the fates: how many runs of a log really ended by us, and what a replay does not see."""
    every = sum((group.outcomes for group in groups), Counter[str]())
    ended = ", ".join(f"{outcome} {every[outcome]}" for outcome in sorted(CLOSING) if every[outcome])
    count = sum(every[outcome] for outcome in CLOSING)
    really = f"really ended by guardproxy: {count} of {every.total()} runs{f' ({ended})' if ended else ''}"
    unseen = (
        "refused calls and re-asks are not replayed: ends that came of them (refuse, then finalize) are not counted"
    )
    return [*([] if any(group.estimated for group in groups) else [really]), f"{unseen} as ended by a policy"]


def fragment(groups: Sequence[Group]) -> list[str]:
    """The proposals as lines of a configuration: for one agent of the default policy, else a policy each."""
    if len(groups) == 1:
        return ["policy:", *_limits(groups[0], "  ")]
    lines = ["policies:"]
    for number, group in enumerate(groups, 1):
        lines += [f"  agent-{number}:  # {_plain(group.agent)}", f"    agents: [{_quoted(group.agent)}]"]
        lines += _limits(group, "    ")
    return lines


def dollars(microusd: int) -> str:
    """An amount for people."""
    return f"${microusd / 1e6:,.4f}" if 0 < microusd < 10_000 else f"${microusd / 1e6:,.2f}"


def number(value: float | None) -> str:
    """A measure for people: whole where it is."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:,.4g}"


def proposal(one: Figures) -> str:
    """The proposed limit, with how many of the runs that it comes from it would have ended."""
    return f"{number(one.proposed)} ({one.above} above)" if one.above else number(one.proposed)


def plot(bars: Sequence[int]) -> str:
    """The bars as blocks; one run is seen, too."""
    top = max(bars, default=0)
    return "".join(_BLOCKS[max(1, round(one / top * 8))] if one else " " for one in bars)


def _table(console: Console, group: Group) -> None:
    heads = (
        "  of finished runs",
        "n",
        *(f"P{percent}" for percent in PERCENTS),
        "max",
        "limit now",
        "above it",
        "proposed",
    )
    table = Table(*heads, "from 0 to max", box=None, pad_edge=False)
    for one in group.figures:
        told = [number(value) for value in one.percentiles]
        now = ("", "") if one.now is None else (number(one.now), str(one.above_now))
        row = (f"  {one.measure.name}", str(one.sample), *told, number(one.largest), *now, proposal(one))
        table.add_row(*map(Text, row), Text(plot(one.bars)))
    console.print(table)
    if group.finished < ENOUGH_FOR_P99:
        _say(console, f"  – : a P95 needs {ENOUGH} runs, a P99 {ENOUGH_FOR_P99}")


def _limits(group: Group, indent: str) -> list[str]:
    lines = [f"{indent}limits:"]
    for scope in ("span", "session"):
        found = [one for one in group.figures if one.measure.scope == scope and one.proposed is not None]
        if found:
            lines.append(
                f"{indent}  {scope}: {{{', '.join(map(_setting, found))}}}  # from {found[0].sample} finished runs"
            )
    return lines


def _setting(one: Figures) -> str:
    value = one.proposed or 0
    return f"{one.measure.setting}: {int(value) if value == int(value) else f'{value:.10g}'}"


def _outcomes(group: Group) -> str:
    total = group.outcomes.total()
    told = ", ".join(f"{outcome} {count}" for outcome, count in group.outcomes.most_common())
    return f"{total} {'run' if total == 1 else 'runs'} ({told})"


def _heard(group: Group) -> str:
    return ", ".join(f"{rule} in {count}" for rule, count in group.heard.most_common()) or "none"


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _quoted(text: str) -> str:
    """A text as YAML: double quotes, as in JSON."""
    return '"' + _plain(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(_plain(text), style=style), soft_wrap=True)


def _console(out: TextIO) -> Console:
    console = Console(file=out, highlight=False, markup=False)
    if not console.is_terminal:
        console.width = WIDE
    return console
