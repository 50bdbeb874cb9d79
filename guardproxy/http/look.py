"""Our look at a provider's answer: the surface's watcher, behind a decoder where the answer is encoded.

What was seen becomes the turn's outcome here, whoever relays the answer.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from guardproxy.api.chat import OFF, RULE
from guardproxy.core import pricing
from guardproxy.core.edit import DropCalls, SpliceUsage
from guardproxy.core.model import Rung
from guardproxy.core.rounds import calls_in
from guardproxy.errors import UpstreamError
from guardproxy.http import deciding
from guardproxy.http.exchange import Answer
from guardproxy.http.upstream import Inflater

if TYPE_CHECKING:
    from types import ModuleType

    from guardproxy.api.chat import Gate, Joint
    from guardproxy.http.turn import Turn

SHOWN = 300
"""Characters of a provider's answer that is not JSON which are shown in the error."""


BEGINNING, SPACE = 64, b" \t\r\n\xef\xbb\xbf"
"""Bytes of an answer that show what it is, and what may stand in front of JSON, a byte order mark among it."""

BEGUN = (b"{", b"data:", b"event:")
"""How answers begin, of whose rest nobody can make anything. What is none (a page of a gateway) was not made."""


class Look:
    """One answer. `drop`: its calls are taken out. With a gate, calls wait until they are judged. `body`: all of it,
    where that is there: then that says what it is, whatever it is called.
    """

    def __init__(
        self,
        turn: Turn,
        answer: Answer,
        *,
        gate: Gate | None = None,
        joint: Joint | None = None,
        drop: DropCalls | None = None,
        body: bytes = b"",
    ) -> None:
        surface: ModuleType = turn.surface
        encoding = answer.header("content-encoding").strip().lower()
        plain = encoding in ("", "identity")
        self._encoding, self._most = encoding, turn.proxy.limits.max_expanded
        self._inflater = None if plain else Inflater(encoding, self._most)
        good = answer.status < 400
        if good and drop is None and turn.edits:
            drop = next((edit for edit in turn.edits if isinstance(edit, DropCalls)), None)
        judged = gate is not None or joint is not None or drop is not None
        self.decoded = judged and self._inflater is not None and not self._inflater.blind
        """The client is given what the encoding held: what is judged, or cut, cannot be handed on in it."""
        good = good and (self._inflater is None or self.decoded)
        edits = turn.edits if good else ()
        self.drop = drop if good else None
        strip = bool(edits) and any(isinstance(edit, SpliceUsage) for edit in edits)
        more = {"gate": gate, "joint": joint} if gate is not None or joint is not None else {}
        self.watcher = surface.watch(
            turn.ask,
            strip_usage=strip,
            drop=self.drop,
            status=answer.status,
            content_type="application/json" if body and self._is_object(body) else answer.content_type,
            options=turn.chosen.options if good and not turn.seen.panic else OFF,
            language=turn.language,
            **more,
        )

    @property
    def encoded(self) -> bool:
        """Whether the client is given the answer in the provider's encoding."""
        return self._inflater is not None and not self.decoded

    @property
    def blind(self) -> bool:
        """Whether its encoding cannot be looked into."""
        return self._inflater is not None and self._inflater.blind

    @property
    def seen(self) -> bool:
        """Whether the answer is complete, or says that it failed."""
        return bool(self.watcher.complete or self.watcher.failed)

    def feed(self, chunk: bytes) -> bytes:
        """The bytes for the client."""
        if self._inflater is None:
            out: bytes = self.watcher.feed(chunk)
            return out
        out = self.watcher.feed(self._inflater.feed(chunk))
        return out if self.decoded else chunk

    def plain(self, data: bytes) -> bytes:
        """A whole body without its encoding; what cannot be read is empty."""
        return data if self._inflater is None else Inflater(self._encoding, self._most).feed(data)

    def _is_object(self, body: bytes) -> bool:
        return self.plain(body)[:BEGINNING].lstrip(SPACE).startswith(b"{")

    def finish(self) -> bytes:
        """What is left for the client at the end."""
        rest: bytes = self.watcher.finish()
        return b"" if self.encoded else rest

    def readable_json(self, data: bytes) -> bool:
        """Whether the answer is JSON, as far as we can look into it. Half of one is none, in any encoding."""
        if self.watcher.complete or (self.encoded and self.blind):
            return True
        try:
            json.loads(self.plain(data), strict=False)
        except (ValueError, RecursionError):
            return False
        return True


def take_over(turn: Turn, look: Look, *, dropped: bool) -> None:
    """The answer is there: what was seen of it is the turn's outcome."""
    failed = read(turn, look, dropped=dropped)
    if look.blind:  # an answer there was; what it says is seen with the next request
        turn.outcome.outcome, turn.outcome.answer = "answered", "calls"
    if look.watcher.halted:
        _halted(turn, look.watcher.halted)
    if turn.outcome.answer == "own" and look.drop is not None and not look.blind:
        turn.outcome.stands = look.drop.text
    if failed:
        turn.outcome.error_type = "upstream_error"  # the provider told the client itself


def _halted(turn: Turn, count: int) -> None:
    """The answer was cut short, not the run. What was said on the request's side goes before it."""
    turn.outcome.partial = True
    if turn.decision.rung < Rung.NUDGE:
        reason = f"the answer said the same {count} times; the rest of the stream was not read"
        turn.decision = replace(turn.decision, action="cut", rule=RULE, count=count, reason=reason)


def read(turn: Turn, look: Look, *, dropped: bool) -> bool:
    """Take over what was seen; whether the provider told of an error inside it."""
    done, seen = turn.outcome, look.watcher.seen()
    done.read(seen, dropped=dropped)
    done.hosted, done.raw_calls = look.watcher.hosted, look.watcher.raw_calls
    if done.answer == "text":
        done.wrote(calls_in(turn.ask, done.text))
        if done.written:
            deciding.written(turn)
    done.blind = look.blind and done.upstream_status < 400
    failed: bool = seen.failed
    return failed


def left(turn: Turn, look: Look) -> None:
    """The client went away: it pays for what was produced; leaving the answer closes the provider's stream."""
    if not turn.settled:
        read(turn, look, dropped=False)
        turn.outcome.outcome, turn.outcome.thought = "abandoned", pricing.thinks(turn.ask.model)


def not_json(turn: Turn, answer: Answer, look: Look, data: bytes) -> UpstreamError:
    """The error that says what came in the place of JSON. What is not in the encoding that it names may be anything:
    it counts as made.
    """
    base = (turn.outcome.upstream or turn.proxy.upstream).base
    status = answer.status if answer.status >= 400 else 502
    if look.blind:
        encoding = answer.header("content-encoding")
        message = f"the provider at {base} answered {answer.status} in the encoding {encoding!r}, which cannot be read"
        error = UpstreamError(message, status=status, code="upstream_encoding")
        error.made = True
        return error
    plain = look.plain(data)
    text = " ".join(plain[: SHOWN * 2].decode("utf-8", "replace").split())[:SHOWN]
    message = f"the provider at {base} answered {answer.status} with {answer.content_type}, which is not JSON: {text!r}"
    error = UpstreamError(message, status=status, code="upstream_not_json")
    error.made = plain.lstrip().startswith(BEGUN)
    return error
