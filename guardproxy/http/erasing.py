"""Erases what the store has of a run, of a user or of an organisation. What runs is ended first, and settled.

What was spent stays, under nobody's name: counters of budgets and sums of usage. `docs/data.md` says what goes and what
stays, kind by kind.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from guardproxy.core.usage import names, payer
from guardproxy.errors import GuardError
from guardproxy.http.tenancy import CACHE_S
from guardproxy.store.erasures import EVERYBODY
from guardproxy.store.redis import Store

WAIT_S = 3.0
"""Seconds that calls under way have to end (a worker sees it within one); what still holds then is charged in full."""

POLL_S = 0.1
"""Seconds between two looks whether they have."""

GRACE_S = CACHE_S + 0.5
"""Seconds for which a worker may still let a key in that was deleted."""

PASSES = 3
"""How often the store is gone through at most: what a turn wrote that had begun before is found by the second."""


@dataclass(frozen=True, slots=True)
class Erased:
    """How many runs were ended and erased, keys of the store that went, rows of usage without a name, virtual keys."""

    runs: int
    entries: int
    usage_rows: int = 0
    virtual_keys: int = 0

    @property
    def anything(self) -> bool:
        """Whether there was anything."""
        return bool(self.entries or self.usage_rows or self.virtual_keys)


async def session(store: Store, org: str, name: str) -> Erased:
    """Erase a run. `GuardError` 404 where nothing is kept of one."""
    found = await _erase(store, org, [name])
    if not found.entries:
        raise GuardError(f"nothing is kept of a run {name[:200]!r}", status=404, code="not_found")
    return Erased(1, found.entries)


async def user(store: Store, org: str, name: str) -> Erased:
    """Erase the runs that a user had a part in, and take the name out of the usage. 404 where there is nothing."""
    name = names(payer(("", "", name, "", "")))[2]  # as it is kept
    runs, entries = 0, 0
    for _ in range(PASSES):  # a user may begin another run meanwhile
        sessions = await store.erasures.find(org, name)
        if not sessions:
            break
        found = await _erase(store, org, sessions)
        runs, entries = runs + len(sessions), entries + found.entries
    done = Erased(runs, entries, await store.erasures.unname(org, name))
    if not done.anything:
        raise GuardError(f"nothing is kept of a user {name[:200]!r}", status=404, code="not_found")
    return done


async def organisation(store: Store, org: str) -> Erased:
    """Erase all runs of an organisation, its keys and teams, and itself; 404 where there is nothing."""
    keys = await store.registry.keys(org)
    for key in keys:
        await store.registry.delete(key)
    for team in await store.registry.teams(org):
        await store.registry.delete(team)
    found = await _erase(store, org, EVERYBODY, GRACE_S if keys else 0.0)
    known = await store.registry.org(org)
    if known is not None:
        await store.registry.delete(known)
    done = Erased(found.runs, found.entries, await store.erasures.unname(org), len(keys))
    if not (done.anything or known):
        raise GuardError(f"nothing is kept of an organisation {org!r}", status=404, code="not_found")
    return done


async def _erase(store: Store, org: str, sessions: list[str] | None, grace_s: float = 0.0) -> Erased:
    count = await _ended(store, org, sessions, grace_s)
    entries = 0
    for _ in range(PASSES):
        gone = await store.erasures.wipe(org, sessions)
        entries += gone
        if not gone:
            break
    return Erased(count, entries)


async def _ended(store: Store, org: str, sessions: list[str] | None, grace_s: float) -> int:
    """End what runs, and wait until it has; how many sessions there were."""
    erasures, loop, found = store.erasures, asyncio.get_running_loop(), set(sessions or ())
    began = loop.time()
    while True:
        some = await erasures.find(org) if sessions is EVERYBODY else sessions
        found.update(some)
        await erasures.end(org, some)
        held = await erasures.held(org, sessions)
        passed = loop.time() - began
        if passed >= grace_s and (not held or passed >= WAIT_S):
            break
        await asyncio.sleep(POLL_S)
    for token in held:
        await store.orphans.expire(org, token)
    if held:
        await store.sweep()
    return len(found)
