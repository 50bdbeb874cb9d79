"""Calls that are held until a person decides. Keys and rules: `approval.lua`.

Nothing is released without a decision, and nothing twice: `claim` is won by one token. Each method is one trip and
raises `StoreError` when the server does not answer. `offset_ms` moves the clock in tests.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from guardproxy.errors import GuardError, StoreError
from guardproxy.store._client import Client
from guardproxy.store._codec import bare, prefix

VERDICTS = ("approve", "deny", "answer", "expire")
"""What may be decided. `answer` is what a person says to a question, `expire` what a policy says of a late one."""

STATES = ("pending", "approved", "denied", "answered", "expired")
"""What an approval may be. One that is past its time is expired, whether anybody said so or not."""


@dataclass(frozen=True, slots=True)
class Approval:
    """A call, or a question, that waits for a person. Milliseconds of the store's clock (`View.now_ms`).

    `sealed` is what it says and `edited` what was said to it (other arguments, an answer): encrypted by the caller.
    `by` and `why` are of the decision; nobody's where only its time was over. `token`: the attempt that released it.
    `arrived`: whether the agent's next request showed the call that was released (yes, no); "" = there was none yet.
    """

    id: str
    org: str
    session: str
    thread: str
    tool: str
    asked_ms: int
    expires_ms: int
    sealed: bytes = b""
    state: str = "pending"
    decided_ms: int = 0
    by: str = ""
    why: str = ""
    token: str = ""
    edited: bytes = b""
    arrived: str = ""


class RunHeld(GuardError):
    """The run was paused or closed (`state`) by `who` (operator, loop, budget; a rule), because of `why`."""

    status = 409
    code = "run_held"

    def __init__(self, state: str, who: str, why: str) -> None:
        super().__init__(f"the run is {state} by {who}")
        self.state = state
        self.who = who
        self.why = why


_Several = list[Approval]  # in the class, `list` is a method


class Approvals:
    """The approvals of a store. `Store.approvals` is one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def open(self, org: str, approval: Approval, offset_ms: int = 0, *, question: bool = False) -> Approval:
        """Keep one as pending. Asked again with its id, it answers the one that is there as it stands.

        Where its thread waits for another one already (asked by a turn beside it), that is answered, and none is kept.
        `question`: the user's next words answer it, too.
        """
        fields = {name: getattr(approval, name) for name in ("session", "thread", "tool", "asked_ms", "expires_ms")}
        fields["question"] = int(question)
        found = await self._run(org, "open", approval.id, fields, offset_ms, approval.sealed)
        return _approval(org, found[1])

    async def decide(
        self, org: str, approval: str, verdict: str, by: str, why: str = "", sealed: bytes = b"", offset_ms: int = 0
    ) -> str:
        """Decide a pending one; answers its new state. `sealed`: arguments as edited, or the answer.

        `GuardError`: 400 for a verdict there is none of, 404 for an id there is none of, 409 (`already_decided`) where
        it was decided before, or its time is over.
        """
        if verdict not in VERDICTS:
            raise GuardError(
                f"{verdict!r} is no verdict; there are {', '.join(VERDICTS)}", status=400, code="bad_verdict"
            )
        fields = {"verdict": verdict, "by": by, "why": why}
        found = await self._run(org, "decide", approval, fields, offset_ms, sealed)
        if found[0] == b"unknown":
            raise GuardError(
                f"the store has no approval {approval!r}; guardproxy approvals list shows them",
                status=404,
                code="not_found",
            )
        one = _approval(org, found[1])
        if found[0] == b"decided":
            who = f"by {one.by}" if one.by else "when its time was over"
            raise GuardError(f"approval {approval} was {one.state} before, {who}", status=409, code="already_decided")
        return one.state

    async def forbid(self, org: str, approval: str, by: str, why: str = "", offset_ms: int = 0) -> Approval | None:
        """Deny one that was approved, and not released yet, because of a rule (`by`). Answers it as it stands then."""
        found = await self._run(org, "forbid", approval, {"by": by, "why": why}, offset_ms)
        return _approval(org, found[1]) if found[1] else None

    async def claim(self, org: str, approval: str, token: str, offset_ms: int = 0) -> bool:
        """Whether `token` may release the call: one token ever, and only of an approved one.

        `RunHeld` where the run was paused or closed meanwhile: the call stays approved, and waits on.
        """
        found = await self._run(org, "claim", approval, {"token": token}, offset_ms)
        state = found[0].decode()
        if state in ("paused", "closed"):
            raise RunHeld(state, *[text.decode("utf-8", "replace") for text in found[1:]])
        won: bool = state == "won"
        return won

    async def unclaim(self, org: str, approval: str, token: str, offset_ms: int = 0) -> bool:
        """Take back what `token` may have claimed and not released; whether it had. Another token may claim then."""
        had: int = await self._run(org, "unclaim", approval, {"token": token}, offset_ms)
        return had == 1

    async def arrived(self, org: str, approval: str, shown: bool, offset_ms: int = 0) -> None:  # noqa: FBT001  # the fact itself
        """Keep whether the agent's history shows the call that it was handed; once it did, that stays."""
        await self._run(org, "arrived", approval, {"arrived": "yes" if shown else "no"}, offset_ms)

    async def get(self, org: str, approval: str, offset_ms: int = 0) -> Approval | None:
        """One approval as it stands, or None."""
        found = await self._run(org, "get", approval, {}, offset_ms)
        return _approval(org, found[1]) if found[1] else None

    async def list(self, org: str, state: str = "pending", offset_ms: int = 0) -> _Several:
        """At most 256 in a state ("" = any), in the order they were asked. Nothing is changed by looking."""
        found = await self._run(org, "list", "", {"state": state}, offset_ms)
        return sorted((_approval(org, one) for one in found[1:]), key=lambda one: (one.asked_ms, one.id))

    async def due(self, org: str, offset_ms: int = 0) -> _Several:
        """Those whose time ran out since the last call: each is handed out once, to one caller, at most 256 in one."""
        return [_approval(org, one) for one in (await self._run(org, "due", "", {}, offset_ms))[1:]]

    async def _run(
        self, org: str, act: str, approval: str, fields: dict[str, Any], offset_ms: int, sealed: bytes = b""
    ) -> Any:
        head = bare((act, secrets.token_hex(8), approval, fields, offset_ms))
        return await self._client.run("approval", prefix(org).encode(), (head, sealed))


def _approval(org: str, flat: Sequence[bytes]) -> Approval:
    """An approval from the hash that is kept of it; what another version wrote beside it is left out."""
    kept = dict(zip(flat[::2], flat[1::2], strict=True))
    try:
        fields: dict[str, Any] = {name: kept[name.encode()].decode() for name in _TEXTS if name.encode() in kept}
        fields |= {name: int(kept.get(name.encode(), b"0")) for name in _TIMES}
    except ValueError as error:  # of decode too
        raise StoreError(f"the store holds an approval that cannot be read: {error}") from error
    return Approval(org=org, **fields, sealed=kept.get(b"sealed", b""), edited=kept.get(b"edited", b""))


_TEXTS = ("id", "session", "thread", "tool", "state", "by", "why", "token", "arrived")
_TIMES = ("asked_ms", "expires_ms", "decided_ms")
