"""What a policy asks for beside the decision: tool results tidied for the model, calls looked at before the agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from guardproxy._upstreams import RESERVED
from guardproxy.api import of_tools, one_model
from guardproxy.core import completion, episode, hygiene, proposals, session
from guardproxy.core.edit import AppendText, Edit
from guardproxy.core.model import Decision, Rung
from guardproxy.core.policy import Policy
from guardproxy.core.proposals import Inspection
from guardproxy.core.scoped_exemption import ScopedExemption
from guardproxy.core.tenant import NOBODY
from guardproxy.core.tool_rules import ToolRule
from guardproxy.errors import BadAsk
from guardproxy.http import shaping

if TYPE_CHECKING:
    from guardproxy.http.turn import Turn


class Wants(NamedTuple):
    """What a policy looks at on every turn: results on their way in, calls without a loop, final answers.

    `people`: calls may wait for a person. Then all calls of an answer wait until they are judged, since what waits goes
    with what stands beside it: nothing of it is carried out twice.
    """

    cleans: bool
    calls: bool
    finals: bool
    holds: bool  # final answers are held, since one may be sent back
    guards: bool  # calls that nobody may see unjudged: forbidden ones, and those that a person has to allow
    people: bool  # calls may wait for a person: then all of an answer do


def wants(policy: Policy, *, verifies: str = "") -> Wants:
    """What of it there is to do; asked once, since most policies want nothing. `verifies`: the verifier's mode."""
    tools, asked = policy.tools, policy.proposals.get("arguments")
    checks = completion.in_use(policy.completion)
    enforced = verifies == "enforce" or any(getattr(one, "mode", "") == "enforce" for one in checks.values())
    return Wants(
        cleans=any(getattr(one, "mode", "off") != "off" for one in policy.hygiene.values()),
        calls=bool(tools.deny or tools.approval or tools.human) or getattr(asked, "mode", "off") != "off",
        finals=bool(checks) or verifies in ("observe", "enforce"),
        holds=policy.final.hold and enforced,
        guards=_enforced(policy, ("deny", tools.deny), ("approval", tools.approval)),
        people=_enforced(policy, ("approval", tools.approval), ("human", tools.human)),
    )


def _enforced(policy: Policy, *rules: tuple[str, tuple[ToolRule, ...]]) -> bool:
    return any(listed and getattr(policy.proposals.get(name), "mode", "off") == "enforce" for name, listed in rules)


def refuse(turn: Turn) -> None:
    """Raise BadAsk where the key is not for this model or upstream, or for one that a tool is to use; where the body
    names two models; and where rules would not hold: several answers at once are never edited, and one that is made in
    the background is fetched where nobody judges it.
    """
    if turn.tenant is not NOBODY:
        turn.tenant.may_ask(turn.ask.model)
        one_model(turn.body.plain, turn.ask.model)
        for model in of_tools(turn.ask.parsed) if turn.tenant.models else ():
            turn.tenant.may_ask(model)
        if turn.proxy.upstreams is None:
            turn.tenant.may_reach(RESERVED)
    if turn.ask.choices > 1 and turn.ask.tools and turn.chosen.wants.guards:
        told = (
            "`n` must be 1 with tools here: this policy forbids calls, or has people allow them, and judges one answer"
        )
        raise BadAsk(told, code="unsupported_value", param="n")
    if turn.ask.background and turn.ask.tools and turn.chosen.wants.guards:
        param = "deferred" if turn.ask.parsed.get("deferred") else "background"
        told = (
            f"`{param}` must be false with tools here: this policy forbids calls, or has people allow them, and what "
            "is fetched later is not judged"
        )
        raise BadAsk(told, code="unsupported_value", param=param)


def clean(turn: Turn) -> tuple[Edit, ...]:
    """The edits that tidy tool results; what is appended stands in the ledger afterwards, like advice."""
    policy, ask, surface = turn.chosen.policy, turn.ask, turn.surface
    if turn.seen.panic:
        return ()
    settings, language = shaping.hygiene(turn)
    found = hygiene.clean(
        ask,
        settings,
        policy.tools,
        surface.first_language(ask) if language == "auto" else language,
        whole=partial(surface.conversation, ask),
        since_ms=turn.seen.since_ms,
        printer=turn.proxy.printer,
        long=partial(surface.long_results, ask),
    )
    done, decision = turn.outcome, turn.decision
    done.hygiene = tuple((one.name, one.mode, one.tool) for one in found.done)
    done.late = tuple(one.tool for one in found.done if one.name == "deadlines")
    if found.errors:
        turn.decision = decision = replace(decision, errors=(*decision.errors, *found.errors))
    if found.fatal is not None and not decision.ends:
        action = found.fatal.action
        rung = Rung.CUT if action == "pause" else Rung.FINALIZE
        reason = found.fatal.reason
        turn.decision = Decision(
            action, rung, "hygiene.errors", 1, reason, findings=decision.findings, errors=decision.errors
        )
    return found.edits


def inspection(turn: Turn, exempt: Sequence[ScopedExemption]) -> Inspection | None:
    """What is to be looked at in the answer; None on most turns."""
    proxy, view = turn.proxy, turn.seen
    policy = turn.chosen.policy
    if not (view.episodes or turn.decision.episode or turn.chosen.wants.calls) or view.panic or turn.ask.choices > 1:
        return None
    return proposals.prepare(
        turn.ask,
        session.trail(view),
        episode.unpack_episodes(view.episodes),
        turn.decision,
        policy.proposals,
        policy.tools,
        proxy.printer,
        turn.language,
        partial(turn.surface.schema, turn.ask),
        mode_of=policy.mode_of,
        exempt=exempt,
    )


def put_back_texts(turn: Turn) -> tuple[AppendText, ...]:
    """The texts that stand in this request again."""
    return tuple(edit for edit in turn.put_back if isinstance(edit, AppendText))
