"""The shape of a plan or todo list: the statuses of its items, in order, without their words.

A plan whose shape does not change is the same plan in other words (openclaw keeps such a shape of its `update_plan`,
codex#7049). Understood: a list of objects with a status word or a done mark, and check boxes in a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

LONGEST = 16_384
"""Characters of arguments up to which a plan is looked for."""

STATUSES = frozenset(
    "pending todo open new not_started notstarted planned queued in_progress inprogress in-progress doing active "
    "started current running completed complete done finished closed skipped cancelled canceled blocked failed".split()
)
"""Words that say where an item stands."""

MARKS = frozenset("done completed complete finished checked".split())
"""Keys whose true or false says it."""

_HINTS = ("pending", "progress", "complete", "done", "todo", "open", "started", "finished", "checked")
_BOX = re.compile(r"(?:^|\\n|[\"\n])\s*(?:[-*]|\d+[.)])\s*\[([ xX~>-])\]")


def shape(arguments: str) -> str:
    """The statuses of the plan in a call's arguments; "": there is none."""
    if "[" not in arguments or len(arguments) > LONGEST:
        return ""
    if "[ ]" in arguments or "[x]" in arguments:
        boxes = _BOX.findall(arguments)
        if boxes:
            return "".join(boxes).lower()
    if "[{" not in arguments.replace(" ", "").replace("\n", "") or not any(hint in arguments for hint in _HINTS):
        return ""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    return next((found for items in _lists(value) if (found := _statuses(items))), "")


def _lists(value: object) -> Iterator[list[object]]:
    """The lists of a call's arguments, at the top or one level below it."""
    if isinstance(value, dict):
        for item in value.values():
            if isinstance(item, list):
                yield item
            elif isinstance(item, dict):
                yield from (inner for inner in item.values() if isinstance(inner, list))


def _statuses(items: list[object]) -> str:
    """The statuses of all items; "" where one has none: that is no plan."""
    found = [_status(item) for item in items]
    return ",".join(found) if found and all(found) else ""


def _status(item: object) -> str:
    if not isinstance(item, dict):
        return ""
    for key, told in item.items():
        if isinstance(told, str) and len(told) < 16 and told.strip().lower() in STATUSES:
            return told.strip().lower()
        if isinstance(told, bool) and key.lower() in MARKS:
            return str(told)
    return ""
