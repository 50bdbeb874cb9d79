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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from aiohttp import web

from guardproxy.core import advice, commands
from guardproxy.core.model import Call, Rung
from guardproxy.core.proposals import Objection
from guardproxy.core.tool_rules import first
from guardproxy.errors import StoreError
from guardproxy.http import claiming, deciding, reckoning, verdict
from guardproxy.http.sealed import Held
from guardproxy.store.approvals import Approval, RunHeld

if TYPE_CHECKING:
    from guardproxy.http.guarded import Guarded
    from guardproxy.http.look import Look
    from guardproxy.http.turn import Turn

LOOK_S = 0.25
"""Seconds between two looks at whether a person has decided."""

HUMAN, APPROVAL = "tools.human", "tools.approval"
"""The rules: of questions to a person, and of calls that one has to allow."""

DECIDED = frozenset({"approved", "denied", "answered", "expired"})


async def ask(run: Guarded, look: Look, objections: Sequence[Objection]) -> web.StreamResponse | None:
    """Ask a person about the first such call of the answer; others of its kind wait for their own turn."""
    turn = run.turn
    asked = next(one for one in objections if one.action == "pause")
    seen = look.watcher.seen()
    others = [
        _refusal(turn, one, seen.calls) if one.action == "pause" else one for one in objections if one is not asked
    ]
    held = _held(turn, look, asked, others)
    run.rest = _results(turn, look, {one.position: one.text for one in others})
    name = f"apr_{os.urandom(9).hex()}"
    try:
        approval = await _open(turn, name, held)
    except StoreError:
        text = advice.declined(turn.language, held.tool, "", expired=True, asked=bool(held.question))
        refusals = [
            *others,
            replace(asked, action="refuse", text=text, reason="the store is away: nobody can be asked"),
        ]
        return await _go_on(run, look, refusals)
    before = turn.decision
    turn.decision = replace(
        before, action="pause", rung=Rung.FIRM, rule=asked.rule, reason=asked.reason, mode="enforce", would=""
    )
    turn.outcome.approval = (approval.id, approval.state)
    turn.outcome.waits_for = approval.id
    if approval.id != name:
        return await _beside(run, look, approval)
    told = asked_event(approval, held)
    turn.proxy.tell("approval.asked", approval.org, approval.session, approval.id, told)
    if turn.chosen.policy.approvals.way == "hold":
        try:
            await reckoning.tell(turn, look)
            state = await _wait(run, approval.id)
        except asyncio.CancelledError:  # the client gave up: it pays for what was made, and finds the call waiting
            run.leave(look)
            raise
        if state in DECIDED:
            turn.decision = before  # the wait is over: what becomes of the call is the turn's verdict
            return await _decided(run, look, asked, others, approval.id)
    turn.outcome.status_after = "need_human" if asked.rule == HUMAN else "active"
    run.leave(look)
    return await run.close(notice(turn, held, approval.id))


def _held(turn: Turn, look: Look, asked: Objection, others: Sequence[Objection]) -> Held:
    """What a person is asked about: the call, with what goes with it in its message."""
    calls = look.watcher.seen().calls
    call = calls[asked.position]
    kept = frozenset(range(len(calls))) - {one.position for one in others}
    tools = turn.chosen.policy.tools
    rule = first(tools.human if asked.rule == HUMAN else tools.approval, call)
    return Held(
        call.name,
        call.arguments,
        turn.surface.keep_calls(look.watcher.raw_message(), kept),
        _question(call) if asked.rule == HUMAN else "",
        position=sum(at < asked.position for at in kept),
        reason=rule.reason if rule else "",
    )


async def _beside(run: Guarded, look: Look, approval: Approval) -> web.StreamResponse:
    """Another turn of the thread has asked a person meanwhile: the client is told of that; nobody is asked twice."""
    turn = run.turn
    held = turn.proxy.sealer.open_held(approval.id, approval.sealed) or Held(approval.tool)
    turn.outcome.status_after = "need_human" if held.question else "active"
    calls = look.watcher.seen().calls
    run.rest = _results(turn, look, {at: advice.one_at_a_time(turn.language, one.name) for at, one in enumerate(calls)})
    run.leave(look)
    return await run.close(notice(turn, held, approval.id))


def _results(turn: Turn, look: Look, texts: Mapping[int, str]) -> tuple[bytes, ...]:
    """What calls of an answer get, by their positions."""
    raws = look.watcher.raw_calls()
    found: tuple[bytes, ...] = turn.surface.results([raws[at] for at in texts], [*texts.values()])
    return found


async def _open(turn: Turn, name: str, held: Held) -> Approval:
    terms, proxy, now = turn.chosen.policy.approvals, turn.proxy, turn.seen.now_ms
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
    return await proxy.books.approvals.open(turn.opening.org, approval, turn.offset_ms, question=bool(held.question))


async def _wait(run: Guarded, name: str) -> str:
    """The approval's state once it is decided, or as it is when the request can wait no longer."""
    turn = run.turn
    until = time.monotonic() + turn.chosen.policy.approvals.hold_seconds
    state = "pending"
    while state not in DECIDED and may_wait(turn, until):
        await asyncio.sleep(LOOK_S)
        await run.outlet.alive()
        try:
            found = await turn.proxy.books.approvals.get(turn.opening.org, name, turn.offset_ms)
        except StoreError:
            continue
        state = found.state if found else "expired"
    return state


def may_wait(turn: Turn, until: float) -> bool:
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
    if approval is not None:
        tell_decided(turn, approval, held)
    if approval and held and approval.state == "approved":
        try:
            won = await claiming.claimed(turn, name)
        except RunHeld as stopped:
            run.leave(look)
            return await run.close(stopped_notice(turn, stopped, approval, held))
        if won and (not approval.edited or held.arguments == look.watcher.seen().calls[asked.position].arguments):
            return await run.deliver(look, others)
        if won:
            return await run.deliver_message(look, held.message)
    text = verdict.told(turn, approval, held)
    if approval and approval.state == "answered":
        return await _answered(run, look, asked, others, text)
    return await _go_on(run, look, [*others, replace(asked, action="refuse", text=text)])


async def _answered(
    run: Guarded, look: Look, asked: Objection, others: list[Objection], text: str
) -> web.StreamResponse | None:
    """A person has said what the model wanted to know: that is the call's result, and no refusal."""
    turn, calls = run.turn, look.watcher.seen().calls
    told = {one.position: one.text for one in others} | {asked.position: text}
    if len(told) < len(calls):
        return await run.deliver(look, [*others, replace(asked, action="answer", text=text)])
    raws = look.watcher.raw_calls()
    after = turn.surface.results(raws, [told.get(at, text) for at in range(len(raws))])
    if await run.again(look, after, "reask"):
        return None
    run.leave(look)  # no room for one more attempt: the answer is there for the next request
    turn.outcome.waits_for = turn.outcome.approval[0]
    return await run.close(deciding.summary(turn))


async def _go_on(run: Guarded, look: Look, refusals: list[Objection]) -> web.StreamResponse | None:
    """Without the calls that were not allowed: the others are handed on, or the model is asked again."""
    if len({one.position for one in refusals}) < look.watcher.seen().call_count:
        return await run.deliver(look, refusals)
    return await run.refuse(look, refusals)


def stopped_notice(turn: Turn, by: RunHeld, approval: Approval, held: Held) -> str:
    """The run was paused or closed while the call was about to be made: what the client is told. The call waits on."""
    turn.outcome.held = held
    turn.outcome.waits_for = approval.id
    turn.decision = replace(
        turn.decision, action="pause", rung=Rung.FIRM, rule=f"{by.state}.{by.who}", reason=by.message, mode="enforce"
    )
    session, where = turn.seen.session, deciding.where(turn)
    if by.who.startswith("budget"):
        how = commands.extend(session, f"{by.who} {by.why}", where)
    else:
        how = commands.command("sessions", "resume" if by.state == "paused" else "reset", session, where=where)
    return advice.call_waits(turn.language, approval.id, approval.tool, by.who, by.why, how)


def _refusal(turn: Turn, one: Objection, calls: Sequence[Call]) -> Objection:
    """One more call that needs a person, in an answer that has one already."""
    return replace(one, action="refuse", text=advice.one_at_a_time(turn.language, calls[one.position].name))


def asked_event(approval: Approval, held: Held) -> dict[str, object]:
    """What the webhook is told when a person is asked: `webhook.EVENTS`."""
    return {
        "approval": approval.id,
        "tool": approval.tool,
        "rule": HUMAN if held.question else APPROVAL,
        "reason": held.reason,
        "question": held.question[: advice.QUESTION],
        "expires_ms": approval.expires_ms,
    }


def tell_decided(turn: Turn, approval: Approval, held: Held | None) -> None:
    """Tell the webhook what was decided, where the run takes notice of it."""
    told = {
        "approval": approval.id,
        "tool": approval.tool,
        "rule": HUMAN if held is not None and held.question else APPROVAL,
        "state": approval.state,
        "by": approval.by,
        "why": approval.why,
    }
    turn.proxy.tell("approval.decided", approval.org, approval.session, approval.id, told)


def notice(turn: Turn, held: Held, name: str) -> str:
    """What the client is told of a call, or a question, that waits."""
    turn.outcome.held = held
    how = commands.decide(name, question=bool(held.question), where=deciding.where(turn))
    if held.question:
        return advice.question_notice(turn.language, held.tool, held.question, how)
    return advice.approval_notice(turn.language, name, held.tool, held.arguments, how, held.reason)


def _question(call: Call) -> str:
    """What a person is asked: the longest text of the call."""
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments
    texts = [text for text in value.values() if isinstance(text, str)] if isinstance(value, dict) else []
    return max(texts, key=len, default=call.arguments)
