"""What needs a person's word is held: the run pauses, and the call is released when someone approves it.

Sees: calls that match a rule of `tools.approval` (name, arguments, paths).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guardproxy.core.model import Call, Decision, Episode
from guardproxy.core.proposals._case import ENFORCE, OFF, Case, Objection, Tries, checked
from guardproxy.core.tool_rules import ToolRules, first

RULE = "tools.approval"


@dataclass(frozen=True, slots=True)
class Settings:
    """`mode`: off, observe (reported, handed on) or enforce. Raises ValueError for another one."""

    mode: str = ENFORCE

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        checked(self.mode)


def wanted(settings: Settings, tools: ToolRules, decision: Decision, episodes: Sequence[Episode]) -> bool:
    """Whether there is anything to look at."""
    return bool(tools.approval) and settings.mode != OFF


def prepare(case: Case, settings: Settings) -> Approval | None:
    """The check of a turn."""
    return Approval(case, settings.mode)


class Approval:
    """Holds what needs a person's word."""

    __slots__ = ("_case", "mode")

    def __init__(self, case: Case, mode: str) -> None:
        self._case = case
        self.mode = mode

    def concerns(self, tool: str) -> bool:
        """Whether a rule speaks of the tool."""
        return any(rule.concerns(tool) for rule in self._case.tools.approval)

    def look(self, position: int, call: Call, tries: Tries) -> Objection | None:
        """The hold of a call that needs approval. No text: the result depends on what the person says."""
        rule = first(self._case.tools.approval, call)
        if rule is None:
            return None
        why = f": {rule.reason}" if rule.reason else ""
        return Objection(
            position, "pause", RULE, "", f"{call.name.strip()} needs approval by {rule.label}{why}", self.mode
        )
