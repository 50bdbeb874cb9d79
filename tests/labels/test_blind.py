"""Labels set before the detectors' answer was known: how they were chosen, and how far the detectors agree with them.

What an alarm, an end, a hit and `timely` mean is as in `../shared/tools/score.py`; the rest is in README.md here.
"""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from guardproxy import replay
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.policy import Policy

Json = dict[str, Any]
SHARED = Path(__file__).parents[3] / "shared" / "trajectories"
SEED = 20261129
FEWEST_CALLS = 6
SESSIONS, REPEATS = 60, 30
ALARMS = frozenset({"nudge", "firm", "refuse", "finalize", "pause", "cut"})
ENDS = frozenset({"finalize", "cut"})
EARLY, TIMELY = 3, 2  # calls before the labelled point that an alarm may come, calls after it that it is in time
# What was seen when the labels were set is in README.md. Two sessions less are let pass: a reader errs by as much.
LEAST_HIT, LEAST_TIMELY, MOST_FALSE_ALARMS, LEAST_KAPPA = 21, 17, 1, 0.80


def labels() -> list[Json]:
    return [json.loads(line) for line in (Path(__file__).parent / "blind.jsonl").read_text("utf-8").splitlines()]


def recorded() -> Iterator[Json]:
    if not (SHARED / "dev.jsonl.gz").exists():
        pytest.skip("../shared/trajectories is not here: the labels are about what others recorded")
    with gzip.open(SHARED / "dev.jsonl.gz", "rb") as stream:
        yield from replay.read(stream, "dev")


@dataclass(frozen=True, slots=True)
class Table:
    """How many sessions the reader called `yes` and the detectors alarmed on in time to count, and so on."""

    both: int
    reader_only: int
    detector_only: int
    neither: int

    @property
    def kappa(self) -> float:
        """Cohen's: agreement above what two would have by chance that say `yes` as often; 1 is full, 0 is chance."""
        total = self.both + self.reader_only + self.detector_only + self.neither
        reader, detector = (self.both + self.reader_only) / total, (self.both + self.detector_only) / total
        chance = reader * detector + (1 - reader) * (1 - detector)
        return ((self.both + self.neither) / total - chance) / (1 - chance)


@pytest.mark.parametrize(
    ("table", "kappa"),
    [
        (Table(10, 0, 0, 10), 1.0),
        (Table(5, 5, 5, 5), 0.0),
        (Table(0, 10, 10, 0), -1.0),
        (Table(20, 5, 10, 15), 0.4),
        (Table(23, 3, 0, 32), 0.894),
    ],
)
def test_kappa(table: Table, kappa: float) -> None:
    assert table.kappa == pytest.approx(kappa, abs=0.001)


def test_labels_are_verdicts_and_nothing_else() -> None:
    rows = labels()
    assert len({row["id"] for row in rows}) == len(rows) == SESSIONS
    assert Counter(row["chosen"] for row in rows) == {"repeats": REPEATS, "random": SESSIONS - REPEATS}
    for row in rows:
        assert list(row) == ["id", "chosen", "loop", "intervene_at_call", "kind", "confidence"]
        assert row["loop"] in ("yes", "no", "unclear")
        assert row["confidence"] in ("high", "medium", "low")
        assert (row["loop"] == "yes") == isinstance(row["intervene_at_call"], int)
        assert (row["loop"] == "no") == (row["kind"] == "none")
        assert len(row["kind"]) < 50, "a few words of the reader's own, never the session's"


def calls_of(session: Mapping[str, Any]) -> list[tuple[str, str]]:
    calls = (call for message in session["messages"] for call in message.get("tool_calls") or ())
    return [(call["function"]["name"], call["function"]["arguments"]) for call in calls]


def draw(groups: Mapping[str, list[str]], count: int, taken: set[str], rng: random.Random) -> list[str]:
    """`count` ids that are not taken, one of each group in turn."""
    left = {group: [name for name in names if name not in taken] for group, names in sorted(groups.items())}
    for names in left.values():
        rng.shuffle(names)
    drawn: list[str] = []
    while len(drawn) < count and any(left.values()):
        drawn += [names.pop() for names in left.values() if names][: count - len(drawn)]
    return drawn


def test_the_seed_chooses_these_sessions() -> None:
    """None was picked or dropped by hand."""
    sizes = {run["id"]: calls_of(run) for run in recorded()}
    rows = [json.loads(line) for line in (SHARED / "dev-labels.jsonl").read_text("utf-8").splitlines()]
    groups, repeating = defaultdict(list), defaultdict(list)
    for row in sorted(rows, key=lambda row: row["id"]):
        calls = sizes[row["id"]]
        if row["label_by"] == "hand" or len(calls) < FEWEST_CALLS:
            continue
        groups[row["source_group"]].append(row["id"])
        repeated = len(calls) - len(set(calls))
        if repeated >= 3 and repeated * 4 >= len(calls):
            repeating[row["source_group"]].append(row["id"])
    # Every source is a key, also one without repeats: the order of the shuffles hangs on it.
    rng = random.Random(SEED)
    first = draw({group: repeating[group] for group in groups}, REPEATS, set(), rng)
    then = draw(groups, SESSIONS - REPEATS, set(first), rng)
    chosen = [(name, "repeats") for name in first] + [(name, "random") for name in then]
    rng.shuffle(chosen)
    assert [(row["id"], row["chosen"]) for row in labels()] == chosen


@dataclass(frozen=True, slots=True)
class Heard:
    """One label and the steps at which the detectors alarmed and ended."""

    label: Json
    alarms: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def delay(self) -> int | None:
        """Calls from the labelled point to the first alarm that counts; None: there is none."""
        at: int = self.label["intervene_at_call"]
        return min((step - at for step in self.alarms if step - at >= -EARLY), default=None)


@pytest.fixture(scope="module")
def heard() -> list[Heard]:
    rows = {row["id"]: row for row in labels()}
    chosen = (run for run in recorded() if run["id"] in rows)
    answers = []
    for report in replay.play(chosen, Policy(), Fingerprinter(b"test")):
        alarms = tuple(told.step for told in report.decisions if told.action in ALARMS)
        ends = tuple(told.step for told in report.decisions if told.action in ENDS)
        answers.append(Heard(rows[report.id], alarms, ends))
    assert len(answers) == len(rows), "a labelled session is not among the recorded ones"
    return answers


def having(heard: list[Heard], verdict: str) -> list[Heard]:
    return [one for one in heard if one.label["loop"] == verdict]


def test_no_run_that_the_reader_let_go_on_is_ended(heard: list[Heard]) -> None:
    assert not [one.label["id"] for one in having(heard, "no") if one.ends]


def test_the_detectors_agree_with_the_reader(heard: list[Heard]) -> None:
    loops, healthy = having(heard, "yes"), having(heard, "no")
    delays = [one.delay for one in loops if one.delay is not None]
    missed = [one.label["id"] for one in loops if one.delay is None]
    alarmed = [one.label["id"] for one in healthy if one.alarms]
    late = [one.label["id"] for one in loops if one.delay is not None and one.delay > TIMELY]
    found = Table(len(delays), len(missed), len(alarmed), len(healthy) - len(alarmed))
    assert found.both >= LEAST_HIT, f"loops without an alarm: {missed}"
    assert found.both - len(late) >= LEAST_TIMELY, f"late: {late}, never: {missed}"
    assert found.detector_only <= MOST_FALSE_ALARMS, f"alarms on runs that the reader let go on: {alarmed}"
    assert found.kappa >= LEAST_KAPPA, f"kappa {found.kappa:.3f} of {found}"
