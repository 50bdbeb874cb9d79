"""On what terms an answer is kept back: how often the model is asked again, and how long a person may take.

Values of the configuration; what is done with them stands in `http.guarded` and `http.approving`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

REASKS = 2
"""Times a turn in which the model is asked again after a refusal; then it has to answer (DESIGN section 7)."""

LONGEST_HOLD_S = 240.0
"""Seconds that a request may wait for a person: clients give up after 300 to 600 (`clients`)."""


@dataclass(frozen=True, slots=True)
class Final:
    """How a final answer is handed on. `hold`: not before it was checked, and up to `retries` times sent back.

    `on_failure`, once they are used up: `deliver` it all the same, marked as failed; `cut` or `pause` the run.
    """

    hold: bool = False
    retries: int = 2
    on_failure: Literal["deliver", "cut", "pause"] = "deliver"

    def __post_init__(self) -> None:
        """Raise ValueError where a run could be sent back for ever."""
        if self.retries > 10:
            raise ValueError("retries: must not be above 10: each is one more call of the model")


@dataclass(frozen=True, slots=True)
class Approvals:
    """How a person is asked. `way`: `hold` the request for up to `hold_seconds`, or `answer` at once with a notice.

    Nobody decided within `expire_seconds`: the call is denied, or with `on_expiry: cut` the run is ended.
    """

    way: Literal["hold", "answer"] = "answer"
    hold_seconds: float = LONGEST_HOLD_S
    expire_seconds: float = 86_400.0
    on_expiry: Literal["deny", "cut"] = "deny"

    def __post_init__(self) -> None:
        """Raise ValueError where no client, or nobody at all, would wait that long."""
        if not 1 <= self.hold_seconds <= LONGEST_HOLD_S:
            raise ValueError(f"hold_seconds: must be 1 to {LONGEST_HOLD_S:.0f}: clients give up after 300")
        if not 1 <= self.expire_seconds <= 7 * 86_400:
            raise ValueError("expire_seconds: must be between a second and a week")


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Whether the last request of a session is kept, encrypted, for an agent that crashed."""

    enabled: bool = False
    max_kb: int = 1024
    ttl_seconds: float = 86_400.0

    def __post_init__(self) -> None:
        """Raise ValueError where it would fill the store."""
        if not 1 <= self.max_kb <= 65_536:
            raise ValueError("max_kb: must be 1 to 65536")
        if not 60 <= self.ttl_seconds <= 30 * 86_400:
            raise ValueError("ttl_seconds: must be between a minute and 30 days")
