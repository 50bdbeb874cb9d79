"""A recorded run as cells, one a call: what it was, whether it was there before, and a few words to recognise it by.

Only for the page that a person asks for about a file of their own: nothing here is kept, logged or sent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from guardproxy.api._messages import head, neutral
from guardproxy.core import rounds
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import NO_FP, Ask, Fp, Kind, Step

ARGUMENTS = 160
"""Characters shown of a call's arguments: a command or a path with its surroundings."""

RESULT = 200
"""Characters shown of a result: the first line of an error, the head of a page."""


class Cell(NamedTuple):
    """One call, or one reply without a call. `colour` numbers the calls that come more than once, -1 = only here;
    `again`: this call had this very result before; `alike`: it was answered in the same way as the call before it.
    """

    message: int
    step: Step
    arguments: str
    result: str
    starts: bool
    colour: int = -1
    again: bool = False
    alike: bool = False


def cells(messages: Sequence[Mapping[str, Any]], printer: Fingerprinter) -> list[Cell]:
    """The cells of a whole run, oldest first; calls and results are paired as in a live one."""
    said = tuple(map(neutral, messages))
    ask = Ask("chat", "", False, b"", len(said), head(messages), said, 0)
    found: list[Cell] = []
    for one in rounds.rounds(ask):
        if not one.calls:
            step = printer.text_step(one.text, one.reply, at_ms=0)
            found.append(Cell(one.index, step, _preview(one.text, RESULT), _preview(one.reply or "", RESULT), True))
        for place, (call, result) in enumerate(zip(one.calls, one.results, strict=True)):
            step = printer.step(call, result, first=place == 0, at_ms=0)
            shown = _preview(result.text, RESULT) if result else ""
            found.append(Cell(one.index, step, _preview(call.arguments, ARGUMENTS), shown, place == 0))
    return _coloured(found)


def _coloured(found: list[Cell]) -> list[Cell]:
    often = Counter(_action(cell) for cell in found)
    colours: dict[tuple[Kind, Fp], int] = {}
    seen: set[tuple[Kind, Fp, Fp]] = set()
    made: list[Cell] = []
    for cell in found:
        alike = bool(made) and _answer(cell) is not None and _answer(cell) == _answer(made[-1])
        action = _action(cell)
        colour = colours.setdefault(action, len(colours)) if often[action] > 1 else -1
        pair = (*action, cell.step.result)
        made.append(cell._replace(colour=colour, again=pair in seen, alike=alike))
        seen.add(pair)
    return made


def _action(cell: Cell) -> tuple[Kind, Fp]:
    return cell.step.kind, cell.step.near


def _answer(cell: Cell) -> tuple[Kind, str, Fp] | None:
    """What two different calls can have in common: an error's kind, or a result that is empty or the same."""
    step = cell.step
    told = step.masked_result if step.signature == NO_FP else step.signature
    return None if told == NO_FP else (step.kind, step.tool, told)


def place(found: Sequence[Cell], message: int) -> int:
    """The index of the newest cell before a message of the run, -1 where there is none."""
    return bisect_left(found, message, key=lambda cell: cell.message) - 1


def _preview(text: str, length: int) -> str:
    """The text's beginning on one line. Bounded before it is looked at: a result may have megabytes."""
    line = " ".join(text[: 4 * length].split())
    return line if len(line) <= length and len(text) <= 4 * length else f"{line[:length]} …"
