"""The shape of a plan or todo list: the statuses and ids of its items, in order, without their words.

A plan whose shape does not change is the same plan in other words (openclaw keeps such a shape of its `update_plan`,
codex#7049). Understood: a list of objects with a status word or a done mark, and check boxes in a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

LONGEST = 16_384
"""Characters of arguments up to which a plan is looked for."""

FRONT = 800
"""Characters within which the list has to begin: what is looked for costs too much in long code."""

STATUSES = frozenset(
    "pending todo open new not_started notstarted planned queued in_progress inprogress in-progress doing active "
    "started current running completed complete done finished closed skipped cancelled canceled blocked failed".split()
)
"""Words that say where an item stands."""

MARKS = frozenset("done completed complete finished checked".split())
"""Keys whose true or false says it."""

_HINTS = ("pending", "progress", "complete", "done", "todo", "open", "started", "finished", "checked")
_BOX = re.compile(r"^\s*(?:(?:[-*]|\d+[.)])\s*)?\[([ xX~>-])\]", re.MULTILINE)


def shape(arguments: str) -> str:
    """The statuses of the plan in a call's arguments; "": there is none."""
    if "[" not in arguments or len(arguments) > LONGEST:
        return ""
    if "\\u" in arguments:
        arguments = _unescaped(arguments)
    front = arguments[:FRONT]
    boxed = "[ ]" in front or "[x]" in front
    listed = "[{" in front or "[ {" in front or "[\n" in front
    if not boxed and not (listed and any(hint in arguments.lower() for hint in _HINTS)):
        return ""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    if boxed:
        return _boxes(value)
    return next((found for items in _lists(value) if (found := _statuses(items))), "")


def _unescaped(arguments: str) -> str:
    """The same arguments without escapes: a client may write each letter as one."""
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments


def _boxes(value: object) -> str:
    """The check boxes of a call that is nothing but a list of them; beside a path or an old text they are an edit."""
    text = next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else None
    boxes = _BOX.findall(text) if isinstance(text, str) else []
    return "".join(boxes).lower() if len(boxes) > 1 else ""


def _lists(value: object) -> Iterator[list[object]]:
    """The lists of a call's arguments, at the top or one level below it."""
    if isinstance(value, dict):
        for item in value.values():
            if isinstance(item, list):
                yield item
            elif isinstance(item, dict):
                yield from (inner for inner in item.values() if isinstance(inner, list))


def _statuses(items: list[object]) -> str:
    """Statuses and ids of all items; "" for fewer than two, or where one has no status: that is no plan."""
    found = [_status(item) for item in items]
    if len(found) < 2 or not all(found):
        return ""
    named = ["/".join(sorted(map(str, filter(_names, item.values())))) for item in items if isinstance(item, dict)]
    return ",".join(f"{status}:{name}" for status, name in zip(found, named, strict=True))


def _names(told: object) -> bool:
    """Whether a value is an id rather than words: items with other ids are other items, as in a batch."""
    if isinstance(told, str):
        return " " not in told and len(told) < 40 and any(map(str.isdigit, told))
    return isinstance(told, int) and not isinstance(told, bool)


def _status(item: object) -> str:
    if not isinstance(item, dict):
        return ""
    for key, told in sorted(item.items()):
        if isinstance(told, str) and len(told) < 16 and told.strip().lower() in STATUSES:
            return told.strip().lower()
        if isinstance(told, bool) and key.lower() in MARKS:
            return str(told)
    return ""
