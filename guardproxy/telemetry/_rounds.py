"""Remembers, per thread, the calls of the last answer, so that their results can be timed and linked when they arrive.

In this process only and bounded: where another worker gave the answer, the store says when, and there is no link.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from guardproxy.core.model import Fp, Step, value

SLACK_NS = 2_000_000_000
"""Between the end of an answer and when the store was told of it, at most: it has a quarter of a second."""

Key = tuple[str, str, str | int]
V = TypeVar("V")


class Recent(OrderedDict[Key, V], Generic[V]):
    """A dict that forgets its oldest entry when it is full. (A plain one looks for it among those that are gone.)"""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def keep(self, key: Key, kept: V) -> None:
        """Store as the newest."""
        if key in self:
            self.move_to_end(key)
        elif len(self) >= self._limit:
            self.popitem(last=False)
        self[key] = kept


@value
class Round:
    """The calls of one answer: fingerprint -> call id; when its last byte went out, and the span of the attempt."""

    ended_ns: int
    calls: dict[Fp, str]
    trace_id: int = 0
    span_id: int = 0

    def older(self, since_ms: int, now_ns: int) -> bool:
        """Whether it is not the last answer, which by the store's clock was given `since_ms` ago."""
        return now_ns - self.ended_ns > since_ms * 1_000_000 + SLACK_NS

    def seconds(self, step: Step, now_ns: int) -> float:
        """From the call's last byte until now, -1 when it is not one of these calls."""
        return max(0, now_ns - self.ended_ns) / 1e9 if step.call in self.calls else -1.0
