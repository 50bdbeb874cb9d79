"""One attempt of a judged turn: sent, listened to, and given up where it fails. What is judged stands in `guarded`.

Only the first attempt may end in the provider's error. Of a later one the client was given something already, or the
model was told something: then the answer ends in our words.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from guardproxy.core.edit import Edit, ForbidTools, PutBack
from guardproxy.errors import UpstreamError
from guardproxy.http import background, deciding, relay
from guardproxy.http.exchange import Answer
from guardproxy.http.look import Look, not_json

if TYPE_CHECKING:
    from guardproxy.http.guarded import Guarded
    from guardproxy.http.streamed import Response
    from guardproxy.http.turn import Turn


async def ask(run: Guarded) -> Answer | None:
    """The beginning of its answer; None where a further one fails: what was refused is not handed on for that."""
    try:
        answer = await run.outlet.meanwhile(relay.post(run.turn, _edits(run), judged=True))
    except UpstreamError as error:
        if run.first:
            raise
        run.turn.outcome.lose(error)
        _fail(run, error.code)
        return None
    streamed = run.turn.response is not None
    if not run.first and (answer.status >= 400 or streamed is not relay.is_stream(answer)):
        answer.end()
        _fail(run, str(answer.status) if answer.status >= 400 else "upstream_broken")
        return None
    run.told = len(run.rounds)
    return answer


def _fail(run: Guarded, error_type: str, look: Look | None = None) -> None:
    """A further attempt has failed. What it brought was produced, and may have been given to the client."""
    run.turn.outcome.error_type = error_type
    run.passed(look, error_type)


def _edits(run: Guarded) -> tuple[Edit, ...]:
    turn = run.turn
    if not run.rounds:
        return turn.edits
    last: tuple[Edit, ...] = (ForbidTools(), run.drop) if run.drop is not None else ()
    return (*turn.edits, PutBack(turn.ask.count, before=tuple(run.rounds), again=True), *last)


async def listen(run: Guarded, answer: Answer) -> Look | Response:
    """The whole of an answer, what may flow handed on; a response where there is nothing left to judge."""
    turn = run.turn
    if not relay.is_stream(answer):
        return await _read(run, answer)
    look = _look(run, answer)
    run.outlet.begin()
    response = turn.response or await relay.begin_stream(turn, answer, decoded=look.decoded)
    broke: Exception | None = None
    try:
        await _relay(run, answer, look)
    except ConnectionResetError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever broke the provider's stream, the client is told
        broke = error
    if not look.seen and (broke is not None or not (look.blind and look.encoded)):
        if run.first:
            return await relay.broken(turn, look, response, broke)
        return await give_up(run, "upstream_broken", look)
    await run.outlet.flow(look.finish())
    return look


def _look(run: Guarded, answer: Answer, body: bytes = b"") -> Look:
    """Our look at an answer. One that nobody can read is none, where a call in it must not pass unjudged."""
    turn = run.turn
    look = turn.look = Look(turn, answer, gate=run.gate(), joint=turn.joint, drop=run.drop, body=body)
    if look.blind and (turn.chosen.wants.guards or not run.first):
        turn.look = None
        encoding = answer.header("content-encoding")
        base = (turn.outcome.upstream or turn.proxy.upstream).base
        message = f"the provider at {base} answered in the encoding {encoding!r}, unasked"
        error = UpstreamError(message, code="upstream_encoding")
        error.made = True
        raise error
    return look


def note_unread(turn: Turn, look: Look) -> None:
    """Say that events were left out: they could not be read, and might have held a call."""
    if left_out := look.watcher.unread:
        wrong = f"unread: {left_out} events of an answer cannot be read, and were left out"
        turn.decision = replace(turn.decision, errors=(*turn.decision.errors, wrong))


async def give_up(run: Guarded, error_type: str, look: Look | None = None) -> Response:
    """The end of an answer whose further attempt has failed: in our words, behind what flowed."""
    _fail(run, error_type, look)
    return await run.close(deciding.summary(run.turn))


async def _relay(run: Guarded, answer: Answer, look: Look) -> None:
    done = run.turn.outcome
    feed = background.heard(run.turn, look) if run.turn.ask.background else look.feed
    while chunk := await answer.piece():
        done.first_chunk()
        out = feed(chunk)
        if look.watcher.ended:
            await run.outlet.flow(out)
            return
        if out:
            await run.outlet.write(out)
        elif look.watcher.holding:
            await run.outlet.alive()


async def _read(run: Guarded, answer: Answer) -> Look | Response:
    turn, done = run.turn, run.turn.outcome
    done.whole = True
    look = _look(run, answer)
    data = await answer.read()
    done.first_chunk()
    if "json" not in answer.content_type:
        look = _look(run, answer, data)
    run.passing = look.feed(data) + look.finish()
    if not look.readable_json(data) or look.watcher.unread:
        raise not_json(turn, answer, look, data)
    if look.watcher.failed and not run.first:
        return await give_up(run, "upstream_error", look)
    run.outlet.headers = relay.headers_of(turn, answer, decoded=look.decoded)
    return look
