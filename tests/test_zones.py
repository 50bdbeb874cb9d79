"""Time zones of the machine as data: the same clock as the library's, at any moment of some years."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from guardproxy import _zones
from guardproxy.core import windows

NAMES = ["UTC", "Europe/Berlin", "America/New_York", "Africa/Casablanca", "Australia/Lord_Howe", "Asia/Kolkata"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("year", [1971, 2016, 2026, 2037, 2060])
def test_the_clock_is_the_librarys(name: str, year: int) -> None:
    first = datetime(year, 1, 1, tzinfo=UTC)
    zone = _zones.zone(name, round(first.timestamp() * 1000))
    for hours in range(-24 * 300, 24 * 660, 7):
        at = first + timedelta(hours=hours)
        ahead = at.astimezone(ZoneInfo(name)).utcoffset()
        assert ahead is not None
        assert windows._ahead(zone, round(at.timestamp() * 1000)) == ahead.total_seconds() * 1000


def test_changes_are_found_to_the_second() -> None:
    at = round(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
    found = dict(_zones.zone("Europe/Berlin", at).changes)
    spring = round(datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp() * 1000)
    assert found[spring] == 7_200_000


@pytest.mark.parametrize("name", ["Europe", "Mars/Olympus", "../etc/passwd", "", "/etc/localtime", "Europe/Berlin\x00"])
def test_what_is_no_zone_is_said(name: str) -> None:
    assert "no time zone" in _zones.problem(name)


def test_known_zones_are_no_problem() -> None:
    assert [_zones.problem(name) for name in NAMES] == [""] * len(NAMES)
