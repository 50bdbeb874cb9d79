"""Does each rule hold on sources that it was not looked at on? Figures by source of the labelled development runs.

`make sources` prints them and writes docs/sources.md. Nothing here is fitted by a program, so that leaving a source out
means two things: what is found on it alone against all others, and whether each threshold would have been chosen
without it, had it been chosen as the one of n - 1, n, n + 1 with the most hits, a false alarm weighing ten.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from guardproxy import replay
from guardproxy.core.detectors import RULES, default_settings
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import Triple
from guardproxy.core.policy import Policy
from guardproxy.replaying.told import SessionReport

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "trajectories"
PAGE = ROOT / "docs" / "sources.md"

EARLY, TIMELY = -3, 2
"""Calls before the labelled one from which an alarm hits, and after it up to which it is timely (as `make score`)."""

WEIGHT = 10
"""Hits that a false alarm costs: it is worse than a missed loop."""

Settings = Mapping[str, object]
Cell = tuple[str, str]  # rule and the name of its setting


@dataclass(frozen=True)
class Judged:
    """One run and what became of it. `label`: yes, no, or "" where only its success is known."""

    id: str
    source: str
    label: str
    rule: str = ""  # that spoke first, and in a loop first in time to count
    hit: bool = False
    timely: bool = False
    alarm: bool = False
    won: bool = False

    @property
    def worth(self) -> int:
        """What it adds to the sum that a threshold is chosen by."""
        return self.hit - WEIGHT * (self.label == "no" and self.alarm)


def read() -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """The runs that are labelled or known for a success, and the labels of all by id."""
    rows = [json.loads(line) for line in (SHARED / "dev-labels.jsonl").read_text("utf-8").splitlines() if line]
    labels = {row["id"]: row for row in rows}
    with gzip.open(SHARED / "dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        every = [json.loads(line) for line in lines]
    return [run for run in every if labelled(labels[run["id"]]) or succeeded(labels[run["id"]])], labels


def labelled(row: Mapping[str, Any]) -> bool:
    return row["loop"] in ("yes", "no")


def succeeded(row: Mapping[str, Any]) -> bool:
    """Whether the source calls the run a success and nobody calls it a loop."""
    return bool(row["success"]) and row["loop"] != "yes"


def judge(report: SessionReport, row: Mapping[str, Any]) -> Judged:
    """What a run's first words are worth."""
    told = [one for one in report.decisions if one.heard]
    label = row["loop"] if labelled(row) else ""
    at = (row["intervene_at_call"] or 0) if label == "yes" else 0
    counted = [one for one in told if one.step >= at + EARLY] if label == "yes" else told
    first = counted[0] if counted else None
    hit = label == "yes" and first is not None
    timely = hit and first is not None and first.step - at <= TIMELY
    rule = first.rule if first else ""
    return Judged(report.id, row["source_group"], label, rule, hit, timely, bool(told), succeeded(row))


class Bench:
    """Plays the runs under any settings; what was fingerprinted once is not fingerprinted again."""

    def __init__(self) -> None:
        self.runs, self.labels = read()
        self._printer = Fingerprinter(b"sources", memo_size=1 << 18)

    def play(self, settings: Settings, ids: Iterable[str]) -> dict[str, SessionReport]:
        wanted = set(ids)
        chosen = (run for run in self.runs if run["id"] in wanted)
        return {report.id: report for report in replay.play(chosen, Policy(detectors=settings), self._printer)}

    def judged(self, reports: Mapping[str, SessionReport]) -> dict[str, Judged]:
        return {id_: judge(report, self.labels[id_]) for id_, report in reports.items()}

    @property
    def ids(self) -> list[str]:
        return [run["id"] for run in self.runs]


# --- what is found by source ---


@dataclass(frozen=True)
class Figures:
    """Sums over some runs."""

    loops: int
    hit: int
    timely: int
    healthy: int
    false: int
    successes: int
    alarmed: int

    @property
    def recall(self) -> float | None:
        return self.hit / self.loops if self.loops else None


def figures(every: Iterable[Judged]) -> Figures:
    runs = list(every)
    loops = [one for one in runs if one.label == "yes"]
    healthy = [one for one in runs if one.label == "no"]
    won = [one for one in runs if one.won]
    hits, timely = sum(one.hit for one in loops), sum(one.timely for one in loops)
    false, alarmed = sum(one.alarm for one in healthy), sum(one.alarm for one in won)
    return Figures(len(loops), hits, timely, len(healthy), false, len(won), alarmed)


def by_rule(every: Iterable[Judged]) -> dict[str, dict[str, Counter[str]]]:
    """Per rule and source: loops first spoken of, false alarms, alarms on successes."""
    found: dict[str, dict[str, Counter[str]]] = {}
    for one in every:
        if not one.rule:
            continue
        cell = found.setdefault(one.rule, {}).setdefault(one.source, Counter())
        cell["loops"] += one.hit
        cell["false"] += one.label == "no"
        cell["successes"] += one.won
    return found


# --- whether a threshold depends on one source ---


def cells() -> list[Cell]:
    """Every threshold from which a rule speaks."""
    settings = default_settings()
    return [
        (rule, one.name)
        for rule in RULES
        for one in fields(settings[rule])  # type: ignore[arg-type]
        if isinstance(value := getattr(settings[rule], one.name), Triple) and value.nudge
    ]


def moved(chosen: Iterable[Cell], by: int) -> dict[str, object]:
    """The default settings with the nudge of some cells moved; the later rungs move only where they must."""
    settings = default_settings()
    for rule, name in chosen:
        triple: Triple = getattr(settings[rule], name)
        nudge = max(2, triple.nudge + by)
        later = (rung and max(rung, nudge) for rung in (triple.firm, triple.cut))
        settings[rule] = replace(settings[rule], **{name: Triple(nudge, *later)})  # type: ignore[type-var]
    return settings


def best(worths: Mapping[int, int]) -> set[int]:
    """The moves that are worth most."""
    most = max(worths.values())
    return {by for by, worth in worths.items() if worth == most}


@dataclass(frozen=True)
class Moves:
    """One threshold and what its neighbours do. `judged`: for each move the runs that it changes."""

    cell: Cell
    shipped: int
    judged: Mapping[int, Mapping[str, Judged]]
    base: Mapping[str, Judged]

    def worth(self, by: int, without: str = "") -> int:
        """The sum that is chosen by, against the shipped threshold's."""
        changed = self.judged.get(by, {})
        return sum(one.worth - self.base[id_].worth for id_, one in changed.items() if one.source != without)

    def change(self, by: int) -> tuple[int, int, int, int]:
        """More hits, timely hits, false alarms and alarms on successes than with the shipped threshold."""
        pairs = [(one, self.base[id_]) for id_, one in self.judged.get(by, {}).items()]
        return (
            sum(a.hit - b.hit for a, b in pairs),
            sum(a.timely - b.timely for a, b in pairs),
            sum(a.alarm - b.alarm for a, b in pairs if a.label == "no"),
            sum(a.alarm - b.alarm for a, b in pairs if a.won),
        )

    def chosen(self, without: str = "") -> set[int]:
        """The moves that would be chosen."""
        return best({by: self.worth(by, without) for by in (-1, 0, 1)})

    def turning(self, sources: Iterable[str]) -> list[str]:
        """The sources without which it would be otherwise whether the shipped threshold is among the best."""
        return [source for source in sources if (0 in self.chosen(source)) != (0 in self.chosen())]


def thresholds(bench: Bench, base: Mapping[str, SessionReport]) -> Iterator[Moves]:
    """Play each threshold's neighbours on the runs on which moving all of them that way changes anything."""
    judged = bench.judged(base)
    touched = {
        by: [id_ for id_, one in bench.play(moved(cells(), by), base).items() if one.decisions != base[id_].decisions]
        for by in (-1, 1)
    }
    for rule, name in cells():
        shipped = getattr(default_settings()[rule], name).nudge
        tried = {by: bench.judged(bench.play(moved([(rule, name)], by), touched[by])) for by in (-1, 1)}
        yield Moves((rule, name), shipped, tried, judged)


# --- the page ---


def page(every: Iterable[Judged], moves: Sequence[Moves]) -> str:
    """All of it as Markdown."""
    runs = list(every)
    return "\n".join([HEAD, *_sources(runs), "", *_rules(runs), "", *_thresholds(runs, moves), ""])


HEAD = """# Rules and sources

Made by `make sources` from the development runs; only figures, no text of theirs. A loop is hit by the first alarm from
three calls before its label on, timely up to two calls after it; a false alarm is any on a run labelled as healthy.
"""


CHANGES = f"""Changes against the shipped first word n, as hits / timely hits / false alarms / alarms on successes.
What would be chosen by hits - {WEIGHT} x false alarms: `=` n alone, `~` n among others, else the move. The last column
names the sources without which that would be otherwise. No change at all: the threshold rests on other evidence.
"""


def _sources(every: list[Judged]) -> Iterator[str]:
    yield "## By source\n"
    yield "| source | loops hit | timely | false alarms | on successes | hit on all others | false on all others |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for source in sorted({one.source for one in every}):
        own = figures(one for one in every if one.source == source)
        rest = figures(one for one in every if one.source != source)
        yield (
            f"| {source} | {own.hit}/{own.loops} | {own.timely}/{own.loops} | {own.false}/{own.healthy} "
            f"| {own.alarmed}/{own.successes} | {rest.hit}/{rest.loops} ({rest.recall or 0:.3f}) "
            f"| {rest.false}/{rest.healthy} |"
        )
    total = figures(every)
    yield (
        f"| **all** | {total.hit}/{total.loops} | {total.timely}/{total.loops} | {total.false}/{total.healthy} "
        f"| {total.alarmed}/{total.successes} | | |"
    )


def _rules(every: list[Judged]) -> Iterator[str]:
    found = by_rule(every)
    yield "## By rule: who speaks first, and where\n"
    yield "| rule | loops | in sources | false alarms | on successes | loops by source |"
    yield "|---|---:|---:|---:|---:|---|"
    for rule in sorted(RULES, key=lambda one: (-sum(c["loops"] for c in found.get(one, {}).values()), one)):
        where = found.get(rule, {})
        loops = {source: cell["loops"] for source, cell in sorted(where.items()) if cell["loops"]}
        false, successes = (sum(cell[what] for cell in where.values()) for what in ("false", "successes"))
        told = ", ".join(f"{source} {count}" for source, count in loops.items()) or "–"
        yield f"| {rule} | {sum(loops.values())} | {len(loops)} | {false} | {successes} | {told} |"


def _thresholds(every: list[Judged], moves: Sequence[Moves]) -> Iterator[str]:
    sources = sorted({one.source for one in every if one.label})
    yield "## By threshold: what its neighbours would do\n"
    yield CHANGES
    yield "| threshold | n | n - 1 | n + 1 | chosen | otherwise without |"
    yield "|---|---:|---:|---:|:-:|---|"
    for one in moves:
        sides = [" / ".join(f"{more:+d}" for more in change) if any(change := one.change(by)) else "" for by in (-1, 1)]
        chosen = one.chosen()
        mark = "=" if chosen == {0} else "~" if 0 in chosen else f"n{max(chosen, key=abs):+d}"
        turning = ", ".join(one.turning(sources))
        yield f"| {'.'.join(one.cell)} | {one.shipped} | {sides[0]} | {sides[1]} | {mark} | {turning} |"


def main() -> int:
    """Print the page and write it."""
    if not (SHARED / "dev.jsonl.gz").is_file():
        print(f"nothing to measure: {SHARED} is not here")
        return 0
    bench = Bench()
    base = bench.play(default_settings(), bench.ids)
    made = page(bench.judged(base).values(), list(thresholds(bench, base)))
    print(made)
    PAGE.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
