"""What is printed: figures, a plot, proposals that the configuration takes, and what it says of too few runs."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from guardproxy import config
from guardproxy.calibrating import tables
from guardproxy.calibrating.fate import Fates
from guardproxy.calibrating.figures import groups
from guardproxy.core.budget import Limit
from tests.calibrating.test_figures import run

MANY = [run(turns, tokens=100 * turns, spent=(20_000 * turns,), seconds=1.5 * turns) for turns in range(1, 41)]


def shown(runs: list[object], limits: tuple[Limit, ...] = ()) -> str:
    out = io.StringIO()
    tables.show(groups(runs, limits), 0.5, out)  # type: ignore[arg-type]
    return out.getvalue()


def test_an_agent() -> None:
    text = shown(MANY, (Limit("span", "turns", 35),))
    turns = next(line for line in text.splitlines() if line.startswith("  turns"))

    assert "agent a: 40 runs (finished 40)" in text
    assert turns.split()[:9] == ["turns", "40", "20", "36", "38", "–", "40", "35", "5"]
    assert "57" in turns
    assert "span: {turns: 57, tool_calls: 57, wall_seconds: 86}  # from 40 finished runs" in text
    assert "session: {total_tokens: 5700, cost_usd: 1.2}  # from 40 finished runs" in text


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (MANY[:19], "19 finished runs are too few: no limit is proposed from fewer than 20"),
        ([run(outcome="cut")], "no finished run: nothing follows from the others"),
    ],
)
def test_too_few(runs: list[object], said: str) -> None:
    text = shown(runs)

    assert said in text
    assert "limits:" not in text


@pytest.mark.parametrize("names", [["a"], ['we"ird: {agent}', "b", "c\n- d"]])
def test_the_proposals_are_a_configuration(tmp_path: Path, names: list[str]) -> None:
    runs = [run(turns, agent=name) for name in names for turns in range(1, 41)]
    file = tmp_path / "c.yaml"
    file.write_text("\n".join(tables.fragment(groups(runs, ()))), "utf-8")
    read = config.load(file, {}, {})[0]
    limits = [one.policy.limits for name, one in read.in_force.items() if len(names) == 1 or name != "default"]

    assert all(Limit("span", "turns", 57) in one for one in limits)
    assert len(limits) == len(names)


@pytest.mark.parametrize(("bars", "expected"), [((0, 1, 8, 4), " ▁█▄"), ((0, 0), "  "), ((1000, 1), "█▁"), ((), "")])
def test_plots(bars: tuple[int, ...], expected: str) -> None:
    assert tables.plot(bars) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(None, "–"), (3.0, "3"), (1234.5, "1,234"), (0.01234567, "0.01235"), (90.5, "90.5")]
)
def test_numbers(value: float | None, expected: str) -> None:
    assert tables.number(value) == expected


def test_policies() -> None:
    one = Fates("ours", 10, 4, 5, 1, 3, 1, 2_500_000, 4_000, (("cycle", 3, 1),), ("s-1",))
    out = io.StringIO()
    tables.compare([one], groups([run(estimated=True)], ()), out)
    text = out.getvalue()

    assert text.splitlines()[1].split() == ["ours", "10", "5", "1", "3", "1", "(25.0%)", "$2.50", "$0.0040"]
    assert "ours: ended by cycle 3 (1 of finished)" in text
    assert "it would have ended: s-1" in text
    assert "are estimated" in text
    assert "really ended" not in text, "nobody watched a recording"
    assert "refused calls and re-asks are not replayed" in text


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        (["finalized", "finished", "finalized"], "really ended by guardproxy: 2 of 3 runs (finalized 2)"),
        (["cut", "denied", "cut", "failed"], "really ended by guardproxy: 3 of 4 runs (cut 2, denied 1)"),
        (["finished", "abandoned"], "really ended by guardproxy: 0 of 2 runs"),
    ],
)
def test_how_runs_really_ended(outcomes: list[str], said: str) -> None:
    """Most end by calls that were refused, which no replay sees."""
    runs = [run(at, outcome=outcome, agent=str(at % 2)) for at, outcome in enumerate(outcomes)]
    really, unseen = tables.beside(groups(runs, ()))

    assert really == said
    assert unseen.startswith("refused calls and re-asks are not replayed")


def test_no_name_moves_the_cursor() -> None:
    assert "\x1b" not in shown([run(turns, agent="\x1b[31mred") for turns in range(1, 41)])
