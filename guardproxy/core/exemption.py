"""Why a repeat is held to be no loop, or why its rung is lower than its count says: one closed set of names.

A detector that holds back says which of these it is and by which steps; the decision, its log line and its span carry
it, so that a decision not to act can be explained as well. Sources: `loop-detectors.md` section 5, `loop-bugs.md`
sections 3 to 5.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Exemption(StrEnum):
    """One reason to hold back. Its name is what log lines, spans, tables and reports say; `meaning` is a sentence."""

    meaning: str

    CHANGED_RESULTS = "changed_results", "The same call keeps being answered differently: polling with progress."
    GROWING_PAUSES = "growing_pauses", "A failing call is tried again at growing pauses: a retry with backoff."
    LONG_PAUSES = "long_pauses", "Minutes lie between: a slow poll or a schedule, not an agent going round."
    NOT_READY = "not_ready", "The answer says that it is not ready yet: waiting is given more time than a repeat."
    STATE_CHANGE = "state_change", "Something was changed between the repeats: looking again is a check."
    NEW_INFORMATION = "new_information", "Another check failed differently between the repeats: there was news."
    OTHER_WORK = "other_work", "So much other work lies between the repeats that the later one begins a new run."
    FORWARD_PAGING = "forward_paging", "Calls that differ only in numbers bring new results: pages, ranges, ids."
    DISTINCT_TARGETS = "distinct_targets", "The same is done to, or asked of, targets that are all different: a batch."
    ACKNOWLEDGED = "acknowledged", "The equal answers are bare acknowledgements of changes: they tell nothing."
    ADVANCING_LIST = "advancing_list", "A plan or todo list is written again with other contents: it advances."
    WAIT_TOOL = "wait_tool", "Thinking, calculating and pausing look at nothing outside: no evidence for long."
    IMAGES = "images", "The same call keeps bringing other pictures or files: a screen that is watched."
    USER_MESSAGE = "user_message", "A person spoke in between: what was done before belongs to another request."
    REPORTED_PROGRESS = "reported_progress", "The agent itself reported that it got on (x-guardproxy-progress)."
    FALSE_ALARM = "false_alarm", "A person called this a false alarm: until a set time the rule only observes."
    DUPLICATE_IN_ROUND = "duplicate_in_round", "Equal calls in one message are one occurrence."

    def __new__(cls, name: str, meaning: str) -> Exemption:
        """A name with its sentence."""
        made = str.__new__(cls, name)
        made._value_ = name
        made.meaning = meaning
        return made


class Spared(NamedTuple):
    """One rule held back once: by which exemption, how often it would have counted, and the ordinals of the steps."""

    because: Exemption
    rule: str
    times: int
    at: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.because} ({self.rule} x{self.times})"
