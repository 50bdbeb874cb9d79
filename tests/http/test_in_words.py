"""A run in words: what lets it go on, by who holds it. (Rows and paragraphs over real runs: test_sessions.)"""

from __future__ import annotations

from typing import Any

import pytest

from guardproxy.http import in_words
from guardproxy.http.sessions import Run
from guardproxy.store.known import Known

DENIED: Any = {"thread": "m", "action": "deny", "outcome": "denied", "rule": "budget.turns", "reason": "limit turns"}
DENIED |= {"at_ms": 5}
FINALIZED: Any = {**DENIED, "action": "finalize", "outcome": "finalized"}
SPAN = {**FINALIZED, "reason": "limit turns (span): 3 of 3 used, this is the last turn that fits"}
SESSION = {**FINALIZED, "reason": "limit turns (session): 3 of 3 used, this is the last turn that fits"}
TEAM = {**FINALIZED, "rule": "budget.cost_usd", "reason": "limit cost_usd (team): $5 of $5 used"}
ELSE = "a new message of the user's, or "

WAYS: dict[str, tuple[dict[str, str], tuple[Any, ...], int, str]] = {
    # how it stands, its records, when it was let go on, the command
    "active": ({}, (), 0, ""),
    "waits for a result": ({"state": "waiting"}, (), 0, ""),
    "asked in its text": ({"state": "need_human"}, (), 0, ""),
    "paused by a person": ({"state": "paused", "by": "ann", "why": "odd"}, (), 0, "sessions resume s"),
    "paused by a loop": ({"state": "paused", "by": "loop"}, (), 0, "sessions resume s"),
    "paused by a limit": (
        {"state": "paused", "by": "budget", "why": "limit cost_usd (session) of $1"}, (), 0,
        "sessions extend s --cost DOLLARS"),
    "a call": ({"state": "paused", "by": "approval", "why": "apr_1 rm"}, (), 0, "approvals approve apr_1"),
    "a question": ({"state": "need_human", "by": "approval", "why": "apr_1 ask"}, (), 0, "approvals answer apr_1 TEXT"),
    "cut as a loop": ({"state": "closed", "by": "cycle"}, (), 0, "sessions resume s"),
    "closed by a limit": ({"state": "closed", "by": "budget.turns"}, (), 0, "sessions extend s --turns N"),
    "closed by a person": ({"state": "closed", "by": "ann", "closed": "operator"}, (), 0, "sessions reset s"),
    "refused by a limit": ({}, (DENIED,), 0, "sessions extend s --turns N"),
    "refused by a team's": ({}, ({**DENIED, "reason": "limit cost_usd (team) of $5 a day: $5 used"},), 0, ""),
    "given more since": ({}, (DENIED,), 6, ""),
    "made to answer, as a loop": (
        {}, ({**FINALIZED, "rule": "cycle"},), 0, f"{ELSE}where it was no loop guardproxy false-alarm s"),
    "made to answer by a limit of the request": ({}, (SPAN,), 0, f"{ELSE}guardproxy sessions extend s --turns N"),
    "made to answer by a limit of the run": ({}, (SESSION,), 0, "sessions extend s --turns N"),
    "made to answer by a team's": ({}, (TEAM,), 0, ""),
    "made to answer, and given more since": ({}, (SESSION,), 6, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", WAYS)
def test_what_lets_it_go_on(name: str) -> None:
    more, records, opened, command = WAYS[name]
    at: Any = {"started_ms": 0, "at_ms": 1, "turn": 3, "span": 1, "closed": "", "main": "m", "traceparent": ""}
    run = Run(Known("default", "s", **{"threads": (), **at, **more}), records, opened_ms=opened)
    told = [line.partition("to go on   ")[2] for line in in_words.paragraphs(run, " --config g") if "to go on" in line]

    assert len(in_words.row(run)[1]) < 30, "why is for `sessions show`"
    refused = bool(records) and records[0]["outcome"] == "denied"
    assert in_words.row(run)[1].endswith(", stopped by a limit") is (refused and not opened)
    said = command if command.startswith(ELSE) else f"guardproxy {command}"
    assert told == ([f"{said} --config g"] if command else [])
