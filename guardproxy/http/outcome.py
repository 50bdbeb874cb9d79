"""What became of a turn: filled while it is served, read when it is settled and reported."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from guardproxy.core import pricing
from guardproxy.core.budget import Need
from guardproxy.core.edit import PutBack, Reject
from guardproxy.core.model import Call, Message, Usage
from guardproxy.core.proposals import Objection
from guardproxy.errors import GuardError, UpstreamError

if TYPE_CHECKING:
    from guardproxy.http.sealed import Held
    from guardproxy.http.upstream import Upstream

NO_USAGE = Usage()
"""No tokens."""


class Seen(Protocol):
    """What a surface's watcher says of an answer at its end."""

    @property
    def calls(self) -> tuple[Call, ...]: ...
    @property
    def text(self) -> str: ...
    @property
    def text_chars(self) -> int: ...
    @property
    def produced_chars(self) -> int: ...
    @property
    def call_count(self) -> int: ...
    @property
    def usage(self) -> Usage | None: ...
    @property
    def response_model(self) -> str: ...
    @property
    def response_id(self) -> str: ...
    @property
    def finish_reason(self) -> str: ...
    @property
    def complete(self) -> bool: ...


LOST = frozenset({"upstream_broken", "upstream_timeout"})
"""Codes of errors that came in the place of an answer, or of its rest."""

UNDER_WAY = frozenset({"queued", "in_progress"})
"""How an answer ends that is made in the background, and fetched later."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """An attempt of this turn that was not the last: what the model proposed in it was sent back. See `Outcome`.

    `moved`: nothing was proposed; another upstream was asked the same in its place.
    """

    reason: str
    usage: Usage | None
    produced_chars: int
    calls: tuple[Call, ...]
    finish_reason: str
    status: int
    started_ns: int
    first_chunk_ns: int
    ended_ns: int
    error_type: str = ""  # of one that failed
    upstream: Upstream | None = None
    moved: bool = False
    lost: bool = False  # see `Outcome`, as for `whole` and `partial`
    whole: bool = False
    partial: bool = False
    goes_on: str = ""  # its id, where it is made in the background, and was left in the middle

    def used(self, need: Need) -> Usage:
        """What it used: the provider's figures, else estimated input and what was produced, marked so."""
        if self.usage is not None and not self.goes_on:
            return _so_far(self.usage, self.produced_chars) if self.partial else self.usage
        if self.error_type and not self.produced_chars and not self.lost:
            return NO_USAGE
        output = pricing.estimate_output(self.produced_chars)
        if (self.lost and self.whole) or self.finish_reason in UNDER_WAY or self.goes_on:
            output = max(output, need.output_tokens)
        return Usage(input=need.input_tokens, output=output, estimated=True)


class Outcome:
    """`outcome`: answered, failed, abandoned. `answer`: calls, text, empty, own. Times in nanoseconds.

    No dataclass: one is made for each turn, and there nearly all of it stays as it stands here.
    """

    outcome: str = "abandoned"
    answer: str = ""
    status: int = 0
    error_type: str = ""
    calls: tuple[Call, ...] = ()
    dropped: tuple[Call, ...] = ()
    hosted: tuple[tuple[Call, Message | None], ...] = ()  # calls that the provider has carried out, with their results
    raw_calls: Callable[[], tuple[bytes, ...]] = tuple  # those of the provider's answer, in the surface's form
    written: tuple[Call, ...] = ()  # calls that stand in the text, of an agent that has no others
    text: str = ""
    text_chars: int = 0
    produced_chars: int = 0  # text, thoughts and arguments over all choices, of dropped calls too
    call_count: int = 0  # of the calls delivered, more than are kept perhaps
    usage: Usage | None = None
    response_model: str = ""
    response_id: str = ""
    finish_reason: str = ""
    sent: bool = False  # something left for the provider
    whole: bool = False  # the answer comes in one piece: who leaves before does not see it, but it is made
    background: bool = False  # asked for so: the provider makes it to its end, whoever reads it
    most: int = 0  # tokens of output that the request allows such an answer
    blind: bool = False  # the answer could not be looked into
    partial: bool = False  # the answer ended in the middle, so usage that came with it may be of its beginning
    thought: bool = False  # its client left it, and more may have been thought than was seen
    lost: bool = False  # no answer, or none to its end: the provider may have carried the request out
    too_long: bool = False  # the provider refused the conversation for its length
    upstream: Upstream | None = None  # whom the last attempt asked, where there are several
    upstream_status: int = 0
    upstream_started_ns: int = 0
    first_chunk_ns: int = 0
    ended_ns: int = 0
    begin_ns: int = 0
    settle_ns: int = 0
    errors: list[str]
    reason: str = "first"  # of the last attempt: first, failover, reask, repair, verify, finalize
    earlier: tuple[Earlier, ...] = ()  # the attempts before the last
    objected: tuple[tuple[Objection, Call, int], ...] = ()  # with the call and the attempt, from 1
    verification: str = ""  # of the final answer: passed, failed; "" = not looked at
    failed_checks: tuple[str, ...] = ()
    hygiene: tuple[tuple[str, str, str], ...] = ()  # (kind, mode, tool) of the results that were tidied
    late: tuple[str, ...] = ()  # tools that were past their deadline
    approval: tuple[str, str] = ("", "")  # id and state
    decided: tuple[PutBack, ...] = ()  # what stands in the request because of it, from now on
    untold: tuple[bytes, ...] = ()  # of what was sent back, with its results, what the provider has not been sent
    waits_for: str = ""  # id of the approval that the thread waits for from now on
    message: bytes = b""  # an answer that was kept back, and is given now
    notices: list[str]  # for the header of that name
    stands: str = ""  # our words in the place of calls that were taken out, where no text was left
    held: Held | None = None  # what it is about, where the client was told that it waits
    status_after: str = "active"  # of the thread: active, need_human, waiting

    def __init__(self, **known: Any) -> None:
        self.errors, self.notices = [], []
        for name, value in known.items():
            setattr(self, name, value)

    def fail(self, error: GuardError) -> None:
        """The turn ended in an error of ours or of the provider's."""
        self.outcome, self.error_type = "failed", error.code
        self.lose(error)

    def lose(self, error: GuardError) -> None:
        """Note whether the attempt that ended so may be billed: all that left for the provider and had no answer."""
        gone = isinstance(error, UpstreamError) and not error.unsent and (error.code in LOST or error.made)
        self.lost = gone and self.upstream_status < 400

    def reject(self, edit: Reject) -> None:
        """The turn was answered with an error on purpose."""
        self.outcome, self.error_type = "failed", edit.code

    def own(self, text: str) -> None:
        """The turn was answered in our words."""
        self.outcome, self.answer, self.status, self.text = "answered", "own", 200, text
        self.text_chars = 0  # nobody is charged for our words

    @property
    def asked(self) -> bool:
        """Whether anything of the turn has left for a provider."""
        return self.sent or bool(self.earlier)

    @property
    def asked_back(self) -> bool:
        """Whether something was sent back to the model; an attempt that another upstream took over is none of that."""
        return bool(self.earlier) and not all(one.moved for one in self.earlier)

    def pass_over(self, seen: Seen | None, error_type: str = "", *, moved: bool = False) -> None:
        """An attempt is over whose answer is not handed on: the next one begins with nothing. None: none was seen."""
        one = Earlier(
            self.reason,
            seen.usage if seen else None,
            seen.produced_chars if seen else 0,
            seen.calls if seen else (),
            seen.finish_reason if seen else "",
            self.upstream_status,
            self.upstream_started_ns,
            self.first_chunk_ns,
            time.time_ns(),
            error_type,
            self.upstream,
            moved,
            self.lost,
            self.whole or self.background,
            self.partial or (seen is not None and not seen.complete),
            seen.response_id if self.background and seen and not seen.complete and not error_type else "",
        )
        self.earlier += (one,)
        self.usage, self.produced_chars, self.first_chunk_ns = None, 0, 0
        self.calls, self.dropped, self.call_count, self.text, self.text_chars = (), (), 0, "", 0
        self.sent = self.lost = self.partial = False

    def released(self, message: Message, raw: bytes = b"") -> None:
        """The turn was answered with calls that a person has allowed; `raw`: in the surface's form."""
        self.message = raw
        self.outcome, self.answer, self.status = "answered", "calls", 200
        self.calls, self.call_count, self.text = message.calls, len(message.calls), message.text

    def read(self, seen: Seen, *, dropped: bool) -> None:
        """Take over what the watcher saw of the provider's answer. `dropped`: its calls were taken out."""
        self.text, self.text_chars, self.usage = seen.text, seen.text_chars, seen.usage
        self.produced_chars = seen.produced_chars
        self.response_model, self.response_id = seen.response_model, seen.response_id
        self.finish_reason = seen.finish_reason
        self.calls = () if dropped else seen.calls
        self.call_count = 0 if dropped else seen.call_count
        self.dropped = seen.calls if dropped else ()
        self.outcome = "answered" if seen.complete else "failed"
        self.partial = not seen.complete
        if self.calls:
            self.answer = "calls"
        elif self.text_chars:
            self.answer = "text"
        else:
            self.answer = "own" if dropped else "empty"

    def wrote(self, calls: tuple[Call, ...]) -> None:
        """The answer's text makes these calls: it is no final answer."""
        if calls and self.answer == "text":
            self.answer, self.written, self.call_count = "calls", calls, len(calls)

    def total(self, need: Need) -> Usage:
        """What all attempts of the turn used."""
        used = self.usage_or_estimate(need)
        if not self.earlier:
            return used
        return pricing.together([*(one.used(need) for one in self.earlier), used])

    def usage_or_estimate(self, need: Need) -> Usage:
        """What the last attempt used: the provider's figures, else estimated input and what was produced, marked so.

        A call that was refused, or never reached the provider, is not charged. What is made where nobody sees it (a
        whole answer whose client left or that was lost, one in an encoding that is not read, one that is made in the
        background, the thoughts in a stream that its client left) is charged as it was held.
        """
        produced, usage, goes_on = self.produced_chars, self.usage, self.goes_on
        if usage is not None and not goes_on and (usage.input or usage.output or not produced or usage != NO_USAGE):
            return _so_far(usage, produced) if self.partial else usage
        refused = (self.outcome == "failed" and not self.lost) or self.upstream_status >= 400
        if not self.sent or (refused and not produced and not self.blind):
            return NO_USAGE
        output = pricing.estimate_output(produced)
        if goes_on or self.blind or self.thought or (self.whole and (self.outcome == "abandoned" or self.lost)):
            output = max(output, need.output_tokens, min(self.most, pricing.MOST) if goes_on else 0)
        so_far = usage if goes_on and usage is not None else NO_USAGE
        given = max(need.input_tokens, so_far.input)
        return Usage(input=given, output=max(output, so_far.output), estimated=True)

    @property
    def goes_on(self) -> bool:
        """Whether the provider makes more of the answer than was seen: what it used is not known yet."""
        under_way = self.finish_reason in UNDER_WAY
        if not (under_way or self.background):  # as nearly all are
            return False
        if not self.sent or self.upstream_status >= 400 or (self.outcome == "failed" and not self.lost):
            return False
        if under_way:  # some say so of every answer, with all of its usage
            return self.background or self.usage is None or not self.usage.output
        return self.partial or self.outcome != "answered"

    def first_chunk(self) -> None:
        """Note the moment of the first byte of the answer's body."""
        if not self.first_chunk_ns:
            self.first_chunk_ns = time.time_ns()


def _so_far(usage: Usage, produced_chars: int) -> Usage:
    """Usage of an answer that ended in the middle. Its output is at least what was seen of it: there are providers who
    say at the beginning what the input is, and of the output only at the end.
    """
    made = pricing.estimate_output(produced_chars)
    return usage if usage.output >= made else replace(usage, output=made, estimated=True)
