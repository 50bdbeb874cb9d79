"""What the rules of a policy forbid is refused from the first call on, whatever happened before.

Sees: calls that match a rule of `tools.deny` (name, arguments, paths). The refusal names the rule's reason, so that the
model takes another way instead of the same one in other words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guardproxy.core import advice
from guardproxy.core.model import Call, Decision, Episode
from guardproxy.core.proposals._case import ENFORCE, OFF, Case, Objection, Tries, checked
from guardproxy.core.tool_rules import ToolRules, first

RULE = "tools.deny"


@dataclass(frozen=True, slots=True)
class Settings:
    """`mode`: off, observe (reported, handed on) or enforce. Raises ValueError for another one."""

    mode: str = ENFORCE

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        checked(self.mode)


def wanted(settings: Settings, tools: ToolRules, decision: Decision, episodes: Sequence[Episode]) -> bool:
    """Whether there is anything to look at."""
    return bool(tools.deny) and settings.mode != OFF


def prepare(case: Case, settings: Settings) -> Deny | None:
    """The check of a turn."""
    return Deny(case, settings.mode)


class Deny:
    """Refuses what is forbidden."""

    __slots__ = ("_case", "mode")

    def __init__(self, case: Case, mode: str) -> None:
        self._case = case
        self.mode = mode

    def concerns(self, tool: str) -> bool:
        """Whether a rule speaks of the tool."""
        return any(rule.concerns(tool) for rule in self._case.tools.deny)

    def look(self, position: int, call: Call, tries: Tries) -> Objection | None:
        """The refusal of a forbidden call."""
        rule = first(self._case.tools.deny, call)
        if rule is None:
            return None
        text = advice.denied(self._case.language, call.name, rule.reason)
        why = f": {rule.reason}" if rule.reason else ""
        return Objection(
            position, "refuse", RULE, text, f"{call.name.strip()} is forbidden by {rule.label}{why}", self.mode
        )
