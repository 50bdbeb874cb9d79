"""Sends a turn upstream and its answer to the client: each chunk as it comes, our view on a copy.

Nothing is retried here: after the first byte there is no second attempt.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from aiohttp import web

from guardproxy.api.chat import OFF, RULE
from guardproxy.core.edit import DropCalls, SpliceUsage
from guardproxy.core.model import Rung
from guardproxy.core.rounds import calls_in
from guardproxy.errors import UpstreamError
from guardproxy.http.exchange import Answer
from guardproxy.http.upstream import Inflater, response_headers
from guardproxy.http.whole import whole

if TYPE_CHECKING:
    from types import ModuleType

    from guardproxy.http.turn import Turn

SHOWN = 300
"""Characters of a provider's answer that is not JSON which are shown in the error."""


async def forward(turn: Turn) -> web.StreamResponse:
    """The provider's answer to the turn's request, with the turn's edits."""
    proxy, done = turn.proxy, turn.outcome
    body = turn.surface.write(turn.ask, turn.edits)
    untouched = body is turn.ask.body
    edited_answer = proxy.options is not OFF or any(isinstance(edit, DropCalls | SpliceUsage) for edit in turn.edits)
    headers = proxy.upstream.request_headers(turn.request.headers, identity=edited_answer, plain=not untouched)
    done.sent, done.whole, done.upstream_started_ns = True, not turn.ask.stream, time.time_ns()
    raw = turn.body.raw if untouched else body
    answer = await proxy.upstream.post(turn.path, raw, headers)
    try:
        done.upstream_status = done.status = answer.status
        if answer.content_type == "text/event-stream" and answer.status < 400:
            done.whole = False
            return await _stream(turn, answer)
        return await _whole(turn, answer)
    finally:
        answer.end()


async def _whole(turn: Turn, answer: Answer) -> web.StreamResponse:
    done = turn.outcome
    done.whole = True
    data = await answer.read()
    done.first_chunk()
    view = _View(turn, answer)
    shown = view.feed(data)
    shown += view.finish()
    if not view.readable_json(data):
        raise _not_json(turn, answer, data)
    failed = answer.status >= 400
    _take_over(turn, view, dropped=view.drop is not None and not failed)
    if failed:
        done.outcome, done.error_type = "failed", str(answer.status)
        done.too_long = turn.surface.too_long(answer.status, view.plain(data))
    turn.settle()
    headers = [*response_headers(answer.headers, answer.header("connection")), *turn.guard_headers()]
    return whole(answer.status, headers, shown if view.watcher.touched else data)


async def _stream(turn: Turn, answer: Answer) -> web.StreamResponse:
    done = turn.outcome
    response = web.StreamResponse(
        status=answer.status,
        headers=[*response_headers(answer.headers, answer.header("connection")), *turn.guard_headers()],
    )
    await response.prepare(turn.request)
    view = _View(turn, answer)
    broke: Exception | None = None
    halted = 0
    try:
        async for chunk in answer.pieces():
            done.first_chunk()
            out = view.feed(chunk)
            if not turn.settled and view.watcher.ended:
                _take_over(turn, view, dropped=view.drop is not None)
                turn.settle()  # usage may come as late as [DONE]
                halted = view.watcher.halted
            if out:
                await response.write(out)
            if halted:  # leaving the answer unread closes the provider's stream
                break
    except (ConnectionResetError, asyncio.CancelledError) as left:
        _left(turn, view)
        if isinstance(left, asyncio.CancelledError):
            raise
        return response
    except Exception as error:  # noqa: BLE001  # whatever broke the provider's stream, the client is told in its own format
        broke = error
    seen = view.watcher.complete or view.watcher.failed
    if not seen and (broke is not None or not view.blind):
        return await _broken(turn, view, response, broke)
    rest = view.finish()
    if not turn.settled:
        _take_over(turn, view, dropped=view.drop is not None)
        turn.settle()
    if rest:
        await response.write(rest)
    await response.write_eof()
    return response


def _take_over(turn: Turn, view: _View, *, dropped: bool) -> None:
    failed = _read(turn, view, dropped=dropped)
    if view.blind:  # an answer there was; what it says is seen with the next request
        turn.outcome.outcome, turn.outcome.answer = "answered", "calls"
    if view.watcher.halted:
        _halted(turn, view.watcher.halted)
    if failed:
        turn.outcome.error_type = "upstream_error"  # the provider told the client itself


def _halted(turn: Turn, count: int) -> None:
    """The answer was cut short, not the run. What was said on the request's side goes before it."""
    if turn.decision.rung < Rung.NUDGE:
        reason = f"the answer said the same {count} times; the rest of the stream was not read"
        turn.decision = replace(turn.decision, action="cut", rule=RULE, count=count, reason=reason)


def _read(turn: Turn, view: _View, *, dropped: bool) -> bool:
    """Take over what was seen; whether the provider told of an error inside it."""
    done, seen = turn.outcome, view.watcher.seen()
    done.read(seen, dropped=dropped)
    if done.answer == "text":
        done.wrote(calls_in(turn.ask, done.text))
    done.blind = view.blind and done.upstream_status < 400
    failed: bool = seen.failed
    return failed


def _left(turn: Turn, view: _View) -> None:
    """The client went away: it pays for what was produced; leaving the block closes the provider's stream."""
    if not turn.settled:
        _read(turn, view, dropped=False)
        turn.outcome.outcome = "abandoned"


async def _broken(turn: Turn, view: _View, response: web.StreamResponse, error: Exception | None) -> web.StreamResponse:
    done = turn.outcome
    reason = f"{type(error).__name__}: {error}" if error else "it ended in the middle"
    ours = f"the provider's stream broke off ({reason})"
    wrapped = UpstreamError(str(error) if isinstance(error, UpstreamError) else ours, code="upstream_broken")
    _read(turn, view, dropped=False)
    done.fail(wrapped)
    if view.encoded:  # our words cannot stand in the provider's encoding: let the client see that it is not whole
        if turn.request.transport is not None:
            turn.request.transport.abort()
        return response
    try:
        await response.write(view.finish())
        await response.write(b"data: " + turn.surface.error(wrapped, {}) + b"\n\n")
        await response.write_eof()
    except ConnectionResetError:
        pass
    return response


class _View:
    """Our look at an answer: the surface's watcher, behind a decoder where the answer is encoded."""

    def __init__(self, turn: Turn, answer: Answer) -> None:
        surface: ModuleType = turn.surface
        encoding = answer.header("content-encoding").strip().lower()
        plain = encoding in ("", "identity")
        self._encoding, self._most = encoding, turn.proxy.limits.max_expanded
        self._inflater = None if plain else Inflater(encoding, self._most)
        good = answer.status < 400 and self._inflater is None
        edits = turn.edits if good else ()
        self.drop = next((edit for edit in edits if isinstance(edit, DropCalls)), None) if edits else None
        strip = bool(edits) and any(isinstance(edit, SpliceUsage) for edit in edits)
        self.watcher = surface.watch(
            turn.ask,
            strip_usage=strip,
            drop=self.drop,
            status=answer.status,
            content_type=answer.content_type,
            options=turn.proxy.options if good and not turn.seen.panic else OFF,
            language=turn.language,
        )

    @property
    def encoded(self) -> bool:
        """Whether the answer came with an encoding."""
        return self._inflater is not None

    @property
    def blind(self) -> bool:
        """Whether its encoding cannot be looked into."""
        return self._inflater is not None and self._inflater.blind

    def feed(self, chunk: bytes) -> bytes:
        """The bytes for the client."""
        if self._inflater is None:
            out: bytes = self.watcher.feed(chunk)
            return out
        self.watcher.feed(self._inflater.feed(chunk))
        return chunk

    def plain(self, data: bytes) -> bytes:
        """A whole body without its encoding; what cannot be read is empty."""
        return data if self._inflater is None else Inflater(self._encoding, self._most).feed(data)

    def finish(self) -> bytes:
        """What is left for the client at the end."""
        rest: bytes = self.watcher.finish()
        return b"" if self._inflater else rest

    def readable_json(self, data: bytes) -> bool:
        """Whether the answer is JSON, as far as we can look into it."""
        if self._inflater is not None or self.watcher.complete:
            return True
        try:
            json.loads(data, strict=False)
        except (ValueError, RecursionError):
            return False
        return True


def _not_json(turn: Turn, answer: Answer, data: bytes) -> UpstreamError:
    text = " ".join(data[: SHOWN * 2].decode("utf-8", "replace").split())[:SHOWN]
    base = turn.proxy.upstream.base
    status = answer.status if answer.status >= 400 else 502
    message = f"the provider at {base} answered {answer.status} with {answer.content_type}, which is not JSON: {text!r}"
    return UpstreamError(message, status=status, code="upstream_not_json")
