"""Requests of a thread that waits for a person, or waited: held on, answered with the call, or sent on with the answer.

See `approving`, where people are asked.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from guardproxy.core import advice
from guardproxy.core.edit import PutBack
from guardproxy.core.model import Ask, Rung
from guardproxy.errors import GuardError, StoreError
from guardproxy.http import claiming, deciding, people, verdict
from guardproxy.http.approving import DECIDED, LOOK_S, may_wait, stopped_notice, tell_decided
from guardproxy.http.sealed import EDITED, Held
from guardproxy.http.whole import whole
from guardproxy.store.approvals import Approval, RunHeld

if TYPE_CHECKING:
    from guardproxy.http.streamed import Response
    from guardproxy.http.turn import Turn

NOT_SHOWN = "approved-call-not-shown"
"""Says in `x-guardproxy-notice` that a call which a person allowed was handed on before, and this history lacks it."""


async def wait(turn: Turn) -> None:
    """Hold a request that came while its approval is pending; it begins anew once a person has decided."""
    until = time.monotonic() + turn.chosen.policy.approvals.hold_seconds
    while turn.seen.paused == "approval" and may_wait(turn, until):
        await asyncio.sleep(LOOK_S)
        approval, _ = await verdict.found(turn, turn.seen.approval)
        if approval is None or approval.state in DECIDED:
            await turn.begin_again()
            return


async def resume(turn: Turn) -> Response | None:
    """The answer to a request whose thread waited for a decision that is there now; None: the model is asked."""
    name = turn.seen.approval
    approval, held = await verdict.found(turn, name)
    if approval is not None and approval.state == "approved" and approval.token:
        await _handed_on(turn, approval, held)
        return None
    if approval is not None and approval.state == "pending" and held is not None:
        approval, held = await _answered(turn, approval, held)
    turn.outcome.approval = (name, turn.seen.approval_state if approval is None else approval.state)
    if approval is not None and approval.state in DECIDED:
        tell_decided(turn, approval, held)
    if approval is None or held is None:
        return None
    if approval.state == "approved":
        return await _release(turn, approval, held)
    if approval.state == "expired" and turn.chosen.policy.approvals.on_expiry == "cut":
        return await _expired(turn, held)
    if approval.state in DECIDED:
        raws = turn.surface.calls_in_message(held.message)
        _stands(turn, _place(turn, name), held, verdict.results(turn, approval, held, len(raws)))
    return None


def _stands(turn: Turn, index: int, held: Held, texts: list[str]) -> None:
    """The call stands in the request with what came of it, from now on."""
    results = turn.surface.results(turn.surface.calls_in_message(held.message), texts)
    back = PutBack(index, (turn.surface.sound(held.message), *results))
    if back not in turn.put_back:  # it stands there since an attempt that failed
        turn.edits = (*turn.edits, back)
        turn.outcome.decided = (back,)


async def _answered(turn: Turn, asked: Approval, held: Held) -> tuple[Approval | None, Held | None]:
    """A question that waits, and the user goes on: these words are the answer, unless somebody was first."""
    newest = next((at for at, one in enumerate(reversed(turn.ask.tail)) if one.role == "assistant"), len(turn.ask.tail))
    said = [one.text for one in turn.ask.tail[len(turn.ask.tail) - newest :] if one.role == "user"]
    answer = Held(asked.tool, answer="\n\n".join(said)[: people.ANSWER])
    sealed = turn.proxy.sealer.seal_held(asked.id, answer, EDITED)
    approvals = turn.proxy.books.approvals
    with suppress(StoreError, GuardError):  # decided meanwhile
        await approvals.decide(turn.opening.org, asked.id, "answer", verdict.CLIENT, "", sealed, turn.offset_ms)
    return await verdict.found(turn, asked.id)


async def _handed_on(turn: Turn, approval: Approval, held: Held | None) -> None:
    """The call was handed on before. Where this history does not show it, it is not known to be carried out: the model
    is told so, the client too, and a person sees it.
    """
    made = turn.surface.read_message(held.message).calls if held is not None else ()
    known = {(call.id, turn.proxy.printer.call(call)) for call in made}  # some providers begin their ids anew
    shown = any((call.id, turn.proxy.printer.call(call)) in known for one in turn.ask.tail for call in one.calls)
    turn.proxy.spawn(_arrived(turn, approval.id, shown=shown))
    if held is not None and not shown:
        turn.outcome.notices.append(NOT_SHOWN)
        texts = [advice.handed_on(turn.language, call.name) for call in made]
        _stands(turn, turn.ask.count, held, texts)


async def _arrived(turn: Turn, name: str, *, shown: bool) -> None:
    with suppress(StoreError):
        await turn.proxy.books.approvals.arrived(turn.opening.org, name, shown, turn.offset_ms)


async def _expired(turn: Turn, held: Held) -> Response:
    """Nobody has decided in time, and the policy ends such a run."""
    reason = f"nobody decided in time whether {held.tool} may be called"
    turn.decision = replace(
        turn.decision, action="cut", rung=Rung.CUT, rule="tools.approval", reason=reason, mode="enforce", would=""
    )
    return await turn.reply(deciding.summary(turn))


async def _release(turn: Turn, approval: Approval, held: Held) -> Response | None:
    """The call that was allowed, as the model's answer: once, whoever asks."""
    try:
        if not await claiming.claimed(turn, approval.id):
            now, _ = await verdict.found(turn, approval.id)
            if now is not None and now.token not in ("", turn.opening.token):  # another turn was first
                await _handed_on(turn, now, held)
            return None
    except RunHeld as stopped:
        return await turn.reply(stopped_notice(turn, stopped, approval, held))
    created = turn.started_ns // 10**9
    kind, body = turn.surface.replay_message(turn.ask, held.message, reply_id=turn.reply_id, created=created)
    turn.outcome.released(turn.surface.read_message(held.message), held.message)
    turn.settle()
    return whole(200, [("Content-Type", kind), *turn.guard_headers()], body)


def _place(turn: Turn, name: str) -> int:
    """Where our notice stands in the client's history; at its end where it was not appended."""
    ask: Ask = turn.ask
    for at in range(len(ask.tail) - 1, -1, -1):
        if ask.tail[at].role == "assistant" and name in ask.tail[at].text:
            return ask.tail_start + at
    return ask.count
