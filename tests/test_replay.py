"""`replay`: which prefixes are turns, what is reported, what is printed, and what bad files are told."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from guardproxy import replay
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.policy import Policy
from guardproxy.core.presets import preset_settings
from guardproxy.core.tools import Rules
from guardproxy.errors import BadAsk, ConfigError, GuardError

Json = dict[str, Any]
PRINTER = Fingerprinter(b"test")
SHARED = Path(__file__).parents[2] / "shared" / "trajectories"


def call(tool: str, result: str | None, **arguments: object) -> list[Json]:
    """An assistant message with one call, and its result."""
    made = {"id": "c", "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
    asked = {"role": "assistant", "content": None, "tool_calls": [made]}
    return [asked] if result is None else [asked, {"role": "tool", "tool_call_id": "c", "content": result}]


def recorded(*turns: list[Json], name: str = "one") -> Json:
    return {"id": name, "messages": [{"role": "user", "content": "do it"}, *[m for turn in turns for m in turn]]}


def said(session: Json, policy: Policy | None = None) -> list[tuple[int, int, str, str, int]]:
    (report,) = replay.play([session], policy or Policy(), PRINTER)
    return [(t.step, t.message, t.action, t.rule, t.count) for t in report.decisions if t.action != "observe"]


LOOP = recorded(*[call("process", "[]", action="list")] * 7)
TEXTS = [[{"role": "assistant", "content": "Two sessions."}, {"role": "user", "content": "Use tools."}]]


def test_the_ladder_of_one_repeated_call() -> None:
    assert said(LOOP) == [
        (2, 7, "nudge", "repeated_call", 3),
        (3, 9, "firm", "repeated_call", 4),
        (4, 11, "finalize", "repeated_call", 5),
        (5, 13, "cut", "repeated_call", 6),
    ]


def test_the_session_ends_at_the_cut_and_all_its_calls_are_counted() -> None:
    (report,) = replay.play([LOOP], Policy(), PRINTER)
    assert report.steps == 7
    assert report.end is not None
    assert report.end.action == "finalize"
    assert report.decisions[-1].action == "cut"


def test_replies_without_calls_name_the_next_call() -> None:
    session = recorded(call("look", "x"), *TEXTS * 4)
    assert said(session) == [
        (1, 7, "nudge", "monologue", 2),
        (1, 9, "firm", "monologue", 3),
        (1, 11, "cut", "monologue", 4),
    ]


def test_in_observe_mode_the_whole_run_is_played_and_the_first_end_is_told() -> None:
    (report,) = replay.play([LOOP], Policy(mode="observe"), PRINTER)
    assert {told.action for told in report.decisions} == {"observe"}
    assert [told.would for told in report.decisions][-5:] == ["nudge", "firm", "finalize", "cut", ""]
    assert report.end is not None
    assert report.end.step == 4


@pytest.mark.parametrize(
    ("messages", "steps"),
    [
        ([], 0),
        ([{"role": "assistant", "content": "hello"}], 0),
        ([{"role": "user", "content": "x"}], 0),
        ([{}, {"role": 7, "content": {"a": 1}}, {"role": "assistant", "tool_calls": [{"function": None}]}], 1),
        (call("f", None), 1),
        ([{"role": "tool", "content": "result of nothing"}, {"role": "assistant", "content": None}], 0),
    ],
)
def test_odd_recordings_are_played(messages: list[Json], steps: int) -> None:
    (report,) = replay.play([{"id": "odd", "messages": messages}], Policy(), PRINTER)
    assert report.steps == steps


def test_one_session_knows_nothing_of_another() -> None:
    twice = recorded(*[call("process", "[]", action="list")] * 2)
    reports = list(replay.play([twice] * 5, Policy(), PRINTER))
    assert not any(report.alarm for report in reports)


def lines(folder: Path, *sessions: Json, packed: bool = False) -> Path:
    text = "".join(json.dumps(session) + "\n" for session in sessions).encode()
    file = folder / "runs.jsonl"
    file.write_bytes(gzip.compress(text) if packed else text)
    return file


@pytest.mark.parametrize("packed", [False, True])
def test_json_lines_are_what_the_score_reads(tmp_path: Path, *, packed: bool) -> None:
    out = io.StringIO()
    assert replay.run(lines(tmp_path, LOOP, packed=packed), Policy(), as_json=True, out=out) == 0
    (row,) = map(json.loads, out.getvalue().splitlines())
    assert (row["id"], row["steps"]) == ("one", 7)
    assert set(row["decisions"][-1]) == {"step", "message", "action", "rule", "count", "reason"}
    assert row["decisions"][-1]["action"] == "cut"


def test_the_table_names_what_was_spoken_to_and_sums_up(tmp_path: Path) -> None:
    out = io.StringIO()
    replay.run(lines(tmp_path, LOOP, recorded(call("look", "x"), name="calm")), Policy(), out=out)
    text = out.getvalue()
    assert "3 (nudge)" in text  # the third call: people count from 1, `--json` from 0
    assert "4" in text
    assert "calm" not in text
    assert "2 sessions, 8 calls; spoken to 1 (repeated_call 1); ended 1, 2 calls saved at most" in text


PATIENT = replay.Other("patient.yaml", Policy(detectors=preset_settings("patient")))


def test_two_configurations_in_one_run(tmp_path: Path) -> None:
    out = io.StringIO()
    replay.run(lines(tmp_path, LOOP, recorded(call("look", "x"), name="calm")), Policy(), other=PATIENT, out=out)
    assert "under patient.yaml: spoken to 1 -> 1, ended 1 -> 0, calls saved at most 2 -> 0" in out.getvalue()
    assert "1 sessions differ (1 later there)" in out.getvalue()


def test_json_lines_have_both(tmp_path: Path) -> None:
    out = io.StringIO()
    replay.run(lines(tmp_path, LOOP), Policy(), as_json=True, other=PATIENT, out=out)
    (row,) = map(json.loads, out.getvalue().splitlines())
    firsts = [next(one for one in row[key] if one["action"] == "nudge") for key in ("decisions", "other")]
    assert [one["step"] for one in firsts] == [2, 3]


BOARD = recorded(*[call("board", f"{9 - k} tasks are open") for k in range(5)], name="board")


def test_what_spared_a_run_is_counted(tmp_path: Path) -> None:
    out = io.StringIO()
    replay.run(lines(tmp_path, BOARD, LOOP), Policy(), out=out)
    table = [line.split() for line in out.getvalue().splitlines()]
    assert ["rule", "spared", "by", "sessions", "turns"] in table
    assert ["repeated_call", "changed_results", "1", "3"] in table


def test_json_lines_say_what_spared_a_run(tmp_path: Path) -> None:
    out = io.StringIO()
    replay.run(lines(tmp_path, BOARD, LOOP), Policy(), as_json=True, out=out)
    board, loop = map(json.loads, out.getvalue().splitlines())
    assert board == {
        "id": "board",
        "steps": 5,
        "decisions": [],
        "spared": [{"rule": "repeated_call", "because": "changed_results", "turns": 3}],
    }
    assert "spared" not in loop


def test_knowledge_about_tools_is_used(tmp_path: Path) -> None:
    file = lines(tmp_path, recorded(*[call("ask", "the same", page=page) for page in range(4)]))
    told = []
    for rules in (Rules(), Rules(ignore_args={"ask": ("page",)})):
        out = io.StringIO()
        replay.run(file, Policy(), rules, out=out)
        told.append("spoken to 1 (repeated_call 1)" in out.getvalue())
    assert told == [False, True]


def test_a_page_is_written(tmp_path: Path) -> None:
    page, out = tmp_path / "page.html", io.StringIO()
    replay.run(lines(tmp_path, LOOP), Policy(), html=page, other=PATIENT, as_json=True, out=out)
    text = page.read_text("utf-8")
    assert '"name":"runs.jsonl"' in text
    assert '"there":"patient.yaml"' in text
    assert out.getvalue().count("\n") == 1


@pytest.mark.parametrize(
    ("page", "told"),
    [("runs.jsonl", "the recording itself"), ("no/page.html", "its folder is not there"), (".", "it is a folder")],
)
def test_a_page_that_must_not_be_written_is_refused_first(tmp_path: Path, page: str, told: str) -> None:
    file, out = lines(tmp_path, LOOP), io.StringIO()
    before = file.read_bytes()
    with pytest.raises(ConfigError, match=told):
        replay.run(file, Policy(), html=tmp_path / page, out=out)
    assert (out.getvalue(), file.read_bytes()) == ("", before)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{\n", "line 1: not valid JSON"),
        (b'\n{"id": "a", "messages": []}\n[1]\n', "line 3: a session is an object with a string `id`"),
        (b'{"id": 1, "messages": []}', "line 1: a session is an object with a string `id`"),
        (b'{"id": "a"}', "line 1: `messages` must be a list of objects"),
        (b'{"id": "a", "messages": ["x"]}', "line 1: `messages` must be a list of objects"),
        (b"\xff\xfe", "line 1: not valid JSON"),
        (gzip.compress(b'{"id": "a", "messages": []}\n' * 3000)[:-30], "the file is damaged"),
    ],
)
def test_bad_files_are_told_where(tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_bytes(content)
    with pytest.raises(BadAsk) as error:
        replay.run(file, Policy(), as_json=True, out=io.StringIO())
    assert told in error.value.message
    assert "bad.jsonl" in error.value.message


@pytest.mark.parametrize("name", ["nowhere.jsonl", "."])
def test_a_file_that_cannot_be_read_is_a_wrong_command(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        replay.run(tmp_path / name, Policy())


@pytest.mark.parametrize("as_json", [False, True])
def test_a_file_without_a_run_is_a_wrong_command(tmp_path: Path, as_json: bool) -> None:
    """As to `calibrate`: who plays nothing has most likely named the wrong file."""
    with pytest.raises(ConfigError, match="has no run"):
        replay.run(lines(tmp_path), Policy(), as_json=as_json)


def test_development_sessions_keep_their_score() -> None:
    """False ends 0, false alarms <= 2 and most labelled loops found, on every fourth labelled session."""
    if not SHARED.exists():
        pytest.skip("../shared/trajectories is not here: this test plays what others recorded")
    labels = {row["id"]: row for row in map(json.loads, (SHARED / "dev-labels.jsonl").read_text("utf-8").splitlines())}
    wanted = {
        name for number, name in enumerate(n for n in labels if labels[n]["loop"] in ("yes", "no")) if number % 4 == 0
    }
    with gzip.open(SHARED / "dev.jsonl.gz", "rb") as stream:
        chosen = (run for run in replay.read(stream, "dev") if run["id"] in wanted)
        reports = {report.id: report for report in replay.play(chosen, Policy(), PRINTER)}
    healthy = [reports[name] for name in wanted if labels[name]["loop"] == "no"]
    loops = [reports[name] for name in wanted if labels[name]["loop"] == "yes"]
    assert len(healthy) > 15
    assert len(loops) > 10
    assert not [report.id for report in healthy if report.end]
    assert len([report.id for report in healthy if report.alarm]) <= 1
    assert len([report.id for report in loops if report.alarm]) >= 0.85 * len(loops)


def test_errors_are_of_the_kind_that_the_command_line_prints() -> None:
    assert issubclass(BadAsk, GuardError)
    assert issubclass(ConfigError, GuardError)


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(LOOP).encode())
    assert replay.run(file, Policy(), as_json=True, out=io.StringIO()) == 0


def test_markup_in_names_is_text(tmp_path: Path) -> None:
    file = tmp_path / "[red]runs.jsonl"
    file.write_text(json.dumps(recorded(*[call("[/red]t", "x")] * 7, name="[/red] [bold]one")))
    out = io.StringIO()
    assert replay.run(file, Policy(), out=out) == 0
    assert "[/red] [bold]one" in out.getvalue()


def test_a_file_that_fails_while_it_is_read_is_a_wrong_command() -> None:
    memory = Path("/proc/self/mem")  # opens, and cannot be read at its beginning
    if not memory.exists():
        pytest.skip("no /proc here")
    with pytest.raises(ConfigError, match="cannot read"):
        replay.run(memory, Policy(), out=io.StringIO())


def test_reports_of_progress_stand_in_the_message_that_ends_a_request() -> None:
    turns = [call("work", f"done {n}", part=f"{chr(97 + n)}x") for n in range(6)]
    for turn in turns:
        turn[-1]["x-guardproxy-progress"] = {"completed_steps": 2}
    assert [one[2:] for one in said(recorded(*turns))] == [("nudge", "no_progress", 4)]
    for number, turn in enumerate(turns):
        turn[-1]["x-guardproxy-progress"] = {"completed_steps": number}
    assert said(recorded(*turns)) == []


def test_a_report_that_cannot_be_read_is_refused_in_words() -> None:
    turn = call("work", "done")
    turn[-1]["x-guardproxy-progress"] = {"completed_steps": -1}
    with pytest.raises(BadAsk, match=r"x-guardproxy-progress.*completed_steps"):
        said(recorded(turn))
