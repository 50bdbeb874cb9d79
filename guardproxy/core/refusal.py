"""What a refused proposal makes of the turn's decision: asked again, made to answer, or ended. Pure.

At most `REASKS` times in a turn the model is asked again, then it has to answer; a loop that had to answer before and
comes back is cut (DESIGN section 7). A refused proposal is an occurrence: the episode counts on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from guardproxy.core.model import NO_FP, Decision, Episode, Rung, Trail
from guardproxy.core.proposals import Objection
from guardproxy.core.terms import REASKS

RANK = {"refuse": 2, "repair": 1, "pause": 0}


def worst(objections: Sequence[Objection]) -> Objection:
    """The one that speaks for all: a refusal before a repair, among equals the one counted highest."""
    return max(objections, key=lambda one: (RANK[one.action], one.count))


def refused(
    decision: Decision, objection: Objection, past: Sequence[Episode], trail: Trail, *, asked: int, alone: bool
) -> Decision:
    """The decision once a call was refused. `asked`: how often this turn has asked again. `alone`: no call is left.

    Its rung says what comes next: firm = ask again, finalize = an answer without calls, cut = the end. While other
    calls are handed on, and where arguments were wrong, nothing ends.
    """
    stood = _stored(objection, past)
    known = decision.episode if decision.episode and decision.episode.subject == objection.subject else stood
    rung = Rung.FIRM
    if alone and objection.action == "refuse":
        if stood is not None and stood.rung >= Rung.FINALIZE:
            rung = Rung.CUT
        elif asked >= REASKS:
            rung = Rung.FINALIZE
    action = {Rung.FIRM: "refuse", Rung.FINALIZE: "finalize", Rung.CUT: "cut"}[rung]
    mark = decision.episode
    if known is not None:
        mark = replace(known, rung=max(rung, known.rung), count=objection.count, at_step=max(trail.first, trail.last))
    return replace(
        decision,
        action=action,
        rung=rung,
        rule=objection.rule,
        count=objection.count,
        reason=objection.reason,
        mode="enforce",
        would="",
        episode=mark,
    )


def observed(decision: Decision, objection: Objection) -> Decision:
    """The decision where a call would have been refused; what was decided on the request goes before it."""
    if decision.rung >= Rung.NUDGE or decision.would:
        return decision
    would = "refuse" if objection.action == "repair" else objection.action
    return replace(
        decision,
        action="observe",
        rung=Rung.OBSERVE,
        mode="observe",
        would=would,
        rule=objection.rule,
        count=objection.count,
        reason=objection.reason,
    )


def _stored(objection: Objection, past: Sequence[Episode]) -> Episode | None:
    if objection.subject == NO_FP:
        return None
    return next((one for one in reversed(past) if one.subject == objection.subject), None)
