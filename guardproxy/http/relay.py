"""Sends a turn upstream and its answer to the client: each chunk as it comes, our view on a copy.

Nothing is retried here: after the first byte there is no second attempt. A turn whose calls or words are judged before
the client has them goes through `guarded` instead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from guardproxy.api.chat import OFF
from guardproxy.core.edit import DropCalls, Edit, SpliceUsage
from guardproxy.errors import UpstreamError
from guardproxy.http import background, failover
from guardproxy.http.exchange import Answer
from guardproxy.http.headers import response_headers
from guardproxy.http.look import Look, left, not_json, read, take_over
from guardproxy.http.outlet import behind, last, whole_events
from guardproxy.http.streamed import Streamed
from guardproxy.http.tenancy import outward
from guardproxy.http.whole import whole

if TYPE_CHECKING:
    from guardproxy.http.streamed import Response
    from guardproxy.http.turn import Turn


async def forward(turn: Turn) -> Response:
    """The provider's answer to the turn's request, with the turn's edits."""
    answer = await post(turn, turn.edits)
    try:
        if is_stream(answer):
            return await _stream(turn, answer)
        return await whole_answer(turn, answer)
    finally:
        answer.end()


async def post(turn: Turn, edits: Sequence[Edit], *, judged: bool = False) -> Answer:
    """The beginning of the provider's answer. `judged`: we have to read it, so it must not be encoded."""
    proxy, done = turn.proxy, turn.outcome
    body = turn.surface.write(turn.ask, edits)
    untouched = body is turn.ask.body
    edited_answer = judged or turn.chosen.options is not OFF
    if edits and not edited_answer:
        edited_answer = any(isinstance(edit, DropCalls | SpliceUsage) for edit in edits)
    received = outward(proxy.tenancy, turn.request.headers)
    if proxy.upstreams is not None:
        sent = failover.Sent(body, received, edited_answer)
        return await failover.post(turn, proxy.upstreams, sent, turn.tenant.upstreams)
    headers = proxy.upstream.request_headers(received, turn.path, identity=edited_answer, plain=not untouched)
    done.sent, done.whole, done.upstream_started_ns = True, not turn.ask.stream, time.time_ns()
    done.upstream_status, done.background, done.most = 0, turn.ask.background, turn.ask.max_tokens or 0
    raw = turn.body.raw if untouched else body
    answer = await proxy.upstream.post(turn.path, raw, headers)
    done.upstream_status = done.status = answer.status
    return answer


def is_stream(answer: Answer) -> bool:
    """Whether the answer comes as events."""
    return answer.content_type == "text/event-stream" and answer.status < 400


async def whole_answer(turn: Turn, answer: Answer) -> Response:
    """An answer in one piece, errors of the provider too."""
    done = turn.outcome
    done.whole = True
    data = await answer.read()
    done.first_chunk()
    look = Look(turn, answer, body=b"" if "json" in answer.content_type else data)
    shown = look.feed(data)
    shown += look.finish()
    if not look.readable_json(data):
        raise not_json(turn, answer, look, data)
    failed = answer.status >= 400
    take_over(turn, look, dropped=look.drop is not None and not failed)
    if failed:
        done.outcome, done.error_type = "failed", str(answer.status)
        done.too_long = turn.surface.too_long(answer.status, look.plain(data))
    turn.settle()
    changed = look.watcher.touched or look.decoded
    return whole(answer.status, headers_of(turn, answer, decoded=look.decoded), shown if changed else data)


def headers_of(turn: Turn, answer: Answer, *, decoded: bool = False) -> list[tuple[str, str]]:
    """The provider's headers and ours. `decoded`: what comes is handed on without its encoding."""
    theirs = response_headers(answer.headers, answer.header("connection"))
    if decoded:
        theirs = [pair for pair in theirs if pair[0].lower() != "content-encoding"]
    return [*theirs, *turn.guard_headers()]


async def begin_stream(turn: Turn, answer: Answer, *, decoded: bool = False, with_first: bool = False) -> Streamed:
    """The answer to the client, its head sent; `with_first`: it leaves with the first part."""
    response = Streamed(answer.status, headers_of(turn, answer, decoded=decoded), with_first=with_first)
    response.prepare(turn.request)
    turn.response, turn.said_action = response, turn.decision.action
    turn.outcome.whole = False
    return response


async def _stream(turn: Turn, answer: Answer) -> Response:
    done = turn.outcome
    look = turn.look = Look(turn, answer)
    feed, watcher = background.heard(turn, look) if turn.ask.background else look.feed, look.watcher
    response = await begin_stream(turn, answer, decoded=look.decoded, with_first=answer.ready)
    broke: Exception | None = None
    halted = 0
    try:
        while chunk := await answer.piece():
            done.first_chunk()
            out = feed(chunk)
            if not turn.settled and watcher.ended:
                take_over(turn, look, dropped=look.drop is not None)
                turn.settle()  # usage may come as late as [DONE]
                halted = watcher.halted
            if out:
                await response.write(out)
            else:
                response.begin()
            if halted:  # leaving the answer unread closes the provider's stream
                break
    except (ConnectionResetError, asyncio.CancelledError) as gone:
        left(turn, look)
        if isinstance(gone, asyncio.CancelledError):
            raise
        return response
    except Exception as error:  # noqa: BLE001  # whatever broke the provider's stream, the client is told in its own format
        broke = error
    if not look.seen and (broke is not None or not (look.blind and look.encoded)):
        return await broken(turn, look, response, broke)
    rest = look.finish()
    if not turn.settled:
        take_over(turn, look, dropped=look.drop is not None)
        turn.settle()
    return await last(response, rest)


async def broken(turn: Turn, look: Look, response: Streamed, error: Exception | None) -> Response:
    """The provider's stream ended in the middle: the client is told in its own format."""
    done = turn.outcome
    reason = f"{type(error).__name__}: {error}" if error else "it ended in the middle"
    ours = f"the provider's stream broke off ({reason})"
    wrapped = UpstreamError(str(error) if isinstance(error, UpstreamError) else ours, code="upstream_broken")
    read(turn, look, dropped=False)
    done.fail(wrapped)
    if look.encoded:  # our words cannot stand in the provider's encoding: let the client see that it is not whole
        turn.request.abort()
        return response
    rest = whole_events(look.finish())
    return await last(response, behind(response, rest + turn.surface.failure(wrapped, look.watcher.joint())))
