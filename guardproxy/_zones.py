"""Time zones of this machine as data for `core.windows`, a few years at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from guardproxy.core.windows import Zone

YEAR_MS = 31_556_952_000
"""A mean year of the calendar."""

_DAY, _SECOND = timedelta(days=1), timedelta(seconds=1)


def problem(name: str) -> str:
    """What is wrong with the name of a time zone; "" if this machine knows it."""
    try:
        _info(name)
    except (KeyError, ValueError, OSError):  # unknown; no name of a zone; a folder of zones
        return f"no time zone {name!r} is known here (names are like Europe/Berlin; the system's tzdata has them)"
    return ""


def zone(name: str, at_ms: int) -> Zone:
    """The zone's rules around a moment: good from the year before to the year after it."""
    return _zone(name, 1970 + at_ms // YEAR_MS)


@lru_cache(maxsize=256)
def _zone(name: str, year: int) -> Zone:
    """Clocks are looked at once a day, and where they differ the second is searched at which they changed."""
    info = _info(name)
    at, end = datetime(max(1, year - 2), 1, 1, tzinfo=UTC), datetime(year + 3, 1, 1, tzinfo=UTC)
    changes = [(_ms(at), _ahead(info, at))]
    while at < end:
        following = at + _DAY
        if _ahead(info, following) != changes[-1][1]:
            changed = _search(info, at, following)
            changes.append((_ms(changed), _ahead(info, changed)))
        at = following
    return Zone(name, tuple(changes))


def _info(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)  # which a machine without tzdata has, too


def _search(info: tzinfo, before: datetime, after: datetime) -> datetime:
    """The first second at which the clocks are no longer as they were `before`."""
    was = _ahead(info, before)
    while after - before > _SECOND:
        middle = before + timedelta(seconds=(after - before) // _SECOND // 2)
        before, after = (middle, after) if _ahead(info, middle) == was else (before, middle)
    return after


def _ahead(info: tzinfo, at: datetime) -> int:
    ahead = at.astimezone(info).utcoffset()
    return round(ahead.total_seconds() * 1000) if ahead else 0


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
