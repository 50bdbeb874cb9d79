"""What is told to telemetry of a turn: one value. Everything else is derived from it.

Times ending in `_ns` are nanoseconds since the epoch when they name a moment (`started_ns`) and plain nanoseconds when
they name a stretch (`begin_ns`). Nothing here holds content: calls are names, ids and fingerprints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from guardproxy.core.model import NO_FP, Decision, Fp, Step, Usage, value
from guardproxy.core.view import View
from guardproxy.telemetry.content import Said

ACTED = frozenset({"nudge", "firm", "refuse", "repair", "finalize", "cut", "pause", "deny"})
"""Actions that are interventions; `pass` and `observe` are not."""

FIRST = "first"
"""Reason of the attempt that every turn makes. Others: reask, repair, verify, finalize; a retry keeps its own."""

FAILOVER = "failover"
"""Reason of an attempt at another upstream, made because the one before it had failed."""

MOST_OBJECTED = 32
"""Calls that the agent did not get which are told one by one in a turn: a model may propose hundreds."""

ACTIVE = frozenset({"", "active"})
"""States of a run that nobody need be told of."""

CLOSING = frozenset({"finalized", "cut", "denied"})
"""Outcomes that end a run at once. A finished run may be taken up again: it closes when it has been idle."""

NO_USAGE = Usage()
"""No tokens."""


@value
class Server:
    """One of several upstreams: its name in the configuration, and where it is."""

    name: str
    address: str
    port: int


@value
class Attempt:
    """One upstream call. `calls` are (tool, id, fingerprint as in `Step.call`) as the model proposed them; of the last
    one those that were handed on, unless it is `kept_back`: then the agent got none of them.

    `reason`: why it was made: first, failover, reask, repair, verify, finalize. `response_model` and `response_id` are
    empty where the report's hold for it; `server` is given where there are several upstreams.
    """

    started_ns: int
    ended_ns: int
    first_chunk_ns: int = 0
    status: int = 0
    error_type: str = ""
    usage: Usage = NO_USAGE
    calls: tuple[tuple[str, str, Fp], ...] = ()
    finish_reason: str = ""
    reason: str = FIRST
    response_model: str = ""
    response_id: str = ""
    server: Server | None = None
    kept_back: bool = False


@value
class Objected:
    """A proposed call that the agent did not get, or in observe mode would not have got. No content.

    `action`: refuse, repair, pause. `rule`: why: a detector's, tools.deny, tools.approval, arguments. `call`: its
    fingerprint; `attempt`: from 1, whose proposal it was; 0 where that is not known: the last one's.
    """

    rule: str
    tool: str
    action: str
    mode: str = "enforce"
    count: int = 0
    call: Fp = NO_FP
    attempt: int = 0


@dataclass(slots=True)
class TurnReport:
    """All that is known of a turn when it is over. Not frozen: `settle_now` makes it, `final_report` adds late times.

    `route` is the template, `status` what the client got, `traceparent` as it came in, `steps` those that the request
    brought and no earlier one did, `facts` the same, packed, where they are at hand (the log has them), `outcome` empty
    unless this turn closes the run, `edits` names of edits carried out, `prompt` the digest by which runs of this agent
    are known, only where a rule spoke.
    `decision` is the request side's; what was done to the answer stands in `objected`. `verification`: "", passed,
    failed; `failed_checks` names the checks. `hygiene`: (name, mode, tool) of results tidied; `approval`: (id, state);
    `late`: tools whose result came after their deadline, or not at all; `missing`: the client did not append the answer
    last given; `state`: the run's from now on, "" or active, paused, need_human, waiting, closed.
    `user`, `labels`: whom and what the client names; never a label of a metric. `team`, `key`: ids of the virtual key
    and of its team, never the key. `policy`: which one decided, and its version. `adopted`: whether a run's trace is
    that of its first request. `trace_id`: in hex, as the answer's header has it. `saved_microusd`: what was not spent
    at least, and in observe mode would not have been (`http.charging`). `said`: gives the texts, where
    they are captured.
    A report without `session` is a pass-through request: it is counted and no more.
    """

    org: str
    session: str
    thread: str
    view: View
    decision: Decision
    started_ns: int
    ended_ns: int
    turn: int = 0
    agent: str = ""
    declared: bool = False
    surface: str = "chat"
    route: str = "/v1/chat/completions"
    method: str = "POST"
    model: str = ""
    response_model: str = ""
    response_id: str = ""
    provider: str = "openai"
    server_address: str = ""
    server_port: int = 0
    stream: bool = False
    status: int = 200
    error_type: str = ""
    traceparent: str = ""
    first_chunk_ns: int = 0
    attempts: tuple[Attempt, ...] = ()
    released: tuple[tuple[str, str, Fp], ...] = ()  # calls handed on without an attempt: a person has allowed them
    usage: Usage = NO_USAGE
    cost_microusd: int | None = None
    edits: tuple[str, ...] = ()
    advice: str = ""
    steps: tuple[Step, ...] = ()
    facts: tuple[bytes, ...] = ()
    outcome: str = ""
    prompt: str = ""
    overhead_request_ns: int = 0
    overhead_response_ns: int = 0
    begin_ns: int = 0
    settle_ns: int = 0
    objected: tuple[Objected, ...] = ()
    verification: str = ""
    failed_checks: tuple[str, ...] = ()
    hygiene: tuple[tuple[str, str, str], ...] = ()
    approval: tuple[str, str] = ("", "")
    late: tuple[str, ...] = ()
    missing: bool = False
    state: str = ""
    user: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    policy: str = ""
    team: str = ""
    saved_microusd: tuple[int, int] = (0, 0)
    key: str = ""
    adopted: bool = True
    said: Callable[[], Said] | None = None
    trace_id: str = ""

    @property
    def trace(self) -> str:
        """What is known of the run's trace: as the store says it, or as the request that begins the run brings it."""
        view = self.view
        if view.traceparent:
            return view.traceparent
        return self.traceparent if self.traceparent and self.adopted and (view.new_session or not self.session) else ""

    @property
    def intervention(self) -> tuple[str, str]:
        """(action, mode) of what was done, or in observe mode would have been; ("", "") for neither."""
        action, would = self.decision.action, self.decision.would
        if action in ACTED:
            return ("", "") if self.objected and self._told_twice(action) else (action, "enforce")
        return (would, "observe") if would in ACTED else ("", "")

    def _told_twice(self, action: str) -> bool:
        """Whether the decision only repeats what is said of a call."""
        return any(one.action == action and one.rule == self.decision.rule for one in self.objected)

    @property
    def eventful(self) -> bool:
        """Whether there is more to tell than the decision; this look is all that most turns pay for the rest."""
        return bool(
            self.objected
            or self.verification
            or self.failed_checks
            or self.hygiene
            or self.late
            or self.missing
            or self.approval[0]
            or len(self.attempts) > 1
            or (self.attempts and self.attempts[-1].kept_back)
            or self.state not in ACTIVE
        )

    @property
    def interventions(self) -> int:
        """How often something was done in this turn, on either side."""
        done = sum([one.mode == "enforce" for one in self.objected]) if self.objected else 0
        return done + (self.intervention[1] == "enforce")

    @property
    def asked(self) -> tuple[str, ...]:
        """Reasons of the attempts after the first that were not made because one had failed."""
        return tuple([attempt.reason for attempt in self.attempts[1:] if attempt.reason not in (FIRST, FAILOVER)])

    def of_last(self, one: Objected) -> bool:
        """Whether the call was proposed by the last attempt."""
        return one.attempt in (0, len(self.attempts))

    @property
    def given(self) -> tuple[tuple[str, str, Fp], ...]:
        """The calls that the agent got."""
        last = self.attempts[-1] if self.attempts else None
        if last is None:
            return self.released
        return () if last.kept_back else last.calls

    @property
    def dropped(self) -> tuple[tuple[str, str, Fp], ...]:
        """Calls of the last attempt that the agent never got, without those that `objected` tells of."""
        last = self.attempts[-1] if self.attempts else None
        if last is None or not last.kept_back:
            return ()
        told = Counter([one.call for one in self.objected if self.of_last(one)])
        left = []
        for call in last.calls:
            if told[call[2]] > 0:
                told[call[2]] -= 1
            else:
                left.append(call)
        return tuple(left)

    @property
    def counted(self) -> bool:
        """Whether it is a turn of its session: admitted, no retry, no side request."""
        view = self.view
        return bool(self.session) and view.admitted and view.counted and not view.retry and not view.closed

    def ordinal(self, index: int) -> int:
        """Ordinal in the thread of `steps[index]`."""
        return self.view.steps - len(self.steps) + index

    def repeats(self, index: int) -> int:
        """Count of the finding whose evidence has `steps[index]`, else 0."""
        finding = self.decision.finding
        return finding.count if finding is not None and self.ordinal(index) in finding.evidence else 0
