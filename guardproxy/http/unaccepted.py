"""The answer of a run that did not pass its checks and was not handed on: kept, sealed, for the person who looks at it.

What the client is told says only that it did not pass, and why; `guardproxy sessions show` shows both to a person. The
newest one of a session is kept, as a checkpoint of a name of its own, for as long as what waits for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from guardproxy.core.model import Call
from guardproxy.errors import StoreError
from guardproxy.http.sealed import ANSWER, Sealer
from guardproxy.store.checkpoints import Checkpoints

if TYPE_CHECKING:
    from guardproxy.http.turn import Turn


@dataclass(frozen=True, slots=True)
class Unaccepted:
    """`wrong`: what each check found. `calls`: of a tool that hands the answer over, as name and arguments."""

    at_ms: int
    text: str
    wrong: tuple[str, ...]
    calls: tuple[tuple[str, str], ...] = ()


def _name(session: str) -> str:
    """Beside the session's checkpoint; no session has this character in its name (`store.state.lua`)."""
    return f"{session}\x1fanswer"


async def keep(turn: Turn, text: str, calls: Sequence[Call], wrong: Sequence[str]) -> None:
    """Put it in the place of the one before. The turn does not wait for it, nor fail with it."""
    proxy, session = turn.proxy, turn.seen.session
    said = {"text": text, "wrong": list(wrong), "calls": [(call.name, call.arguments) for call in calls]}
    sealed = proxy.sealer.seal(ANSWER, session, orjson.dumps(said, default=str))
    with suppress(StoreError):
        await proxy.books.checkpoints.put(turn.opening.org, _name(session), sealed, 0, turn.offset_ms)


async def kept(checkpoints: Checkpoints, sealer: Sealer, org: str, session: str) -> Unaccepted | None:
    """The newest one of a session; None: there is none, or it was sealed under another secret."""
    found = await checkpoints.get(org, _name(session))
    content = sealer.open(ANSWER, session, found.sealed) if found is not None else None
    if found is None or content is None:
        return None
    said = orjson.loads(content)
    return Unaccepted(
        found.at_ms, said["text"], tuple(said["wrong"]), tuple((name, given) for name, given in said["calls"])
    )
