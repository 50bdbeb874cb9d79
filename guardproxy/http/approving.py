"""A call that a person has to allow: the run waits, and goes on with exactly that call, or without it.

Two ways: the request is held for a while, or answered at once with a notice that names the approval. Either way the
call itself lies sealed in the store, so that any worker can go on with it, after a restart too. Whatever fails here
fails closed: nothing is released without a decision.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from aiohttp import web

from guardproxy.core import advice
from guardproxy.core.edit import PutBack
from guardproxy.core.model import Ask, Call, Rung
from guardproxy.core.proposals import Objection
from guardproxy.errors import GuardError, StoreError
from guardproxy.http import claiming, deciding, verdict
from guardproxy.http.sealed import Held
from guardproxy.http.whole import whole
from guardproxy.store.approvals import Approval, RunHeld

if TYPE_CHECKING:
    from guardproxy.http.guarded import Guarded
    from guardproxy.http.look import Look
    from guardproxy.http.turn import Turn

LOOK_S = 0.25
"""Seconds between two looks at whether a person has decided."""

HUMAN = "tools.human"
"""The rule of questions to a person; all others ask for an approval."""

DECIDED = frozenset({"approved", "denied", "answered", "expired"})


async def ask(run: Guarded, look: Look, objections: Sequence[Objection]) -> web.StreamResponse | None:
    """Ask a person about the first such call of the answer; others of its kind wait for their own turn."""
    turn = run.turn
    asked = next(one for one in objections if one.action == "pause")
    seen = look.watcher.seen()
    others = [
        _refusal(turn, one, seen.calls) if one.action == "pause" else one for one in objections if one is not asked
    ]
    call = seen.calls[asked.position]
    kept = _without(seen.calls, others)
    message = turn.surface.keep_calls(look.watcher.raw_message(), kept)
    place = sum(at < asked.position for at in kept)
    held = Held(call.name, call.arguments, message, _question(call) if asked.rule == HUMAN else "", position=place)
    name = f"apr_{os.urandom(9).hex()}"
    try:
        approval = await _open(turn, name, held)
    except StoreError:
        text = advice.declined(turn.language, call.name, "", expired=True)
        refusals = [
            *others,
            replace(asked, action="refuse", text=text, reason="the store is away: nobody can be asked"),
        ]
        return await _go_on(run, look, refusals)
    turn.decision = replace(
        turn.decision, action="pause", rung=Rung.FIRM, rule=asked.rule, reason=asked.reason, mode="enforce", would=""
    )
    turn.outcome.approval = (approval.id, approval.state)
    turn.outcome.waits_for = approval.id
    if approval.id != name:
        return await _beside(run, look, approval)
    about = {"approval": approval.id, "tool": approval.tool}
    turn.proxy.tell("approval.asked", approval.org, approval.session, approval.id, about)
    if turn.proxy.policy.approvals.way == "hold" and asked.rule != HUMAN:
        try:
            state = await _wait(run, approval.id)
        except asyncio.CancelledError:  # the client gave up: it pays for what was made, and finds the call waiting
            run.leave(look)
            raise
        if state in DECIDED:
            return await _decided(run, look, asked, others, approval.id)
    turn.outcome.status_after = "need_human" if asked.rule == HUMAN else "active"
    run.leave(look)
    return await run.close(_notice(turn, held, approval.id))


async def _beside(run: Guarded, look: Look, approval: Approval) -> web.StreamResponse:
    """Another turn of the thread has asked a person meanwhile: the client is told of that; nobody is asked twice."""
    turn = run.turn
    held = turn.proxy.sealer.open_held(approval.id, approval.sealed) or Held(approval.tool)
    turn.outcome.status_after = "need_human" if held.question else "active"
    run.leave(look)
    return await run.close(_notice(turn, held, approval.id))


async def _open(turn: Turn, name: str, held: Held) -> Approval:
    terms, proxy, now = turn.proxy.policy.approvals, turn.proxy, turn.seen.now_ms
    approval = Approval(
        id=name,
        org=turn.opening.org,
        session=turn.seen.session,
        thread=turn.seen.thread,
        tool=held.tool,
        asked_ms=now,
        expires_ms=now + round(terms.expire_seconds * 1000),
        sealed=proxy.sealer.seal_held(name, held),
    )
    return await proxy.books.approvals.open(turn.opening.org, approval, turn.offset_ms)


async def _wait(run: Guarded, name: str) -> str:
    """The approval's state once it is decided, or as it is when the request can wait no longer."""
    turn = run.turn
    until = time.monotonic() + turn.proxy.policy.approvals.hold_seconds
    state = "pending"
    while state not in DECIDED and _may_wait(turn, until):
        await asyncio.sleep(LOOK_S)
        await run.outlet.alive()
        try:
            found = await turn.proxy.books.approvals.get(turn.opening.org, name, turn.offset_ms)
        except StoreError:
            continue
        state = found.state if found else "expired"
    return state


def _may_wait(turn: Turn, until: float) -> bool:
    """Whether a request may be held on: not past its time, nor in a proxy that is about to end."""
    return time.monotonic() < until and not turn.proxy.draining


async def _decided(
    run: Guarded, look: Look, asked: Objection, others: list[Objection], name: str
) -> web.StreamResponse | None:
    turn = run.turn
    approval, held = await verdict.found(turn, name)
    state = approval.state if approval else "expired"
    turn.outcome.approval = (name, state)
    turn.outcome.waits_for = ""
    turn.proxy.tell("approval.decided", turn.opening.org, turn.seen.session, name, {"approval": name, "state": state})
    if approval and held and approval.state == "approved":
        try:
            won = await claiming.claimed(turn, name)
        except RunHeld as stopped:
            run.leave(look)
            return await run.close(_stopped(turn, stopped, approval))
        if won and (not approval.edited or held.arguments == look.watcher.seen().calls[asked.position].arguments):
            return await run.deliver(look, others)
        if won:
            return await run.deliver_message(look, held.message)
    text = verdict.told(turn, approval, held)
    return await _go_on(run, look, [*others, replace(asked, action="refuse", text=text)])


async def _go_on(run: Guarded, look: Look, refusals: list[Objection]) -> web.StreamResponse | None:
    """Without the calls that were not allowed: the others are handed on, or the model is asked again."""
    if len({one.position for one in refusals}) < look.watcher.seen().call_count:
        return await run.deliver(look, refusals)
    return await run.refuse(look, refusals)


# ------------------------------------------------------------------------------------------------------- later requests


async def wait(turn: Turn) -> None:
    """Hold a request that came while its approval is pending; it begins anew once a person has decided."""
    until = time.monotonic() + turn.proxy.policy.approvals.hold_seconds
    while turn.seen.paused == "approval" and _may_wait(turn, until):
        await asyncio.sleep(LOOK_S)
        approval, _ = await verdict.found(turn, turn.seen.approval)
        if approval is None or approval.state in DECIDED:
            await turn.begin_again()
            return


async def resume(turn: Turn) -> web.StreamResponse | None:
    """The answer to a request whose thread waited for a decision that is there now; None: the model is asked."""
    name = turn.seen.approval
    approval, held = await verdict.found(turn, name)
    state = turn.seen.approval_state if approval is None else approval.state
    turn.outcome.approval = (name, state)
    if state in DECIDED:
        told = {"approval": name, "state": state}
        turn.proxy.tell("approval.decided", turn.opening.org, turn.seen.session, name, told)
    if approval is None or held is None:
        return None
    if approval.state == "approved":
        return await _release(turn, approval, held)
    if approval.state == "pending":  # a question, and the user goes on: these words are the answer
        turn.proxy.spawn(_overtaken(turn, name))
    if approval.state == "expired" and turn.proxy.policy.approvals.on_expiry == "cut":
        return await _expired(turn, held)
    if approval.state in DECIDED:
        raws = turn.surface.calls_in_message(held.message)
        results = turn.surface.results(raws, verdict.results(turn, approval, held, len(raws)))
        back = PutBack(_place(turn, name), (turn.surface.sound(held.message), *results))
        if back not in turn.put_back:  # it stands there since an attempt that failed
            turn.edits = (*turn.edits, back)
            turn.outcome.decided = (back,)
    return None


async def _overtaken(turn: Turn, name: str) -> None:
    with suppress(StoreError, GuardError):  # decided meanwhile
        await turn.proxy.books.approvals.decide(turn.opening.org, name, "expire", "the user", "went on in other words")


async def _expired(turn: Turn, held: Held) -> web.StreamResponse:
    """Nobody has decided in time, and the policy ends such a run."""
    reason = f"nobody decided in time whether {held.tool} may be called"
    turn.decision = replace(
        turn.decision, action="cut", rung=Rung.CUT, rule="tools.approval", reason=reason, mode="enforce", would=""
    )
    return await turn.reply(deciding.summary(turn))


async def _release(turn: Turn, approval: Approval, held: Held) -> web.StreamResponse | None:
    """The call that was allowed, as the model's answer: once, whoever asks."""
    try:
        if not await claiming.claimed(turn, approval.id):
            return None
    except RunHeld as stopped:
        return await turn.reply(_stopped(turn, stopped, approval))
    created = turn.started_ns // 10**9
    kind, body = turn.surface.replay_message(turn.ask, held.message, reply_id=turn.reply_id, created=created)
    turn.outcome.released(turn.surface.read_message(held.message), held.message)
    turn.settle()
    return whole(200, [("Content-Type", kind), *turn.guard_headers()], body)


def _stopped(turn: Turn, by: RunHeld, approval: Approval) -> str:
    """The run was paused or closed while the call was about to be made: what the client is told. The call waits on."""
    turn.outcome.waits_for = approval.id
    turn.decision = replace(
        turn.decision, action="pause", rung=Rung.FIRM, rule=f"{by.state}.{by.who}", reason=by.message, mode="enforce"
    )
    verb = "extend" if by.who.startswith("budget") else "resume" if by.state == "paused" else "reset"
    how = f"guardproxy sessions {verb} {turn.seen.session}"
    return advice.call_waits(turn.language, approval.id, approval.tool, by.who, by.why, how)


def _refusal(turn: Turn, one: Objection, calls: Sequence[Call]) -> Objection:
    """One more call that needs a person, in an answer that has one already."""
    return replace(one, action="refuse", text=advice.one_at_a_time(turn.language, calls[one.position].name))


def _without(calls: Sequence[Call], refused: Sequence[Objection]) -> frozenset[int]:
    return frozenset(range(len(calls))) - {one.position for one in refused}


def _notice(turn: Turn, held: Held, name: str) -> str:
    if held.question:
        how = f"guardproxy approvals answer {name} TEXT"
        return advice.question_notice(turn.language, held.tool, held.question, how)
    how = f"guardproxy approvals approve {name}"
    return advice.approval_notice(turn.language, name, held.tool, held.arguments, how)


def _question(call: Call) -> str:
    """What a person is asked: the longest text of the call."""
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments
    texts = [text for text in value.values() if isinstance(text, str)] if isinstance(value, dict) else []
    return max(texts, key=len, default=call.arguments)


def _place(turn: Turn, name: str) -> int:
    """Where our notice stands in the client's history; at its end where it was not appended."""
    ask: Ask = turn.ask
    for at in range(len(ask.tail) - 1, -1, -1):
        if ask.tail[at].role == "assistant" and name in ask.tail[at].text:
            return ask.tail_start + at
    return ask.count
