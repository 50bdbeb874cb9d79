"""A call that cannot be carried out as it is written goes back to the model, with what exactly is wrong.

Sees: calls without a name or of a tool that there is not; arguments that are no JSON object; arguments that certainly
do not match the tool's schema in the request (`_schema` says what is certain). Tools without a schema, such as those
that take free text, are left alone, and so is every name that has worked in this run. Asked at most `repairs` times a
turn; then the call is handed on as it is. Off by default: each call has to be held back until it is complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from guardproxy.core import advice
from guardproxy.core.advice import Problem, short
from guardproxy.core.model import Call, Decision, Episode, Flag
from guardproxy.core.proposals._case import OFF, Case, Objection, Tries, checked
from guardproxy.core.proposals._schema import plain, problems, quoted
from guardproxy.core.tool_rules import ToolRules

RULE = "arguments"

LONGEST = 1_000_000
"""Characters of arguments beyond which nothing is judged: they are documents, and nobody checks those."""

TOLD = 4
"""Problems that a text names; the others are counted."""

NEAR, LIKE = 5, 0.5
"""Tools named where one does not exist, and from which likeness on they are called near."""

_PROVIDED = frozenset("mcp namespace tool_search".split())
"""Entries of a tool list that bring tools which the list does not name."""

_NOT_KNOWN = int(Flag.NO_TOOL | Flag.INVALID | Flag.FAILED | Flag.UNANSWERED)


@dataclass(frozen=True, slots=True)
class Settings:
    """`mode`: off, observe (reported, handed on) or enforce. `repairs`: how often a turn is asked again, at most.

    Raises ValueError for another mode.
    """

    mode: str = OFF
    repairs: int = 2

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        checked(self.mode)


def wanted(settings: Settings, tools: ToolRules, decision: Decision, episodes: Sequence[Episode]) -> bool:
    """Whether there is anything to look at."""
    return settings.mode != OFF


def prepare(case: Case, settings: Settings) -> Arguments | None:
    """The check of a turn. A request that offers no tools says nothing of how they are called."""
    return Arguments(case, settings) if case.ask.tools else None


class Arguments:
    """Sends back what is written wrongly."""

    __slots__ = ("_case", "_repairs", "mode")

    def __init__(self, case: Case, settings: Settings) -> None:
        self._case = case
        self._repairs = settings.repairs
        self.mode = settings.mode

    def concerns(self, tool: str) -> bool:
        """Every tool's call may be written wrongly."""
        return True

    def look(self, position: int, call: Call, tries: Tries) -> Objection | None:
        """What is wrong with a call, while the model may still be asked."""
        if tries.repairs >= self._repairs:
            return None
        wrong, near = self._name(call.name)
        wrong = wrong or list(self._arguments(call))
        if not wrong:
            return None
        if len(wrong) > TOLD:
            wrong = [*wrong[:TOLD], Problem("more", got=str(len(wrong) - TOLD))]
        text = advice.repair(self._case.language, call.name, wrong, near)
        reason = f"{short(call.name, 64) or 'a call'} is written wrongly: {', '.join(one.kind for one in wrong)}"
        return Objection(position, "repair", RULE, text, reason, self.mode)

    def _name(self, name: str) -> tuple[list[Problem], Sequence[str]]:
        """What is wrong with a tool's name, and the names that may be meant."""
        offered = self._case.ask.tools
        if name in offered or not _PROVIDED.isdisjoint(offered):
            return [], ()
        if not name.strip():
            return [Problem("no_name")], offered[:NEAR]
        spellings = _spellings(name)
        if any(spellings & _spellings(one) for one in offered) or self._worked(name):
            return [], ()
        near = get_close_matches(name[:64], offered, NEAR, LIKE)
        return [Problem("no_tool")], near or offered[:NEAR]

    def _worked(self, name: str) -> bool:
        """Whether the agent has carried out a call of this name before, whatever it offers now."""
        tool = name.strip()
        return any(step.tool == tool and not int(step.flags) & _NOT_KNOWN for step in self._case.trail.steps)

    def _arguments(self, call: Call) -> Iterator[Problem]:
        schema = self._case.schemas(call.name)
        if schema is None or len(call.arguments) > LONGEST:
            return
        try:
            value = _value(call.arguments)
        except json.JSONDecodeError as error:
            around = error.doc[max(0, error.pos - 20) : error.pos + 20]
            yield Problem("not_json", path=str(error.pos), got=f"{error.msg}, … {short(around)} …")
            return
        except (ValueError, RecursionError):
            return  # numbers and depths beyond what is read here may be read elsewhere
        if isinstance(value, dict):
            yield from problems(schema, value)
        else:
            yield Problem("not_object", got=quoted(value))


def _value(arguments: str) -> object:
    """What arguments say. Nothing at all and null are no arguments; an object written as a text is one, too."""
    text = arguments.strip()
    value: object = json.loads(text, strict=False) if text else {}
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        value = json.loads(value, strict=False)
    return {} if value is None else value


def _spellings(name: str) -> set[str]:
    """A name however it is spelled, with and without what stands in front of it (`functions.`, a server's name)."""
    own = name.strip().replace("__", ".").replace(":", ".").replace("/", ".").rpartition(".")[2]
    return {plain(name), plain(own)} - {""}
