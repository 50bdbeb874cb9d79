"""The exemptions as a worker knows them, and how often each held something back.

`begin` says with every turn which version stands; only a version that is new here is read, so that a turn costs no
trip more. While the store is away the last one known goes on to hold.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable

from guardproxy.core import scoped_exemption
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import Ask
from guardproxy.core.scoped_exemption import ScopedExemption
from guardproxy.core.view import View
from guardproxy.errors import StoreError
from guardproxy.store.labels import Labels

_log = logging.getLogger(__name__)


class ScopedExemptions:
    """One a worker and configuration. `labels` gives the store's; it is asked only when there is something to ask."""

    def __init__(self, labels: Callable[[], Labels]) -> None:
        self._labels = labels
        self._known: dict[str, tuple[int, tuple[ScopedExemption, ...]]] = {}
        self._hits: Counter[tuple[str, str]] = Counter()

    async def of(self, ask: Ask, view: View, org: str, printer: Fingerprinter) -> tuple[ScopedExemption, ...]:
        """The exemptions that stand for a run. Never raises for the store: then the ones known hold."""
        version, every = self._known.get(org, (0, ()))
        if version != view.exempt and not view.degraded:
            every = await self._read(org, every)
        if not every:
            return ()
        return scoped_exemption.standing(
            every, view.session, lambda: scoped_exemption.agent_of(ask, printer), view.now_ms
        )

    def hit(self, org: str, labels: Iterable[str]) -> None:
        """Count a turn on which these held something back; the store is told by `pay`."""
        self._hits.update((org, label) for label in labels)

    async def pay(self) -> None:
        """Tell the store the hits since the last time. What it cannot take is told the next time."""
        owed, self._hits = self._hits, Counter()
        for (org, label), hits in owed.items():
            try:
                await self._labels().hit(org, label, hits)
            except StoreError:
                self._hits[org, label] += hits

    async def _read(self, org: str, before: tuple[ScopedExemption, ...]) -> tuple[ScopedExemption, ...]:
        try:
            version, every = await self._labels().standing(org)
        except StoreError as error:
            _log.warning("the exemptions of %s cannot be read, those known hold: %s", org, error)
            return before
        self._known[org] = (version, every)
        return every
