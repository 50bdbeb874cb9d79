"""Reports as the flow builds them, for tests: a run that reads one file again and again and is cut."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from guardproxy.config import TelemetrySection
from guardproxy.core.model import Decision, Finding, Flag, Kind, Line, Step, Triple, Usage
from guardproxy.core.view import Spent, View
from guardproxy.telemetry import log
from guardproxy.telemetry.report import Attempt, Objected, TurnReport

SECOND = 1_000_000_000
T0 = 1_800_000_000 * SECOND
CALL, RESULT = b"c" * 16, b"r" * 16
OTHER_CALL = b"d" * 16
SECRET_TEXT = "the-secret-argument"


@contextmanager
def unheard() -> Iterator[None]:
    """No handler of pytest's listens: ours are alone, as they are in life."""
    root = logging.getLogger()
    others = [handler for handler in root.handlers if not isinstance(handler, log._Stderr)]
    for handler in others:
        root.removeHandler(handler)
    try:
        yield
    finally:
        for handler in others:
            root.addHandler(handler)


def settings(**changes) -> TelemetrySection:
    return TelemetrySection(**{"log_level": "error", "log_format": "json", **changes})


def step(tool: str = "read_file", *, flags: Flag = Flag.NONE, call: bytes = CALL, kind: Kind = Kind.CALL) -> Step:
    return Step(kind, tool, call, call, call, RESULT, RESULT, flags=flags | Flag.ROUND_START)


def finding(count: int, last: int) -> Finding:
    evidence = tuple(range(last - count + 1, last + 1))
    return Finding("repeated_call", count, Triple(3, 4, 6), CALL, (CALL,), "read_file: 3 equal results", evidence)


def view(turn: int = 1, **changes) -> View:
    line = Line("session", "cost_microusd", 0)
    values = {
        "session": "s-1",
        "thread": "main",
        "turn": turn,
        "now_ms": T0 // 1_000_000 + turn * 10_000,
        "steps": turn - 1,
        "session_started_ms": T0 // 1_000_000,
        "new_session": turn == 1,
        "spent": (Spent(line, 1500 * (turn - 1), 0), Spent(Line("session", "tool_calls", 0), turn - 1, 0)),
    }
    return View(**values | changes)


def turn(number: int = 1, **changes) -> TurnReport:
    """Turn `number` of the run: it brings one result (but the first) and asks for the same call again."""
    start = T0 + number * 10 * SECOND
    attempt = Attempt(
        started_ns=start + SECOND // 1000,
        first_chunk_ns=start + SECOND // 2,
        ended_ns=start + 2 * SECOND,
        status=200,
        usage=Usage(1000, 50, 400),
        calls=(("read_file", f"call_{number}", CALL),),
        finish_reason="tool_calls",
    )
    values = {
        "org": "acme",
        "session": "s-1",
        "thread": "main",
        "view": view(number),
        "decision": Decision("pass"),
        "started_ns": start,
        "ended_ns": start + 2 * SECOND + SECOND // 1000,
        "turn": number,
        "agent": "codex",
        "team": "core",
        "model": "gpt-4o",
        "response_model": "gpt-4o-2024-08-06",
        "response_id": "chatcmpl-1",
        "server_address": "api.openai.com",
        "server_port": 443,
        "stream": True,
        "attempts": (attempt,),
        "usage": attempt.usage,
        "cost_microusd": 1500,
        "steps": (step(),) if number > 1 else (),
        "overhead_request_ns": 400_000,
        "overhead_response_ns": 200_000,
        "begin_ns": 300_000,
        "settle_ns": 300_000,
    }
    return TurnReport(**values | changes)


def nudged(number: int = 4) -> TurnReport:
    """A turn on which the third equal result arrives."""
    found = finding(3, number - 2)
    decision = Decision("nudge", rule="repeated_call", count=3, reason=found.reason, finding=found, findings=(found,))
    return turn(number, decision=decision)


def firm(number: int = 5) -> Decision:
    """The decision on which calls are refused."""
    found = finding(4, number - 2)
    return Decision("firm", rule="repeated_call", count=4, reason=found.reason, finding=found, findings=(found,))


def refused(number: int = 5, **changes) -> TurnReport:
    """A turn whose first proposal is refused; of the second, one call of two is handed on."""
    start = T0 + number * 10 * SECOND
    first = replace(turn(number).attempts[0], calls=(("read_file", "call_a", CALL),))
    second = Attempt(
        started_ns=start + 2 * SECOND,
        first_chunk_ns=start + 2 * SECOND + SECOND // 2,
        ended_ns=start + 3 * SECOND,
        status=200,
        usage=Usage(1100, 60),
        calls=(("grep", "call_b", OTHER_CALL),),
        finish_reason="tool_calls",
        reason="reask",
        response_id="chatcmpl-2",
    )
    objected = (
        Objected("repeated_call", "read_file", "refuse", count=5, call=CALL, attempt=1),
        Objected("repeated_call", "read_file", "refuse", count=6, call=CALL, attempt=2),
    )
    values = {
        "decision": firm(number),
        "attempts": (first, second),
        "usage": Usage(2100, 110, 400),
        "objected": objected,
        "ended_ns": start + 3 * SECOND + SECOND // 1000,
    }
    return turn(number, **values | changes)


EVENTS = {
    "verification": "failed",
    "failed_checks": ("required_tools", "files"),
    "hygiene": (("truncate", "enforce", "read_file"), ("truncate", "enforce", "read_file"), ("errors", "observe", "f")),
    "approval": ("ap-1", "pending"),
    "late": ("read_file",),
    "missing": True,
    "state": "need_human",
}
"""One of each that a report may have to tell beside calls and attempts."""


def eventful(number: int = 2, **changes) -> TurnReport:
    """A turn on which all of it happens."""
    return turn(number, **EVENTS | changes)


def cut(number: int = 7) -> TurnReport:
    """The turn that ends the run: no attempt."""
    found = finding(6, number - 2)
    decision = Decision("cut", rule="repeated_call", count=6, reason=found.reason, finding=found, findings=(found,))
    done = turn(number, decision=decision, attempts=(), usage=Usage(), cost_microusd=0, outcome="cut")
    return replace(done, ended_ns=done.started_ns + SECOND // 100)


def life() -> list[TurnReport]:
    """A whole run of seven turns."""
    return [turn(1), turn(2), turn(3), nudged(4), turn(5), turn(6), cut(7)]
