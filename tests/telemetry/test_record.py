"""The turn record: what it keeps, what it refuses, and that it is small and without content."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Decision, Flag
from guardproxy.telemetry.record import acts, read_record, record_of
from guardproxy.telemetry.report import Objected
from tests.telemetry.reports import (
    CALL,
    RESULT,
    SECRET_TEXT,
    T0,
    cut,
    eventful,
    life,
    nudged,
    refused,
    step,
    turn,
)


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
        "reason": "read_file: 3 equal results",
        "advice": "",
        "events": {},
    }


def test_what_happened_beside_the_decision():
    call = CALL.hex()[:8]
    common = {"rule": "repeated_call", "tool": "read_file", "action": "refuse", "mode": "enforce", "call": call}

    assert read_record(record_of(refused()))["events"] == {
        "objected": [common | {"count": 5, "attempt": 1}, common | {"count": 6}],
        "asked": ["reask"],
    }
    assert read_record(record_of(eventful()))["events"] == {
        "verification": "failed",
        "failed_checks": ["required_tools", "files"],
        "hygiene": ["truncate read_file x2", "errors f (observe)"],
        "approval": ["ap-1", "pending"],
        "late": ["read_file"],
        "missing": True,
        "state": "need_human",
    }


OLD = b"""{"v":1,"n":4,"at":1800000040000,"th":"main","ms":2001,"i":1000,"o":50,"usd":1500,"a":"nudge","s":200,
"c":[["read_file","63636363"]],"r":[["read_file","63636363","72727272",""]],"w":"","ru":"repeated_call","k":3,"p":""}"""


def test_a_record_of_an_older_version_is_read():
    expected = read_record(record_of(nudged())) | {"reason": ""}

    assert read_record(OLD) == expected


@pytest.mark.parametrize("sealed", [True, False])
def test_what_the_model_was_told_is_content(sealed):
    told = replace(nudged(), advice=SECRET_TEXT)
    data = record_of(told, lambda text: text[::-1]) if sealed else record_of(told)

    assert read_record(data)["advice"] == ""
    assert read_record(data, lambda text: text[::-1])["advice"] == (SECRET_TEXT if sealed else "")
    assert SECRET_TEXT.encode() not in data


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (turn(1), []),
        (nudged(), ["nudge"]),
        (refused(), ["firm", "refuse", "refuse"]),
        (refused(decision=Decision("refuse", rule="repeated_call")), ["refuse", "refuse"]),
        (turn(1, objected=(Objected("cycle", "f", "refuse", "observe"),)), []),
        (turn(1, objected=(Objected("arguments", "f", "repair"),)), ["repair"]),
        (turn(1, decision=Decision("observe", rule="cycle", would="cut")), []),
    ],
)
def test_acts_are_what_was_done(report, expected):
    assert acts(read_record(record_of(report))) == expected
    assert report.interventions == len(expected)


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
    assert all(len(record_of(report)) < (300 if report.decision.rule else 180) for report in life())
    many = tuple(Objected("cycle", "x" * 5000, "refuse", count=5, call=CALL, attempt=1) for _ in range(500))
    assert len(record_of(refused(objected=many))) < 8000


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
        b'{"v":1,"e":7}',
        b'{"v":1,"e":[]}',
        b'{"v":1,"e":{"late":7}}',
        b'{"v":1,"e":{"objected":[7]}}',
        b'{"v":1,"e":{"objected":[{"count":"x"}]}}',
    ],
)
def test_other_bytes_are_refused(data):
    with pytest.raises(ValueError):
        read_record(data)
