"""A run out of the log, judged again: the facts of its decision lines through the decisions of another policy.

What the lines say is what happened: tokens, money and times are real. Advice that was given then is in the history, and
what the agent would have done without it nobody knows.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guardproxy.core import budget, policy as policies
from guardproxy.core.episode import pack_episode
from guardproxy.core.fact import BOUNDARY, stamp, unpack
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import Decision, Kind, Line
from guardproxy.core.policy import Policy
from guardproxy.core.view import Spent, View
from guardproxy.errors import BadAsk
from guardproxy.replaying.told import ENDS, SessionReport, Told
from guardproxy.telemetry import reading

RING = 64
"""Facts of a thread that are looked at, as in the store (DESIGN section 2)."""

ASIDE = "aside"
"""Thread of requests that are no turns."""


@dataclass(slots=True)
class _Thread:
    ring: deque[bytes] = field(default_factory=lambda: deque(maxlen=RING))
    episodes: list[bytes] = field(default_factory=list)
    steps: int = 0


@dataclass(slots=True)
class _Scope:
    """What a session or its request span has used, and since when it goes."""

    since_ms: int = 0
    used: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Logged:
    """One run of a log: its decision lines, oldest first."""

    id: str
    lines: Sequence[Mapping[str, Any]]


class Judge:
    """Plays the lines of one run under a policy."""

    def __init__(self, run: Logged, policy: Policy, printer: Fingerprinter) -> None:
        self._run, self._policy = run, policy
        self._boundary = printer.marks[0]
        self._threads: dict[str, _Thread] = {}
        self._session, self._span = _Scope(), _Scope()
        self._number = 0
        self._calls = 0

    def report(self) -> SessionReport:
        """What was decided, up to the end that it would have been given. A step is a call; a message a line."""
        told: list[Told] = []
        spared: Counter[tuple[str, str]] = Counter()
        total = sum(len(line.get("calls", ())) for line in self._run.lines)
        for at, line in enumerate(self._run.lines):
            made = self._turn(line)
            spared.update({(str(one.because), one.rule) for one in made.spared})
            if made.action != "pass":
                step = max(0, self._calls - 1)
                told.append(Told(step, at, made.action, made.rule, made.count, made.reason, made.would))
            if made.action in ENDS:
                break
            self._calls += len(line.get("calls", ()))
        return SessionReport(self._run.id, total, tuple(told), spared)

    def _turn(self, line: Mapping[str, Any]) -> Decision:
        now_ms, name = reading.at_ms(line) - int(line["ms"]), str(line["thread"])
        thread = self._threads.setdefault(name, _Thread())
        self._open(line, now_ms, thread)
        self._append(thread, reading.facts_of(line))
        view = self._view(line, now_ms, name, thread)
        made = policies.decide(view, self._policy)
        if made.episode is not None:
            thread.episodes.append(pack_episode(made.episode))
        for scope in (self._session, self._span):
            for dimension, amount in _used(line).items():
                scope.used[dimension] += amount
        return made

    def _open(self, line: Mapping[str, Any], now_ms: int, thread: _Thread) -> None:
        """A new request span begins where the line has another number than the one before it."""
        number = int(line.get("span", 1))
        if not self._session.since_ms:
            self._session.since_ms = now_ms
        if number > self._number:
            if self._number:
                thread.ring.append(stamp(self._boundary, now_ms))
                thread.steps += 1
            self._number, self._span = number, _Scope(now_ms)

    def _append(self, thread: _Thread, facts: Sequence[bytes]) -> None:
        thread.ring.extend(facts)
        thread.steps += len(facts)
        for fact in facts:
            step = None if fact.startswith(BOUNDARY) else unpack(fact)
            if step is not None and step.kind is Kind.CALL:
                self._span.counts[f"tool:{step.tool}"] += 1
                self._span.counts[f"call:{step.call.hex()}"] += 1

    def _view(self, line: Mapping[str, Any], now_ms: int, name: str, thread: _Thread) -> View:
        spent = tuple(self._stands(one, now_ms) for one in budget.price(self._policy.stored, _need(line)))
        short = tuple(one.line for one in spent if 0 <= one.line.limit < one.used + one.line.hold)
        held = spent if short else tuple(one._replace(held=one.line.hold) for one in spent)
        return View(
            session=self._run.id,
            thread=name,
            turn=int(line["turn"]),
            now_ms=now_ms,
            retry=bool(line.get("retry")),
            admitted=not short,
            short=short,
            spent=held,
            steps=thread.steps,
            ring=tuple(thread.ring),
            episodes=tuple(thread.episodes),
            counts=self._span.counts,
            span=self._number,
            span_started_ms=self._span.since_ms,
            session_started_ms=self._session.since_ms,
            counted=name != ASIDE,
        )

    def _stands(self, line: Line, now_ms: int) -> Spent:
        scope = self._span if line.scope == "span" else self._session
        return Spent(line, now_ms - scope.since_ms if line.clock else scope.used[line.dimension], 0)


def _need(line: Mapping[str, Any]) -> budget.Need:
    """What the turn needed; live more is held than an answer then has."""
    used = _used(line)
    return budget.Need(used["input_tokens"], used["output_tokens"], used["cost_microusd"])


def _used(line: Mapping[str, Any]) -> dict[str, int]:
    given, made = int(line.get("in", 0)), int(line.get("out", 0))
    return {
        "turns": int("in" in line and not line.get("retry") and line["thread"] != ASIDE),
        "tool_calls": len(line.get("calls", ())),
        "input_tokens": given,
        "output_tokens": made,
        "total_tokens": given + made,
        "cost_microusd": int(line.get("microusd", 0)),
    }


def is_log(file: Path) -> bool:
    """Whether a file is a log, and no recording: by the first of its lines that is one or the other."""
    for line in reading.objects(file):
        if "messages" in line or "logger" in line:
            return "messages" not in line
    return False


def read(file: Path) -> list[Logged]:
    """The runs of a log. Raises BadAsk where it has no decision line, or one that cannot be read."""
    found = grouped([line for line in reading.objects(file) if reading.is_decision(line)])
    if not found:
        raise BadAsk(f"{file} has no decision line: they are logged as JSON, at the level info (telemetry.log_format)")
    return found


def grouped(lines: Sequence[Mapping[str, Any]]) -> list[Logged]:
    """The runs of decision lines, in the order in which they began. Raises BadAsk for a line that cannot be read."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for line in sorted(lines, key=_order):
        reading.record_of_line(line)  # says what is wrong with it
        found.setdefault((str(line.get("org", "")), str(line.get("session", ""))), []).append(line)
    return [Logged(session, some) for (_, session), some in found.items()]


def _order(line: Mapping[str, Any]) -> tuple[str, int]:
    return str(line.get("at", "")), int(line["turn"])
