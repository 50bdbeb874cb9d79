"""The ledger of usage: whose a row is, what is in it, days and months, and sums."""

from __future__ import annotations

import pytest

from guardproxy.core import usage
from guardproxy.core.model import Usage
from guardproxy.core.usage import BY, FIELDS, Charge, Row


def test_the_numbers_are_in_the_order_of_the_fields() -> None:
    used = Usage(input=11, output=22, cached=3, cache_write=4, reasoning=5, estimated=True)
    whole = Charge(1, used, 66, 7, 8, 9, 10, 12).numbers()
    assert dict(zip(FIELDS, whole, strict=False)) == {
        "requests": 1,
        "input_tokens": 11,
        "cached_tokens": 3,
        "cache_write_tokens": 4,
        "output_tokens": 22,
        "reasoning_tokens": 5,
        "cost_microusd": 66,
        "estimated": 1,
        "failed": 7,
        "interventions": 8,
        "denied": 9,
        "saved_microusd": 10,
        "saveable_microusd": 12,
    }


@pytest.mark.parametrize(
    ("charge", "numbers"), [(Charge(), ()), (Charge(1), (1,)), (Charge(failed=2), (0,) * 8 + (2,))]
)
def test_what_is_nothing_is_not_sent(charge: Charge, numbers: tuple[int, ...]) -> None:
    assert charge.numbers() == numbers


NAMES = [
    (("web", "k1", "ann", "gpt-5", "codex"), ("web", "k1", "ann", "gpt-5", "codex")),
    (("", "", "", "", ""), ("", "", "", "", "")),
    (("", "", "a\x1fb\nc", "m" * 500, ""), ("", "", "a_b_c", "m" * 120, "")),
]


@pytest.mark.parametrize(("given", "kept"), NAMES)
def test_names_of_a_row(given: tuple[str, ...], kept: tuple[str, ...]) -> None:
    assert usage.names(usage.payer(given)) == kept


def test_names_that_are_none_are_filled_up() -> None:
    assert usage.names("web") == ("web", "", "", "", "")
    assert usage.names("\x1f".join("abcdefg")) == tuple("abcde")


@pytest.mark.parametrize(
    ("at_ms", "day"),
    [(0, "1970-01-01"), (86_399_999, "1970-01-01"), (86_400_000, "1970-01-02"), (1_835_395_200_000, "2028-02-29")],
)
def test_days_are_those_of_utc(at_ms: int, day: str) -> None:
    assert usage.day_of(at_ms) == day
    assert usage.number_of(day) == at_ms // 86_400_000


MONTHS = [
    ("2026-11", "2026-11-01", "2026-11-30"),
    ("2028-02", "2028-02-01", "2028-02-29"),
    ("2026-12", "2026-12-01", "2026-12-31"),
]


@pytest.mark.parametrize(("name", "first", "last"), MONTHS)
def test_months(name: str, first: str, last: str) -> None:
    assert usage.month(name) == (first, last)
    found = usage.days(first, last)
    assert (found[0], found[-1], len(found)) == (first, last, int(last[-2:]))


@pytest.mark.parametrize("name", ["2026-13", "2026", "", "x"])
def test_no_month(name: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        usage.month(name)


def row(day: str, team: str, model: str, *sums: int) -> Row:
    return Row("acme", day, (team, "k1", "", model, ""), (*sums, *[0] * (len(FIELDS) - len(sums))))


def test_sums() -> None:
    rows = [row("2026-11-02", "web", "a", 1, 10), row("2026-11-01", "web", "b", 2), row("2026-11-02", "ops", "a", 4, 5)]
    assert [(key, sums[:2]) for key, sums in usage.added(rows, ("team",))] == [(("ops",), (4, 5)), (("web",), (3, 10))]
    assert [(key, sums[0]) for key, sums in usage.added(rows, ("day", "model"))] == [
        (("2026-11-01", "b"), 2), (("2026-11-02", "a"), 5),
    ]  # fmt: skip
    assert [(key, sums[:2]) for key, sums in usage.added(rows, ())] == [((), (7, 15))]
    assert len(usage.added(rows, ("org", "day", *BY))) == 3
    assert usage.added([], ("team",)) == []
