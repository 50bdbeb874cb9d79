"""What a step bears on, beside what it is: the range it read, a plan's shape, words said with it, a report, a pause.

Most steps have nothing of it and share `NOTHING`. No content: fingerprints and numbers, as in a step itself.
"""

from __future__ import annotations

from typing import NamedTuple

NO_BYTES = bytes(16)
ABSENT = 0xFFFF_FFFF
"""Stands for a number that a report does not give."""


class Bearing(NamedTuple):
    """`start` to `stop` (exclusive) is the part of `target` that was read, in the tool's own unit (lines, hits, pages).

    `shape`: a plan's tool and the statuses of its items, without their words. `said`: the words of the assistant
    message that the step begins. `report`: what the agent told of its progress (order: `progress.FIELDS`). `left`: how
    many failures a check told of; -1 = it told nothing. `rest_ms`: how long the call says that it pauses.
    """

    target: bytes = NO_BYTES
    start: int = 0
    stop: int = 0
    shape: bytes = NO_BYTES
    said: bytes = NO_BYTES
    report: tuple[int, ...] = ()
    left: int = -1
    rest_ms: int = 0


NOTHING = Bearing()
"""What most steps have."""
