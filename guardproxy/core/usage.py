"""What tenants used, by the day: whose a row is, what is counted in it, and sums of rows. Days are those of UTC.

A row is of an org's team, key, user, model and agent. The store keeps its numbers in the order of `FIELDS`
(`store/account.lua`), so new ones go to the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from guardproxy.core.model import Usage, value
from guardproxy.core.windows import DAY_MS, EPOCH

BY = ("team", "key", "user", "model", "agent")
"""Whose a row is, within its org and day."""

FIELDS = (
    "requests",
    "input_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cost_microusd",
    "estimated",
    "failed",
    "interventions",
    "denied",
    "saved_microusd",
    "saveable_microusd",
    "holds_expired",
)
"""What is counted. Requests are those that went to the provider; of them `estimated` had no usage from it.

`cached` and `cache_write` are part of the input, `reasoning` of the output. `saved`: what requests that were answered
here would have cost at least, their input; `saveable`: what those cost that would not have been sent (mode observe).
`holds_expired`: requests whose worker died; they are counted as they were held.
"""

SEPARATOR = "\x1f"
"""Between the names of a row."""

LONGEST = 120
"""Characters of a name in a row: models and users are named by clients."""

OTHERS = "*"
"""The user, model and agent of rows that are too many to be told apart."""


@value
class Row:
    """A row of the ledger of usage."""

    org: str
    day: str
    by: tuple[str, ...]  # see BY
    sums: tuple[int, ...]  # see FIELDS


class Charge(NamedTuple):
    """What a request adds to its row; 0 is nothing."""

    requests: int = 0
    usage: Usage = Usage()
    cost: int = 0
    failed: int = 0
    interventions: int = 0
    denied: int = 0
    saved: int = 0
    saveable: int = 0

    def numbers(self) -> tuple[int, ...]:
        """In the order of `FIELDS`, without those at the end that are nothing."""
        used = self.usage
        found = (
            self.requests,
            used.input,
            used.cached,
            used.cache_write,
            used.output,
            used.reasoning,
            self.cost,
            int(used.estimated),
            self.failed,
            self.interventions,
            self.denied,
            self.saved,
            self.saveable,
        )
        end = len(found)
        while end and not found[end - 1]:
            end -= 1
        return found[:end]


def payer(names: Sequence[str]) -> str:
    """A row's names in one text, in the order of `BY`."""
    return SEPARATOR.join([_safe(name) for name in names])


def names(text: str) -> tuple[str, ...]:
    """The names of `payer`."""
    found = text.split(SEPARATOR)
    return (*found, *[""] * len(BY))[: len(BY)]


def _safe(name: str) -> str:
    if len(name) <= LONGEST and name.isprintable():
        return name
    return "".join(letter if letter.isprintable() else "_" for letter in name[:LONGEST])


def day_of(at_ms: int) -> str:
    """The day of a moment, as in `2026-11-30`."""
    return date.fromordinal(EPOCH + at_ms // DAY_MS).isoformat()


def number_of(day: str) -> int:
    """The day as the store counts them. Raises ValueError."""
    return date.fromisoformat(day).toordinal() - EPOCH


def days(first: str, last: str) -> list[str]:
    """All days from the first to the last. Raises ValueError."""
    return [date.fromordinal(EPOCH + one).isoformat() for one in range(number_of(first), number_of(last) + 1)]


def month(name: str) -> tuple[str, str]:
    """The first and last day of a month such as `2026-11`. Raises ValueError."""
    first = date.fromisoformat(f"{name}-01")
    beyond = date(first.year + first.month // 12, first.month % 12 + 1, 1)
    return first.isoformat(), date.fromordinal(beyond.toordinal() - 1).isoformat()


def added(rows: Iterable[Row], by: Sequence[str]) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Sums of rows that have the same `by` (names in `BY`, "org", "day"), in their order."""
    found: dict[tuple[str, ...], list[int]] = {}
    for row in rows:
        told: Mapping[str, str] = {"org": row.org, "day": row.day, **dict(zip(BY, row.by, strict=True))}
        sums = found.setdefault(tuple([told[name] for name in by]), [0] * len(FIELDS))
        for at, number in enumerate(row.sums):
            sums[at] += number
    return [(key, tuple(found[key])) for key in sorted(found)]
