"""The loop table: what a run did, turn by turn, on a terminal. Pure, but for rich's own drawing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table
from rich.text import Text

from guardproxy.telemetry.record import CallRecord, ResultRecord, TurnRecord
from guardproxy.telemetry.report import ACTED

_STYLE = {
    "nudge": "yellow",
    "firm": "bold yellow",
    "refuse": "bold yellow",
    "finalize": "magenta",
    "cut": "bold red",
    "deny": "bold red",
    "pause": "cyan",
}
_MARKS = {"f": "error", "v": "empty", "p": "pending", "u": "no answer"}
_COLUMNS = ("loop", "tool", "arguments", "result", "latency", "tokens", "action")
_PREVIEW = 48


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table, in the order of its columns."""

    loop: str
    tool: str
    arguments: str
    result: str
    latency: str
    tokens: str
    action: str


def rows_of(records: Sequence[TurnRecord]) -> list[Row]:
    """A row a call (or a turn without one); a call's result is found in the turns after it."""
    seen: Counter[tuple[str, str]] = Counter()
    rows: list[Row] = []
    open_results = [list(record["results"]) for record in records]
    for index, record in enumerate(records):
        first = True
        for call in record["calls"] or [CallRecord()]:
            result = call.get("result", "") or _answer(records, open_results, index, call, seen)
            rows.append(_row(record, call, result, first=first))
            first = False
    return rows


def summary(records: Sequence[TurnRecord]) -> str:
    """The run in one line."""
    if not records:
        return "no turns"
    calls = sum(len(record["calls"]) for record in records)
    tokens = sum(record["input_tokens"] + record["output_tokens"] for record in records)
    cost = sum(record["cost_microusd"] for record in records) / 1e6
    acted = Counter(record["action"] for record in records if record["action"] in ACTED)
    ends = [record for record in records if record["outcome"]]
    parts = [
        _plural(len({(record["turn"]) for record in records}), "turn"),
        _plural(calls, "tool call"),
        f"{tokens:,} tokens",
        f"${cost:.4f}",
        ", ".join(f"{action} x{count}" for action, count in acted.items()) or "no intervention",
    ]
    if ends:
        parts.append(ends[-1]["outcome"] + (f" by {ends[-1]['rule']}" if ends[-1]["rule"] else ""))
    return " · ".join(parts)


def loop_table(records: Sequence[TurnRecord], *, title: str = "") -> Group:
    """The table and its summary line, ready for `rich.print`."""
    table = Table(title=Text(title) if title else None, title_justify="left", header_style="bold")
    for name in _COLUMNS:
        table.add_column(name, justify="right" if name in ("loop", "latency", "tokens") else "left", overflow="fold")
    for row in rows_of(records):
        style = _STYLE.get(row.action.split()[0] if row.action else "", "")
        cells = (row.loop, row.tool, row.arguments, row.result, row.latency, row.tokens)
        table.add_row(*(Text(cell) for cell in cells), Text(row.action, style=style))
    return Group(table, Text(summary(records)))


def _row(record: TurnRecord, call: CallRecord, result: str, *, first: bool) -> Row:
    tokens = record["input_tokens"] + record["output_tokens"]
    return Row(
        loop=str(record["turn"]) if first else "",
        tool=call.get("tool", "") or ("" if call else "–"),
        arguments=_short(call.get("arguments", "") or call.get("call", "")),
        result=_short(result),
        latency=f"{record['latency_ms'] / 1000:.2f} s" if first else "",
        tokens=f"{tokens:,}" if first and tokens else "",
        action=_action(record) if first else "",
    )


def _action(record: TurnRecord) -> str:
    spared = [f"spared: {one}" for one in record["spared"]]
    return "; ".join([*filter(None, [_done(record)]), *spared])


def _done(record: TurnRecord) -> str:
    action = record["action"]
    if record["would"] and action not in ACTED:
        action = f"observe (would {record['would']})"
    if action in ("pass", ""):
        return "" if record["status"] < 400 else f"HTTP {record['status']}"
    count = f" x{record['count']}" if record["count"] else ""
    why = " (exempted)" if record.get("exempted") else ""
    return f"{action} {record['rule']}{count}{why}" if record["rule"] else action


def _answer(
    records: Sequence[TurnRecord],
    open_results: list[list[ResultRecord]],
    index: int,
    call: CallRecord,
    seen: Counter[tuple[str, str]],
) -> str:
    thread = records[index]["thread"]
    for later, found in _later(records, open_results, index):
        if call and records[later]["thread"] == thread and found["call"] == call.get("call"):
            open_results[later].remove(found)
            key = (found["call"], found["result"])
            seen[key] += 1
            words = [found["result"], *(word for mark, word in _MARKS.items() if mark in found["marks"])]
            return " ".join([*words, *([f"x{seen[key]}"] if seen[key] > 1 else [])])
    return ""


def _later(
    records: Sequence[TurnRecord], open_results: list[list[ResultRecord]], index: int
) -> Iterator[tuple[int, ResultRecord]]:
    for later in range(index + 1, min(len(records), index + 9)):  # an answer comes soon or, after compaction, never
        for found in open_results[later]:
            yield later, found


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _PREVIEW else line[: _PREVIEW - 1] + "…"


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
