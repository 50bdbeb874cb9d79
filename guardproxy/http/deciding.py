"""What an answer makes of a turn's decision: the words and the bookkeeping beside `guarded`. No IO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from guardproxy.core import advice, commands, episode, interventions, refusal, session
from guardproxy.core.edit import AppendText, DropCalls
from guardproxy.core.interventions import Context
from guardproxy.core.interventions._context import progress
from guardproxy.core.model import NO_FP, Call, Rung
from guardproxy.core.policy import handed_over
from guardproxy.core.proposals import Objection
from guardproxy.core.refusal import worst
from guardproxy.http import preparing

__all__ = ["closed", "finalize", "judged", "note", "refused", "summary", "texts", "where", "worst", "written"]

if TYPE_CHECKING:
    from guardproxy.http.turn import Turn


def judged(turn: Turn, calls: Sequence[Call], *, repairs: int, refusals: int) -> tuple[Objection, ...]:
    """What is objected to in these calls. A check that raises is never the cause of a failed request."""
    if turn.inspection is None or not calls:
        return ()
    try:
        found = turn.inspection.judge(calls, repairs=repairs, refusals=refusals)
    except Exception as error:  # noqa: BLE001  # said in the docstring
        wrong = f"proposals: {type(error).__name__}: {error}"
        turn.decision = replace(turn.decision, errors=(*turn.decision.errors, wrong))
        return ()
    if turn.inspection.errors:
        turn.decision = replace(turn.decision, errors=(*turn.decision.errors, *turn.inspection.errors))
        turn.inspection.errors.clear()
    note(turn, found, calls)
    return found


def where(turn: Turn) -> str:
    """The options with which commands reach this run: the store of this proxy, and whose it is."""
    return turn.proxy.where + commands.of(turn.opening.org)


def closed(turn: Turn) -> None:
    """The answer ends in our words: a turn that only refused was made to answer."""
    if turn.decision.action == "refuse":
        turn.decision = replace(turn.decision, action="finalize", rung=Rung.FINALIZE)


def note(turn: Turn, found: Sequence[Objection], calls: Sequence[Call]) -> None:
    """Keep what was objected to, also where nothing is done about it."""
    done = turn.outcome
    done.objected += tuple((one, calls[one.position], len(done.earlier) + 1) for one in found)
    for one in found:
        if one.mode != "enforce" and one.subject == NO_FP:  # of a loop the request's side has spoken, as in `replay`
            turn.decision = refusal.observed(turn.decision, one)


def written(turn: Turn) -> None:
    """Report the calls in an answer's text that a rule of `tools` speaks of. Nothing holds them: the agent reads the
    text that the client is given, and text flows.
    """
    calls, done = turn.outcome.written, turn.outcome
    if turn.inspection is None or turn.seen.panic or any(call in calls for _, call, _ in done.objected):
        return
    for one in turn.inspection.judge(calls):
        if one.rule.startswith("tools."):
            seen = replace(
                one, mode="observe", reason=f"{one.reason}; it stands in the answer's text, which is not held"
            )
            done.objected += ((seen, calls[one.position], len(done.earlier) + 1),)
            turn.decision = refusal.observed(turn.decision, seen)


def refused(turn: Turn, objection: Objection, *, asked: int = 0, alone: bool = False) -> str:
    """A call is refused: what the turn does now (`reask`, `finalize`, `cut`)."""
    view = turn.seen
    past = episode.unpack_episodes(view.episodes) if view.episodes else ()
    trail = session.trail(view)
    decision = refusal.refused(turn.decision, objection, past, trail, asked=asked, alone=alone)
    turn.decision = handed_over(decision, turn.chosen.policy)
    return {Rung.FINALIZE: "finalize", Rung.CUT: "cut"}.get(turn.decision.rung, "reask")


def texts(calls: int, objections: Sequence[Objection]) -> list[str]:
    """A result for each call of an answer of which nothing is handed on: what it was refused for."""
    told = {one.position: one.text for one in objections}
    return [told.get(position) or objections[0].text for position in range(calls)]


def finalize(turn: Turn) -> tuple[str, DropCalls]:
    """The request for an answer without calls, and what stands in its place if there is none."""
    turn.decision = replace(turn.decision, action="finalize", rung=Rung.FINALIZE)
    context = Context(turn.seen, turn.language, preparing.put_back_texts(turn), where=where(turn))
    edits = interventions.carry_out(turn.decision, turn.surface.widen(turn.ask), context)
    text = next((one.text.strip() for one in edits if isinstance(one, AppendText)), "")
    drop = next((one for one in edits if isinstance(one, DropCalls)), DropCalls(summary(turn)))
    return text, drop


def summary(turn: Turn) -> str:
    """What the run achieved, as a cut says it, or as the person is told who takes over."""
    decision, told = turn.decision, progress(turn.surface.widen(turn.ask), turn.decision)
    if decision.action == "pause":
        how = commands.go_on(turn.seen.session, "loop", where=where(turn))
        return advice.handed_over(turn.language, decision, told, how)
    if decision.action == "cut":
        how = commands.reopen(turn.seen.session, decision.rule, where(turn))
        return advice.ended(turn.language, decision, told, how)
    return advice.summary(turn.language, decision, told)
