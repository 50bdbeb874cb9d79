"""Turn records from a file: a log with decision lines, or spans that a collector wrote as OTLP JSON, a request a line.

What a file holds beside them is passed over: other lines of the log, other programs' spans, what a log's keeper writes
in front of each line.
"""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from guardproxy.core.fact import unpack
from guardproxy.core.model import Kind
from guardproxy.errors import BadAsk, ConfigError, GuardError
from guardproxy.telemetry import recorded
from guardproxy.telemetry._events import read_events
from guardproxy.telemetry.log import TURNS
from guardproxy.telemetry.record import CallRecord, OfRecord, TurnRecord, result_of

STDIN = Path("-")
"""Stands for what is piped in."""

_NAMED = 5  # sessions that are named where another was asked for


def objects(file: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file, a line each; `.gz` by its first bytes. Raises ConfigError if it cannot be read."""
    try:
        with _opened(file) as stream:
            for line in stream:
                if (found := _object(line[max(0, line.find(b"{")) :])) is not None:
                    yield found
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error


def is_decision(line: Mapping[str, Any]) -> bool:
    """Whether it is the line of a turn."""
    return line.get("logger") == TURNS.name and isinstance(line.get("turn"), int)


def runs(file: Path, org: str = "") -> dict[str, list[TurnRecord]]:
    """The runs of a file by their sessions, turns in the order of time. `org`: of this one alone, "" = of all."""
    found: dict[str, list[TurnRecord]] = {}
    spans: list[dict[str, Any]] = []
    for line in objects(file):
        if is_decision(line):
            if not org or line.get("org", org) == org:
                found.setdefault(str(line.get("session", "")), []).append(record_of_line(line))
        elif "resourceSpans" in line or "resource_spans" in line:
            spans += recorded.spans(line)
    for session, records in recorded.runs(spans, org).items():
        found.setdefault(session, []).extend(records)
    for records in found.values():
        records.sort(key=lambda one: (one["at_ms"], one["turn"]))
    return found


def run(file: Path, session: str, org: str = "") -> list[TurnRecord]:
    """One run of a file. Raises GuardError where it is not there, naming some that are."""
    every = runs(file, org)
    if session in every:
        return every[session]
    names = ", ".join(sorted(every)[:_NAMED])
    told = f"; there are {names}" if names else "; it has no decision lines and no spans of ours"
    raise GuardError(f"{file} has no session {session!r}{told}", status=404, code="not_found")


def record_of_line(line: Mapping[str, Any]) -> TurnRecord:
    """A decision line as the record of its turn. Raises BadAsk for one that was written by something else."""
    try:
        return _record(line)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as wrong:
        raise BadAsk(f"a decision line of session {line.get('session')!r} cannot be read: {wrong!r}") from wrong


def facts_of(line: Mapping[str, Any]) -> tuple[bytes, ...]:
    """The packed steps of a decision line."""
    return tuple([bytes.fromhex(fact) for fact in line.get("facts", ())])


def _record(line: Mapping[str, Any]) -> TurnRecord:
    ms = int(line["ms"])
    steps = [step for step in map(unpack, facts_of(line)) if step.kind is Kind.CALL]
    record = TurnRecord(
        turn=int(line["turn"]),
        at_ms=at_ms(line) - ms,
        thread=str(line["thread"]),
        calls=[CallRecord(tool=str(tool), call=str(call)) for tool, call in line.get("calls", ())],
        results=[result_of(step) for step in steps],
        latency_ms=ms,
        input_tokens=int(line.get("in", 0)),
        output_tokens=int(line.get("out", 0)),
        cost_microusd=int(line.get("microusd", 0)),
        action=str(line["action"]),
        would=str(line.get("would", "")),
        rule=str(line.get("rule", "")),
        count=int(line.get("count", 0)),
        status=int(line["status"]),
        outcome=str(line.get("outcome", "")),
        spared=[f"{one['because']} ({one['rule']} x{one['count']})" for one in line.get("spared", ())],
        reason=str(line.get("reason", "")),
        events=read_events(line),
    )
    agent, team, key = (str(line.get(name, "")) for name in ("agent", "team", "key"))
    if agent or key:
        record["of"] = OfRecord(agent=agent, declared=False, team=team, key=key)
    return record


def at_ms(line: Mapping[str, Any]) -> int:
    """When a line was written, in milliseconds."""
    return round(datetime.fromisoformat(str(line["at"])).timestamp() * 1000)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if file == STDIN:
        yield sys.stdin.buffer
        return
    with file.open("rb") as raw:
        if raw.peek(2)[:2] != b"\x1f\x8b":
            yield raw
            return
        with gzip.GzipFile(fileobj=raw) as packed:
            yield io.BufferedReader(packed)
