"""Events for a server of the user's: an approval is asked for or decided, a run is paused or cut.

`tell` never waits: an event goes into a queue, a task sends it. Each event has one id and one body, whatever happens:
it is sent until it is taken, with pauses that grow, and the receiver knows a repetition by the id. An event that nobody
takes is given up after ATTEMPTS, said in the log and counted; when the queue is full, the newest is.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import aiohttp

from guardproxy.core.memo import Memo
from guardproxy.http.signed import Received, Receiver, open_session, post

ATTEMPTS = 6
"""Times that an event is sent at most: with the pauses below about half a minute, a restart of the receiver."""

FIRST_PAUSE_S = 0.5
"""Seconds before the second attempt; each pause is twice the one before."""

WAITING = 1000
"""Events in the queue: a receiver that is down must not fill the memory."""

KNOWN = 4096
"""Ids of events that are remembered, so that each is sent once however often it is told."""

_RUN = {
    "rule": "why: `completion.NAME` of a check, `budget.NAME` of a limit of the run, `operator` of a person, else the "
    "loop's rule",
    "reason": "the same in words, without content",
    "turn": "number of the turn that ended so",
    "thread": "the conversation in the session",
}
EVENTS: Mapping[str, Mapping[str, str]] = {
    "approval.asked": {
        "approval": "its id, for `guardproxy approvals` (`show`, `approve`, `deny`, `answer`)",
        "tool": "the tool that the model wants to call",
        "rule": "`tools.approval`, or `tools.human` for a question",
        "reason": 'the `reason` of the rule in the configuration; "" = it has none',
        "question": 'of `tools.human`: what the model asks, its first 600 characters (content!); "" otherwise',
        "expires_ms": "when nobody may decide any more, in milliseconds since 1970",
    },
    "approval.decided": {
        "approval": "its id",
        "tool": "the tool",
        "rule": "as above",
        "state": "`approved`, `denied`, `answered` or `expired`",
        "by": 'who decided; "" = nobody did in time',
        "why": "the reason that they gave",
    },
    "budget.soft": {
        "scope": "whose budget: org, team, key, user or model",
        "name": "the name of that org, team, key, user or model",
        "kind": "what is limited, as in the configuration: tokens, cost, requests, ...",
        "window": "hour, day, week, month or total",
        "percent": "the soft limit that was passed",
        "limit": "the hard limit, in the units of the configuration",
        "used": "how much of it is used",
        "resets_at": "when the window ends; null = it does not",
    },
    "run.paused": _RUN,
    "run.cut": _RUN,
}
"""What there is to tell: each kind with the fields of its `data`, as `docs/webhooks.md` has them."""

GRACE_S = 5.0
"""Seconds that closing waits for what is in the queue."""

_log = logging.getLogger(__name__)
_AGAIN = frozenset((408, 425, 429))
"""Statuses beside 5xx after which the same request may be taken later."""


@dataclass(frozen=True, slots=True)
class Event:
    """`id`: unique to what happened. `kind`: approval.asked, approval.decided, run.paused, run.cut,
    budget.soft. `at_ms`: when.
    """

    id: str
    kind: str
    at_ms: int
    org: str
    session: str
    data: Mapping[str, object] = field(default_factory=dict, hash=False)

    def body(self) -> bytes:
        """The event as JSON; what is no JSON in its data is written as text."""
        said = {
            "id": self.id,
            "type": self.kind,
            "at_ms": self.at_ms,
            "org": self.org,
            "session": self.session,
            "data": dict(self.data),
        }
        return json.dumps(said, separators=(",", ":"), default=str).encode()


def _nothing(_outcome: str) -> None:
    return


class Webhook:
    """Sends events to one receiver, in the order told. `ended` hears of each: sent, refused, given_up, dropped."""

    def __init__(
        self, to: Receiver, *, first_pause_s: float = FIRST_PAUSE_S, ended: Callable[[str], None] = _nothing
    ) -> None:
        self._to = to
        self._first_pause_s = first_pause_s
        self._ended = ended
        self._queue: deque[Event] = deque()
        self._known: Memo[str, bool] = Memo(KNOWN)
        self._more = asyncio.Event()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def tell(self, event: Event) -> bool:
        """Queue an event; False: it was told before, the queue is full, or this is closed. Call it inside the loop."""
        if self._closing.is_set() or self._known[event.id]:
            return False
        if len(self._queue) >= WAITING:
            self._end(event, "dropped", "the queue is full")
            return False
        self._known.keep(event.id, True)
        self._queue.append(event)
        self._more.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        return True

    async def close(self, grace_s: float = GRACE_S) -> None:
        """Send what is queued, each event once more at most, for `grace_s` at most; then stop."""
        self._closing.set()
        self._more.set()
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=grace_s)
            self._task.cancel()
            await asyncio.wait((self._task,))
        while self._queue:
            self._end(self._queue.popleft(), "given_up", "the proxy stops")

    async def _run(self) -> None:
        async with open_session(self._to) as session:
            while self._queue or not self._closing.is_set():
                if self._queue:
                    await self._deliver(session, self._queue[0])  # stays in the queue: closing tells what was not sent
                    self._queue.popleft()
                else:
                    self._more.clear()
                    await self._more.wait()

    async def _deliver(self, session: aiohttp.ClientSession, event: Event) -> None:
        try:
            body, pause_s = event.body(), self._first_pause_s
        except (ValueError, RecursionError, TypeError) as error:  # must not end the task that sends the others
            self._end(event, "refused", f"it cannot be written ({type(error).__name__})")
            return
        for attempt in range(1, ATTEMPTS + 1):
            received = await post(session, self._to, body, request_id=event.id, now_s=int(time.time()))
            if 200 <= received.status < 300:
                self._ended("sent")
                return
            if not _worth_again(received):
                self._end(event, "refused", f"the receiver answered {received.status}")
                return
            if self._closing.is_set() or attempt == ATTEMPTS:
                break
            await self._pause(pause_s)
            pause_s *= 2
        self._end(event, "given_up", received.wrong or f"the receiver answered {received.status}")

    async def _pause(self, seconds: float) -> None:
        """Wait, but not when this closes."""
        waiting = asyncio.ensure_future(self._closing.wait())
        await asyncio.wait((waiting,), timeout=seconds)
        waiting.cancel()

    def _end(self, event: Event, outcome: str, why: str) -> None:
        _log.warning("webhook to %s: event %s (%s) was not taken: %s", self._to.origin, event.id, event.kind, why)
        self._ended(outcome)


def _worth_again(received: Received) -> bool:
    return received.status in (0, *_AGAIN) or received.status >= 500
