"""How long a call that waits says that it will wait: `sleep 45`, `{"seconds": 30}`.

An agent that pauses between two tries of a call is as patient as one that was slow to ask, and it says so in its own
words; a recording without times still has them. What no number stands in waits for nothing that is known (0).
"""

from __future__ import annotations

import re

FRONT = 256
"""Characters of arguments in which the number is looked for."""

LONGEST_MS = 86_400_000
"""More than a day is not believed."""

_SLEPT = re.compile(r"\bsleep +(\d+(?:\.\d+)?)([smhd]?)")
_TOLD = re.compile(
    r'"(?:wait_?|sleep_?|duration_?|delay_?|time_?)?(seconds?|secs?|s|milliseconds?|millis|ms|minutes?|mins?|time|'
    r'duration|delay|wait|sleep)"\s*:\s*"?(\d+(?:\.\d+)?)"?\s*[,}]',
    re.IGNORECASE,
)
_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NAMED = {
    "millisecond": 1, "milli": 1, "m": 1, "second": 1_000, "sec": 1_000, "": 1_000, "minute": 60_000, "min": 60_000,
}  # fmt: skip
"""Units by their names without an s at the end; `ms` and `s` are `m` and nothing then."""


def announced_ms(arguments: str, *, shell: bool) -> int:
    """Milliseconds that a call's arguments say it pauses. `shell`: they are a command that begins with a pause."""
    front = arguments[:FRONT]
    found = _SLEPT.search(front) if shell else None
    if found is not None:
        return _bounded(float(found[1]) * _UNITS[found[2] or "s"])
    told = _TOLD.search(front)
    if told is None:
        return 0
    number = float(told[2])
    guess = 1_000 if number < 1_000 else 1  # where the name tells no unit: a thousand of them are no seconds
    return _bounded(number * _NAMED.get(told[1].lower().rstrip("s"), guess))


def _bounded(ms: float) -> int:
    return min(LONGEST_MS, int(ms))
