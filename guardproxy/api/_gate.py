"""What is held back of an answer, and what the answers of a turn before it gave: values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from guardproxy.api._json import peek
from guardproxy.core.model import Call

Names = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Gate:
    """What is not handed on before it was judged.

    `wants`: the tools whose calls are held; from the first of them on all calls are, and what must come after them. An
    attempt that goes on with an earlier one gives its calls at its end, wanted or not. `calls`: whether calls are held
    at all. `text`: the text of what may be a final answer is held, too. `every`: all calls are held, wanted or not.
    `firm`: what clients may read in two ways is given as it was read, and what nobody can read is left out; else, where
    nothing is enforced, no byte changes.
    """

    wants: Names
    text: bool = False
    calls: bool = True
    every: bool = False
    firm: bool = True


@dataclass(frozen=True, slots=True)
class Joint:
    """What the client was given of this turn's answer so far: what the next attempt goes on with.

    `base`: id, created, model and the like of the first response. `role`: it was sent. `text`: all that was sent, of
    every attempt. `calls`: how many were sent. `usage`: the sum, in the provider's own form. `blocks`:
    of reasoning, that were sent with a number; where all content is blocks, all of them. `streamed`: all of it as a
    stream. `open`: the last of the blocks was begun and has no end yet. `half`: of a call only the beginning was sent,
    and nobody may carry that out.
    """

    base: Mapping[str, object] = field(default_factory=dict)
    role: bool = False
    text: str = ""
    calls: int = 0
    usage: Mapping[str, object] = field(default_factory=dict)
    blocks: int = 0
    streamed: bool = False
    open: bool = False
    half: bool = False


GAP = "\n\n"
"""Between the text of one attempt and that of the next."""
META = ("id", "object", "created", "model", "system_fingerprint")
"""What all chunks of one answer have in common."""


SHORT = frozenset(
    ("length", "content_filter", "max_tokens", "model_context_window_exceeded", "max_output_tokens", "incomplete")
)
"""Reasons of an end that came before the answer was through, on every surface. Where what is left out is half a call,
they stay: an answer without its last call ends with `stop` else.
"""


def torn(calls: Sequence[Call], finish: str, *, read: bool = False) -> frozenset[int]:
    """Positions of calls of which an answer that was cut short has a part alone. `read`: what they say was given as an
    object, which does not show where it stopped: of the last call nobody can tell.
    """
    if finish not in SHORT:
        return frozenset()
    found = {at for at, call in enumerate(calls) if not isinstance(peek(call.arguments), dict)}
    return frozenset(found | ({len(calls) - 1} if read and calls else set()))


def half(calls: Iterable[Call]) -> bool:
    """Whether the arguments of one may have stopped in the middle, where nothing else says that they are all there."""
    return any(not isinstance(peek(call.arguments), dict) for call in calls)


def summed(before: Mapping[str, object], now: Mapping[str, object]) -> dict[str, object]:
    """Two usages as one: counts are added, whatever else there is is the newer one's."""
    total: dict[str, object] = {**before}
    for key, value in now.items():
        old = before.get(key)
        if isinstance(value, dict):
            total[key] = summed(old if isinstance(old, dict) else {}, value)
        elif _count(old) and _count(value):
            total[key] = old + value  # type: ignore[operator]  # both are numbers
        elif value is not None or key not in total:
            total[key] = value
    return total


def _count(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
