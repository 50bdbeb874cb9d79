"""Windows of budgets: which day, week or month it is in a named time zone, and when it ends. The zone's rules are data.

A key names the counters of a budget, and all windows that may be meant: the store chooses by its own clock (DESIGN
section 4), so that workers whose clocks differ hold against the same counters. `store/begin.lua` reads keys as
`chosen` does; a test plays both.
"""

from __future__ import annotations

import hashlib
from datetime import date
from typing import NamedTuple
from urllib.parse import quote

from guardproxy.core.model import value

DAY_MS = 86_400_000
"""A day of a clock that nobody changes."""

EPOCH = date(1970, 1, 1).toordinal()
"""The first day of the store's clock."""

SCOPES = ("org", "team", "key", "user", "model")
"""Who pays, and for what: scopes of budgets that outlive a session."""

RATES = {"minute": 60_000, "hour": 3_600_000}
"""Windows of rates, in milliseconds. They begin with the store's clock: each minute and hour of UTC."""

CALENDAR = ("day", "week", "month")
"""Windows of a calendar in a time zone. Weeks begin on Mondays (ISO 8601)."""

WINDOWS = (*RATES, *CALENDAR, "total")
"""Windows of budgets; `total` never ends."""

NOW = "now"
"""What is under way at this moment: the only window of concurrent requests."""

LETTERS = {"minute": "m", "hour": "h", "day": "d", "week": "w", "month": "M", "total": "t", NOW: "n"}
"""First letter of a key. The scripts know m and h (gone soon) and t (kept for ever)."""

CONCURRENT = "concurrent_requests"
"""The dimension whose hold is all that is ever counted."""

SEPARATOR = "\x1e"
"""Between the parts of a key; the first is what all its windows share."""

LONGEST_NAME = 80
"""Characters of a name in a key; longer ones are cut, and told apart by a hash."""

_KINDS = {letter: kind for kind, letter in LETTERS.items()}


@value
class Zone:
    """A time zone as data: since when (UTC, ms) its clocks are how many ms ahead. The first holds before, too."""

    name: str = "UTC"
    changes: tuple[tuple[int, int], ...] = ((0, 0),)


@value
class Budget:
    """What may be spent in a window, by whom. `limit` in the unit counted, `soft`: percentages that are only said.

    `match`: globs of names. Each team, key or user that matches has counters of its own; models that match one glob
    are counted together, since their names come from clients. `of`: whose document it is in, "" = the org's own; what
    users and models spend counts there alone.
    """

    scope: str  # see SCOPES
    dimension: str  # a name in core.budget.DIMENSIONS
    window: str  # see WINDOWS; NOW for concurrent requests
    limit: int
    timezone: str = "UTC"
    soft: tuple[int, ...] = ()
    match: str = "*"
    of: str = ""


class Window(NamedTuple):
    """One day, week or month: from `start_ms` to before `end_ms`."""

    name: str
    start_ms: int
    end_ms: int


def window(zone: Zone, kind: str, at_ms: int) -> Window:
    """The window of a calendar in which `at_ms` lies. Windows follow each other without a gap, also where clocks jump.

    A day begins when its zone's clocks first show its date, or a later one: midnight may be skipped, or come twice.
    """
    day = date.fromordinal(EPOCH + (at_ms + _ahead(zone, at_ms)) // DAY_MS)
    while _start(zone, following := date.fromordinal(day.toordinal() + 1)) <= at_ms:  # clocks went back over midnight
        day = following
    first, beyond = _bounds(kind, day)
    return Window(_name(kind, first), _start(zone, first), _start(zone, beyond))


def _bounds(kind: str, day: date) -> tuple[date, date]:
    """The first day of the window in which a day lies, and the first after it."""
    if kind == "day":
        return day, date.fromordinal(day.toordinal() + 1)
    if kind == "week":
        monday = day.toordinal() - day.weekday()
        return date.fromordinal(monday), date.fromordinal(monday + 7)
    first = day.replace(day=1)
    return first, date(first.year + first.month // 12, first.month % 12 + 1, 1)


def _name(kind: str, first: date) -> str:
    if kind == "week":
        year, week, _ = first.isocalendar()
        return f"{year}-W{week:02d}"
    return first.isoformat()[:7] if kind == "month" else first.isoformat()


def _ahead(zone: Zone, at_ms: int) -> int:
    ahead = zone.changes[0][1]
    for since, then in zone.changes[1:]:
        if since > at_ms:
            break
        ahead = then
    return ahead


def _start(zone: Zone, day: date) -> int:
    """The first moment at which the zone's clocks show this day or a later one."""
    midnight = (day.toordinal() - EPOCH) * DAY_MS
    changes = zone.changes
    for at, (since, ahead) in enumerate(changes):
        begins = midnight - ahead if at == 0 else max(since, midnight - ahead)
        if at + 1 == len(changes) or begins < changes[at + 1][0]:
            return begins
    return midnight


# ------------------------------------------------------------------------------------------------------------- keys


def key(kind: str, scope: str, who: str, zone: Zone, at_ms: int) -> tuple[str, int]:
    """The key of a budget's counters, and until when (by the caller's clock) it need not be made anew; 0 = for ever.

    It holds the windows before and after the caller's: its clock may be wrong by one of them.
    """
    base = f"{LETTERS[kind]}:{scope}:{_safe(who)}"
    if kind in RATES:
        return f"{base}{SEPARATOR}{RATES[kind]}", 0
    if kind not in CALENDAR:
        return base, 0
    this = window(zone, kind, at_ms)
    before, after = window(zone, kind, this.start_ms - 1), window(zone, kind, this.end_ms)
    ends = (before.name, this.start_ms, this.name, this.end_ms, after.name, after.end_ms)
    return SEPARATOR.join((f"{base}:{zone.name}", *map(str, ends))), this.end_ms


def chosen(key: str, now_ms: int) -> tuple[str, int]:
    """Which counters a key means at a moment of the store's clock, and when they begin anew; 0 = never."""
    base, *rest = key.split(SEPARATOR)
    if not rest:
        return base, 0
    if len(rest) == 1:
        every = int(rest[0])
        return f"{base}:{now_ms // every}", (now_ms // every + 1) * every
    before, start, this, end, after, last = rest
    if now_ms < int(start):
        return f"{base}:{before}", int(start)
    return (f"{base}:{this}", int(end)) if now_ms < int(end) else (f"{base}:{after}", int(last))


def kind_of(key: str) -> str:
    """The kind of window that a key has; "" for one that is none of ours."""
    return _KINDS.get(key[0], "") if key[1:2] == ":" else ""


def is_rate(key: str) -> bool:
    """Whether a key is that of a rate: what has no room now has it in a moment, so it is worth waiting."""
    return key[1:2] == ":" and key[0] in "mhn"


def zone_of(key: str) -> str:
    """The name of the time zone of a key's windows; "" where they have none."""
    base, found, _ = key.partition(SEPARATOR)
    return base.split(":", 3)[3] if found and kind_of(key) in CALENDAR else ""


def _safe(name: str) -> str:
    """A name that may stand in a key: without our separators, and not long."""
    quoted = quote(name, safe="@+*?[]! ", errors="replace")
    if len(quoted) <= LONGEST_NAME:
        return quoted
    return f"{quoted[:LONGEST_NAME]}-{hashlib.blake2b(quoted.encode(), digest_size=12).hexdigest()}"
