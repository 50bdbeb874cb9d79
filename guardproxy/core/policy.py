"""What to do about a turn: findings, budgets and the ladder become one decision. Pure; `replay` calls the same.

Rules: DESIGN sections 6 and 7. Detectors are called one by one, so that one that raises costs only itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from guardproxy.core import budget, episode as episodes_of, proposals, scoped_exemption, session, sparing
from guardproxy.core.budget import Limit
from guardproxy.core.denial import denied
from guardproxy.core.detectors import NEEDS, RULES, SPECIFICITY, default_settings
from guardproxy.core.detectors._signs import signs
from guardproxy.core.model import NO_FP, Decision, Episode, Finding, Kind, Rung, Trail, Triple
from guardproxy.core.scoped_exemption import ScopedExemption
from guardproxy.core.tenant_budget import Due, overspent
from guardproxy.core.terms import Approvals, Checkpoints, Final
from guardproxy.core.tool_rules import ToolRules
from guardproxy.core.view import View

ACTIONS = {
    Rung.PASS: "pass",
    Rung.OBSERVE: "observe",
    Rung.NUDGE: "nudge",
    Rung.FIRM: "firm",
    Rung.FINALIZE: "finalize",
    Rung.CUT: "cut",
}

PROFILES: Mapping[str, Mapping[str, float]] = {
    "coding": {"turns": 200, "tool_calls": 500, "wall_seconds": 7200, "cost_usd": 20},
    "qa": {"turns": 8},
    "cross_system": {"turns": 25},
    "none": {},
}
"""Shipped limits (DESIGN section 8): cost per session, the others per request span."""


PASS = Decision("pass")
"""The decision on most turns."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One tenant's rules. `modes` overrides `mode` (enforce, observe) per rule; a rule absent from `detectors` is off.

    `finals`: how often a closed thread gets the final text before HTTP 400. `equal_limit`: equal requests in a row
    after which an agent that forgets to append is ended. `proposals`, `hygiene`, `completion`: settings by check or
    kind; one that is absent is off. `on_cut`, `on_budget`: `pause` hands a run to a person in place of its end.
    `on_overrun`: what becomes of a stream that passes its hold and the limit (finish, end). `deny_status`: of
    `budget_exceeded`. `shrink_to_fit`: a request without room asks for less output. `unmetered`: what becomes of routes
    whose cost is not counted, where there are budgets of tenants (refuse, pass).
    """

    mode: str = "enforce"
    language: str = "auto"
    detectors: Mapping[str, object] = field(default_factory=default_settings)
    modes: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    finals: int = 3
    equal_limit: int = 8
    default_output_hold: int = 4096
    splice_usage: bool = True
    tools: ToolRules = ToolRules()
    proposals: Mapping[str, object] = field(default_factory=proposals.default_settings)
    hygiene: Mapping[str, object] = field(default_factory=dict)
    completion: Mapping[str, object] = field(default_factory=dict)
    final: Final = Final()
    approvals: Approvals = Approvals()
    checkpoints: Checkpoints = Checkpoints()
    on_cut: str = "cut"
    on_budget: str = "deny"
    on_overrun: str = "finish"
    deny_status: int = 400
    shrink_to_fit: bool = False
    unmetered: str = "refuse"
    _asked: dict[int, tuple[tuple[str, object], ...]] = field(default_factory=dict, init=False, compare=False)

    def asked(self, shown: int) -> tuple[tuple[str, object], ...]:
        """The detectors that the signs `shown` are for, with their settings: worked out once for each set of signs."""
        found = self._asked.get(shown)
        if found is None:
            found = tuple((rule, settings) for rule, settings in self.detectors.items() if NEEDS[rule] & shown)
            self._asked[shown] = found
        return found

    def mode_of(self, rule: str) -> str:
        """The mode in which `rule` works."""
        return self.modes.get(rule, self.mode)

    @property
    def stored(self) -> tuple[Limit, ...]:
        """The limits as the store is to keep them: one in observe mode is counted and refuses nothing."""
        if self.mode == "enforce" and not self.modes:
            return self.limits
        return tuple(
            limit if self.mode_of(f"budget.{limit.dimension}") == "enforce" else limit._replace(limit=-1)
            for limit in self.limits
        )


def decide(
    view: View,
    policy: Policy,
    *,
    lost: bool = False,
    exempt: Sequence[ScopedExemption] = (),
    due: Sequence[Due] = (),
    tooled: bool = True,
) -> Decision:
    """The decision on a turn, from what the store answered.

    `lost`: advice was given, but its place is no longer in the conversation (compaction): live advice is given again.
    `exempt`: the exemptions that stand for this run. `due`: the tenant's budgets that it counts against.
    `tooled`: the request offers tools.
    """
    if view.panic:
        return Decision("pass", reason="every intervention is switched off (panic)")
    if view.paused:
        return _paused(view, policy)
    if view.closed:
        return _closed(view, policy)
    if not view.admitted:
        decision = denied(view, policy.default_output_hold)
        return decision if view.new_session else handed_over(decision, policy)  # what did not begin cannot wait
    if not view.counted:
        return Decision("pass", reason="no turn: a request without tools on a session that has them")
    trail = session.trail(view)
    past = episodes_of.unpack_episodes(view.episodes) if view.episodes else ()
    found, errors = _find(trail, past, policy)
    spared, further = sparing.held_back(view, trail, found, policy.detectors)
    errors += further
    forgot = _forgetful(view, policy) if view.equal else None
    judged = [_budget(trail, view, policy, tooled=tooled), _overspent(view, policy, due), forgot]
    held = None
    if exempt:
        found, held = scoped_exemption.part(found, trail, exempt, SPECIFICITY, past)
        judged = [*judged[:2], scoped_exemption.release(judged[2], exempt), held]
    if found:
        judged += [_loop(trail, past, policy, found, mode, lost=lost) for mode in ("enforce", "observe")]
    if not any(judged):  # most turns
        return Decision("pass", findings=found, spared=spared, errors=errors) if found or spared or errors else PASS
    acted = [_acted(decision, policy, trail, past) for decision in judged if decision is not None]
    worst = max(acted, key=lambda one: (one.rung >= Rung.NUDGE and one.mode == "enforce", one.rung))
    if held:
        found, worst = (*found, *held.findings), replace(worst, exempted=held.exempted or worst.exempted)
        spared += tuple(one for one in held.spared if one not in worst.spared)
    return replace(handed_over(worst, policy), findings=found, spared=spared + worst.spared, errors=errors)


def handed_over(decision: Decision, policy: Policy) -> Decision:
    """The decision, as a pause where the policy hands such an end to a person."""
    if decision.rung is not Rung.CUT or decision.mode != "enforce" or decision.action not in ("cut", "deny"):
        return decision
    if decision.refused is not None and decision.refused.key:
        return decision  # a tenant's budget comes again with its window, and no person's word on one run changes it
    wanted = policy.on_budget if decision.rule.startswith("budget.") else policy.on_cut
    return replace(decision, action="pause") if wanted == "pause" else decision


def _paused(view: View, policy: Policy) -> Decision:
    reason = view.paused_why or f"this run is paused by {view.paused}"
    rule = "tools.approval" if view.paused == "approval" else f"paused.{view.paused}"
    return Decision("pause", Rung.CUT, rule, view.answers, reason, over=view.answers > policy.finals)


def _closed(view: View, policy: Policy) -> Decision:
    often = "once" if view.answers == 1 else f"{view.answers} times"
    reason = f"this run was ended before, by {view.closed_by}; it was asked again {often} since"
    over = view.answers >= policy.finals
    return Decision("cut", Rung.CUT, view.closed_by, view.answers, reason, over=over)


def _budget(trail: Trail, view: View, policy: Policy, *, tooled: bool) -> Decision | None:
    reached = budget.judge(trail, view, policy.limits)
    if reached:
        limit, count = reached
        rule = f"budget.{budget.DIMENSIONS[limit.dimension].setting}"
        rung = Rung.CUT if count >= limit.limit else Rung.FINALIZE
        reason = f"{limit.dimension}: {count} of {limit.limit} in this request"
        action = "deny" if rung is Rung.CUT else ACTIONS[rung]
        return Decision(action, rung, rule, count, reason)
    spent = budget.last_affordable(view)
    if spent is None or not (tooled or any(step.kind is Kind.CALL for step in trail.steps)):
        return None  # a question by itself, or a chat: nothing is going on that could be ended
    line, row = spent.line, budget.DIMENSIONS[spent.line.dimension]
    standing = f"{row.show(spent.used)} of {row.show(line.limit)} used"
    reason = f"limit {row.setting} ({line.scope}): {standing}, this is the last turn that fits"
    whose = line.scope if line.key else ""
    return Decision("finalize", Rung.FINALIZE, f"budget.{row.setting}", spent.used, reason, scope=whose)


def _overspent(view: View, policy: Policy, due: Sequence[Due]) -> Decision | None:
    """What a limit in observe mode would have refused: the store only counts for it."""
    if due and (passed := overspent(due, view)):
        return _would_deny(passed.scope, passed.dimension, passed.limit)
    stored_as = policy.stored
    if stored_as is policy.limits:
        return None
    used = {(spent.line.scope, spent.line.dimension): spent.used + spent.held for spent in view.spent}
    for limit, stored in zip(policy.limits, stored_as, strict=True):
        if stored != limit and used.get((limit.scope, limit.dimension), 0) > limit.limit:
            return _would_deny(limit.scope, limit.dimension, limit.limit)
    return None


def _would_deny(scope: str, dimension: str, limit: int) -> Decision:
    row = budget.DIMENSIONS[dimension]
    reason = f"limit {row.setting} ({scope}) of {row.show(limit)} is passed"
    return Decision("deny", Rung.CUT, f"budget.{row.setting}", limit, reason)


def _forgetful(view: View, policy: Policy) -> Decision:
    """The same request again after an answer with content: the agent forgets to append. Not the model's loop."""
    rung = Rung.CUT if view.equal >= policy.equal_limit else Rung.OBSERVE
    reason = f"the same request {view.equal + 1} times: the agent does not append the answers to its messages"
    return Decision(ACTIONS[rung], rung, "equal_request", view.equal + 1, reason)


def _find(trail: Trail, past: Sequence[Episode], policy: Policy) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """What the detectors see, and the episodes that go on without them."""
    findings, errors = _detect(trail, policy)
    if not past:
        return tuple(findings), errors
    further = [found for one in _newest(past) if (found := episodes_of.continued(one, trail))]
    return (*findings, *further), errors


def _loop(
    trail: Trail, past: Sequence[Episode], policy: Policy, found: Sequence[Finding], mode: str, *, lost: bool
) -> Decision | None:
    """The decision on loops by the rules of one mode. Each mode has its own marks: a shadow silences nobody."""
    findings = [one for one in found if policy.mode_of(one.rule) == mode]
    past = [one for one in past if policy.mode_of(one.rule) == mode]
    if not findings:
        return None
    climbed = [(episodes_of.climb(f, episodes_of.find(f, past, trail), trail), f) for f in findings]
    rung, finding = max(climbed, key=lambda pair: (pair[0], SPECIFICITY.get(pair[1].rule, 0), pair[1].count))
    return _speak(rung, finding, trail, past, lost=lost)


def _detect(trail: Trail, policy: Policy) -> tuple[list[Finding], tuple[str, ...]]:
    findings, errors = [], []
    if not trail.steps:
        return [], ()
    for rule, settings in policy.asked(signs(trail)):
        try:
            found = RULES[rule].detect(trail, settings)
        except Exception as error:  # noqa: BLE001 - a detector must never be the cause of a failed request
            errors.append(f"{rule}: {type(error).__name__}: {error}")
            continue
        if found is not None:
            findings.append(found)
    return findings, tuple(errors)


def _newest(past: Sequence[Episode]) -> list[Episode]:
    """The newest decision of each subject."""
    return list({one.subject: one for one in past}.values())


def _speak(rung: Rung, finding: Finding, trail: Trail, past: Sequence[Episode], *, lost: bool) -> Decision:
    """Whether there is something to say: once per rung of an episode, and not too soon after another's."""
    said = episodes_of.find(finding, past, trail)
    quiet = Decision("observe", Rung.OBSERVE, finding.rule, finding.count, finding.reason, finding=finding)
    if said is not None and said.at_step >= trail.first and episodes_of.going_on(said, finding, trail):
        if lost and Rung.NUDGE <= said.rung <= Rung.FIRM:
            rung = max(rung, said.rung)
        elif rung <= said.rung and rung < Rung.FINALIZE:
            return quiet
        elif (rung, finding.count) == (said.rung, said.count):  # a part of a lap: counted on from the same place
            return replace(quiet, action=ACTIONS[rung], rung=rung)
    elif rung is Rung.NUDGE and (gap := _since_advice(past, trail)) < episodes_of.APART:
        return replace(quiet, reason=f"{finding.reason}; held back, other advice was given {gap} steps ago")
    if rung < Rung.NUDGE:
        return quiet
    members, at = finding.members, trail.last
    mark = Episode(finding.rule, finding.subject, members, rung, finding.count, at, finding.triple, finding.unit)
    return replace(quiet, action=ACTIONS[rung], rung=rung, episode=mark)


def _since_advice(past: Sequence[Episode], trail: Trail) -> int:
    """Steps since any advice in this span."""
    return min((trail.last - one.at_step for one in past if one.at_step >= trail.first), default=episodes_of.APART)


def _acted(decision: Decision, policy: Policy, trail: Trail, past: Sequence[Episode]) -> Decision:
    """Apply the mode: in observe mode nothing is done, and of a request span's ends only the first is reported."""
    if decision.rung < Rung.NUDGE or policy.mode_of(decision.rule) == "enforce":
        return decision
    ends = (one for one in past if one.rung is Rung.CUT and policy.mode_of(one.rule) == "observe")
    would = "" if any(one.at_step >= trail.first for one in ends) else decision.action
    mark = decision.episode
    if mark is None and decision.rung is Rung.CUT:
        at = max(trail.first, trail.last)
        mark = Episode(decision.rule, NO_FP, (), decision.rung, decision.count, at, Triple(0, 0, 0))
    return replace(decision, action="observe", mode="observe", would=would, episode=mark)
