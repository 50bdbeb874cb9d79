"""Recorded runs through the decisions that the proxy takes: what it would have said, where it would have ended them.

A recording has no times, so 30 s lie between two turns; it has no usage, so tokens are estimated and cost nothing.
Every prefix of a session that ends before an assistant message is a turn, and so is the whole where it ends with a
result or a user's text. Each turn costs as much as the window is long, not as the history is.
"""

from __future__ import annotations

import gzip
import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import orjson
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from guardproxy.api import chat
from guardproxy.api._messages import neutral
from guardproxy.core import budget, policy as policies, pricing, session
from guardproxy.core.episode import pack_episode
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.memory import LocalMemory
from guardproxy.core.model import Ask, Decision, Message
from guardproxy.core.policy import Policy
from guardproxy.core.view import Closing, Opening, View
from guardproxy.errors import BadAsk, ConfigError

PAUSE_MS = 30_000
"""Between two turns of a run that was recorded without times (DESIGN section 4)."""

WIDE = 160
"""Columns of a table that is not shown on a terminal."""

LONG = 1_000_000
"""Bytes from which a file gets a progress bar."""

ENDS = ("cut", "deny")
"""Actions after which the agent would not have gone on. After a finalize a model may still try."""

KEY = b"replay"
"""Fingerprints of a replay are compared with nothing outside it: the key need not be secret, and is always the same."""

_ORG = "replay"


@dataclass(frozen=True, slots=True)
class Told:
    """A decision in a recorded run. `step`: index of the newest call that had its result, or of the next call where
    the turn followed a reply without one. `message`: index of the message that the turn was about to get.
    """

    step: int
    message: int
    action: str
    rule: str
    count: int
    reason: str
    would: str = ""

    @property
    def act(self) -> str:
        """What is done, or in observe mode would have been."""
        return self.would or self.action


@dataclass(frozen=True, slots=True)
class SessionReport:
    """One recorded run: its id, the calls recorded, and the decisions of the turns on which something was found."""

    id: str
    steps: int
    decisions: tuple[Told, ...]

    @property
    def alarm(self) -> Told | None:
        """The first decision that would have been heard, or in observe mode would have been one."""
        return next((told for told in self.decisions if told.act not in ("pass", "observe")), None)

    @property
    def end(self) -> Told | None:
        """The first decision to end the run."""
        return next((told for told in self.decisions if told.act in ("finalize", *ENDS)), None)


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
        ask = chat.ask_of(self._known, model=self._model, short=self._now_ms > PAUSE_MS)
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
            episodes=(pack_episode(made.episode),) if made.episode else (),
            count=len(self._known),
        )
        self._memory.settle(closing, self._now_ms)


def read(stream: BinaryIO, name: str) -> Iterator[dict[str, Any]]:
    """The sessions of a file of lines. BadAsk names file, line and what is wrong with it."""
    number = 0
    try:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                yield _session(line, f"{name}, line {number}")
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


def run(file: Path, policy: Policy, *, as_json: bool = False, out: TextIO | None = None) -> int:
    """Play a file and print what was decided; the exit code. `file`: .jsonl, or .jsonl.gz by its first bytes."""
    try:
        raw = file.open("rb")
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror or error}") from error
    out = out or sys.stdout
    with raw, _progress(file) as bar:
        task = bar.add_task(file.name, total=file.stat().st_size)
        stream = raw if raw.peek(2)[:2] != b"\x1f\x8b" else io.BufferedReader(gzip.GzipFile(fileobj=raw))
        reports = []
        for report in play(read(stream, str(file)), policy, Fingerprinter(KEY)):
            bar.update(task, completed=raw.tell())
            if as_json:
                out.write(_line(report))
            else:
                reports.append(report)
    if not as_json:
        _show(reports, out)
    return 0


def _progress(file: Path) -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal or file.stat().st_size < LONG
    )


def _line(report: SessionReport) -> str:
    keys = ("step", "message", "action", "rule", "count", "reason")
    decisions = [{key: getattr(told, key) for key in keys} for told in report.decisions]
    return orjson.dumps({"id": report.id, "steps": report.steps, "decisions": decisions}).decode() + "\n"


def _show(reports: list[SessionReport], out: TextIO) -> None:
    console = Console(file=out)
    if not console.is_terminal:
        console.width = WIDE
    table = Table("session", "calls", "first word at", "rule", "count", "ended at", "by", box=None, pad_edge=False)
    rules: Counter[str] = Counter()
    for report in reports:
        alarm, end = report.alarm, report.end
        if alarm is None:
            continue
        rules[alarm.rule] += 1
        first = (f"{alarm.step} ({alarm.act})", alarm.rule, str(alarm.count))
        last = (str(end.step), f"{end.rule} ({end.act})") if end else ("", "")
        table.add_row(report.id, str(report.steps), *first, *last)
    if table.row_count:
        console.print(table)
    console.print(_summary(reports, rules), highlight=False, soft_wrap=True)


def _summary(reports: list[SessionReport], rules: Counter[str]) -> str:
    ended = [report for report in reports if report.end]
    saved = sum(report.steps - 1 - report.end.step for report in ended if report.end)
    spoken = ", ".join(f"{rule} {count}" for rule, count in rules.most_common())
    return (
        f"{len(reports)} sessions, {sum(report.steps for report in reports)} calls; spoken to {sum(rules.values())}"
        f"{f' ({spoken})' if spoken else ''}; ended {len(ended)}, {max(0, saved)} calls saved at most"
    )
