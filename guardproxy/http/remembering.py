"""Requests that go on with an earlier answer by its id: the answer is remembered, and its run and what it lacks found.

Only surfaces with `recall` have such requests. What is remembered lies sealed in the store; while that is away this
worker has what it gave itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from guardproxy.core.edit import PutBack
from guardproxy.core.memo import Memo
from guardproxy.core.view import Identity, View
from guardproxy.errors import StoreError

if TYPE_CHECKING:
    from types import ModuleType

    from guardproxy.http.turn import Turn
    from guardproxy.store.chains import Chains

CHAIN = "chain"
"""The kind of what is sealed."""

ITEM = "item:"
"""Begins the name of a call that is remembered by itself."""

RUN_S = 25 * 3600
"""Seconds that an answer is remembered whose run is known by it: as long as runs are."""

NEEDED_S = 8 * 24 * 3600
"""The same where the provider would not understand the next request without it: as long as what waits for people."""

OWN = 2_048
"""Answers that this worker remembers by itself, up to twice as many, for as long as the store is away."""


class Remembered:
    """What answers are remembered by: the store, and what this worker gave itself."""

    def __init__(self, chains: Callable[[], Chains]) -> None:
        self._chains = chains
        self._own = Memo[str, bytes](OWN)
        self.referring: set[str] = set()
        """Tenants (their scopes) of whom requests came that name items by reference: their calls are remembered."""

    async def get(self, org: str, name: str) -> bytes | None:
        """What is kept under a name, sealed: as the store says while it answers, so that what is erased is gone."""
        try:
            return await self._chains().get(org, name)
        except StoreError:
            return self._own[f"{org} {name}"]

    def keep_soon(self, org: str, name: str, sealed: bytes, ttl_s: int, session: str) -> bool:
        """Keep it, here and in the store, in front of what the store is told later; False: it was not told."""
        self._own.keep(f"{org} {name}", sealed)
        return self._chains().keep_soon(org, name, sealed, ttl_s, session)

    async def keep(self, org: str, name: str, sealed: bytes, ttl_s: int, session: str) -> None:
        """Tell the store after all. Where it is away this worker has it."""
        with suppress(StoreError):
            await self._chains().keep(org, name, sealed, ttl_s, session)


def _recalls(surface: ModuleType) -> bool:
    """Whether answers are gone on with by their id there; `hasattr` makes an error in order to say no."""
    return "recall" in vars(surface)


async def recall(turn: Turn) -> None:
    """Find what a request goes on with. Raises BadAsk where it cannot be sent on without it."""
    surface = turn.surface
    if not _recalls(surface):
        return
    if said := surface.continues(turn.ask):
        found = surface.recall(turn.ask, await _kept(turn, said))
        if found is not None:
            turn.ask, *turn.before = found
    if ids := surface.references(turn.ask):
        turn.proxy.books.remembered.referring.add(turn.tenant.scope)
        raws = await asyncio.gather(*[_kept(turn, f"{ITEM}{one}") for one in ids])
        meant = {one: raw for one, raw in zip(ids, raws, strict=True) if raw is not None}
        turn.ask = surface.resolve(turn.ask, meant) if meant else turn.ask


async def _kept(turn: Turn, said: str) -> bytes | None:
    name = _name(turn, said)
    sealed = await turn.proxy.books.remembered.get(turn.tenant.org, name)
    return turn.proxy.sealer.open(CHAIN, name, sealed) if sealed is not None else None


def identity(turn: Turn, found: Identity) -> Identity:
    """Whose turn it is: of the run whose answer it goes on with, unless the client says otherwise (`found`)."""
    if not turn.before or found.session not in ("", turn.before[0]):
        return found
    run, thread = turn.before
    source = found.source if found.session else "previous_response_id"
    return replace(found, session=run, thread=found.thread or thread, source=source, fresh=False)


def keep(turn: Turn, view: View) -> None:
    """Remember the answer of a turn that is over, as the client was given it. Never raises: a turn must be settled."""
    if not _recalls(turn.surface) or turn.outcome.outcome != "answered":
        return
    try:
        if turn.surface.stored(turn.ask):
            _keep(turn, view)
    except Exception:  # noqa: BLE001  # said in the docstring
        turn.proxy.fault("remembering an answer")


def _keep(turn: Turn, view: View) -> None:
    surface, done, ask = turn.surface, turn.outcome, turn.ask
    if turn.tenant.scope in turn.proxy.books.remembered.referring:
        calls = {f"{ITEM}{one}": raw for raw in done.raw_calls() if (one := orjson.loads(raw).get("id"))}
        _put(turn, view.session, calls, RUN_S)
    halted = turn.look is not None and bool(turn.look.watcher.halted)
    upstream = "" if halted else done.response_id
    given = [turn.joint.base.get("id")] if turn.joint is not None else []
    given += [turn.look.watcher.response_id] if turn.look is not None else []
    ids = [str(one) for one in (*given, upstream or turn.reply_id) if one]
    if upstream:
        front = surface.unanswered(done.dropped, done.text)
        front += tuple(raw for back in turn.kept if back.calls for raw in back.after)
    else:
        front = tuple(raw for back in turn.kept for raw in back.before)
    instead = next((back.instead for back in turn.kept if back.instead), "")
    put = tuple(edit for edit in turn.edits if isinstance(edit, PutBack))
    told = (_tokens(turn), done.asked, done.untold)
    said = surface.Said(done.text, done.calls, upstream, front, done.message, instead, put, *told)
    found, needed = surface.keep(ask, said, view.session, view.thread, ids)
    if not (needed or turn.before or turn.opening.identity.fresh):
        return  # this client sends its whole history: nobody goes on by the id, and each turn would take its room
    _put(turn, view.session, found, NEEDED_S if needed else RUN_S)


def _tokens(turn: Turn) -> int:
    """What the provider has of the conversation now: its last input and output. Of an answer that is not there yet the
    output that one has unless it is asked for more.
    """
    used = turn.outcome.usage_or_estimate(turn.need)
    output = used.output
    if turn.outcome.goes_on:
        output = min(output, turn.chosen.policy.default_output_hold)
    return used.input + output


def _put(turn: Turn, session: str, found: Mapping[str, bytes], ttl_s: int) -> None:
    for name, raw in found.items():
        where = _name(turn, name)
        sealed = turn.proxy.sealer.seal(CHAIN, where, raw)
        kept = (turn.tenant.org, where, sealed, ttl_s, session)
        if not turn.proxy.books.remembered.keep_soon(*kept):
            turn.proxy.spawn(turn.proxy.books.remembered.keep(*kept))


def _name(turn: Turn, said: str) -> str:
    """The name in the store: of this tenant's answer, and nobody's who guesses ids."""
    return turn.proxy.printer.hash16(CHAIN, turn.tenant.scope, said).hex()
