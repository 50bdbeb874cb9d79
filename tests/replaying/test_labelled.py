"""False alarms as a file: what is written is read again, wrong lines are named, agents are found by their run."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardproxy import replay
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.policy import Policy
from guardproxy.core.scoped_exemption import ScopedExemption
from guardproxy.errors import BadAsk, ConfigError
from guardproxy.replaying import labelled
from guardproxy.replaying.labelled import NEVER_MS, Labelled, read, resolve
from guardproxy.store.labels import Label
from tests.core.talk import Json, called, result, system, user

RULES = ("cycle", "repeated_call")
PRINTER = Fingerprinter(b"k")
ONE = Label("l1", "s", "cycle", "session", "s", "ann", note="it waits", action="cut", count=5, call=9, at_ms=2)


def test_a_line_a_session_in_the_form_of_labelled_runs() -> None:
    rows = [json.loads(line) for line in labelled.lines([replace(ONE, id="l3", session="t", at_ms=9), ONE])]

    assert [row["id"] for row in rows] == ["s", "t"]
    assert rows[0] == {
        "id": "s",
        "success": None,
        "label_by": "ann",
        "loop": "no",
        "kind": "none",
        "intervene_at_call": None,
        "intervene_at_message": None,
        "why": "it waits",
        "exemptions": [
            {
                "label": "l1",
                "rule": "cycle",
                "action": "cut",
                "count": 5,
                "call": 9,
                "scope": "session",
                "tool": "",
                "by": "ann",
                "at": "1970-01-01 00:00 UTC",
                "until": "1970-01-01 00:00 UTC",
            }
        ],
    }


def test_two_labels_of_a_session_are_one_line() -> None:
    two = [replace(ONE, id="l2", rule="repeated_call", note="", at_ms=1), ONE]
    (line,) = labelled.lines(two)
    (row,) = [json.loads(line)]

    assert [one["label"] for one in row["exemptions"]] == ["l2", "l1"]
    assert row["why"] == "it waits"
    assert json.loads(labelled.lines(two[:1])[0])["why"] == "repeated_call was a false alarm"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "labels.jsonl"
    labels = [ONE, replace(ONE, id="l2", scope="agent", subject="x", tool="f"), replace(ONE, id="l3", session="ü t")]
    file.write_text("".join(labelled.lines(labels)) + "\n")

    session = ScopedExemption("l1", "cycle", "session", "s", NEVER_MS)
    agent = ScopedExemption(
        "l2", "cycle", "agent", "", NEVER_MS, "f"
    )  # the digest is keyed: it means nothing elsewhere
    other = replace(session, label="l3", subject="ü t")
    assert read(file, RULES) == (Labelled("s", (session, agent)), Labelled("ü t", (other,)))


def test_labels_of_other_origin_are_labels(tmp_path: Path) -> None:
    file = tmp_path / "labels.jsonl"
    file.write_text('{"id": "a", "loop": "no"}')

    assert read(file, RULES) == (Labelled("a", ()),)


WRONG: dict[str, tuple[str, str]] = {
    "no JSON": ("{", "labels.jsonl, line 2: not valid JSON"),
    "no object": ("[]", "line 2: a label is an object with a string `id`"),
    "no id": ('{"id": 3}', "line 2: a label is an object with a string `id`"),
    "no list": ('{"id": "a", "exemptions": {}}', "`exemptions` must be a list of objects"),
    "no objects": ('{"id": "a", "exemptions": [1]}', "`exemptions` must be a list of objects"),
    "no rule": ('{"id": "a", "exemptions": [{}]}', "`rule` is None, no rule of that name"),
    "a rule that is a list": ('{"id": "a", "exemptions": [{"rule": ["cycle"]}]}', "`rule` is ['cycle']"),
    "no such rule": ('{"id": "a", "exemptions": [{"rule": "laps"}]}', "`rule` is 'laps', no rule of that name"),
    "no such scope": ('{"id": "a", "exemptions": [{"rule": "cycle", "scope": "org"}]}', "`scope` is 'org', not one of"),
    "a scope that is a list": ('{"id": "a", "exemptions": [{"rule": "cycle", "scope": []}]}', "`scope` is []"),
    "no tool": ('{"id": "a", "exemptions": [{"rule": "cycle", "scope": "tool"}]}', "`tool` must name a tool"),
    "a tool of numbers": ('{"id": "a", "exemptions": [{"rule": "cycle", "tool": 3}]}', "`tool` must name a tool"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files(name: str, tmp_path: Path) -> None:
    line, told = WRONG[name]
    file = tmp_path / "labels.jsonl"
    file.write_text(f'{{"id": "fine"}}\n{line}\n')
    with pytest.raises(BadAsk) as raised:
        read(file, RULES)

    assert told in raised.value.message


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*: No such file"):
        read(tmp_path / "x", RULES)


def loop(name: str, prompt: str, calls: int = 8) -> dict[str, Any]:
    """A run that repeats one call to its end."""
    made: list[Json] = [system(prompt), user("go")]
    for number in range(calls):
        made += [called(("f", "{}", f"i{number}")), result("same", f"i{number}")]
    return {"id": name, "messages": made}


RUNS = [loop("a", "You plan."), loop("b", "You plan."), loop("c", "You cook.")]


def test_whose_an_agent_is_its_run_tells() -> None:
    agent = ScopedExemption("l1", "cycle", "agent", "", NEVER_MS)
    tool = ScopedExemption("l2", "cycle", "tool", "", NEVER_MS, "f")
    session = ScopedExemption("l3", "cycle", "session", "c", NEVER_MS)
    labels = (Labelled("a", (agent, tool)), Labelled("c", (session,)), Labelled("not recorded", (agent,)))
    found = resolve(labels, lambda: RUNS, PRINTER)

    assert [(one.label, one.scope) for one in found] == [("l1", "agent"), ("l2", "tool"), ("l3", "session")]
    assert found[0].subject


def test_a_recording_is_read_for_agents_alone() -> None:
    def never() -> list[dict[str, Any]]:
        raise AssertionError

    assert resolve((Labelled("c", (ScopedExemption("l", "cycle", "session", "c", NEVER_MS),)),), never, PRINTER)


SCOPES = {"session": {"a"}, "agent": {"a", "b"}, "tool": {"a", "b", "c"}}
"""Which of RUNS are spared by a label of `a`."""


@pytest.mark.parametrize("scope", SCOPES)
def test_replay_under_the_labels(scope: str, tmp_path: Path) -> None:
    runs, labels, out = tmp_path / "runs.jsonl", tmp_path / "labels.jsonl", io.StringIO()
    runs.write_text("".join(json.dumps(run) + "\n" for run in RUNS))
    said = replace(
        ONE, session="a", subject="a", rule="repeated_call", scope=scope, tool="f" if scope == "tool" else ""
    )
    labels.write_text("".join(labelled.lines([said])))
    other = replay.exempted(runs, labels, Policy())
    assert replay.run(runs, Policy(), as_json=True, other=other, out=out) == 0

    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [row["decisions"][-1]["action"] for row in rows] == ["cut"] * 3
    assert {row["id"] for row in rows if row["other"][-1]["action"] == "observe"} == SCOPES[scope]
