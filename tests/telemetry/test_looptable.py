"""The loop table as a person sees it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Decision, Flag
from guardproxy.telemetry.looptable import loop_table, rows_of, summary
from guardproxy.telemetry.record import read_record, record_of
from tests.telemetry.reports import CALL, RESULT, life, nudged, step, turn

CALL8, RESULT8 = CALL.hex()[:8], RESULT.hex()[:8]

SPARED = Spared(Exemption.IMAGES, "cycle", 4, (1, 2, 3, 4))


def records(*reports):
    return [read_record(record_of(report)) for report in reports]


def test_a_run_row_by_row():
    rows = rows_of(records(*life()))

    assert [row.loop for row in rows] == ["1", "2", "3", "4", "5", "6", "7"]
    assert [row.result for row in rows] == [RESULT8, *(f"{RESULT8} x{n}" for n in range(2, 7)), ""]
    assert [row.action for row in rows] == ["", "", "", "nudge repeated_call x3", "", "", "cut repeated_call x6"]
    assert {row.arguments for row in rows[:-1]} == {CALL8}
    assert (rows[0].latency, rows[0].tokens, rows[-1].tool) == ("2.00 s", "1,050", "–")


def test_the_summary():
    assert summary(records(*life())) == (
        "7 turns · 6 tool calls · 6,300 tokens · $0.0090 · nudge x1, cut x1 · cut by repeated_call"
    )
    assert summary([]) == "no turns"
    assert summary(records(turn(1))) == "1 turn · 1 tool call · 1,050 tokens · $0.0015 · no intervention"


@pytest.mark.parametrize(
    ("flags", "word"), [(Flag.FAILED, "error"), (Flag.VOID, "empty"), (Flag.UNANSWERED, "no answer")]
)
def test_results_say_what_they_are(flags, word):
    first, _ = rows_of(records(turn(1), turn(2, steps=(step(flags=flags),))))

    assert first.result == f"{RESULT8} {word}"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"status": 502}, "HTTP 502"),
        ({"decision": Decision("observe", rule="cycle", count=4, would="firm")}, "observe (would firm) cycle x4"),
        ({"decision": Decision("deny")}, "deny"),
        ({"decision": Decision("pass", spared=(SPARED,))}, "spared: images (cycle x4)"),
        ({"decision": Decision("deny", spared=(SPARED,))}, "deny; spared: images (cycle x4)"),
    ],
)
def test_actions(changes, expected):
    (row,) = rows_of(records(turn(1, **changes)))

    assert row.action == expected


def test_parallel_calls_share_a_loop_number():
    other = b"d" * 16
    calls = (("read_file", "a", CALL), ("grep", "b", other))
    base = turn(1)
    both = turn(1, attempts=(type(base.attempts[0])(base.started_ns, base.ended_ns, calls=calls),))
    rows = rows_of(records(both, turn(2, steps=(step("grep", call=other), step()))))

    assert [(row.loop, row.tool, row.result) for row in rows[:2]] == [
        ("1", "read_file", RESULT8),
        ("", "grep", RESULT8),
    ]


def test_another_threads_result_is_not_taken():
    first, *_ = rows_of(records(turn(1), turn(2, thread="sub")))

    assert first.result == ""


def test_previews_replace_fingerprints():
    (record,) = records(turn(1))
    record["calls"] = [{"tool": "bash", "arguments": '{"cmd":\n "ls"}', "result": "x" * 100}]
    (row,) = rows_of([record])

    assert row.arguments == '{"cmd": "ls"}'
    assert len(row.result) == 48


def test_it_draws_and_no_name_is_markup():
    stream = io.StringIO()
    base = turn(1)
    calls = (("[red]tool[/red]", "a", CALL),)
    wild = turn(1, attempts=(type(base.attempts[0])(base.started_ns, base.ended_ns, calls=calls),))
    table = loop_table(records(wild, nudged()), title="[b]s-1")
    Console(file=stream, width=140, color_system=None).print(table)
    drawn = stream.getvalue()

    for text in ("loop", "tool", "arguments", "result", "latency", "tokens", "action", "[b]s-1", "[red]tool[/red]"):
        assert text in drawn
    assert "nudge repeated_call x3" in drawn
