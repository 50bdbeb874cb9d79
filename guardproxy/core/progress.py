"""What an agent itself reports of its progress, and what counts as a gain (DESIGN section 6).

A report is five numbers in the order of FIELDS; `bearing.ABSENT` stands for one that was not given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from guardproxy.core.bearing import ABSENT

FIELDS: Mapping[str, bool] = {
    "completed_steps": True,
    "unresolved": False,
    "verified_facts": True,
    "artifacts": True,
    "validation_failures": False,
}
"""Name of a number to whether more of it is better."""

HEADER = "x-guardproxy-progress"
"""The request header that carries a report, and the field of a recorded message that does."""

MOST = ABSENT - 1
"""The largest number taken."""


def read(value: object) -> tuple[int, ...]:
    """The report in a parsed JSON value. Raises ValueError with what is wrong.

    Names that are not known are left alone, so that agents may tell more than is read; at least one has to be known.
    """
    if not isinstance(value, dict):
        raise ValueError("it must be a JSON object")  # noqa: TRY004 - one kind for all that is wrong with it
    numbers = []
    for name in FIELDS:
        number = value.get(name)
        if number is None:
            numbers.append(ABSENT)
        elif isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MOST:
            raise ValueError(f"`{name}` must be an integer from 0 to {MOST}")
        else:
            numbers.append(number)
    if all(number == ABSENT for number in numbers):
        raise ValueError(f"it must hold one of {', '.join(FIELDS)}")
    return tuple(numbers)


def gains(reports: Sequence[tuple[int, ...]]) -> list[bool]:
    """For each report, oldest first, whether it is better in any number than all before it.

    Better than the best, not than the last one: a number that goes up and down is no progress. The first report of a
    number is what the others are measured by, and no gain.
    """
    best: dict[int, int] = {}
    found = []
    for report in reports:
        gained = False
        for place, (number, more) in enumerate(zip(report, FIELDS.values(), strict=True)):
            if number == ABSENT:
                continue
            known = best.get(place)
            better = known is not None and (number > known if more else number < known)
            gained = gained or better
            if known is None or better:
                best[place] = number
        found.append(gained)
    return found
