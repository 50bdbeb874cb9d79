"""What replay prints, word by word where a person or a script would look for it."""

from __future__ import annotations

import io
import re

from guardproxy.replaying import tables
from guardproxy.replaying.told import SessionReport, Told

CALM = SessionReport("calm", 9, ())
LOOP = SessionReport("[red]loop", 20, (Told(3, 9, "nudge", "cycle", 3, "r"), Told(5, 13, "cut", "cycle", 5, "r")))
LATER = SessionReport("[red]loop", 20, (Told(4, 11, "nudge", "cycle", 4, "r"),))
NEW = SessionReport("calm", 9, (Told(4, 11, "nudge", "monologue", 4, "r"),))


def rows(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines() if line.strip()]


def test_sessions_rules_and_sum() -> None:
    out = io.StringIO()
    tables.show([CALM, LOOP], out)
    found = rows(out.getvalue())
    assert ["[red]loop", "20", "4 (nudge)", "cycle", "3", "6", "cycle (cut)", "14"] in found
    assert ["cycle", "1", "2", "0", "1", "4", "1", "14"] in found
    assert found[-1] == ["2 sessions, 29 calls; spoken to 1 (cycle 1); ended 1, 14 calls saved at most"]
    assert not any("calm" in row for row in found)


def test_nothing_found_is_one_line() -> None:
    out = io.StringIO()
    tables.show([CALM], out)
    assert out.getvalue() == "1 sessions, 9 calls; spoken to 0; ended 0, 0 calls saved at most\n"


def test_labelled_false_alarms() -> None:
    out = io.StringIO()
    tables.labelled([CALM, LOOP], [CALM, CALM], frozenset({"[red]loop", "calm", "not recorded"}), out)
    assert out.getvalue() == ("2 of 3 labelled false alarms are in this file; spoken to 1, with the exemptions 0\n")
    tables.labelled([LOOP], [LOOP], frozenset(), out)
    assert out.getvalue().count("\n") == 1


def test_comparison() -> None:
    out = io.StringIO()
    tables.compare([(CALM, NEW), (LOOP, LATER), (CALM, CALM)], "other.yaml", out)
    found = rows(out.getvalue())
    assert ["[red]loop", "4 cycle (nudge)", "5 cycle (nudge)", "6 cycle (cut)", "14", "0"] in found
    assert ["calm", "5 monologue (nudge)", "0", "0"] in found
    sums = "under other.yaml: spoken to 1 -> 2, ended 1 -> 0, calls saved at most 14 -> 0"
    assert found[-1] == [f"{sums}; 2 sessions differ (1 spoken to only there, 1 later there)"]


def test_a_long_id_is_whole() -> None:
    out = io.StringIO()
    name = "x" * 400
    tables.show([SessionReport(name, 5, LOOP.decisions)], out)
    assert out.getvalue().count("x") == 400
