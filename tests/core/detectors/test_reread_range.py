"""`reread_range`: coverage, not offsets. Paging forward never counts; going over the same parts does."""

from __future__ import annotations

import json
from random import Random

import pytest

from guardproxy.core.detectors.reread_range import Settings, detect
from guardproxy.core.model import Rung
from tests.core.detectors.scripts import Turn, rules, trails


def lines(start: int, stop: int, path: str = "a.py", what: str = "line") -> Turn:
    text = "\n".join(f"{what} {number} of {path}" for number in range(start, stop + 1))
    return ("read_file", json.dumps({"path": path, "start_line": start, "end_line": stop}), text)


def page(number: int, what: str = "hit") -> Turn:
    return ("search", json.dumps({"q": "def main", "page": number}), f"{what} {number * 7919}")


def sed(start: int, stop: int) -> Turn:
    text = "\n".join(f"line {number}" for number in range(start, stop + 1))
    return ("bash", json.dumps({"command": f"sed -n '{start},{stop}p' a.py"}), text)


EDIT: Turn = ("edit", '{"p":"a.py"}', "edited a.py a bit")
OVER = [lines(1, 100), lines(10, 60), lines(20, 70), lines(5, 50), lines(30, 90), lines(12, 44)]
OTHER: list[Turn] = [("run", f'{{"cmd":"make part{k}"}}', f"built {k}") for k in range(8)]


@pytest.mark.parametrize(
    ("turns", "count"),
    [
        (OVER[:2], None),
        (OVER[:3], 2),
        (OVER, 5),
        ([sed(1, 100), sed(10, 60), sed(20, 70)], 2),
        ([page(n) for n in range(6)], None),
        ([page(n) for n in (*range(6), *range(5))], 5),  # a sweep that begins again
        ([*OVER, lines(101, 200)], None),  # it goes on
        ([*OVER, lines(101, 200), lines(10, 60)], None),
        ([*OVER, lines(101, 200), lines(10, 60), lines(11, 60)], 2),
        ([*OVER[:3], lines(90, 160), lines(10, 60)], None),  # mostly new
        ([*OVER[:3], lines(60, 120), lines(10, 60)], 3),  # a little new: neither way
        ([*OVER[:4], EDIT, *OVER[1:3]], None),  # it may be another file now
        ([*OVER[:4], EDIT, *OVER[:3]], 2),
        ([*OVER[:3], lines(10, 60, what="LINE"), lines(10, 50)], None),  # it is another file now
        ([*OVER[:3], *OTHER[:5], lines(10, 50)], 3),
        ([*OVER[:3], *OTHER[:6], lines(10, 50), lines(11, 50)], 2),  # a long pause
        ([*OVER[:3], lines(10, 60, "b.py")], None),
        ([*OVER[:3], ("read_file", '{"path":"a.py","start_line":9,"end_line":20}', "Error: no such file")], None),
        ([[OVER[0], lines(1, 9, "b.py")], [OVER[1], lines(1, 9, "b.py")], [OVER[2], lines(2, 8, "b.py")]], 2),
    ],
)
def test_counts(turns: list[Turn], count: int | None) -> None:
    found = detect(trails(turns)[-1], Settings())
    assert (found.count if found else None) == count


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("overlap", [0, 5, 40, 80])
def test_paging_forward_never_counts(seed: int, overlap: int) -> None:
    """B28 to B30 at length: 300 pages, with and without lines that are shown twice, other work in between."""
    random, at, turns = Random(seed), 1, list[Turn]()
    for _ in range(300):
        turns.append(lines(at, at + 99))
        at += 100 - overlap
        if random.random() < 0.2:
            turns.append(OTHER[random.randrange(8)])
    assert all(detect(trail, Settings()) is None for trail in trails(turns))


def test_what_a_tool_cuts_short_is_read_on() -> None:
    """It was asked for 5,000 lines and showed 200: what follows was not read before."""
    whole = ("read_file", '{"path":"a.py","start_line":1,"end_line":5000}', "\n".join(map(str, range(200))))
    turns = [whole, *(lines(at, at + 199) for at in range(201, 2000, 200))]
    assert all(detect(trail, Settings()) is None for trail in trails(turns))


def test_it_speaks_at_five_and_ends_at_twelve() -> None:
    turns = [lines(1, 200), *(lines(5 + 7 * k, 90 + 7 * k) for k in range(13))]
    rungs = [found.rung if (found := detect(trail, Settings())) else Rung.PASS for trail in trails(turns)]
    reached = {rung: rungs.index(rung) for rung in (Rung.NUDGE, Rung.FIRM, Rung.FINALIZE, Rung.CUT)}
    assert reached == {Rung.NUDGE: 5, Rung.FIRM: 8, Rung.FINALIZE: 11, Rung.CUT: 12}
    assert rules(turns) == {"reread_range"}
