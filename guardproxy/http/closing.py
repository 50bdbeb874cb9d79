"""What the store is told at the end of a turn. No IO, no judgement."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from guardproxy.core import rounds, session
from guardproxy.core.episode import pack_episode
from guardproxy.core.fact import pack
from guardproxy.core.model import Message, Rung
from guardproxy.core.tool_rules import first
from guardproxy.core.view import Closing, View
from guardproxy.http import background, charging, room, shaping
from guardproxy.http.opening import scope
from guardproxy.telemetry.record import record_of

if TYPE_CHECKING:
    from guardproxy.http.turn import Turn
    from guardproxy.telemetry.report import TurnReport


WHO_OF = {"budget": "budget", "completion": "check", "hygiene": "tool"}
"""Who pauses a session, by how the rule begins; all others speak of loops."""


def closing_of(turn: Turn, view: View, report: TurnReport) -> Closing:
    """The closing of a turn whose answer is complete, or whose client left. `report`: what telemetry is told of it."""
    done, opening, proxy, usage = turn.outcome, turn.opening, turn.proxy, report.usage
    delivered, links = _delivered(turn, view)
    decision, episode = turn.decision, turn.decision.episode
    told: Any = Closing(
        opening.token,
        opening.org,
        view.session,
        view.thread,
        done.outcome,
        done.answer,
        {
            "turns": 0 if decision.action == "deny" and turn.overrun is None else 1,
            "tool_calls": done.call_count + len(done.hosted),
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
            "cost_microusd": report.cost_microusd or 0,
            **(room.spent(turn) if turn.dues else {}),
        },
        delivered,
        links,
    )
    told.usage, told.offset_ms, told.count = usage, turn.offset_ms, turn.ask.count
    told.record = record_of(report, partial(proxy.sealer.seal_told, view.session) if report.advice else None)
    told.charge = charging.charge(turn, report).numbers()
    told.status, told.waits_for, told.ledger = status_after(turn), done.waits_for, ledger_of(turn, view)
    if done.background or done.goes_on:
        told.later = background.later(turn, report)
    if done.too_long or done.hosted:
        told.facts = _facts(turn)
    if episode:
        told.episodes = (pack_episode(episode),)
    if decision.action != "pass":
        told.close = decision.rule if decision.action == "cut" and decision.rung is Rung.CUT else ""
        told.pause, told.pause_why = paused_by(turn), decision.reason if decision.action == "pause" else ""
    closing: Closing = told
    return closing


def _delivered(turn: Turn, view: View) -> tuple[str, tuple[str, ...]]:
    """The digest of the round that the client was given, "" = none, and the links by which its run is found again."""
    done, who, printer, tenant = turn.outcome, turn.opening.identity, turn.proxy.printer, scope(turn)
    delivered, links = "", tuple[str, ...]()
    if done.outcome == "answered" and done.answer in ("calls", "text"):
        delivered = session.round_digest(printer, done.calls, done.text)
        links = session.links(printer, tenant, who.head, done.calls, done.text)
        turn.proxy.remember(who, links)
    elif done.waits_for or done.answer == "own":  # what is said in its place is how the run is found again
        links = session.links(printer, tenant, who.head, (), done.text)
    if view.counted and not (delivered and links):  # an empty message may stand in its place
        links += session.unanswered(turn.ask, printer, who.head)
    if done.outcome == "answered" and done.dropped:  # an agent that has them from elsewhere goes on in its run
        links += session.links(printer, tenant, who.head, done.dropped, done.text)
    if view.carried and view.counted and done.answer != "calls" and _may_go_on(turn, view):
        links += who.links
    return delivered, links


def _may_go_on(turn: Turn, view: View) -> bool:
    """Whether an agent that drops this answer, or has none, goes on from the round before.

    Words may be an example in a prompt; not those of a run that was answered before, but there only who was given
    nothing speaks on without an answer. Who sent a part of a round's results and has words for it is done with it: the
    whole round stands in a longer history than this one, which would be found before a run that is given the same anew.
    """
    done = turn.outcome
    nothing = done.outcome != "answered" or done.answer == "empty"
    if turn.opening.identity.spoken:
        return nothing and view.since_ms > 0
    return nothing or done.answer == "own" or not rounds.in_part(turn.ask)


def _facts(turn: Turn) -> tuple[bytes, ...]:
    """What the answer itself adds to the run's steps: a refused length, or what the provider has carried out."""
    done, printer = turn.outcome, turn.proxy.printer
    now_ms = done.ended_ns // 1_000_000 + turn.offset_ms
    if done.too_long:
        return (pack(printer.refused_length(now_ms)),)
    return session.carried_out(done.hosted, printer, now_ms)


def ledger_of(turn: Turn, view: View) -> dict[str, bytes]:
    """What is kept beside the conversation: texts that were added, and what stands in front of this answer."""
    proxy, done = turn.proxy, turn.outcome
    kept = turn.kept
    if view.ledger and not kept and done.outcome == "answered":
        kept = [*proxy.ledger.other(turn.message, turn.ask.count, view.ledger)]
    if not (turn.new_advice or kept or done.decided):
        return shaping.kept(turn)
    return shaping.kept(turn) | proxy.ledger.seal(
        turn.message,
        turn.new_advice,
        turn.put_back,
        kept,
        decided=done.decided,
        answer=Message("assistant", done.stands or done.text, done.calls),
        known=view.ledger,
    )


def status_after(turn: Turn) -> str:
    """What the run waits for once this answer is there: a person, a result that comes later, or nothing."""
    done, tools = turn.outcome, turn.chosen.policy.tools
    if not (tools.later or tools.human) or done.status_after != "active" or not done.calls:
        return done.status_after
    if any(first(tools.later, call) for call in done.calls):
        return "waiting"
    return "active"


def paused_by(turn: Turn) -> str:
    """Who pauses the session with this turn: what handed it to a person (`store.runs.WHO`); "" = nobody."""
    decision = turn.decision
    if decision.action != "pause" or decision.rung is not Rung.CUT or turn.seen.paused:
        return ""
    return WHO_OF.get(decision.rule.partition(".")[0], "loop")
