"""The loop table as a person sees it."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Decision, Flag
from guardproxy.telemetry.looptable import loop_table, reasons, rows_of, summary
from guardproxy.telemetry.record import read_record, record_of
from guardproxy.telemetry.report import Objected
from tests.telemetry.reports import (
    CALL,
    EVENTS,
    OTHER_CALL,
    RESULT,
    cut,
    eventful,
    firm,
    life,
    nudged,
    refused,
    step,
    turn,
)

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
        "7 turns · 6 tool calls · 1 min · 6,300 tokens · $0.0090 · nudge x1, cut x1 · cut by repeated_call"
    )
    assert summary([]) == "no turns"
    assert summary(records(turn(1))) == "1 turn · 1 tool call · 2 s · 1,050 tokens · $0.0015 · no intervention"


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


def test_calls_that_the_agent_did_not_get():
    """Of two attempts: the first one's call was refused, of the second one's two only one was handed on."""
    rows = rows_of(records(refused(5), turn(6, steps=(step("grep", call=OTHER_CALL),))))[:3]

    assert [(row.loop, row.tool, row.arguments, row.result, row.action) for row in rows] == [
        (
            "5",
            "read_file",
            CALL8,
            "not executed",
            "refuse repeated_call x5; firm repeated_call x4; asked again: reask",
        ),
        ("", "read_file", CALL8, "not executed", "refuse repeated_call x6"),
        ("", "grep", OTHER_CALL.hex()[:8], RESULT8, ""),
    ]


def test_calls_that_were_taken_out_of_an_answer():
    """The model called although it was told not to: the call is shown, and not counted; what comes next is not its."""
    last = replace(turn(1).attempts[0], calls=(("read_file", "", CALL),), kept_back=True)
    told = records(turn(1, attempts=(last,), decision=Decision("finalize", rule="cycle", count=5)), turn(2))

    assert [(row.loop, row.tool, row.result, row.action) for row in rows_of(told)] == [
        ("1", "read_file", "not executed", "finalize cycle x5"),
        ("2", "read_file", "", ""),
    ]
    assert "2 turns · 1 tool call ·" in summary(told)


def test_one_of_two_equal_calls_is_refused():
    (first, second, *_) = rows_of(records(turn(1, objected=(Objected("cycle", "read_file", "refuse", call=CALL),))))

    assert (first.result, second.result, second.action) == ("not executed", "", "")


@pytest.mark.parametrize(
    ("objected", "result", "action"),
    [
        (Objected("arguments", "read_file", "repair", call=CALL), "sent back", "repair arguments"),
        (Objected("tools.approval", "read_file", "pause", call=CALL), "held", "pause tools.approval"),
        (
            Objected("tools.deny", "read_file", "refuse", "observe", 1, CALL),
            RESULT8,
            "observe (would refuse) tools.deny",
        ),
    ],
    ids=str,
)
def test_what_became_of_a_call(objected, result, action):
    (row, *_) = rows_of(records(turn(1, objected=(objected,)), turn(2)))

    assert (row.tool, row.arguments, row.result, row.action) == ("read_file", CALL8, result, action)


def test_a_call_whose_print_is_not_known_has_a_row_of_its_own():
    first, second, _ = rows_of(records(turn(1, objected=(Objected("cycle", "f", "refuse"),)), turn(2)))

    assert [(row.tool, row.arguments, row.result) for row in (first, second)] == [
        ("f", "", "not executed"),
        ("read_file", CALL8, RESULT8),
    ]


def test_a_decision_that_only_repeats_it_is_not_told_again():
    decision = firm(5)
    (row, *_) = rows_of(records(refused(5, decision=type(decision)("refuse", rule="repeated_call", count=6))))

    assert row.action == "refuse repeated_call x5; asked again: reask"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("verification", "verification failed"),
        ("hygiene", "tidied: truncate read_file x2, errors f (observe)"),
        ("approval", "approval ap-1 pending"),
        ("late", "late: read_file"),
        ("missing", "the last answer was not appended"),
        ("state", "state need_human"),
    ],
)
def test_events_stand_beside_the_action(name, told):
    (row,) = rows_of(records(turn(2, **{name: EVENTS[name]})))
    (every,) = rows_of(records(eventful(2)))

    assert row.action == told
    assert told in every.action
    assert "verification failed: required_tools, files" in every.action


def test_the_summary_counts_both_sides():
    assert summary(records(turn(1), refused(2), cut(3))) == (
        "3 turns · 2 tool calls · 20 s · 3,260 tokens · $0.0030 · firm x1, refuse x2, cut x1 · 1 re-ask"
        " · cut by repeated_call"
    )


def test_reasons_are_told_below_the_table():
    told = replace(nudged(), advice="\n\n[guardproxy] read_file gave this\nthree times.\n")
    observed = Decision("observe", rule="cycle", count=4, reason="four  rounds\nalike")
    quiet = turn(2, decision=observed)
    would = turn(3, decision=replace(observed, would="firm", mode="observe"))
    exempted = turn(3, decision=replace(observed, exempted=("l1",)))

    why = "turn 4: nudge repeated_call x3: read_file: 3 equal results"
    assert reasons(records(turn(1), quiet, told)) == [why]
    plain = replace(told, decision=Decision("pass"))
    denied = replace(plain, objected=(Objected("tools.deny", "f", "refuse"),))
    texts = [[*reasons([read_record(record_of(one, str), str)])] for one in (told, plain, denied)]
    assert [one[0] for one in texts] == [why, "turn 4: told", "turn 4: refuse"]
    assert {tuple(one[1:]) for one in texts} == {tuple(texts[0][1:])}
    assert texts[0] == [
        why,
        "    [guardproxy] read_file gave this",
        "    three times.",
    ]
    assert reasons(records(would, would, turn(4), would, exempted, exempted)) == [  # once, where it begins
        "turn 3: observe (would firm) cycle x4: four rounds alike",
        "turn 3: observe cycle x4 (exempted): four rounds alike",
    ]
    held = replace(nudged(), decision=replace(nudged().decision, action="observe", exempted=("l1",)))
    assert reasons(records(would, replace(would, thread="sub"), nudged(), nudged(), held)) == [
        *["turn 3: observe (would firm) cycle x4: four rounds alike"] * 2,
        *[why] * 2,
        "turn 4: observe repeated_call x3 (exempted): read_file: 3 equal results",
    ]


def test_what_people_decided_stands_between_the_turns():
    first, last = records(turn(1), cut(3))
    people = [(last["at_ms"] + 1, "reset by ann"), (first["at_ms"] + 1, "pause by bob")]
    why = f"turn 3: cut repeated_call x6: {last['reason']}"

    assert reasons([first, last], people) == ["pause by bob", why, "reset by ann"]
    assert reasons([], people) == ["pause by bob", "reset by ann"]


@pytest.mark.parametrize(
    ("run", "end"),
    [
        ((turn(1, decision=Decision("observe", rule="cycle", count=4), outcome="finished"),), " · finished"),
        ((turn(1, outcome="finished"), turn(2)), " · no intervention"),
        ((turn(1, outcome="finished"), turn(2, thread="sub")), " · finished"),
        ((turn(1, decision=Decision("deny", rule="budget.turns", count=20), outcome="denied"),),
         " · deny x1 · denied by budget.turns"),
        ((cut(1), turn(2)), " · cut x1"),
    ],
    ids=str,
)  # fmt: skip
def test_the_end_is_named_with_what_ended_it(run, end):
    """What a rule only saw in the last turn has ended nothing, and a run that went on has not ended."""
    assert summary(records(*run)).endswith(end)


def test_limits_and_people_are_not_counted():
    """Of a limit the number is how high it is, in the unit counted."""
    denied = turn(1, decision=Decision("deny", rule="budget.cost_usd", count=20_000_000))
    paused = turn(2, decision=Decision("pause", rule="paused.operator", count=3))
    one, two = rows_of(records(denied, paused))

    assert (one.action, two.action) == ("deny budget.cost_usd", "pause paused.operator")


def test_what_was_only_noted_of_a_call_is_told_once():
    noted = Decision("observe", rule="tools.deny", count=1, would="refuse", mode="observe")
    (row,) = rows_of(
        records(turn(1, decision=noted, objected=(Objected("tools.deny", "f", "refuse", "observe", 1, CALL),)))
    )[:1]

    assert row.action == "observe (would refuse) tools.deny"


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
    table = loop_table(records(wild, nudged(), eventful(5)), title="[b]s-1")
    Console(file=stream, width=140, color_system=None).print(table)
    drawn = stream.getvalue()

    for text in ("loop", "tool", "arguments", "result", "latency", "tokens", "action", "[b]s-1", "[red]tool[/red]"):
        assert text in drawn
    assert "nudge repeated_call x3" in drawn
    assert "\nturn 4: nudge repeated_call x3: read_file: 3 equal results\n" in drawn


def test_no_name_moves_the_cursor():
    wild = turn(1, attempts=(replace(turn(1).attempts[0], calls=(("\x1b[2Jls\x07", "c", CALL),)),))
    console = Console(width=200, file=io.StringIO(), force_terminal=False)
    console.print(loop_table(records(wild), title="\x1b]0;x\x07"))

    assert "\x1b" not in console.file.getvalue()
    assert "?[2Jls?" in console.file.getvalue()
