"""The turn record: what it keeps, what it refuses, and that it is small and without content."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Decision, Flag
from guardproxy.telemetry.record import read_record, record_of
from tests.telemetry.reports import CALL, RESULT, T0, cut, life, nudged, step, turn


def test_round_trip():
    assert read_record(record_of(nudged())) == {
        "turn": 4,
        "at_ms": T0 // 10**6 + 40_000,
        "thread": "main",
        "calls": [{"tool": "read_file", "call": CALL.hex()[:8]}],
        "results": [{"tool": "read_file", "call": CALL.hex()[:8], "result": RESULT.hex()[:8], "marks": ""}],
        "latency_ms": 2001,
        "input_tokens": 1000,
        "output_tokens": 50,
        "cost_microusd": 1500,
        "action": "nudge",
        "would": "",
        "rule": "repeated_call",
        "count": 3,
        "status": 200,
        "outcome": "",
        "spared": [],
        "prompt": "",
        "exempted": "",
    }


def test_exemptions_are_kept_in_their_words():
    spared = (Spared(Exemption.IMAGES, "repeated_call", 4, (1, 2)), Spared(Exemption.OTHER_WORK, "cycle", 3, ()))
    found = read_record(record_of(turn(2, decision=Decision("pass", spared=spared))))
    assert found["spared"] == ["images (repeated_call x4)", "other_work (cycle x3)"]


def test_what_a_false_alarm_needs():
    """Whose agent it is, where a rule spoke; what was held back because of which labels."""
    report = nudged()
    report.prompt, report.decision = "ab12", replace(report.decision, action="observe", exempted=("l1", "l2"))
    found = read_record(record_of(report))

    assert (found["prompt"], found["exempted"], found["action"]) == ("ab12", "l1,l2", "observe")


@pytest.mark.parametrize(
    ("flags", "marks"),
    [
        (Flag.FAILED, "f"),
        (Flag.VOID, "v"),
        (Flag.PENDING, "p"),
        (Flag.UNANSWERED, "u"),
        (Flag.FAILED | Flag.VOID, "fv"),
        (Flag.MUTATES, ""),
    ],
)
def test_marks(flags, marks):
    assert read_record(record_of(turn(2, steps=(step(flags=flags),))))["results"][0]["marks"] == marks


def test_a_turn_without_attempts_or_steps():
    found = read_record(record_of(cut()))

    assert (found["calls"], found["outcome"], found["action"]) == ([], "cut", "cut")


def test_it_is_small():
    assert all(len(record_of(report)) < 250 for report in life())


@given(st.text(st.characters(), max_size=40))
def test_any_tool_name_can_be_kept(name):
    found = read_record(record_of(turn(2, steps=(step(name),))))

    assert found["results"][0]["tool"] == name.encode(errors="replace").decode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"7",
        b"{}",
        b'{"v":9}',
        b'{"v":1,"c":[["one"]]}',
        b'{"v":1,"n":"x"}',
        b'{"v":1,"r":5}',
    ],
)
def test_other_bytes_are_refused(data):
    with pytest.raises(ValueError):
        read_record(data)
