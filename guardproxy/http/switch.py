"""The panic switch as the parent keeps it: what the store could not take is remembered and written when it answers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from guardproxy.errors import StoreError
from guardproxy.store.redis import Store

Panic = Callable[[bool | None], Awaitable[tuple[bool, bool]]]
"""`Switch.panic`."""

_log = logging.getLogger(__name__)


class Switch:
    """One a parent. The store has the truth; only what it missed is kept here."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._missed: bool | None = None

    async def panic(self, on: bool | None) -> tuple[bool, bool]:  # noqa: FBT001 - a switch
        """Set the switch, or with None read it: how it stands, and whether the store has yet to be told."""
        if on is None and self._missed is not None:
            return self._missed, True
        try:
            stands = await self._store.panic(on)
        except StoreError:
            if on is None:
                raise
            self._missed = on
            _log.warning("panic %s: the store does not answer, it is told when it does", _word(on))
            return on, True
        if on is not None:
            self._missed = None
        return stands, False

    async def catch_up(self) -> None:
        """Tell the store what it missed, if it answers."""
        missed = self._missed
        if missed is None:
            return
        try:
            await self._store.panic(missed)
        except StoreError:
            return
        if self._missed is missed:  # nobody changed it meanwhile
            self._missed = None
            _log.warning("panic %s: the store has been told", _word(missed))


async def stood(panic: Panic) -> bool | None:
    """How the switch stands, for the audit; None: nobody knows just now, and that keeps nobody from throwing it."""
    try:
        on, _ = await panic(None)
    except StoreError:
        return None
    return on


def _word(on: bool) -> str:  # noqa: FBT001 - a switch
    return "on" if on else "off"
