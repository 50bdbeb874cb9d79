"""What the store is told about a turn (Opening, Closing) and what it answers (View). Values only.

The store never looks into a fact: `facts`, `episodes`, `records` and `ledger` values are opaque bytes to it.
Times are milliseconds of the store's clock (plus the offset given); amounts are integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, NamedTuple

from guardproxy.core.model import Line, Usage, value


@value
class RoundFact:
    """One assistant message of the request with its results, as facts.

    `digest` says which calls (or which text) the assistant made, without ids and results: it is compared with the
    round that `settle` recorded as delivered. `counts` are counters to raise when the facts are appended
    (`tool:<name>` and `call:<hex>` to how many), kept per request span.
    """

    digest: str
    index: int  # of the assistant message in the request
    facts: tuple[bytes, ...]
    counts: Mapping[str, int] = field(default_factory=dict)


@value
class Identity:
    """Whose turn this is, as far as the request says. All digests are keyed hex strings.

    `session` is the declared id, already namespaced by tenant ("" = derive). `fresh`: no assistant turn in the
    request. `links`: digests under which the newest assistant round may have been delivered, most specific first.
    `spoken`: that round is a reply without calls, not ours, and words of the user follow it (no harness form): unless
    it was delivered, these may be examples in a prompt, and no history. `owner`: what names of this tenant's sessions
    begin with, those that are made up here too.
    """

    session: str
    thread: str
    head: str
    fresh: bool
    links: tuple[str, ...]
    source: str
    spoken: bool = False
    owner: str = ""

    def named(self, links: tuple[str, ...]) -> tuple[str, ...]:
        """The links as this session and thread have them: under other names the same round was given to others."""
        if not self.session and not self.thread:
            return links
        return tuple([f"{self.session}\x1f{self.thread}\x1f{link}" for link in links])


@value
class TurnFact:
    """What a request adds. `conversation` is the digest by which a retry is known.

    `user` is the digest of the last user text ("" if there is none or it is a harness form). `boundary` is the fact
    to append when a request span opens, `blank` the one to append for an equal request after an empty answer.
    """

    conversation: str
    count: int
    rounds: tuple[RoundFact, ...]
    user: str
    boundary: bytes
    blank: bytes
    since: Callable[[str], RoundFact | None] | None = None  # of a newest round with several calls, see `grown`

    def grown(self, delivered: str) -> bool:
        """Whether the newest round is an old one that has grown by the answer delivered last: then that alone is left.

        A client that takes two answers of one id for one message (Claude Code) puts the calls and results of both into
        one round, and those of the next one, too.
        """
        newest = self.since(delivered) if self.since else None
        if newest is not None:
            told: Any = self
            told.rounds, told.since = (*self.rounds[:-1], newest), None
        return newest is not None


@value
class Opening:
    """Everything `begin` needs. `token` is unique per attempt; a second call with it answers the same again."""

    token: str
    org: str
    identity: Identity
    fact: TurnFact
    lines: tuple[Line, ...]
    lease_ms: int
    tooled: bool = True  # the request offers tools; one without on a session that has them costs, but is no turn
    traceparent: str = ""  # as the client sent it; kept only when this opens the session
    payer: str = ""  # whose row of the ledger of usage it is (`core.usage.payer`); "" = nobody's
    need: tuple[int, int, int] = (0, 0, 0)  # tokens in and out and micro-dollars that the row gets if the worker dies
    offset_ms: int = 0
    aside: bool = False  # it costs, and is no turn of any session


class Spent(NamedTuple):
    """Where one budget line stands after `begin`: what is used and held (this hold included when admitted)."""

    line: Line
    used: int
    held: int


@value
class View:
    """What `begin` answers; everything that `decide` may know beside the request.

    `admitted` False: nothing was held; `short` are the lines that did not fit. `closed`: this thread was cut
    (`closed_by` says which rule) or the session was; then `answers` is how many answers it had since (this one
    included) and nothing was held or appended. `equal` counts equal requests running after complete answers with
    content: an agent that forgets to append. `ring` holds the newest facts, oldest first, new ones included; `steps`
    is the ordinal after the newest. `ledger` maps anchors to (encrypted) texts.
    """

    session: str
    thread: str
    turn: int
    now_ms: int
    retry: bool = False
    admitted: bool = True
    short: tuple[Line, ...] = ()
    spent: tuple[Spent, ...] = ()
    closed: bool = False
    closed_by: str = ""
    answers: int = 0
    rearmed: int = 0
    equal: int = 0
    steps: int = 0
    ring: tuple[bytes, ...] = ()
    episodes: tuple[bytes, ...] = ()
    ledger: Mapping[str, bytes] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    span: int = 0
    span_started_ms: int = 0
    session_started_ms: int = 0
    new_session: bool = False
    counted: bool = True  # False: no turn (a request without tools on a session that has them)
    main: bool = True  # the session's main thread, whose end is the session's
    panic: bool = False  # every intervention is switched off
    exempt: int = 0  # version of the exemptions that stand in the org; 0 = there is none
    degraded: bool = False  # answered by local memory: the store was not reachable
    traceparent: str = ""  # as it came with the session's first request: the trace that its spans join
    since_ms: int = 0  # since the thread's last answer; 0 = there was none
    status: str = "active"  # of the thread before this request: active, need_human, waiting
    missing: bool = False  # the answer last given is not in this history, which has grown: the client did not append it
    carried: bool = False  # the newest round of this history was given out under this head
    paused: str = ""  # who holds the session or thread: `store.runs.WHO`, approval; nothing was held or appended
    paused_why: str = ""
    approval: str = ""  # id of the approval that the thread waits for, or that was decided meanwhile
    approval_state: str = ""  # pending, approved, denied, answered, expired


@value
class Closing:
    """Everything `settle` needs. Without a hold under `token` it does nothing.

    `outcome`: answered (complete), failed, abandoned (client left). `answer`: calls, text (a final answer handed on),
    empty, own (our words). `close` names the rule that cuts the thread; `close_session` cuts the session.
    """

    token: str
    org: str
    session: str
    thread: str
    outcome: str
    answer: str
    spent: Mapping[str, int]  # dimension -> amount really used
    delivered: str = ""  # digest of the round that the client was given
    links: tuple[str, ...] = ()
    facts: tuple[bytes, ...] = ()
    episodes: tuple[bytes, ...] = ()
    ledger: Mapping[str, bytes] = field(default_factory=dict)
    close: str = ""
    close_session: bool = False
    record: bytes = b""  # one line of the turn log, without content
    usage: Usage = Usage()
    offset_ms: int = 0
    count: int = 0  # messages in the request, to tell links of one digest apart
    status: str = "active"  # of the thread from now on: active, need_human, waiting
    waits_for: str = ""  # id of the approval that the thread waits for from now on
    pause: str = ""  # who pauses the session now (`store.runs.WHO`); `pause_why` says why
    pause_why: str = ""
    charge: tuple[int, ...] = ()  # what the payer's row gets (`core.usage.Charge.numbers`)
    later: tuple[str, ...] = ()  # of an answer made in the background: its name, and how it is priced while it is owed
