"""What stands for the model in the place of our own answers, which clients keep as the assistant's words.

"This call needs approval" behind a refusal, "this run is paused" in one that goes on: the model would read both as what
it has said itself. The ledger knows the notice by its place and its words, as it knows our advice, and the surface
writes a line in the past there (`PutBack.instead`): true whatever was decided, so that the prefix never changes. It
stays a turn of the assistant, since providers refuse two user turns in a row; where no turn of the user's follows, it
is left out, since they refuse a request that ends with the assistant.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from guardproxy.api.chat import GAP
from guardproxy.core import advice
from guardproxy.core.edit import PutBack
from guardproxy.errors import StoreError
from guardproxy.http import closing
from guardproxy.http.whole import whole

if TYPE_CHECKING:
    from guardproxy.http.sealed import Held
    from guardproxy.http.streamed import Response
    from guardproxy.http.turn import Turn


def reply(turn: Turn, text: str) -> Response:
    """An answer of ours in the model's place, whole. A client that wants a tool for the end gets a call of it."""
    finish = None
    if turn.ask.finish_tool:
        tool, argument = turn.ask.finish_tool
        finish = (tool, argument, os.urandom(8).hex()[:9])
    created = turn.started_ns // 10**9
    kind, body = turn.surface.reply(turn.ask, text, reply_id=turn.reply_id, created=created, finish=finish)
    turn.outcome.own(text)
    if finish is None:
        keep(turn)
    turn.settle()
    return whole(200, [("Content-Type", kind), *turn.guard_headers()], body)


def keep(turn: Turn, *, flowed: str = "", before: tuple[bytes, ...] = (), said: str = "") -> None:
    """Keep what the answer just given in our words is for the model.

    `flowed`: what the model said in front of it, `said` of that belongs to `before`, the rounds that were sent back.
    """
    own = "" if turn.outcome.held else flowed.removeprefix(said).strip()  # a call that waits has its words with it
    instead = GAP.join(part for part in (own, _line(turn)) if part)
    turn.kept.append(PutBack(turn.ask.count, before, said=said, instead=instead))


def _line(turn: Turn) -> str:
    decision, view, held = turn.decision, turn.seen, turn.outcome.held
    if held is not None:
        return waited(turn, held)
    if view.paused == "approval" and view.status == "need_human":
        return advice.was_paused(turn.language, "question")
    if view.paused == "approval":
        return advice.waited(turn.language, view.paused_why)
    if view.paused:
        return advice.was_paused(turn.language, view.paused, view.paused_why)
    if decision.action == "pause":
        return advice.was_paused(turn.language, closing.paused_by(turn) or "operator", decision.reason)
    return advice.was_stopped(turn.language, decision.reason)


def waited(turn: Turn, held: Held) -> str:
    """The line for a call, or a question, that waited for a person."""
    return advice.waited(turn.language, held.tool, held.question)


async def note(turn: Turn) -> None:
    """Keep it for a turn that was not admitted: there is nothing that is settled with it."""
    view = turn.seen
    entries = closing.ledger_of(turn, view)
    with suppress(StoreError):  # then the notice stays as it is
        await turn.proxy.books.note(turn.opening, view.session, view.thread, entries)
