"""What people do to a session: pause, resume, cut, reset, extend; and what was done to it. Rules: `run.lua`.

Each method is one trip, answers the session as it stands then, and raises `StoreError` when the server does not answer,
`GuardError` with 404 (`not_found`) for a session there is none of, 409 (`conflict`) where it cannot be done as the
session stands, and 412 (`stale`) where it is not at the version `expect` any more ("" = any; `Known.version`).
`offset_ms` moves the clock in tests.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from guardproxy.core.budget import DIMENSIONS
from guardproxy.core.fact import pack
from guardproxy.core.model import NO_FP, Kind, Step
from guardproxy.errors import GuardError, StoreError
from guardproxy.store._client import Client
from guardproxy.store._codec import AMOUNT, bare, encode, prefix
from guardproxy.store.known import Known, known

STATES = ("active", "paused", "need_human", "waiting")
"""Of runs that are not over, in the order of `tally.lua`."""

PAGE, MOST = 100, 10_000
"""Runs looked at in one call, some half a millisecond of the store's time, and of one org."""

WHO = ("operator", "loop", "budget", "check", "tool")
"""Who may pause a session: a person, or a policy that hands it over to one (`on_cut`, `on_budget`, `final.on_failure`,
`hygiene.errors.on_fatal`).
"""

RECORDS, SAME_MS = 256, 10 * 60_000
"""Turn records of a session, as in settle.lua; how long an equal refusal is none of them."""

_BOUNDARY = encode(pack(Step(Kind.BOUNDARY, "", NO_FP, NO_FP, NO_FP)))
_unpack = msgspec.msgpack.Decoder(tuple[float, str, str, str]).decode


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a session's history. `by`: a person, one of WHO, approval. Milliseconds of the store's clock."""

    at_ms: int
    by: str
    what: str
    why: str


class Runs:
    """The sessions of a store as people handle them, kept for `run_ms`. `Store.runs` is one."""

    def __init__(self, client: Client, run_ms: int) -> None:
        self._client = client
        self._run_ms = run_ms

    async def tally(self, org: str) -> dict[str, int]:
        """How many runs stand how: those of the last quarter of an hour, and those that wait for people."""
        found = dict.fromkeys(STATES, 0)
        for first in range(0, MOST, PAGE):
            words = (str(first).encode(), str(PAGE).encode(), b"0")
            seen, *counts = _integers(await self._client.run("tally", prefix(org).encode(), words))
            for state, count in zip(STATES, counts, strict=True):
                found[state] += count
            if seen < PAGE:
                break
        return found

    async def note(self, org: str, session: str, thread: str, ledger: Mapping[str, bytes]) -> int:
        """Keep ledger entries of a turn that was not admitted; how many were new. A thread must be known for that."""
        head = bare((session, thread, list(ledger)))
        kept = await self._client.run("note", prefix(org).encode(), (head, *ledger.values()))
        return kept if isinstance(kept, int) else 0

    async def pause(
        self,
        org: str,
        session: str,
        by: str,
        why: str = "",
        *,
        who: str = "operator",
        expect: str = "",
        offset_ms: int = 0,
    ) -> Known:
        """Hold and append nothing any more until it is resumed. A call that runs is not stopped.

        `who`: see `WHO`; it is what `View.paused` says. A turn that was refused for its budget holds nothing that could
        be settled: it is paused here.
        """
        return await self._run(org, "pause", session, by, why, who=who, expect=expect, offset_ms=offset_ms)

    async def resume(
        self, org: str, session: str, by: str, why: str = "", *, expect: str = "", offset_ms: int = 0
    ) -> Known:
        """Let a paused session, or one whose thread a loop ended, go on from the foot of the ladder. Limits stay."""
        return await self._run(org, "resume", session, by, why, expect=expect, offset_ms=offset_ms)

    async def cut(
        self, org: str, session: str, by: str, why: str = "", *, expect: str = "", offset_ms: int = 0
    ) -> Known:
        """Close it for good, as rule `operator`. Workers learn from `stopped` that its calls are to be ended."""
        return await self._run(org, "cut", session, by, why, expect=expect, offset_ms=offset_ms)

    async def reset(
        self, org: str, session: str, by: str, why: str = "", *, expect: str = "", offset_ms: int = 0
    ) -> Known:
        """Open it, whatever closed it, with a new request span and without episodes. Its totals stay."""
        return await self._run(org, "reset", session, by, why, expect=expect, offset_ms=offset_ms)

    async def extend(
        self,
        org: str,
        session: str,
        amounts: Mapping[str, int],
        by: str,
        why: str = "",
        *,
        expect: str = "",
        offset_ms: int = 0,
    ) -> Known:
        """Raise limits of this session and of its present span by amounts in the unit counted (see `DIMENSIONS`).

        One that a budget paused or closed goes on. `GuardError` 400 (`bad_amount`) for what cannot be raised.
        """
        raised: dict[str, int] = {}
        for name, amount in amounts.items():
            _check(name, amount)
            letters = "SP" if DIMENSIONS[name].clock else "sp"
            raised |= {f"{letter}:{name}": amount for letter in letters}
        if not raised:
            raise GuardError("nothing to extend: say by how much", status=400, code="bad_amount", param="amounts")
        what = ", ".join(f"{DIMENSIONS[name].setting} +{DIMENSIONS[name].show(by_)}" for name, by_ in amounts.items())
        return await self._run(
            org, "extend", session, by, why, f"extend {what}", raised, expect=expect, offset_ms=offset_ms
        )

    async def stopped(self, org: str, since_ms: int = 0) -> dict[str, int]:
        """Sessions that people cut in the last ten minutes, since a moment of the store's clock; and when that was.

        A turn that began later (`View.now_ms`) belongs to a session that was reset: it goes on.
        """
        found = await self._client.command("ZRANGE", f"{prefix(org)}stopped", since_ms, "+inf", "BYSCORE", "WITHSCORES")
        flat = found if isinstance(found, list) else []
        return {name.decode(): int(float(at)) for name, at in zip(flat[::2], flat[1::2], strict=True)}

    async def refused(self, org: str, session: str, record: bytes, once: str) -> None:
        """Keep the record of a turn that held nothing, which no closing brings; of equal ones (`once`) the first."""
        mark, key = f"{prefix(org)}claim:refused:{session}:{once}", f"{prefix(org)}x:{session}"
        if await self._client.command("SET", mark, "1", "NX", "PX", SAME_MS) is not None:
            await self._client.command("RPUSH", key, record)
            await self._client.command("LTRIM", key, -RECORDS, -1)
            await self._client.command("PEXPIRE", key, self._run_ms)

    async def seal(self, org: str, session: str, started_ms: int, segment: int, *, finalized: bool = False) -> bool:
        """Whether the caller is the one who sends the root of this segment of the session's trace (`seal.lua`).

        `finalized`: the agent may ask on, and that belongs to the same trace.
        """
        words = (session.encode("utf-8", "replace"), str(started_ms).encode(), str(segment).encode())
        token = secrets.token_hex(8).encode()
        return await self._client.run("seal", prefix(org).encode(), (*words, token, b"f" if finalized else b"s")) == 1

    async def history(self, org: str, session: str) -> list[Change]:
        """The newest 256 changes of a session, oldest first."""
        found = await self._client.command("LRANGE", f"{prefix(org)}history:{session}", 0, -1)
        return [_change(raw) for raw in (found if isinstance(found, list) else [])]

    async def _run(
        self,
        org: str,
        act: str,
        session: str,
        by: str,
        why: str,
        what: str = "",
        amounts: Mapping[str, int] | None = None,
        *,
        who: str = "",
        expect: str,
        offset_ms: int,
    ) -> Known:
        head = (act, secrets.token_hex(8), session, who, by, what or act, why, amounts or {}, offset_ms, expect)
        reply: Any = await self._client.run("run", prefix(org).encode(), (bare(head), _BOUNDARY))
        stands = known(org, session, reply[1:])
        if stands is None:
            raise GuardError(f"the store has no session {session!r}", status=404, code="not_found")
        if reply[0] == b"stale":
            raise GuardError(f"session {session} is not as you saw it: it is {stands.state}", status=412, code="stale")
        if reply[0] != b"done":
            waits = stands.by == "approval" and reply[0] == b"going"
            said = _CONFLICTS["waits" if waits else reply[0].decode()]
            said = said.format(by=stands.by, why=f" ({stands.why})" if stands.why else "")
            raise GuardError(f"session {session} {said}", status=409, code="conflict")
        return stands


_CONFLICTS = {
    "closed": "is closed, by {by}{why}; reset opens it again",
    "paused": "is paused already, by {by}{why}",
    "waits": "waits for an approval{why}; that is what has to be decided",
    "going": "is neither paused nor ended by a loop",
}


def _check(name: str, amount: object) -> None:
    row = DIMENSIONS.get(name)
    if row is None or row.judged or row.tenants:
        able = ", ".join(name for name, row in DIMENSIONS.items() if not (row.judged or row.tenants))
        message = f"the limit of {name!r} cannot be raised; those of {able} can"
        raise GuardError(message, status=400, code="bad_amount", param=name)
    if isinstance(amount, bool) or not isinstance(amount, int) or not 0 < amount <= AMOUNT:
        message = f"{name}: {amount!r} is no amount; limits are raised by whole numbers above 0"
        raise GuardError(message, status=400, code="bad_amount", param=name)


def _change(raw: bytes) -> Change:
    try:
        at, by, what, why = _unpack(raw)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StoreError(f"the store holds a change that cannot be read: {error}") from error
    return Change(int(at), by, what, why)


def _integers(reply: object) -> list[int]:
    if not isinstance(reply, list) or len(reply) != 1 + len(STATES):
        raise StoreError("the store gave an answer to tally that cannot be read")
    return [int(one) for one in reply]
