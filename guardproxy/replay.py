"""Recorded runs through the decisions that the proxy takes: what it would have said, where it would have ended them.

A recording has no times, so 30 s lie between two turns; it has no usage, so tokens are estimated and cost nothing.
Every prefix of a session that ends before an assistant message is a turn, and so is the whole where it ends with a
result or a user's text. Each turn costs as much as the window is long, not as the history is. What the agent reported
of its progress stands in a field `x-guardproxy-progress` of the message with which the request ended.
"""

from __future__ import annotations

import codecs
import gzip
import io
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import orjson
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from guardproxy.api import chat
from guardproxy.api._messages import neutral
from guardproxy.api._progress import report
from guardproxy.core import budget, policy as policies, pricing, progress, session
from guardproxy.core.episode import pack_episode
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.memory import LocalMemory
from guardproxy.core.model import Ask, Decision, Declared, Message
from guardproxy.core.policy import Policy
from guardproxy.core.tools import DEFAULT_RULES, Rules
from guardproxy.core.view import Closing, Opening, View
from guardproxy.errors import BadAsk, ConfigError
from guardproxy.replaying import tables
from guardproxy.replaying.page import Page
from guardproxy.replaying.told import ENDS, SessionReport, Told

PAUSE_MS = 30_000
"""Between two turns of a run that was recorded without times (DESIGN section 4)."""

LONG = 1_000_000
"""Bytes from which a file gets a progress bar."""

KEY = b"replay"
"""Fingerprints of a replay are compared with nothing outside it: the key need not be secret, and is always the same."""

_ORG = "replay"


@dataclass(frozen=True, slots=True)
class Other:
    """Another configuration to play the same runs under; `name` is what the reports call it."""

    name: str
    policy: Policy
    rules: Rules = DEFAULT_RULES


def play(sessions: Iterable[Mapping[str, Any]], policy: Policy, printer: Fingerprinter) -> Iterator[SessionReport]:
    """A report per session, in order. `sessions` are parsed lines: `id` and `messages` are read."""
    for recorded in sessions:
        yield _Player(recorded, policy, printer).report()


class _Player:
    """One session: the conversation as far as it has come, and the memory of what was decided."""

    def __init__(self, recorded: Mapping[str, Any], policy: Policy, printer: Fingerprinter) -> None:
        self._id = str(recorded["id"])
        self._model = str(recorded.get("model") or "")
        self._messages: list[Mapping[str, Any]] = recorded["messages"]
        self._policy, self._printer = policy, printer
        self._memory = LocalMemory()
        self._known: list[Mapping[str, Any]] = []  # grows by one message at a time, so that no prefix is copied
        self._size = 0
        self._calls = 0
        self._acted = False  # whether the newest reply made calls
        self._now_ms = 0
        self._open: tuple[View, Decision] | None = None
        self._head = ""

    def report(self) -> SessionReport:
        """Play the session to its end, or to the end that it would have been given."""
        told: list[Told] = []
        for at, message in enumerate(map(neutral, self._messages)):
            if at and message.role == "assistant" and self._turn(at, told):
                break
            self._append(message)
        else:
            if self._messages and message.role != "assistant":
                self._turn(len(self._messages), told)
        rest = self._messages[len(self._known) :]
        return SessionReport(self._id, self._calls + sum(len(neutral(m).calls) for m in rest), tuple(told))

    def _append(self, said: Message) -> None:
        self._known.append(self._messages[len(self._known)])
        self._size += len(said.text) + sum(len(call.arguments) for call in said.calls)
        self._calls += len(said.calls)
        if said.role == "assistant":
            self._acted = bool(said.calls)
            self._settle(said)

    def _turn(self, at: int, told: list[Told]) -> bool:
        """Decide; whether the run ends here."""
        self._now_ms += PAUSE_MS
        told_us = self._known[-1].get(progress.HEADER) if self._known else None
        declared = Declared(progress=report(told_us)) if told_us is not None else chat.NOBODY
        ask = chat.ask_of(self._known, model=self._model, short=self._now_ms > PAUSE_MS, declared=declared)
        view = self._memory.begin(self._opening(ask), self._now_ms)
        made = policies.decide(view, self._policy)
        self._open = (view, made)
        if made.action != "pass":
            step = max(0, self._calls - 1) if self._acted else self._calls
            told.append(Told(step, at, made.action, made.rule, made.count, made.reason, made.would))
        return made.action in ENDS

    def _opening(self, ask: Ask) -> Opening:
        need = budget.Need(pricing.estimate_input(self._size), self._policy.default_output_hold, 0)
        identity = session.identify(ask, self._printer, _ORG)
        self._head = identity.head
        fact = session.observe(ask, self._printer, self._now_ms)
        return Opening(str(self._now_ms), _ORG, identity, fact, budget.price(self._policy.stored, need), PAUSE_MS)

    def _settle(self, said: Message) -> None:
        if self._open is None:  # the recording begins with an answer
            return
        view, made = self._open
        tokens = pricing.estimate_output(len(said.text) + sum(len(call.arguments) for call in said.calls))
        given = pricing.estimate_input(self._size)
        closing = Closing(
            token=str(self._now_ms),
            org=_ORG,
            session=view.session,
            thread=view.thread,
            outcome="answered",
            answer="calls" if said.calls else "text" if said.text.strip() else "empty",
            spent={
                "turns": 1,
                "tool_calls": len(said.calls),
                "input_tokens": given,
                "output_tokens": tokens,
                "total_tokens": given + tokens,
            },
            delivered=session.round_digest(self._printer, said.calls, said.text),
            links=session.links(self._printer, _ORG, self._head, said.calls, said.text),
            episodes=(pack_episode(made.episode),) if made.episode else (),
            count=len(self._known),
        )
        self._memory.settle(closing, self._now_ms)


def read(stream: BinaryIO, name: str) -> Iterator[dict[str, Any]]:
    """The sessions of a file of lines. BadAsk names file, line and what is wrong with it."""
    number = 0
    try:
        for number, line in enumerate(stream, start=1):
            text = line if number > 1 else line.removeprefix(codecs.BOM_UTF8)
            if text.strip():
                yield _session(text, f"{name}, line {number}")
    except (EOFError, OSError) as error:  # gzip's own errors are both
        raise BadAsk(f"{name}, after line {number}: the file is damaged: {error}") from error


def _session(line: bytes, where: str) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadAsk(f"{where}: not valid JSON: {error}") from error
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        raise BadAsk(f"{where}: a session is an object with a string `id`", param="id")
    messages = value.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise BadAsk(f"{where}: `messages` must be a list of objects", param="messages")
    return value


def run(
    file: Path,
    policy: Policy,
    rules: Rules = DEFAULT_RULES,
    *,
    as_json: bool = False,
    html: Path | None = None,
    other: Other | None = None,
    out: TextIO | None = None,
) -> int:
    """Play a file, under one configuration or two, and print what was decided; the exit code.

    `file`: .jsonl, or .jsonl.gz by its first bytes. `html`: a page to write.
    """
    out = out or sys.stdout
    printer = Fingerprinter(KEY, rules)
    second = Fingerprinter(KEY, other.rules) if other else printer
    page = Page() if html and _may_write(html, file) else None
    pairs: list[tuple[SessionReport, SessionReport | None]] = []
    for recorded in _recorded(file):
        report = _Player(recorded, policy, printer).report()
        compared = _Player(recorded, other.policy, second).report() if other else None
        pairs.append((report, compared))
        if as_json:
            out.write(_line(report, compared))
        if page:
            page.add(recorded, printer, report, compared)
    ours, theirs = [one for one, _ in pairs], [one for _, one in pairs if one]
    if not as_json:
        tables.show(ours, out)
        if other:
            tables.compare(list(zip(ours, theirs, strict=True)), other.name, out)
    if page and html:
        page.write(html, file.name, ours, theirs, other.name if other else "")
    return 0


def _may_write(html: Path, file: Path) -> bool:
    """Say before the work what would go wrong after it."""
    if html.resolve() == file.resolve():
        raise ConfigError(f"cannot write {html}: it is the recording itself")
    if html.is_dir() or not html.absolute().parent.is_dir():
        raise ConfigError(f"cannot write {html}: {'it is a folder' if html.is_dir() else 'its folder is not there'}")
    return True


def _recorded(file: Path) -> Iterator[dict[str, Any]]:
    """The sessions of a file, with a bar on the terminal where it is long."""
    raw, packed = _opened(file)
    with raw, _progress(file) as bar:
        task = bar.add_task(file.name, total=file.stat().st_size)
        stream = io.BufferedReader(gzip.GzipFile(fileobj=raw)) if packed else raw
        for recorded in read(stream, str(file)):
            yield recorded
            bar.update(task, completed=raw.tell())


def _opened(file: Path) -> tuple[io.BufferedReader, bool]:
    """The file, and whether it is packed by gzip."""
    try:
        raw = file.open("rb")
        try:
            return raw, raw.peek(2)[:2] == b"\x1f\x8b"
        except OSError:
            raw.close()
            raise
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror or error}") from error


def _progress(file: Path) -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal or file.stat().st_size < LONG
    )


def _line(report: SessionReport, other: SessionReport | None) -> str:
    row = {"id": report.id, "steps": report.steps, "decisions": _decisions(report)}
    if other:
        row["other"] = _decisions(other)
    return orjson.dumps(row).decode() + "\n"


def _decisions(report: SessionReport) -> list[dict[str, Any]]:
    keys = ("step", "message", "action", "rule", "count", "reason")
    return [{key: getattr(told, key) for key in keys} for told in report.decisions]
