"""Is "done" done? The checks of a final answer, before the client has it (`final.hold`) or, else, for the report."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from guardproxy.core import advice, commands, completion, session
from guardproxy.core.completion import Candidate, Failure
from guardproxy.core.model import Call, Rung
from guardproxy.core.tool_rules import first
from guardproxy.http import deciding, unaccepted
from guardproxy.http.verifier import RULE as VERIFIER, Question

if TYPE_CHECKING:
    from guardproxy.http.guarded import Guarded
    from guardproxy.http.look import Look
    from guardproxy.http.streamed import Response
    from guardproxy.http.turn import Turn

UNREACHED, UNREAD = "verifier-not-reached", "verifier-without-verdict"
NO_VERDICT = {UNREACHED: "it could not be reached", UNREAD: "it gave no verdict"}
"""Said in `x-guardproxy-notice`, and in words: whatever the verification says, the answer is not to blame."""

_log = logging.getLogger(__name__)


UNFINISHED = frozenset(("pause_turn",))
"""Reasons of answers with which the provider goes on when it is asked again: Anthropic's, of the tools that it runs."""


def ends(turn: Turn, calls: Sequence[Call]) -> bool:
    """Whether the calls hand over the final answer (`tools.final`)."""
    return bool(calls) and all(first(turn.chosen.policy.tools.final, call) is not None for call in calls)


async def report(run: Guarded, look: Look) -> None:
    """Check an answer that the client has already: for the header, the log and the trace."""
    done, seen = run.turn.outcome, look.watcher.seen()
    final = seen.finish_reason not in UNFINISHED and (not seen.calls or ends(run.turn, seen.calls))
    if run.turn.checks and done.outcome == "answered" and final:
        await run.outlet.over()
        _note(run.turn, await _failures(run.turn, seen.text, seen.calls))


async def check(run: Guarded, look: Look) -> tuple[bool, Response | None]:
    """Whether the answer is not handed on; then the response with which the run ends, or None: it was sent back."""
    turn, seen = run.turn, look.watcher.seen()
    if not turn.checks or seen.finish_reason in UNFINISHED or not (seen.text.strip() or seen.calls):
        return False, None
    given = turn.response is not None and not look.watcher.holding
    if given:
        await run.outlet.over()
    found = await run.outlet.meanwhile(_failures(turn, seen.text, seen.calls))
    _note(turn, found)
    failures = [one for one in found if one.mode == "enforce"]
    terms = turn.chosen.policy.final
    if not failures or not terms.hold or given:
        return False, None
    told = completion.feedback(failures, turn.language)
    raws = look.watcher.raw_calls()
    after = turn.surface.results(raws, [told] * len(raws)) if raws else (turn.surface.feedback(told),)
    silent = bool(_why(turn, failures[-1])) and all(one.rule == VERIFIER for one in failures)
    if run.retries < terms.retries and not silent and await run.again(look, after, "verify"):
        run.retries += 1
        turn.outcome.verification, turn.outcome.failed_checks = "", ()  # the next answer gets a verdict of its own
        return True, None
    if terms.on_failure == "deliver":
        return False, None
    _end(turn, failures, run.retries)
    wrong = [one.text for one in failures]
    turn.proxy.spawn(unaccepted.keep(turn, seen.text, seen.calls, wrong))
    run.leave(look)
    run.add(look, after)  # a run that goes on after all: the model sees what it said, and what was wrong with it
    run_id, where = turn.seen.session, deciding.where(turn)
    shown = commands.command("sessions", "show", run_id, where=where)
    how = commands.go_on(run_id, "loop", where=where) if terms.on_failure == "pause" else ""
    return True, await run.close(advice.unverified(turn.language, wrong, run.retries, shown, how))


def _end(turn: Turn, failures: Sequence[Failure], tried: int) -> None:
    """The run ends, or waits for a person, with an answer that has failed for good."""
    wrong = ", ".join(f"{one.rule}{_why(turn, one)}" for one in failures)
    turn.decision = replace(
        turn.decision,
        action=turn.chosen.policy.final.on_failure,
        rung=Rung.CUT,
        rule=f"completion.{failures[0].rule}",
        count=tried + 1,
        reason=f"the answer did not pass its checks ({wrong})",
        mode="enforce",
        would="",
    )


def _why(turn: Turn, failure: Failure) -> str:
    said = next((one for one in turn.outcome.notices if one in NO_VERDICT), "")
    return f": {NO_VERDICT[said]}" if said and failure.rule == VERIFIER else ""


def _others(turn: Turn) -> list[str]:
    return [one for one in turn.outcome.notices if one not in NO_VERDICT]


async def _failures(turn: Turn, text: str, calls: Sequence[Call]) -> tuple[Failure, ...]:
    proxy, view = turn.proxy, turn.seen
    turn.outcome.notices = _others(turn)  # of the answer before
    candidate = Candidate(
        text=text,
        calls=tuple(calls),
        ask=turn.surface.conversation(turn.ask),
        printer=proxy.printer,
        remembered=session.trail(view, whole=True).steps,
        waits_for=(view.approval,) if view.approval_state == "pending" else (),
    )
    raised: list[str] = []
    found = completion.verify(candidate, turn.chosen.policy.completion, turn.language, raised=raised.append)
    if raised:
        turn.decision = replace(turn.decision, errors=(*turn.decision.errors, *[f"{rule}: raised" for rule in raised]))
    verifier = turn.chosen.verifier
    if verifier is None:
        return found
    asked = Question(view.session, view.turn, turn.ask.model, text, calls, turn.language)
    verdict = await verifier.ask(asked)
    if verdict.wrong:
        _log.warning("no verdict on a final answer: %s", verdict.wrong)
        turn.outcome.notices = [*_others(turn), UNREAD if verdict.reached else UNREACHED]
    return found if verdict.passed else (*found, Failure(VERIFIER, verdict.feedback, turn.chosen.verifier_mode))


def _note(turn: Turn, found: Sequence[Failure]) -> None:
    turn.outcome.verification = "failed" if found else "passed"
    turn.outcome.failed_checks = tuple(one.rule for one in found)
