"""Events of a turn: any names come through JSON as they were, bounded, and in few words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from guardproxy.core.model import NO_FP
from guardproxy.telemetry._events import done_to, events_of, read_events, words
from guardproxy.telemetry.record import read_record, record_of
from guardproxy.telemetry.report import FIRST, Attempt, Objected
from tests.telemetry.reports import CALL, eventful, turn

names = st.text(st.characters(), max_size=90)
modes = st.sampled_from(["enforce", "observe"])
objections = st.builds(
    Objected,
    rule=names,
    tool=names,
    action=st.sampled_from(["refuse", "repair", "pause"]),
    mode=modes,
    count=st.integers(0, 99),
    call=st.sampled_from([CALL, NO_FP]),
    attempt=st.integers(0, 3),
)
attempts = st.builds(Attempt, st.just(1), st.just(2), reason=st.sampled_from([FIRST, "reask", "repair", "verify"]))
lists = st.lists(names, max_size=3).map(tuple)
reports = st.builds(
    turn,
    st.just(2),
    objected=st.lists(objections, max_size=4).map(tuple),
    attempts=st.lists(attempts, min_size=1, max_size=4).map(tuple),
    verification=st.sampled_from(["", "passed", "failed"]),
    failed_checks=lists,
    hygiene=st.lists(st.tuples(names, modes, names), max_size=3).map(tuple),
    approval=st.tuples(names, st.sampled_from(["pending", "approved"])),
    late=lists,
    missing=st.booleans(),
    state=st.sampled_from(["", "active", "waiting"]),
)


def printable(text: str) -> str:
    return text.encode(errors="replace").decode()


@given(reports)
def test_a_record_brings_back_what_happened(report):
    events = events_of(report)

    assert bool(events) <= report.eventful
    assert read_events(json.loads(json.dumps(events))) == events
    kept = read_record(record_of(report))["events"]
    assert list(words(kept)) == [printable(told) for told in words(events)]
    assert [done_to(one) for one in kept.get("objected", [])] == [
        printable(done_to(one)) for one in events.get("objected", [])
    ]


@pytest.mark.parametrize("names", [{"late": ("x" * 9000,)}, {"hygiene": (("truncate", "enforce", "x" * 9000),)}])
def test_names_of_tools_are_cut(names):
    assert sum(len(told) for told in words(events_of(eventful(2, **names)))) < 400


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (Objected("cycle", "f", "refuse", count=5), "refuse cycle x5"),
        (Objected("tools.deny", "f", "refuse"), "refuse tools.deny"),
        (Objected("arguments", "f", "repair", "observe"), "observe (would repair) arguments"),
    ],
)
def test_what_was_done_to_a_call(one, told):
    (found,) = events_of(turn(2, objected=(one,)))["objected"]

    assert done_to(found) == told
