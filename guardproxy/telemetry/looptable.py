"""The loop table: what a run did, turn by turn, on a terminal. Pure, but for rich's own drawing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from guardproxy.core.budget import duration
from guardproxy.telemetry._events import Events, ObjectedRecord, counted, done_to, words
from guardproxy.telemetry.record import CallRecord, ResultRecord, TurnRecord, acts, told_twice
from guardproxy.telemetry.report import ACTED, CLOSING

_STYLE = {
    "nudge": "yellow",
    "firm": "bold yellow",
    "refuse": "bold yellow",
    "repair": "yellow",
    "finalize": "magenta",
    "cut": "bold red",
    "deny": "bold red",
    "pause": "cyan",
}
_DROPPED = "not executed"
_HELD = {"refuse": _DROPPED, "repair": "sent back", "pause": "held"}
"""What became of a call that the agent did not get."""
_MARKS = {"f": "error", "v": "empty", "p": "pending", "u": "no answer"}
_COLUMNS = ("loop", "tool", "arguments", "result", "latency", "tokens", "action")
_FROM = {"latency": 100, "tokens": 100, "arguments": 66}
"""Columns of a terminal from which on there is room for them."""
_PREVIEW = 48
WIDE = 200
"""Columns where nobody says how many there are."""
_NARROW: Any = {"box": SIMPLE_HEAD, "pad_edge": False, "collapse_padding": True}  # 80 columns: the last one has words


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
        for call, objected in _proposed(record) or [(CallRecord(), None)]:
            result = _HELD.get(objected["action"], "") if objected and objected["mode"] == "enforce" else ""
            result = result or call.get("result", "") or _answer(records, open_results, index, call, seen)
            rows.append(_row(record, call, objected, result, first=first))
            first = False
    return rows


def summary(records: Sequence[TurnRecord]) -> str:
    """The run in one line."""
    if not records:
        return "no turns"
    calls = sum(len(record["calls"]) for record in records)
    tokens = sum(record["input_tokens"] + record["output_tokens"] for record in records)
    cost = sum(record["cost_microusd"] for record in records) / 1e6
    acted = Counter(action for record in records for action in acts(record))
    asked = sum(len(_events(record).get("asked", ())) for record in records)
    ended_ms = max(record["at_ms"] + record["latency_ms"] for record in records)
    ends = [record for record in records if record["outcome"]]
    parts = [
        _plural(len({(record["turn"]) for record in records}), "turn"),
        _plural(calls, "tool call"),
        duration(max(0, ended_ms - records[0]["at_ms"]) / 1000),
        f"{tokens:,} tokens",
        f"${cost:.4f}",
        ", ".join(f"{action} x{count}" for action, count in acted.items()) or "no intervention",
    ]
    if asked:
        parts.append(_plural(asked, "re-ask"))
    if ends and not any(one["thread"] == ends[-1]["thread"] for one in records[records.index(ends[-1]) + 1 :]):
        ended = ends[-1]["outcome"] in CLOSING and ends[-1]["rule"]  # what a rule said of a finished run ended nothing
        parts.append(ends[-1]["outcome"] + (f" by {ended}" if ended else ""))
    return " · ".join(parts)


def loop_table(
    records: Sequence[TurnRecord], *, title: str = "", width: int = WIDE, people: Sequence[tuple[int, str]] = ()
) -> Group:
    """The table and its summary line, ready for `rich.print`.

    `width`: of the terminal; in a narrow one the words need the room of some numbers. `people`: what was decided of the
    run beside its turns, each with its time in milliseconds.
    """
    table = Table(title=_text(title) if title else None, title_justify="left", header_style="bold", **_NARROW)
    columns = [name for name in _COLUMNS if width >= _FROM.get(name, 0)]
    for name in columns:
        table.add_column(name, justify="right" if name in ("loop", "latency", "tokens") else "left", overflow="fold")
    for row in rows_of(records):
        style = _STYLE.get(row.action.split()[0] if row.action else "", "")
        table.add_row(*(_text(getattr(row, name)) for name in columns[:-1]), _text(row.action, style))
    return Group(table, *map(_text, reasons(records, people)), _text(summary(records)))


def reasons(records: Sequence[TurnRecord], people: Sequence[tuple[int, str]] = ()) -> list[str]:
    """Why something was done, a line a turn; below it what the model was told, where it is known; between them what
    people decided, in the order of time.

    What was only noted is told where it begins: a rule that is observed speaks on every turn.
    """
    lines, noted, decided = [], ("", "", ""), sorted(people)
    for record in records:
        while decided and decided[0][0] < record["at_ms"]:
            lines.append(decided.pop(0)[1])
        only = record["would"] or record.get("exempted", "")
        told = (record["thread"], record["rule"], only)
        if record.get("reason") and (record["action"] in ACTED or (only and told != noted)):
            lines.append(f"turn {record['turn']}: {_done(record)}: {' '.join(record['reason'].split())}")
        elif record.get("advice"):
            lines.append(f"turn {record['turn']}: {', '.join(dict.fromkeys(acts(record))) or 'told'}")
        lines += [f"    {line}" for line in record.get("advice", "").strip().splitlines()]
        noted = told if record["rule"] else noted
    return [*lines, *(said for _, said in decided)]


def _events(record: TurnRecord) -> Events:
    return record.get("events", Events())


def _proposed(record: TurnRecord) -> list[tuple[CallRecord, ObjectedRecord | None]]:
    """The calls of a turn, with what was done to each: those that the agent did not get first, then those it got."""
    left = list(_events(record).get("objected", ()))
    last: list[tuple[CallRecord, ObjectedRecord | None]] = []
    for call in record["calls"]:
        found = next((one for one in left if _noted(one) and one.get("call", "") == call.get("call")), None)
        if found is not None:
            left.remove(found)
        last.append((call, found))
    dropped = [CallRecord(tool=tool, call=call, result=_DROPPED) for tool, call in _events(record).get("dropped", ())]
    held = ((CallRecord(tool=one["tool"], call=one.get("call", "")), one) for one in left)
    return [*held, *((call, None) for call in dropped), *last]


def _noted(one: ObjectedRecord) -> bool:
    """Whether the agent got the call all the same."""
    return one["mode"] != "enforce" and "attempt" not in one


def _row(record: TurnRecord, call: CallRecord, objected: ObjectedRecord | None, result: str, *, first: bool) -> Row:
    tokens = record["input_tokens"] + record["output_tokens"]
    return Row(
        loop=str(record["turn"]) if first else "",
        tool=call.get("tool", "") or ("" if call else "–"),
        arguments=_short(call.get("arguments", "") or call.get("call", "")),
        result=_short(result),
        latency=f"{record['latency_ms'] / 1000:.2f} s" if first else "",
        tokens=f"{tokens:,}" if first and tokens else "",
        action="; ".join([*([done_to(objected)] if objected else []), *(_actions(record) if first else [])]),
    )


def _actions(record: TurnRecord) -> list[str]:
    """What was done in a turn, but for what was done to single calls."""
    spared = [f"spared: {one}" for one in record["spared"]]
    return [*filter(None, ["" if told_twice(record) else _done(record)]), *spared, *words(_events(record))]


def _done(record: TurnRecord) -> str:
    action = record["action"]
    if record["would"] and action not in ACTED:
        action = f"observe (would {record['would']})"
    if action in ("pass", ""):
        return "" if record["status"] < 400 else f"HTTP {record['status']}"
    why = " (exempted)" if record.get("exempted") else ""
    return f"{action} {counted(record['rule'], record['count'])}{why}" if record["rule"] else action


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


def _text(text: str, style: str = "") -> Text:
    """What a model or a client named must not move the cursor."""
    return Text("".join(letter if letter.isprintable() else "?" for letter in text), style=style)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _PREVIEW else line[: _PREVIEW - 1] + "…"


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
