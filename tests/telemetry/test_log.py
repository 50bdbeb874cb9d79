"""Log lines: one decision line a turn, that replay could read, without content."""

from __future__ import annotations

import io
import json
import logging
import sys
from contextlib import nullcontext
from dataclasses import replace

import pytest

from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.fingerprint import pack, unpack
from guardproxy.core.model import Decision
from guardproxy.telemetry import Objected, Telemetry, log
from guardproxy.telemetry._ids import run_ids
from tests.telemetry.reports import (
    CALL,
    SECRET_TEXT,
    T0,
    cut,
    eventful,
    life,
    nudged,
    refused,
    settings,
    turn,
    unheard,
    view,
)

TRACE = f"{run_ids(b'k' * 32, 'acme', 's-1', T0 // 10**6)[0]:032x}"
SPARED = Spared(Exemption.GROWING_PAUSES, "repeated_error", 3, (4, 5, 6))
SPARED_ROW = {"because": "growing_pauses", "rule": "repeated_error", "count": 3, "steps": [4, 5, 6]}


@pytest.fixture
def lines(capsys):
    """What is written to stderr, as a function of the format and level."""

    def read(style: str = "json", level: str = "info", reports=()) -> list[str]:
        telemetry = Telemetry(settings(log_format=style, log_level=level), b"k" * 32, "test")
        for report in reports:
            telemetry.report(report)
        return capsys.readouterr().err.split("\n")[:-1]

    yield read
    log.setup("error", "json")


def test_one_json_line_a_turn(lines):
    found = [json.loads(line) for line in lines(reports=life())]

    assert [line["turn"] for line in found] == [1, 2, 3, 4, 5, 6, 7]
    assert {line["message"] for line in found} == {"turn"}
    assert found[3] | {"at": 0, "facts": 0} == {
        "at": 0,
        "level": "info",
        "logger": "guardproxy.turn",
        "message": "turn",
        "org": "acme",
        "session": "s-1",
        "thread": "main",
        "turn": 4,
        "action": "nudge",
        "status": 200,
        "ms": 2001,
        "rule": "repeated_call",
        "count": 3,
        "reason": "read_file: 3 equal results",
        "mode": "enforce",
        "model": "gpt-4o",
        "trace_id": TRACE,
        "in": 1000,
        "out": 50,
        "microusd": 1500,
        "calls": [["read_file", CALL.hex()[:8]]],
        "agent": "codex",
        "facts": 0,
    }
    assert found[6]["outcome"] == "cut"


def test_the_facts_can_be_read_again(lines):
    packed = tuple(pack(step) for step in turn(2).steps)
    found = [json.loads(line)["facts"] for line in lines(reports=[turn(2), turn(2, facts=packed)])]

    assert found[0] == found[1]
    assert [unpack(bytes.fromhex(fact)) for fact in found[0]] == list(turn(2).steps)


@pytest.mark.parametrize(
    ("report", "key", "expected"),
    [
        (turn(1, view=view(1, retry=True)), "retry", True),
        (turn(1, view=view(1, degraded=True)), "degraded", True),
        (turn(1, view=view(1, span=2)), "span", 2),
        (turn(1, view=view(1, panic=True)), "panic", True),
        (turn(1, error_type="timeout"), "error", "timeout"),
        (turn(1, edits=("usage",)), "edits", ["usage"]),
        (turn(1, decision=Decision("pass", spared=(SPARED,))), "spared", [SPARED_ROW]),
        (turn(1, decision=Decision("observe", rule="cycle", would="cut")), "would", "cut"),
    ],
)
def test_what_is_said_only_when_it_is_so(lines, report, key, expected):
    said, silent = (json.loads(line) for line in lines(reports=[report, turn(2, view=view(2, span=1))]))

    assert said[key] == expected
    assert key not in silent


def test_what_happened_beside_the_decision(lines):
    told, happened, silent = (json.loads(line) | {"at": 0} for line in lines(reports=[refused(), eventful(), turn(2)]))

    call = {"rule": "repeated_call", "tool": "read_file", "action": "refuse", "mode": "enforce", "call": CALL.hex()[:8]}
    assert told["objected"] == [call | {"count": 5, "attempt": 1}, call | {"count": 6}]
    assert told["asked"] == ["reask"]
    events = {
        "verification": "failed",
        "failed_checks": ["required_tools", "files"],
        "hygiene": ["truncate read_file x2", "errors f (observe)"],
        "approval": ["ap-1", "pending"],
        "late": ["read_file"],
        "missing": True,
        "state": "need_human",
    }
    assert happened == silent | events


def test_judged_again_a_line_with_events_says_the_same(lines):
    """What a decision is made of stands in the line as before, and where no event is, so does the line itself."""
    bare = replace(refused(5), objected=(), attempts=turn(5).attempts)
    told = [json.loads(line) | {"at": 0} for line in lines(reports=[refused(5), eventful(2)])]
    quiet = [json.loads(line) | {"at": 0} for line in lines(reports=[bare, turn(2)])]

    for loud, still in zip(told, quiet, strict=True):
        own = {"in", "out", "calls"}  # of all its attempts
        assert {key: loud[key] for key in still.keys() - own} == {key: still[key] for key in still.keys() - own}
        assert [unpack(bytes.fromhex(fact)).tool for fact in loud["facts"]] == ["read_file"]


def test_no_content(lines):
    written = lines(reports=[replace(report, advice=SECRET_TEXT) for report in life()])

    assert len(written) == 7
    assert not [line for line in written if SECRET_TEXT in line]


def test_for_people(lines):
    held = [turn(2, decision=Decision("pass", spared=(SPARED, SPARED)))]
    held.append(turn(3, decision=Decision("observe", rule="cycle", count=2, reason="why", spared=(SPARED,))))
    written = lines("text", reports=[turn(1), *held, nudged(), cut()])

    assert [line.split("  ", 1)[1] for line in written] == [
        "pass      s-1 turn 1  200 in 2001 ms",
        f"pass      s-1 turn 2  200 in 2001 ms; spared: {SPARED}; spared: {SPARED}",
        f"observe   s-1 turn 3  cycle x2: why; spared: {SPARED}",
        "nudge     s-1 turn 4  repeated_call x3: read_file: 3 equal results",
        "cut       s-1 turn 7  repeated_call x6: read_file: 3 equal results",
    ]


def test_events_for_people(lines):
    written = lines(
        "text", reports=[refused(), eventful(), turn(3, objected=(Objected("a", "f", "repair", "observe"),))]
    )

    assert [line.split("  ", 1)[1] for line in written] == [
        (
            "firm      s-1 turn 5  repeated_call x4: read_file: 3 equal results; refuse repeated_call x5 read_file; "
            "refuse repeated_call x6 read_file; asked again: reask"
        ),
        (
            "pass      s-1 turn 2  200 in 2001 ms; verification failed: required_tools, files; approval ap-1 pending; "
            "tidied: truncate read_file x2, errors f (observe); late: read_file; the last answer was not appended; "
            "state need_human"
        ),
        "pass      s-1 turn 3  200 in 2001 ms; observe (would repair) a f",
    ]


@pytest.mark.parametrize(("level", "count"), [("debug", 7), ("info", 7), ("warning", 1), ("error", 0)])
@pytest.mark.parametrize("alone", [True, False])
def test_what_ends_a_run_is_a_warning(lines, level, count, alone):
    """Written by ours alone, or as records for whoever listens."""
    with unheard() if alone else nullcontext():
        found = [json.loads(line) for line in lines(level=level, reports=life())]

    assert len(found) == count
    assert {(line["turn"], line["level"]) for line in found if line["level"] != "info"} <= {(7, "warning")}


def test_a_line_says_on_whose_account_it_is_logged(lines, capsys):
    lines()
    logger = logging.getLogger("guardproxy.http.app")
    logger.warning("before")
    log.WHOSE.set(lambda: {"session": "s-1", "trace_id": TRACE})
    logger.warning("within")
    log.WHOSE.set(None)
    before, within = (json.loads(line) for line in capsys.readouterr().err.splitlines())

    assert "trace_id" not in before
    assert (within["session"], within["trace_id"], within["message"]) == ("s-1", TRACE, "within")


@pytest.mark.parametrize("style", ["json", "text"])
def test_any_name_and_any_error_makes_one_record(lines, style):
    wild = "a\ud800\n\x1b[31mb"
    written = lines(style, reports=[turn(1, session=wild, view=view(1, session=wild))])
    assert len(written) == 1
    assert "\x1b" not in written[0]
    try:
        raise ValueError(wild)
    except ValueError:
        logging.getLogger("guardproxy.test").exception("it %s", wild)
    written += lines(style)

    assert "ValueError" in "\n".join(written)
    if style == "json":
        assert [json.loads(line)["level"] for line in written] == ["info", "error"]


def test_a_closed_stderr_ends_nothing(lines, monkeypatch):
    telemetry = Telemetry(settings(log_level="info"), b"k" * 32, "test")
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    telemetry.report(turn(1))

    assert telemetry.snapshot().series.get("guardproxy.telemetry.errors") is None


@pytest.mark.parametrize("style", ["json", "text"])
def test_another_handler_hears_the_same_line(lines, style):
    """Alone, our handler writes a decision line without a record; it must say what the record would."""
    heard: list[logging.LogRecord] = []
    other = logging.Handler()
    other.emit = heard.append
    wild = turn(1, session="a\x1b[1m", view=view(1, session="a\x1b[1m"))
    reports = [*life(), turn(2, thread="sub"), wild, turn(3, outcome="finished"), refused(), eventful()]
    with unheard():
        alone = lines(style, reports=reports)
        assert not log.shared()
    logging.getLogger("guardproxy").addHandler(other)
    try:
        shared = lines(style, reports=reports)
    finally:
        logging.getLogger("guardproxy").removeHandler(other)

    def timeless(line: str) -> object:
        return json.loads(line) | {"at": 0} if style == "json" else line.split("  ", 1)[1]

    assert len(heard) == len(reports)
    assert [timeless(line) for line in alone] == [timeless(line) for line in shared]


class Pieces(io.StringIO):
    """Remembers what was written in one call."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def write(self, text: str) -> int:
        self.pieces.append(text)
        return len(text)


@pytest.mark.parametrize("style", ["json", "text"])
def test_lines_of_one_batch_are_written_together_and_whole(lines, monkeypatch, style):
    """A pipe takes so many bytes in one piece; of more, two workers' lines could be mixed."""
    names = ["s", "\u00e9" * 400, "s" * 3000, "s" * 6000, "s"]
    reports = [turn(number, session=names[number % 5], model="m\u00e9" * 30) for number in range(1, 60)]
    monkeypatch.setattr(sys, "stderr", out := Pieces())
    with unheard():
        lines(style, reports=())
        assert log.decision_lines(reports)

    assert len("".join(out.pieces).splitlines()) == len(reports) > len(out.pieces) > 4
    for piece in out.pieces:
        assert piece.endswith("\n")
        assert len(piece.encode()) <= log.ATOMIC or piece.count("\n") == 1
    lines()


def test_a_line_that_cannot_be_made_takes_no_other_with_it(lines, capsys):
    with unheard():
        lines()
        assert log.decision_lines([turn(1), turn(2, decision=None), turn(3)])
        assert [json.loads(line)["turn"] for line in capsys.readouterr().err.splitlines()] == [1, 3]


def test_a_filter_is_asked(lines):
    def odd(record: logging.LogRecord) -> bool:
        return record.guardproxy_fields["turn"] % 2 == 1

    log.TURNS.addFilter(odd)
    try:
        assert len(lines(reports=life())) == 4
    finally:
        log.TURNS.removeFilter(odd)


def test_set_up_twice_writes_once(lines):
    log.setup("info", "json")
    log.setup("info", "json")

    assert len(lines(reports=[turn(1)])) == 1


@pytest.mark.parametrize("person", [True, False])
def test_auto_is_text_on_a_terminal_only(lines, monkeypatch, person):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: person)

    assert lines("auto", reports=[turn(1)])[0].startswith("{") is not person


def test_libraries_are_heard_from_warning(lines):
    lines()
    logging.getLogger("some.package").info("chatter")
    logging.getLogger("some.package").warning("trouble")

    assert [json.loads(line)["message"] for line in lines()] == ["trouble"]
