"""The store as the turn sees it: Redis while it answers, this worker's own memory while it does not.

Policy `open`: requests go on, loops are seen from the conversation, budgets are counted here. What was counted here is
told to the store when it is back, once per token. Policy `closed`: `StoreError`, which is a 503. Policy `by_budget`: so
for whoever has budgets, since workers that count alone would pass them together; open for everybody else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from guardproxy.core.memory import LocalMemory
from guardproxy.core.model import Line
from guardproxy.core.tenant_budget import budgeted
from guardproxy.core.view import Closing, Opening, View
from guardproxy.errors import StoreError
from guardproxy.http.background import Background
from guardproxy.http.remembering import Remembered
from guardproxy.http.scoped_exemptions import ScopedExemptions

if TYPE_CHECKING:
    from guardproxy.core.windows import Budget
    from guardproxy.http._turn_store import TurnStore
    from guardproxy.store.approvals import Approvals
    from guardproxy.store.checkpoints import Checkpoints
    from guardproxy.store.registry import Registry
    from guardproxy.store.runs import Runs
    from guardproxy.store.stays import Stays

NOTED = 5_000
"""Rows of usage that wait for `pay` at most: names come from clients."""

OWED = 10_000
"""Turns remembered for the store while it is away; the oldest fall out first."""

LATE_MS = 60_000
"""Lease of what is over already."""

CLOSED = {
    "closed": "the proxy's store does not answer, and nothing goes out uncounted (store.on_failure: closed)",
    "by_budget": "the proxy's store, which counts the budgets that hold for this request, does not answer; nothing is "
    "sent meanwhile, so that none of them is passed (store.on_failure: by_budget)",
}
"""What a client is told without the store, by policy; it may try again at once."""


class Books:
    """Begin and settle with a fallback. `now_ms` is this worker's clock, used only while the store is away."""

    def __init__(self, store: TurnStore, *, on_failure: str, now_ms: Callable[[], int]) -> None:
        self._store = store
        self.exemptions = ScopedExemptions(lambda: store.labels)
        self.remembered = Remembered(lambda: store.chains)
        self.background = Background(lambda: getattr(store, "background", None))  # a store in this process has none
        self._on_failure = on_failure
        self._now_ms = now_ms
        self._local = LocalMemory(degraded=True)
        self._openings: dict[str, Opening] = {}
        self._unread: dict[str, tuple[Line, ...]] = {}  # what requests hold nowhere that nobody reads
        self._owed: deque[tuple[Opening | tuple[Line, ...] | None, Closing]] = deque(maxlen=OWED)
        self._charges: dict[tuple[str, str], list[int]] = {}  # by org and payer
        self.live: dict[str, str] = {}  # tokens of calls that are running, and their orgs
        self._settling = 0  # closings on their way

    async def begin(self, opening: Opening, whole: Callable[[], Opening]) -> View:
        """Trip 1, or the same question to local memory. `StoreError` where the policy is closed to it.

        `whole` gives the opening with all facts of the window: this worker may not remember what the store does.
        """
        try:
            view = await self._store.begin(opening)
        except StoreError as error:
            self._refuse(opening.lines, error, opening.org, opening.token)
            opening = self._openings[opening.token] = whole()
            return self._local.begin(opening, self._now_ms() + opening.offset_ms)
        if view.admitted and not view.closed:
            self.live[opening.token] = opening.org
        return view

    async def settle(self, closing: Closing) -> None:
        """Trip 2. What the store could not be told is owed to it. Never raises."""
        opening = self._openings.pop(closing.token, None)
        self.live.pop(closing.token, None)
        if opening is not None:
            self._local.settle(closing, self._now_ms() + closing.offset_ms)
            self._owed.append((opening, closing))
            return
        if (lines := self._unread.pop(closing.token, None)) is not None:
            self._owed.append((lines, closing))
            return
        try:
            await self._store.settle(closing)
        except StoreError:
            self._owed.append((None, closing))

    def settle_soon(self, closing: Closing, done: Callable[[bool], None]) -> bool:
        """`settle` without waiting, where the store takes it now; see there. `quiet` waits for it."""
        send = getattr(self._store, "settle_soon", None)  # a store in this process has none
        if send is None or closing.token in self._openings or not send(closing, partial(self._settled, closing, done)):
            return False
        self._settling += 1
        return True

    def _settled(self, closing: Closing, done: Callable[[bool], None], went_well: bool) -> None:  # noqa: FBT001  # a callback's one argument
        self._settling -= 1
        if went_well:
            self.live.pop(closing.token, None)
        done(went_well)

    @property
    def settling(self) -> int:
        """What is on its way to the store: closings, and what answers in the background used."""
        return self._settling + self.background.under_way

    async def extend(self, opening: Opening, lines: Sequence[Line]) -> bool:
        """Hold what one more attempt of a turn may use. Without the store only a policy that is open to it has room."""
        if opening.token in self._openings:
            return True  # begun here: the store does not know of it
        try:
            return await self._store.extend(opening.org, opening.token, lines, opening.offset_ms)
        except StoreError:
            return not self._closed(lines)

    async def stretch(self, opening: Opening, lines: Sequence[Line]) -> Line | bool | None:
        """Hold more for an answer that goes on. None: it is held; a line: that one has no room; False: it is over.

        `StoreError` without the store; what local memory admitted is never stretched.
        """
        if opening.token in self._openings:
            return False
        place = await self._store.stretch(opening.org, opening.token, lines, opening.offset_ms)
        return None if place == 1 else lines[-place - 1] if place < 0 else False

    async def note(self, opening: Opening, session: str, thread: str, ledger: Mapping[str, bytes]) -> None:
        """Keep what was said in a turn that is not settled. What is begun here has no ledger."""
        if ledger and opening.token not in self._openings:
            await self._store.runs.note(opening.org, session, thread, ledger)

    async def meter(
        self,
        org: str,
        token: str,
        lines: Sequence[Line],
        lease_ms: int,
        offset_ms: int,
        *,
        under: Sequence[Line] | None = None,
    ) -> View | None:
        """Hold what a request that is not read needs. None: the store is away, and the policy lets it through.

        `under`: the same lines with the limits that are not held to here.
        """
        try:
            view = await self._store.meter.hold(org, token, lines, lease_ms, offset_ms)
        except StoreError as error:
            self._refuse(under or lines, error, org, token)
            self._unread[token] = tuple(lines)
            return None
        if view.admitted:
            self.live[token] = org
        return view

    def _closed(self, lines: Iterable[Line]) -> bool:
        """Whether what holds these lines may not go on without the store."""
        return self._on_failure == "closed" or (self._on_failure == "by_budget" and any(map(budgeted, lines)))

    def _refuse(self, lines: Iterable[Line], error: StoreError, org: str, token: str) -> None:
        """Raise what the client is told, if it may not go on: where the store is, and why it is away, is in the log."""
        if self._closed(lines):
            if not error.unsent:
                self.disown(org, token)
            raise StoreError(CLOSED[self._on_failure]) from error

    def disown(self, org: str, token: str) -> None:
        """Nothing comes of a token that the store may have been told of, or may hear of yet: it is to hold nothing."""
        self._owed.append((None, Closing(token, org, "", "", "abandoned", "", {})))

    async def claim(self, org: str, name: str, ttl_ms: int) -> bool:
        """Whether this is the first of all workers to ask: for what happens once. `StoreError` without it."""
        return await self._store.claim(org, name, ttl_ms)

    async def budgets_of(self, org: str) -> tuple[Budget, ...] | None:
        """What an org's document limits. None: nobody knows just now."""
        registry = getattr(self._store, "registry", None)  # a store in this process has none
        try:
            found = await registry.org(org) if registry is not None else None
        except StoreError:
            return None
        return found.budgets if found else ()

    @property
    def stays(self) -> Stays:
        """Where sessions were served."""
        return self._store.stays

    @property
    def approvals(self) -> Approvals:
        """What waits for a person."""
        return self._store.approvals

    @property
    def runs(self) -> Runs:
        """What people do about runs."""
        return self._store.runs

    @property
    def checkpoints(self) -> Checkpoints:
        """The last requests of sessions."""
        return self._store.checkpoints

    @property
    def registry(self) -> Registry:
        """Whose the keys are."""
        return self._store.registry

    def charge(self, org: str, payer: str, numbers: Sequence[int]) -> None:
        """Usage of a request that held nothing: kept here until `pay`, so that a storm of refusals writes little."""
        if numbers and ((org, payer) in self._charges or len(self._charges) < NOTED):
            kept = self._charges.setdefault((org, payer), [])
            kept.extend([0] * (len(numbers) - len(kept)))
            for at, number in enumerate(numbers):
                kept[at] += number

    async def _charge(self) -> None:
        """Tell the store what was used. What it cannot hear now waits, and is added to."""
        charges, self._charges = self._charges, {}
        usages = getattr(self._store, "usages", None)  # a store in this process has none
        if usages is None:
            return
        by_org: dict[str, dict[str, list[int]]] = {}
        for (org, payer), numbers in charges.items():
            by_org.setdefault(org, {})[payer] = numbers
        for org, rows in by_org.items():
            try:
                await usages.add(org, rows)
            except StoreError:
                for payer, numbers in rows.items():
                    self.charge(org, payer, numbers)

    async def pay(self) -> int:
        """Tell the store what it missed; called every other second. Answers how many turns were told."""
        told = 0
        if self._charges:
            await self._charge()
        await self.exemptions.pay()
        while self._owed:
            opening, closing = self._owed[0]
            try:
                if isinstance(opening, tuple):
                    closing = await self._hold_late(opening, closing)
                elif opening is not None:
                    closing = await self._begin_late(opening, closing)
                else:  # a connection that was given up may yet bring what was said over it, also after this
                    await self._store.meter.forestall(closing.org, closing.token)
                await self._store.settle(closing)
            except StoreError:
                break
            self._owed.popleft()
            told += 1
        with suppress(StoreError):
            await self.background.pay()
        return told

    async def renew(self, lease_ms: int) -> None:
        """Lengthen the holds of the calls that are running. A failure is left to the next round."""
        for token, org in list(self.live.items()):
            try:
                await self._store.renew(org, token, lease_ms)
            except StoreError:
                return

    async def _begin_late(self, opening: Opening, closing: Closing) -> Closing:
        """Count a turn that local memory admitted: without limits, since it has happened."""
        free = _free(opening.lines)
        view = await self._store.begin(replace(opening, lines=free))
        if view.short:  # it was heard before after all, and refused
            opening = replace(opening, token=f"{opening.token}-late")
            view = await self._store.begin(replace(opening, lines=free))
        return replace(closing, token=opening.token, session=view.session, thread=view.thread)

    async def _hold_late(self, lines: Iterable[Line], closing: Closing) -> Closing:
        """The same of a request that nobody read."""
        for token in (closing.token, f"{closing.token}-late"):
            view = await self._store.meter.hold(closing.org, token, _free(lines), LATE_MS, closing.offset_ms)
            if view.admitted:
                break
        return replace(closing, token=token)


def _free(lines: Iterable[Line]) -> tuple[Line, ...]:
    return tuple([line._replace(limit=-1, hold=0) for line in lines])
