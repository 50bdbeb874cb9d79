"""What the client of a judged turn is given: the parts of a stream, signs of life, and one end, whole or streamed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from guardproxy.api.chat import RULE, end_at
from guardproxy.http.whole import whole

if TYPE_CHECKING:
    from guardproxy.http.streamed import Response, Streamed
    from guardproxy.http.turn import Turn

T = TypeVar("T")

ALIVE_S = 10.0
"""Seconds without a byte after which a client that waits is told that somebody is there."""


class Outlet:
    """The way to the client of one turn. `headers`: those of an answer in one piece, the provider's or ours."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._wrote = time.monotonic()
        self._end = b""  # of a stream: its last event, behind which clients read no further
        self._over = False  # it was sent
        self.headers: list[tuple[str, str]] = []

    async def write(self, data: bytes) -> None:
        """Hand bytes on to a client that is streamed to."""
        if data and self._turn.response is not None:
            self._wrote = time.monotonic()
            await self._turn.response.write(data)

    async def flow(self, data: bytes) -> None:
        """Hand on what comes last of an answer, but for its end: what is decided yet stands in front of that."""
        at = 0 if self._end else end_at(data)
        self._end += data[at:]
        await self.write(data[:at])

    def begin(self) -> None:
        """Another attempt is listened to: the end of the answer is that one's."""
        self._end = b""

    async def over(self) -> None:
        """Send the end of a stream that is all given: what is still worked out is for the report."""
        if self._turn.response is not None and self._end:
            await self.write(self._said() + self._end)
            self._end, self._over = b"", True

    def _said(self) -> bytes:
        """What was decided after the headers had left, once. A stream that was halted has said it."""
        turn = self._turn
        if self._over or not turn.late_action:
            return b""
        halted = turn.look is not None and turn.look.watcher.halted and turn.decision.rule == RULE
        return b"" if halted else bytes(turn.surface.comment(turn.decision.action, turn.decision.rule))

    async def alive(self) -> None:
        """Tell a client that is streamed to, now and then, that somebody is there."""
        if not self._over and time.monotonic() - self._wrote >= ALIVE_S:
            await self.write(self._turn.surface.keep_alive())

    async def meanwhile(self, work: Coroutine[object, object, T]) -> T:
        """What takes its time: a client that is streamed to is told now and then that somebody is there."""
        if self._turn.response is None:
            return await work
        task = self._turn.proxy.spawn(work)
        try:
            while not (await asyncio.wait((task,), timeout=ALIVE_S / 2))[0]:
                await self.alive()
        finally:
            task.cancel()  # where the client has left meanwhile
        return task.result()

    async def finish(self, rest: bytes) -> Response:
        """Settle, and hand on the end of the answer: of a stream its rest, else all of it."""
        turn = self._turn
        turn.settle()
        if turn.response is None:
            ours = turn.guard_headers()
            known = {name for name, _ in ours}
            return whole(200, [*[pair for pair in self.headers if pair[0] not in known], *ours], rest)
        return await last(turn.response, self._said() + rest + self._end)


BLANK = (b"\n\n", b"\r\n\r\n", b"\r\r")
"""What ends an event."""


def behind(response: Streamed, words: bytes) -> bytes:
    """Words of ours behind a provider's stream that was left: where an event was half handed on, they must not become
    the rest of it.
    """
    return words if not response.tail or response.tail.endswith(BLANK) else BLANK[0] + words


def whole_events(rest: bytes) -> bytes:
    """`rest` of a stream that broke off, without half an event at its end: nobody has it, and no client takes one
    (HTML Standard, server-sent events: what has no blank line is discarded).
    """
    return rest[: max((rest.rfind(blank) + len(blank) for blank in BLANK if blank in rest), default=0)]


async def last(response: Streamed, rest: bytes) -> Response:
    """The end of a stream. A client that has left meanwhile misses it, and that is all."""
    with suppress(ConnectionResetError):
        if rest:
            await response.write(rest)
        await response.write_eof()
    return response
