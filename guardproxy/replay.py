"""Recorded runs through the decisions that the proxy takes: what it would have said, where it would have ended them.

A recording is conversations, or a log of ours, whose decision lines have the facts (`replaying.judged`).
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

from guardproxy import _regular
from guardproxy.core.detectors import RULES
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.policy import Policy
from guardproxy.core.scoped_exemption import ScopedExemption
from guardproxy.core.tools import DEFAULT_RULES, Rules
from guardproxy.errors import BadAsk, ConfigError
from guardproxy.replaying import judged, labelled, tables
from guardproxy.replaying.page import Page
from guardproxy.replaying.player import Player
from guardproxy.replaying.told import SessionReport
from guardproxy.telemetry.reading import STDIN

LONG = 1_000_000
"""Bytes from which a file gets a progress bar."""

KEY = b"replay"
"""Fingerprints of a replay are compared with nothing outside it: the key need not be secret, and is always the same."""


@dataclass(frozen=True, slots=True)
class Other:
    """Another configuration to play the same runs under; `name` is what the reports call it.

    `labelled`: ids of runs that a person called false alarms.
    """

    name: str
    policy: Policy
    rules: Rules = DEFAULT_RULES
    exemptions: tuple[ScopedExemption, ...] = ()
    labelled: frozenset[str] = frozenset()


def exempted(file: Path, labels: Path, policy: Policy, rules: Rules = DEFAULT_RULES) -> Other:
    """The same configuration with the exemptions of a file of labels, as they are in the recording `file`."""
    found = labelled.read(labels, (*RULES, "equal_request"))
    every = labelled.resolve(found, lambda: sessions_of(file), Fingerprinter(KEY, rules))
    return Other(f"the labels of {labels}", policy, rules, every, frozenset(run.id for run in found))


def play(sessions: Iterable[Mapping[str, Any]], policy: Policy, printer: Fingerprinter) -> Iterator[SessionReport]:
    """A report per session, in order. `sessions` are parsed lines: `id` and `messages` are read."""
    for recorded in sessions:
        yield Player(recorded, policy, printer).report()


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
    if file == STDIN:
        raise ConfigError("replay reads its file more than once: give a FILE")
    _regular.check(file)  # its first lines say what it is; then it is read
    out = out or sys.stdout
    printer = Fingerprinter(KEY, rules)
    second = Fingerprinter(KEY, other.rules) if other else printer
    page = Page() if html and _may_write(html, file) else None
    pairs: list[tuple[SessionReport, SessionReport | None]] = []
    if judged.is_log(file):
        _only_judged(page, other)
        found = judged.read(file)
        pairs = [(_judge(run, policy, printer), _judge(run, other.policy, printer) if other else None) for run in found]
        for report, compared in pairs if as_json else ():
            out.write(_line(report, compared))
    for recorded in sessions_of(file) if not pairs else ():
        report = Player(recorded, policy, printer).report()
        compared = Player(recorded, other.policy, second, other.exemptions).report() if other else None
        pairs.append((report, compared))
        if as_json:
            out.write(_line(report, compared))
        if page:
            page.add(recorded, printer, report, compared)
    if not pairs:
        raise ConfigError(f"{file} has no run")
    ours, theirs = [one for one, _ in pairs], [one for _, one in pairs if one]
    if not as_json:
        tables.show(ours, out)
        if other:
            tables.compare(list(zip(ours, theirs, strict=True)), other.name, out)
            tables.labelled(ours, theirs, other.labelled, out)
    if page and html:
        page.write(html, file.name, ours, theirs, other.name if other else "")
    return 0


def _judge(run: judged.Logged, policy: Policy, printer: Fingerprinter) -> SessionReport:
    return judged.Judge(run, policy, printer).report()


def _only_judged(page: Page | None, other: Other | None) -> None:
    """A log has fingerprints: there is nothing to show of a call, and nothing to know an agent by."""
    if page is not None:
        raise ConfigError("--html shows calls and results, which a log does not have; it needs recorded conversations")
    if other is not None and other.exemptions:
        raise ConfigError("--labels needs recorded conversations: in a log an exemption has done its work already")


def _may_write(html: Path, file: Path) -> bool:
    """Say before the work what would go wrong after it."""
    if html.resolve() == file.resolve():
        raise ConfigError(f"cannot write {html}: it is the recording itself")
    if html.is_dir() or not html.absolute().parent.is_dir():
        raise ConfigError(f"cannot write {html}: {'it is a folder' if html.is_dir() else 'its folder is not there'}")
    return True


def sessions_of(file: Path) -> Iterator[dict[str, Any]]:
    """The sessions of a file, with a bar on the terminal where it is long. BadAsk and ConfigError as in `read`."""
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
    row: dict[str, Any] = {"id": report.id, "steps": report.steps, "decisions": _decisions(report)}
    if report.spared:
        rows = sorted(report.spared.items())
        row["spared"] = [{"rule": rule, "because": because, "turns": turns} for (because, rule), turns in rows]
    if other:
        row["other"] = _decisions(other)
    return orjson.dumps(row).decode() + "\n"


def _decisions(report: SessionReport) -> list[dict[str, Any]]:
    keys = ("step", "message", "action", "rule", "count", "reason")
    return [{key: getattr(told, key) for key in keys} for told in report.decisions]
