"""Windows in time zones: tables of values across changes of clocks, leap days, month ends and years; and their keys."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings, strategies as st

from guardproxy import _zones
from guardproxy.core import windows
from guardproxy.core.windows import CALENDAR, NOW, RATES, Zone, chosen, is_rate, key, kind_of, window, zone_of

HOUR, DAY = 3_600_000, 86_400_000


def ms(text: str) -> int:
    return round(datetime.fromisoformat(f"{text}+00:00").timestamp() * 1000)


def shown(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M}"


TABLE = [
    # zone, kind, moment, name, first moment, last moment (UTC)
    ("UTC", "day", "2026-11-30T23:59:59", "2026-11-30", "2026-11-30T00:00", "2026-12-01T00:00"),
    ("UTC", "month", "2026-11-30T23:59:59", "2026-11", "2026-11-01T00:00", "2026-12-01T00:00"),
    ("UTC", "month", "2026-12-01T00:00:00", "2026-12", "2026-12-01T00:00", "2027-01-01T00:00"),
    ("UTC", "week", "2027-01-01T12:00:00", "2026-W53", "2026-12-28T00:00", "2027-01-04T00:00"),
    ("UTC", "week", "2024-12-30T00:00:00", "2025-W01", "2024-12-30T00:00", "2025-01-06T00:00"),
    # clocks go forward at 02:00 and back at 03:00 in Berlin: 23 and 25 hours
    ("Europe/Berlin", "day", "2026-03-28T23:30:00", "2026-03-29", "2026-03-28T23:00", "2026-03-29T22:00"),
    ("Europe/Berlin", "day", "2026-03-29T21:59:59", "2026-03-29", "2026-03-28T23:00", "2026-03-29T22:00"),
    ("Europe/Berlin", "day", "2026-03-29T22:00:00", "2026-03-30", "2026-03-29T22:00", "2026-03-30T22:00"),
    ("Europe/Berlin", "day", "2026-10-25T00:30:00", "2026-10-25", "2026-10-24T22:00", "2026-10-25T23:00"),
    ("Europe/Berlin", "day", "2026-10-25T22:59:59", "2026-10-25", "2026-10-24T22:00", "2026-10-25T23:00"),
    ("Europe/Berlin", "week", "2026-10-25T22:59:59", "2026-W43", "2026-10-18T22:00", "2026-10-25T23:00"),
    ("Europe/Berlin", "month", "2026-03-31T21:59:59", "2026-03", "2026-02-28T23:00", "2026-03-31T22:00"),
    ("Europe/Berlin", "month", "2026-10-31T22:59:59", "2026-10", "2026-09-30T22:00", "2026-10-31T23:00"),
    ("America/New_York", "day", "2026-03-08T04:59:59", "2026-03-07", "2026-03-07T05:00", "2026-03-08T05:00"),
    ("America/New_York", "day", "2026-03-09T03:59:59", "2026-03-08", "2026-03-08T05:00", "2026-03-09T04:00"),
    ("America/New_York", "month", "2027-01-01T04:59:59", "2026-12", "2026-12-01T05:00", "2027-01-01T05:00"),
    ("Australia/Lord_Howe", "day", "2026-04-04T15:30:00", "2026-04-05", "2026-04-04T13:00", "2026-04-05T13:30"),
    ("Asia/Kolkata", "day", "2026-11-30T18:30:00", "2026-12-01", "2026-11-30T18:30", "2026-12-01T18:30"),
    ("Pacific/Kiritimati", "month", "2026-11-30T10:00:00", "2026-12", "2026-11-30T10:00", "2026-12-31T10:00"),
    ("Pacific/Pago_Pago", "month", "2026-12-01T10:59:59", "2026-11", "2026-11-01T11:00", "2026-12-01T11:00"),
    # leap days, and the year 2100 that has none
    ("UTC", "day", "2028-02-29T12:00:00", "2028-02-29", "2028-02-29T00:00", "2028-03-01T00:00"),
    ("UTC", "month", "2028-02-29T23:59:59", "2028-02", "2028-02-01T00:00", "2028-03-01T00:00"),
    ("UTC", "month", "2026-02-28T23:59:59", "2026-02", "2026-02-01T00:00", "2026-03-01T00:00"),
    ("UTC", "month", "2100-02-28T23:59:59", "2100-02", "2100-02-01T00:00", "2100-03-01T00:00"),
    # midnight that is skipped: the day begins an hour late
    ("America/Sao_Paulo", "day", "2018-11-04T03:00:00", "2018-11-04", "2018-11-04T03:00", "2018-11-05T02:00"),
    ("America/Sao_Paulo", "day", "2018-11-04T02:59:59", "2018-11-03", "2018-11-03T03:00", "2018-11-04T03:00"),
    # midnight at which the clocks go back: the day before has 25 hours
    ("America/Sao_Paulo", "day", "2019-02-17T02:30:00", "2019-02-16", "2019-02-16T02:00", "2019-02-17T03:00"),
    # one minute past midnight they went back an hour: the day had begun, and goes on
    ("America/St_Johns", "day", "2009-11-01T02:30:30", "2009-11-01", "2009-11-01T02:30", "2009-11-02T03:30"),
    ("America/St_Johns", "day", "2009-11-01T02:45:00", "2009-11-01", "2009-11-01T02:30", "2009-11-02T03:30"),
    # a day that there was not: Samoa went over the date line
    ("Pacific/Apia", "day", "2011-12-30T09:59:59", "2011-12-29", "2011-12-29T10:00", "2011-12-30T10:00"),
    ("Pacific/Apia", "day", "2011-12-30T10:00:00", "2011-12-31", "2011-12-30T10:00", "2011-12-31T10:00"),
]


@pytest.mark.parametrize(("zone", "kind", "at", "name", "first", "beyond"), TABLE)
def test_11_windows(zone: str, kind: str, at: str, name: str, first: str, beyond: str) -> None:
    found = window(_zones.zone(zone, ms(at)), kind, ms(at))
    assert (found.name, shown(found.start_ms), shown(found.end_ms)) == (name, first, beyond)


ZONES = st.sampled_from(
    [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Africa/Casablanca",
        "Asia/Tehran",
        "America/Havana",
    ]
)


@settings(max_examples=300, deadline=None)
@given(ZONES, st.sampled_from(CALENDAR), st.integers(ms("2015-01-01T00:00:00"), ms("2035-01-01T00:00:00")))
def test_windows_follow_each_other_without_gap_or_overlap(name: str, kind: str, at_ms: int) -> None:
    zone = _zones.zone(name, at_ms)
    this = window(zone, kind, at_ms)
    assert this.start_ms <= at_ms < this.end_ms
    assert window(zone, kind, this.start_ms) == window(zone, kind, this.end_ms - 1) == this
    after, before = window(zone, kind, this.end_ms), window(zone, kind, this.start_ms - 1)
    assert (after.start_ms, before.end_ms) == (this.end_ms, this.start_ms)
    assert before.name < this.name < after.name
    length = {"day": 1, "week": 7, "month": 30}[kind] * DAY
    assert abs(this.end_ms - this.start_ms - length) <= 2 * DAY + 2 * HOUR


@settings(max_examples=300, deadline=None)
@given(
    ZONES,
    st.sampled_from(CALENDAR),
    st.integers(ms("2020-01-01T00:00:00"), ms("2030-01-01T00:00:00")),
    st.integers(-23 * HOUR, 23 * HOUR),
)
def test_a_clock_that_is_wrong_by_less_than_a_window_names_the_same_counters(
    name: str, kind: str, at_ms: int, skew_ms: int
) -> None:
    right, wrong = (key(kind, "team", "red", _zones.zone(name, at), at)[0] for at in (at_ms, at_ms + skew_ms))
    assert chosen(wrong, at_ms) == chosen(right, at_ms)


@pytest.mark.parametrize("kind", RATES)
def test_rates_are_those_of_the_stores_clock_alone(kind: str) -> None:
    at_ms = ms("2026-11-30T10:59:59") + 999
    name, until = key(kind, "org", "", Zone(), at_ms)
    assert (until, is_rate(name), kind_of(name)) == (0, True, kind)
    found, ends = chosen(name, at_ms)
    assert (found, ends) == (f"{kind[0]}:org::{at_ms // RATES[kind]}", ms("2026-11-30T11:00:00"))
    assert chosen(name, at_ms + 1)[0] != found


@pytest.mark.parametrize(
    ("kind", "rate", "zone", "again"),
    [
        ("day", False, "Europe/Berlin", True),
        ("total", False, "", False),
        (NOW, True, "", False),
        ("hour", True, "", False),
    ],
)
def test_what_a_key_says_of_itself(kind: str, rate: bool, zone: str, again: bool) -> None:
    at_ms = ms("2026-11-30T10:00:00")
    name, until = key(kind, "user", "a:b", Zone("Europe/Berlin"), at_ms)
    assert (is_rate(name), zone_of(name), kind_of(name), until > at_ms) == (rate, zone, kind, again)


@pytest.mark.parametrize("name", ["", "day", "session"])
def test_other_keys_are_none_of_ours(name: str) -> None:
    assert (is_rate(name), kind_of(name), zone_of(name), chosen(name, 5)) == (False, "", "", (name, 0))


NAMES = ["a:b", "a/b", "ä", "\x1e2026\x1e9", "}{", "x" * 500, "x" * 499 + "y", "\ud800", "%3A", "*", "a b", "\n"]


def test_names_cannot_run_into_each_other_or_into_our_separators() -> None:
    found = [chosen(key("total", "user", name, Zone(), 0)[0], 0)[0] for name in NAMES]
    assert len(set(found)) == len(NAMES)
    assert all(len(one) < 150 and one.isprintable() and one.count(":") == 2 for one in found)
    assert all(len(key("day", "user", name, Zone(), 0)[0].split(windows.SEPARATOR)) == 7 for name in NAMES)
