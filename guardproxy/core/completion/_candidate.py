"""A final answer that is to be checked, and the calls of its conversation with their results."""

from __future__ import annotations

import json
from dataclasses import field

from guardproxy.core.completion._claims import asks_back
from guardproxy.core.fingerprint import Fingerprinter, strip_own
from guardproxy.core.harness import is_harness
from guardproxy.core.model import Ask, Call, Flag, Kind, Message, Step, value
from guardproxy.core.rounds import Round, rounds
from guardproxy.core.tools import Tool, tool_of

MOST = 4096
"""Calls looked at, the newest ones: beyond that a conversation counts as shortened."""

PLAIN = Fingerprinter(b"completion")
"""Judges results where a configuration says nothing of tools."""


@value
class Act:
    """One call of the conversation with its result (None: not answered). `round`: index of its assistant message.

    `kind`: what the tool's name means under the tools' rules.
    """

    call: Call
    result: Message | None
    flags: Flag
    round: int
    kind: Tool

    @property
    def tool(self) -> str:
        """The tool's name as patterns see it."""
        return self.call.name.strip().casefold()

    @property
    def failed(self) -> bool:
        """Whether the result is an error."""
        return bool(self.flags & Flag.FAILED)

    @property
    def succeeded(self) -> bool:
        """Whether there is a result and it is no error; one that was cleared may have been anything, and counts."""
        return self.result is not None and not self.failed

    @property
    def text(self) -> str:
        """The result without words of ours; "" if there is none."""
        return "" if self.result is None else strip_own(self.result.text)


@value
class Candidate:
    """A final answer before it counts as one.

    `calls`: the final tool's call where one hands over the answer (with its argument text). `ask`: the request with
    all its messages in the tail. `printer` judges results as the detectors do, with the tools' rules. `remembered`:
    the steps of the thread that the store knows, boundaries included. `shortened`: the request is known to show less
    than happened. `waits_for`: tools whose call waits for an approval or for a result that comes later.
    """

    text: str
    calls: tuple[Call, ...]
    ask: Ask
    printer: Fingerprinter = PLAIN
    remembered: tuple[Step, ...] = ()
    shortened: bool = False
    waits_for: tuple[str, ...] = ()
    acts: tuple[Act, ...] = field(init=False, repr=False)
    rounds: tuple[Round, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Read the conversation once, for all checks."""
        found = tuple(rounds(self.ask))
        pairs = [(one, call, result) for one in found for call, result in zip(one.calls, one.results, strict=True)]
        kinds = {
            name: tool_of(name.strip().casefold(), self.printer.rules) for name in {call.name for _, call, _ in pairs}
        }
        acts = tuple(_act(self.printer, kinds[call.name], one, call, result) for one, call, result in pairs[-MOST:])
        for name, made in (("rounds", found), ("acts", acts)):
            object.__setattr__(self, name, made)

    @property
    def whole(self) -> bool:
        """Whether the conversation shows all that happened: nothing was cut off, cleared or summed up."""
        known = sum(step.kind is Kind.CALL for step in self.remembered)
        begun = self.ask.tail_start <= len(self.ask.head)
        return not self.shortened and begun and known <= len(self.acts) < MOST

    @property
    def recent(self) -> tuple[Act, ...]:
        """The calls since a user last said something: what came before belongs to what was asked before."""
        spoken = [one.index for one in self.rounds if (one.reply or "").strip() and not is_harness(one.reply or "")]
        return tuple([act for act in self.acts if not spoken or act.round > spoken[-1]])

    @property
    def asks_back(self) -> bool:
        """Whether it only asks the user something, and is no end of the task."""
        return not self.calls and asks_back(self.text)

    @property
    def said(self) -> str:
        """The answer's words: the text, and what a final tool's call hands over."""
        return "\n".join([self.text, *[word for call in self.calls for word in _words(call.arguments)]]).strip()


def _act(printer: Fingerprinter, kind: Tool, turn: Round, call: Call, result: Message | None) -> Act:
    step = printer.step(call, result, first=False, at_ms=0)
    return Act(call, result, step.flags, turn.index, kind)


def _words(arguments: str) -> list[str]:
    """The texts and numbers in a call's arguments; what is no JSON is one text."""
    try:
        waiting: list[object] = [json.loads(arguments)]
    except (ValueError, RecursionError):
        return [arguments]
    found: list[str] = []
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += reversed(value if isinstance(value, list) else [*value.values()])
        elif value is not None:
            found.append(str(value))
    return found


def mode_of(settings: object) -> str:
    """The mode of a check's settings."""
    return str(getattr(settings, "mode", "off"))


def used(settings: object) -> bool:
    """Whether a check with these settings has anything to say: it is not off, and what it needs is given."""
    return mode_of(settings) != "off" and bool(getattr(settings, "asks", True))
