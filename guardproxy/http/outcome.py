"""What became of a turn: filled while it is served, read when it is settled and reported."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

from guardproxy.core import pricing
from guardproxy.core.budget import Need
from guardproxy.core.model import Call, Reject, Usage
from guardproxy.errors import GuardError


class Watched(Protocol):
    """What is read of a surface's watcher at the end of an answer."""

    calls: tuple[Call, ...]
    text: str
    text_chars: int
    usage: Usage | None
    response_model: str
    response_id: str
    finish_reason: str
    complete: bool


@dataclass(slots=True)
class Outcome:
    """`outcome`: answered, failed, abandoned. `answer`: calls, text, empty, own. Times in nanoseconds."""

    outcome: str = "abandoned"
    answer: str = ""
    status: int = 0
    error_type: str = ""
    calls: tuple[Call, ...] = ()
    dropped: tuple[Call, ...] = ()
    text: str = ""
    text_chars: int = 0
    usage: Usage | None = None
    response_model: str = ""
    response_id: str = ""
    finish_reason: str = ""
    sent: bool = False  # something left for the provider
    upstream_status: int = 0
    upstream_started_ns: int = 0
    first_chunk_ns: int = 0
    ended_ns: int = 0
    begin_ns: int = 0
    settle_ns: int = 0
    errors: list[str] = field(default_factory=list)

    def fail(self, error: GuardError) -> None:
        """The turn ended in an error of ours or of the provider's."""
        self.outcome, self.error_type = "failed", error.code

    def reject(self, edit: Reject) -> None:
        """The turn was answered with an error on purpose."""
        self.outcome, self.error_type = "failed", edit.code

    def own(self, text: str) -> None:
        """The turn was answered in our words."""
        self.outcome, self.answer, self.status, self.text = "answered", "own", 200, text
        self.text_chars = 0  # nobody is charged for our words

    def read(self, watched: Watched, *, dropped: bool) -> None:
        """Take over what the watcher saw of the provider's answer. `dropped`: its calls were taken out."""
        self.text, self.text_chars, self.usage = watched.text, watched.text_chars, watched.usage
        self.response_model, self.response_id = watched.response_model, watched.response_id
        self.finish_reason = watched.finish_reason
        self.calls = () if dropped else watched.calls
        self.dropped = watched.calls if dropped else ()
        self.outcome = "answered" if watched.complete else "failed"
        if self.calls:
            self.answer = "calls"
        elif self.text_chars:
            self.answer = "text"
        else:
            self.answer = "own" if dropped else "empty"

    def usage_or_estimate(self, need: Need) -> Usage:
        """What was used: the provider's figures, else the estimated input and what was produced, marked as such.

        A call that failed before it was answered is not charged; one that the client left is.
        """
        if self.usage is not None:
            return self.usage
        if not self.sent or (self.outcome == "failed" and not self.text_chars):
            return Usage()
        produced = self.text_chars + sum(len(call.arguments) + len(call.name) for call in self.calls)
        return Usage(input=need.input_tokens, output=pricing.estimate_output(produced), estimated=True)

    def first_chunk(self) -> None:
        """Note the moment of the first byte of the answer's body."""
        if not self.first_chunk_ns:
            self.first_chunk_ns = time.time_ns()
