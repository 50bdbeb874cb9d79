"""Log lines on stderr, as JSON or for people. One decision line a turn, without content.

The decision line has what `replay` needs to judge the turn again: session, thread, turn and the facts (packed steps,
as hex), beside what was decided. Everything goes through the standard library, so that any handler can be added; only
where ours is the one that hears a decision line, it is written without a record, which costs more than the line.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, cast

import orjson

from guardproxy.core.fingerprint import pack
from guardproxy.telemetry._events import BYTES, Events, counted, done_to, events_of, words
from guardproxy.telemetry.report import CLOSING, TurnReport

TURNS: Final = logging.getLogger("guardproxy.turn")
"""Where the decision lines go. Those that end a run (cut, denied, finalized) are warnings, all others INFO, so that
`log_level: warning` leaves what somebody may be called for.
"""

WHOSE: Final[ContextVar[Callable[[], Mapping[str, str]] | None]] = ContextVar("guardproxy_whose", default=None)
"""Names the run and the trace on whose account a line is logged, where one is."""

SHOWN = 80
"""Characters of a model's name in a line: clients write what they like there."""

ATOMIC: Final = 4096
"""Bytes written in one go, unless one line is longer: what a pipe takes whole, so that workers' lines do not mix."""

_OURS, _ROOT = logging.getLogger("guardproxy"), logging.getLogger()
_FIELDS = "guardproxy_fields"
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def setup(level: str = "info", style: str = "text") -> None:
    """Send all logging to stderr. `style`: json, text, or auto: text for a person at a terminal, else json.

    Called again, it replaces itself.

    Ours is logged from `level`, what libraries say from warning. Records are made without process and thread names,
    which no line shows: a third of the cost of a record.
    """
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler, _Stderr)]:
        root.removeHandler(old)
    handler = _Stderr()
    person = style == "text" or (style == "auto" and sys.stderr.isatty())
    handler.setFormatter(TextFormatter() if person else JsonFormatter())
    root.addHandler(handler)
    logging.getLogger("guardproxy").setLevel(_LEVELS.get(level.lower(), logging.INFO))
    # A dead collector is said once by us and counted; the SDK would say it at every try.
    logging.getLogger("opentelemetry").setLevel(logging.DEBUG if level.lower() == "debug" else logging.CRITICAL)


def decision_lines(reports: Sequence[TurnReport]) -> bool:
    """Log what was decided in turns, a line each, where ours alone hears it. False: each needs a `decision_record`."""
    if not TURNS.isEnabledFor(logging.INFO):
        reports = [report for report in reports if TURNS.isEnabledFor(_level(report))]
        if not reports:
            return True
    handler = _only_handler()
    return handler is not None and handler.turns(reports)


def decision_record(report: TurnReport) -> None:
    """Log what was decided in a turn for whoever listens."""
    level = _level(report)
    if not TURNS.isEnabledFor(level):
        return
    record = TURNS.makeRecord(TURNS.name, level, "", 0, "turn", (), None)  # no look for the caller
    setattr(record, _FIELDS, fields_of(report))
    TURNS.handle(record)


def _level(report: TurnReport) -> int:
    return logging.WARNING if report.outcome in CLOSING else logging.INFO


def shared() -> bool:
    """Whether anything but our own handler hears or filters a decision line."""
    return _only_handler() is None


def _only_handler() -> _Stderr | None:
    if TURNS.handlers or TURNS.filters or _OURS.handlers or not (TURNS.propagate and _OURS.propagate):
        return None
    handlers = _ROOT.handlers
    handler = handlers[0] if len(handlers) == 1 else None
    if type(handler) is not _Stderr or handler.filters or handler.level > logging.INFO:
        return None
    return handler


def fields_of(report: TurnReport) -> dict[str, object]:
    """The decision line as a dict. Empty fields are left out."""
    decision, view = report.decision, report.view
    fields: dict[str, object] = {
        "org": report.org,
        "session": report.session,
        "thread": report.thread,
        "turn": report.turn or view.turn,
        "action": decision.action,
        "status": report.status,
        "ms": (report.ended_ns - report.started_ns) // 1_000_000,
        "trace_id": report.trace_id,
    }
    if report.attempts:
        usage = report.usage
        fields |= {"in": usage.input, "out": usage.output, "microusd": report.cost_microusd or 0}
        if calls := report.given:
            fields["calls"] = [(tool[:SHOWN], fp[:BYTES].hex()) for tool, _, fp in calls]
    if report.agent:
        fields["agent"] = report.agent
    if report.key:
        fields |= {"key": report.key, "team": report.team}
    if report.policy:
        fields["policy"] = report.policy
    if decision.rule:
        fields |= {"rule": decision.rule, "count": decision.count, "reason": decision.reason, "mode": decision.mode}
    if report.model:
        fields["model"] = report.model[:SHOWN]
    if report.attempts and (server := report.attempts[-1].server) is not None:
        fields["upstream"] = server.name
    if report.user:
        fields["user"] = report.user
    if report.labels:
        fields["labels"] = dict(report.labels)
    if decision.would:
        fields["would"] = decision.would
    if report.outcome:
        fields["outcome"] = report.outcome
    if report.error_type:
        fields["error"] = report.error_type
    if decision.spared:
        fields["spared"] = [
            {"because": one.because, "rule": one.rule, "count": one.times, "steps": one.at} for one in decision.spared
        ]
    if report.edits:
        fields["edits"] = report.edits
    if view.retry:
        fields["retry"] = True
    if view.degraded:
        fields["degraded"] = True
    if view.panic:
        fields["panic"] = True
    if view.span > 1:  # what was done before it counts no more
        fields["span"] = view.span
    if report.eventful:
        fields |= events_of(report)
    facts = report.facts or tuple(map(pack, report.steps))
    if facts:
        fields["facts"] = [fact.hex() for fact in facts]
    return fields


class _Stderr(logging.Handler):
    """Writes to whatever `sys.stderr` is now."""

    def turns(self, reports: Sequence[TurnReport]) -> bool:
        """Write decision lines, where the format is one of ours; whether it is."""
        style = self.formatter
        if not isinstance(style, JsonFormatter | TextFormatter):
            return False
        with self.lock or nullcontext():
            held, size = "", 0
            for report in reports:
                with suppress(Exception):  # as in `emit`
                    line = style.turn(report, report.ended_ns / 1e9) + "\n"
                    more = len(line) if line.isascii() else len(line.encode())
                    if size + more > ATOMIC and held:
                        sys.stderr.write(held)
                        held, size = "", 0
                    held, size = held + line, size + more
            with suppress(Exception):
                sys.stderr.write(held)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, in one call; an error is nobody's business but ours."""
        try:
            sys.stderr.write(self.format(record) + "\n")
        except Exception:  # noqa: BLE001 - a closed or full stderr must not end a request
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the standard library's name
        """Say nothing: there is no place left to say it."""


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON; what JSON cannot hold is written as text."""
        line = _head(record.created, record.levelname.lower(), record.name, record.getMessage())
        fields = getattr(record, _FIELDS, None)
        line |= fields if fields is not None else (whose() if (whose := WHOSE.get()) is not None else {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _json(line)

    def turn(self, report: TurnReport, created: float) -> str:
        """The decision line of a turn, as `format` would write it."""
        level = "warning" if report.outcome in CLOSING else "info"
        return _json(_head(created, level, TURNS.name, "turn") | fields_of(report))


def _head(created: float, level: str, logger: str, message: str) -> dict[str, object]:
    return {"at": datetime.fromtimestamp(created, UTC), "level": level, "logger": logger, "message": message}


def _json(line: dict[str, object]) -> str:
    try:
        return orjson.dumps(line, default=str, option=orjson.OPT_UTC_Z).decode()
    except TypeError:  # lone surrogates, which a client's header may hold
        return orjson.dumps({key: _printable(value) for key, value in line.items()}).decode()


class TextFormatter(logging.Formatter):
    """A line for people: time, what, and the facts of a turn in a few words."""

    _second = -1
    _clock = ""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line of text."""
        at = self._at(record.created)
        fields = getattr(record, _FIELDS, None)
        text = _tame(record.getMessage() if fields is None else _sentence(fields))
        if record.levelno >= logging.WARNING and fields is None:  # a decision says itself what it is
            text = f"{record.levelname.lower()}: {text}"
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return _printable(f"{at}  {text}")

    def turn(self, report: TurnReport, created: float) -> str:
        """The decision line of a turn, as `format` would write it."""
        if report.decision.rule or report.decision.spared or report.eventful:
            return f"{self._at(created)}  {_tame(_sentence(fields_of(report)))}"
        return f"{self._at(created)}  {_tame(_quiet(report))}"

    def _at(self, created: float) -> str:
        """Local time, made once a second."""
        second = int(created)
        if second != self._second:
            self._clock, self._second = time.strftime("%H:%M:%S", time.localtime(second)), second
        return self._clock


def _quiet(report: TurnReport) -> str:
    """`_sentence` of a turn without a rule: nearly all of them."""
    thread = report.thread
    where = f" ({thread})" if thread not in ("", "main") else ""
    ms = (report.ended_ns - report.started_ns) // 1_000_000
    what = f"{report.decision.action:<8}  {report.session or '-'} turn {report.turn or report.view.turn}"
    return f"{what}{where}  {report.status} in {ms} ms"


def _tame(text: str) -> str:
    """A client's name must not forge a line or move the cursor."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)


def _sentence(fields: dict[str, object]) -> str:
    where = f"{fields['session'] or '-'} turn {fields['turn']}"
    if fields["thread"] not in ("", "main"):
        where += f" ({fields['thread']})"
    rest = "".join([f"; spared: {one}" for one in _spared(fields)] + [f"; {one}" for one in _events(fields)])
    if "rule" not in fields:
        return f"{fields['action']:<8}  {where}  {fields['status']} in {fields['ms']} ms{rest}"
    would = f" (would {fields['would']})" if "would" in fields else ""
    rule = counted(str(fields["rule"]), cast("int", fields["count"]))
    return f"{fields['action']:<8}  {where}  {rule}{would}: {fields['reason']}{rest}"


def _spared(fields: dict[str, object]) -> list[str]:
    told = cast("list[dict[str, object]]", fields.get("spared", []))
    return [f"{one['because']} ({one['rule']} x{one['count']})" for one in told]


def _events(fields: dict[str, object]) -> list[str]:
    events = cast("Events", fields)
    decided = (fields.get("would") or fields["action"], fields.get("rule"))  # is said already
    others = [one for one in events.get("objected", ()) if (one["action"], one["rule"]) != decided]
    objected = [f"{done_to(one)} {one['tool']}" for one in others]
    return [*objected, *words(events)]


def _printable(value: object) -> str:
    return str(value).encode(errors="replace").decode()
