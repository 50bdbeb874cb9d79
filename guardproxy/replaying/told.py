"""What was decided in one recorded run: the values that a replay makes and its reports are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ENDS = ("cut", "deny")
"""Actions after which the agent would not have gone on. After a finalize a model may still try."""


@dataclass(frozen=True, slots=True)
class Told:
    """A decision in a recorded run. `step`: index of the newest call that had its result, or of the next call where
    the turn followed a reply without one. `message`: index of the message that the turn was about to get.
    """

    step: int
    message: int
    action: str
    rule: str
    count: int
    reason: str
    would: str = ""

    @property
    def call(self) -> int:
        """The number of that call as people count, the first is 1: for tables and pages. Programs are told `step`."""
        return self.step + 1

    @property
    def act(self) -> str:
        """What is done, or in observe mode would have been."""
        return self.would or self.action

    @property
    def heard(self) -> bool:
        """Whether the agent hears of it, or in observe mode would have."""
        return self.act not in ("pass", "observe")


@dataclass(frozen=True, slots=True)
class SessionReport:
    """One recorded run: its id, the calls recorded, and the decisions of the turns on which something was found.

    `spared`: why rules held back: (exemption, rule) and on how many turns.
    """

    id: str
    steps: int
    decisions: tuple[Told, ...]
    spared: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def alarm(self) -> Told | None:
        """The first decision that would have been heard, or in observe mode would have been one."""
        return next((told for told in self.decisions if told.heard), None)

    @property
    def end(self) -> Told | None:
        """The first decision to end the run."""
        return next((told for told in self.decisions if told.act in ("finalize", *ENDS)), None)

    @property
    def saved(self) -> int:
        """Calls recorded after the first end: at most these would not have been made."""
        return max(0, self.steps - 1 - self.end.step) if self.end else 0
