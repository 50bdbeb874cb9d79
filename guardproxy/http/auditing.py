"""Who changes something, what the change was, and seeing that it gets into the audit stream, also when the store was
away at that moment. Entries have no content and no secrets: what is compared here is chosen field by field.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from guardproxy.core.scoped_exemption import moment
from guardproxy.errors import StoreError
from guardproxy.http.terminal import me, visible
from guardproxy.store.audit import Entry
from guardproxy.store.redis import Store

WAITING = 1000
"""Entries that wait for the store at most: changes need the store too, the panic switch apart."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks. `kind`: token; local (from the same machine, while there are no tokens); command; system.

    `org`: the only organisation that their token is for, "" = all. `address`: where they sit, as far as we know.
    """

    name: str
    kind: str = "system"
    role: str = ""
    token: str = ""
    address: str = ""
    org: str = ""

    def did(self, what: str, subject: str = "", *, org: str = "", why: str = "", diff: Diff | None = None) -> Entry:
        """The entry for something that they did."""
        return Entry(
            actor=self.name,
            what=what,
            subject=subject,
            kind=self.kind,
            role=self.role,
            token=self.token,
            address=self.address,
            org=org,
            why=why,
            diff=diff or {},
        )


Diff = Mapping[str, tuple[object, object]]
"""What was changed: a field, and its values before and after."""


def at_terminal(by: str = "") -> Actor:
    """Who types a command. Whoever reaches the store may do everything."""
    return Actor(by or me(), kind="command", role="owner")


def changed(before: Mapping[str, object], after: Mapping[str, object]) -> Diff:
    """The fields that differ; one that there was not, or is not any more, is None there."""
    names = dict.fromkeys((*before, *after))
    pairs = ((name, before.get(name), after.get(name)) for name in names)
    return {name: (old, new) for name, old, new in pairs if old != new}


class Notes:
    """Writes entries. What the store cannot take is kept, and written when it answers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._missed: deque[Entry] = deque()

    async def note(self, entry: Entry) -> None:
        """Write an entry, now or later: what was done is done."""
        if not self._missed:
            try:
                await self._store.audit.note(entry)
            except StoreError:
                _log.warning("audit: %s of %s waits for the store", entry.what, visible(entry.subject, 80))
            else:
                return
        if len(self._missed) == WAITING:
            _log.error("audit: %s of %s by %s is lost, the store is away", entry.what, entry.subject, entry.actor)
            return
        self._missed.append(entry)

    async def catch_up(self) -> None:
        """Write what waits, in order, if the store answers. Their time in the stream is then that of the store."""
        while self._missed:
            late = self._missed[0]
            try:
                await self._store.audit.note(replace(late, why=late.why or "written late: the store was away"))
            except StoreError:
                return
            self._missed.popleft()

    def lost(self) -> int:
        """How many entries were not written. Said in the log, for whoever stops a proxy without its store."""
        for entry in self._missed:
            _log.error("audit: %s of %s by %s was not written", entry.what, visible(entry.subject, 80), entry.actor)
        return len(self._missed)


HEADS = ("when", "who", "from", "what", "of", "changed", "why")
"""Over the rows of `guardproxy audit`."""


def rows(entries: Iterable[Entry]) -> Iterable[tuple[str, ...]]:
    """For a table of entries."""
    for one in entries:
        told = "; ".join(f"{name}: {_short(old)} → {_short(new)}" for name, (old, new) in one.diff.items())
        who = f"{visible(one.actor)} ({one.kind}{f', {one.role}' if one.role else ''})"
        subject = visible(f"{one.subject} in {one.org}" if one.org else one.subject)
        yield (moment(one.at_ms), who, one.address or "–", one.what, subject, visible(told, 200), visible(one.why, 100))


def _short(value: object) -> str:
    return "–" if value in (None, "") else str(value)
