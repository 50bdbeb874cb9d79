"""A question to a person is held: the run waits until somebody has answered it.

Sees: calls of the tools in `tools.human` (ask_human, need_human). The answer is what a person says over the admin API
or the command line, or simply the user's next message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guardproxy.core.model import Call, Decision, Episode
from guardproxy.core.proposals._case import ENFORCE, OFF, Case, Objection, Tries, checked
from guardproxy.core.tool_rules import ToolRules, first

RULE = "tools.human"


@dataclass(frozen=True, slots=True)
class Settings:
    """`mode`: off, observe (reported, handed on) or enforce. Raises ValueError for another one."""

    mode: str = ENFORCE

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        checked(self.mode)


def wanted(settings: Settings, tools: ToolRules, decision: Decision, episodes: Sequence[Episode]) -> bool:
    """Whether there is anything to look at."""
    return bool(tools.human) and settings.mode != OFF


def prepare(case: Case, settings: Settings) -> Human | None:
    """The check of a turn."""
    return Human(case.tools, settings.mode)


class Human:
    """Holds what a person is asked."""

    __slots__ = ("_tools", "mode")

    def __init__(self, tools: ToolRules, mode: str) -> None:
        self._tools = tools
        self.mode = mode

    def concerns(self, tool: str) -> bool:
        """Whether the tool asks a person."""
        return any(rule.concerns(tool) for rule in self._tools.human)

    def look(self, position: int, call: Call, tries: Tries) -> Objection | None:
        """The hold of a question. No text: the result is what the person says."""
        if first(self._tools.human, call) is None:
            return None
        return Objection(position, "pause", RULE, "", f"{call.name.strip()} asks a person", self.mode)
