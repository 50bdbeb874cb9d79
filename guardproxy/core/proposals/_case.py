"""What a check of proposed calls may know, what it says of one, and what every check can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import NO_FP, Ask, Call, Decision, Episode, Fp, Trail, value
from guardproxy.core.scoped_exemption import ScopedExemption
from guardproxy.core.tool_rules import ToolRules

OFF, OBSERVE, ENFORCE = "off", "observe", "enforce"
MODES = (OFF, OBSERVE, ENFORCE)


@value
class Objection:
    """Why a proposed call is not to be handed to the agent as it is.

    `position`: of the call in its answer. `action`: refuse, repair (written wrongly: the model may try again) or pause
    (a person decides). `rule`: the loop's rule, `tools.deny`, `tools.approval` or `arguments`. `text`: what the model
    gets as the call's result; "" where a person decides first. `reason`: for people, without content of the call.
    `mode`: in observe it is only reported. `subject`, `members`, `count`: the loop that it belongs to, with this
    proposal counted.
    """

    position: int
    action: str
    rule: str
    text: str
    reason: str
    mode: str = ENFORCE
    subject: Fp = NO_FP
    members: tuple[Fp, ...] = ()
    count: int = 0


@value
class Case:
    """A turn, as the checks see it. `schemas`: the JSON schema of a tool's arguments, None where there is none.

    `mode_of`: the mode in which a loop's rule works. `exempt`: what a person has called a false alarm here.
    """

    ask: Ask
    trail: Trail
    episodes: Sequence[Episode]
    decision: Decision
    tools: ToolRules
    printer: Fingerprinter
    language: str
    schemas: Callable[[str], Mapping[str, object] | None]
    mode_of: Callable[[str], str]
    exempt: Sequence[ScopedExemption] = ()


class Tries(NamedTuple):
    """How often the model was asked again in this turn: to repair a call, because of a refused one."""

    repairs: int = 0
    refusals: int = 0


class Check(Protocol):
    """A check that has something to look at on this turn."""

    mode: str
    """observe or enforce."""

    def concerns(self, tool: str) -> bool:
        """Whether it may object to calls of the tool."""
        ...

    def look(self, position: int, call: Call, tries: Tries) -> Objection | None:
        """The objection to a call, if there is one."""
        ...


def checked(mode: str) -> None:
    """Raise ValueError where `mode` is none."""
    if mode not in MODES:
        raise ValueError(f"mode: must be one of {', '.join(MODES)}")
