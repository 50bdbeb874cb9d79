"""False alarms as a file: written from labels, read by `replay`. A line a session, in the form of labelled runs.

`{"id", "loop": "no", "label_by", "why", …, "exemptions": [{"label", "rule", "scope", "tool", "until", …}]}`: who scores
detectors reads the first fields, `replay --labels` the exemptions. There is no content in it but the notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import orjson

from guardproxy.api import chat
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.scoped_exemption import SCOPES, ScopedExemption, agent_of, moment
from guardproxy.errors import BadAsk, ConfigError

NEVER_MS = 253_402_300_799_000
"""The end of the year 9999: a replay has no dates, so what was exempted is exempted in all of it."""


class Kept(Protocol):
    """What is read of a label; `store.labels.Label` has it."""

    @property
    def id(self) -> str: ...
    @property
    def session(self) -> str: ...
    @property
    def rule(self) -> str: ...
    @property
    def scope(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def by(self) -> str: ...
    @property
    def note(self) -> str: ...
    @property
    def action(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def call(self) -> int: ...
    @property
    def at_ms(self) -> int: ...
    @property
    def until_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Labelled:
    """A labelled run of a file: its id and what was exempted because of it. An agent is filled in by `resolve`."""

    id: str
    exemptions: tuple[ScopedExemption, ...]


def lines(labels: Sequence[Kept]) -> list[str]:
    """A line a session, in the order in which they were first labelled."""
    by_session: dict[str, list[Kept]] = {}
    for label in sorted(labels, key=lambda one: (one.at_ms, one.id)):
        by_session.setdefault(label.session, []).append(label)
    return [orjson.dumps(_row(session, said)).decode() + "\n" for session, said in by_session.items()]


def _row(session: str, said: Sequence[Kept]) -> dict[str, Any]:
    return {
        "id": session,
        "success": None,
        "label_by": said[0].by,
        "loop": "no",
        "kind": "none",
        "intervene_at_call": None,
        "intervene_at_message": None,
        "why": "; ".join(one.note for one in said if one.note) or f"{said[0].rule} was a false alarm",
        "exemptions": [
            {
                "label": one.id,
                "rule": one.rule,
                "action": one.action,
                "count": one.count,
                "call": one.call,
                "scope": one.scope,
                "tool": one.tool,
                "by": one.by,
                "at": moment(one.at_ms),
                "until": moment(one.until_ms),
            }
            for one in said
        ],
    }


def read(file: Path, rules: Iterable[str]) -> tuple[Labelled, ...]:
    """The labelled runs of a file. BadAsk names the line and what is wrong with it; ConfigError: no such file."""
    known = frozenset(rules)
    try:
        raw = file.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror or error}") from error
    return tuple(_read(line, f"{file}, line {number}", known) for number, line in enumerate(raw, 1) if line.strip())


def _read(line: bytes, where: str, rules: frozenset[str]) -> Labelled:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadAsk(f"{where}: not valid JSON: {error}") from error
    if not isinstance(row, dict) or not isinstance(row.get("id"), str):
        raise BadAsk(f"{where}: a label is an object with a string `id`", param="id")
    given = row.get("exemptions", [])
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise BadAsk(f"{where}: `exemptions` must be a list of objects", param="exemptions")
    return Labelled(row["id"], tuple(_exemption(row["id"], one, where, rules) for one in given))


def _exemption(session: str, given: Mapping[str, Any], where: str, rules: frozenset[str]) -> ScopedExemption:
    rule, scope, tool = given.get("rule"), given.get("scope", "session"), given.get("tool", "")
    if not isinstance(rule, str) or rule not in rules:
        raise BadAsk(f"{where}: `rule` is {rule!r}, no rule of that name", param="rule")
    if not isinstance(scope, str) or scope not in SCOPES:
        raise BadAsk(f"{where}: `scope` is {scope!r}, not one of {', '.join(SCOPES)}", param="scope")
    if not isinstance(tool, str) or (scope == "tool" and not tool):
        raise BadAsk(f"{where}: `tool` must name a tool", param="tool")
    subject = session if scope == "session" else ""
    return ScopedExemption(str(given.get("label", "")), rule, scope, subject, NEVER_MS, tool)


def resolve(
    labelled: Sequence[Labelled], recorded: Callable[[], Iterable[Mapping[str, Any]]], printer: Fingerprinter
) -> tuple[ScopedExemption, ...]:
    """The exemptions of these labels in a recording. Whose an agent's is, its labelled run in the recording tells.

    An agent whose labelled run was not recorded is nobody's: that exemption is left out.
    """
    wanted = {run.id for run in labelled if any(one.scope == "agent" for one in run.exemptions)}
    agents = {run["id"]: _agent(run, printer) for run in recorded() if run["id"] in wanted} if wanted else {}
    every = [(run.id, one) for run in labelled for one in run.exemptions]
    told = [replace(one, subject=agents.get(run, "")) if one.scope == "agent" else one for run, one in every]
    return tuple(one for one in told if one.subject or one.scope == "tool")


def _agent(recorded: Mapping[str, Any], printer: Fingerprinter) -> str:
    return agent_of(chat.ask_of(recorded["messages"], model="", short=False), printer)
