"""What a person called a false alarm: which findings an exemption holds at observe, and for whom. Pure.

An exemption is one rule in one scope until a moment. A finding that it holds is still made, logged and traced, so that
one can see what would have been done; it climbs no ladder. Limits are no alarms: nothing here touches a budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import Ask, Decision, Episode, Finding, Fp, Rung, Trail, value

SCOPES: Mapping[str, str] = {
    "session": "this session",
    "agent": "every run of this agent (the same system messages, times and numbers aside)",
    "tool": "every run that uses this tool",
}
"""How far an exemption reaches. All stay inside their org."""


@value
class ScopedExemption:
    """One rule, held at observe until `until_ms`. `label` is the id of its label.

    `subject`: the session or the agent's digest, "" in scope tool. `tool`: only where a call of this tool is part of
    the evidence; "" = whatever the tool. In scope tool there is one.
    """

    label: str
    rule: str
    scope: str
    subject: str
    until_ms: int
    tool: str = ""


def agent_of(ask: Ask, printer: Fingerprinter) -> str:
    """Digest by which the runs of one agent are known: client and system messages, else client and first words.

    Masked as replies are, so that a prompt with today's date in it is the same prompt tomorrow.
    """
    system = [message.text for message in ask.head if message.role == "system"]
    words = system or [message.text for message in ask.head]
    return printer.hash16("agent", ask.declared.agent, *map(printer.text, words)).hex()


def standing(
    every: Iterable[ScopedExemption], session: str, agent: Callable[[], str], now_ms: int
) -> tuple[ScopedExemption, ...]:
    """Those that hold in a run now. `agent` is asked only where one is about an agent."""
    found = []
    for one in every:
        mine = one.scope == "tool" or one.subject == (session if one.scope == "session" else agent())
        if mine and now_ms < one.until_ms:
            found.append(one)
    return tuple(found)


def words(one: ScopedExemption) -> str:
    """Why a finding was spared."""
    return f"exempted by a person until {moment(one.until_ms)} (label {one.label})"


def moment(ms: int) -> str:
    """A time as operators read it, in UTC: those who read it may sit in several zones."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def part(
    found: Sequence[Finding],
    trail: Trail,
    exempt: Sequence[ScopedExemption],
    rank: Mapping[str, int],
    past: Sequence[Episode] = (),
) -> tuple[tuple[Finding, ...], Decision | None]:
    """The findings that nobody exempted, and what is said of the others: they are observed.

    One cause, one message: what less specific rules (`rank`) say of no calls but those of an exempted finding, or of an
    episode that its rule had here before (`past`), is about the same loop, and held with it. Otherwise the next rule
    would end the run for what a person has just allowed.
    """
    by_name = [(one, _covering(one, _tools(one, trail), exempt)) for one in found]
    held = [(one, by) for one, by in by_name if by is not None]
    before = [(one, by) for one in past if (by := _covering(one, _tools_of(one, trail), exempt)) is not None]
    if not (held or before):
        return tuple(found), None
    causes: list[tuple[Finding | Episode, ScopedExemption]] = [*held, *before]
    free = []
    for one, by in by_name:
        if by is None:
            above = next((by for cause, by in causes if _about_the_same(one, cause, rank)), None)
            if above is None:
                free.append(one)
            else:
                held.append((one, above))
    return tuple(free), _observed(held) if held else None


def release(decision: Decision | None, exempt: Sequence[ScopedExemption]) -> Decision | None:
    """A decision that rests on no finding (equal requests), observed where its rule is exempted."""
    by = None if decision is None else next((x for x in exempt if x.rule == decision.rule and not x.tool), None)
    if decision is None or by is None or decision.rung < Rung.NUDGE:
        return decision
    reason = f"{decision.reason}; {words(by)}"
    spared = Spared(Exemption.FALSE_ALARM, decision.rule, decision.count, ())
    told = {"reason": reason, "spared": (spared,), "exempted": (by.label,)}
    return replace(decision, action="observe", rung=Rung.OBSERVE, **told)  # type: ignore[arg-type]  # fields of it


def holds(episode: Episode, trail: Trail, exempt: Sequence[ScopedExemption]) -> bool:
    """Whether a person has called the loop of an episode a false alarm here."""
    return bool(exempt) and _covering(episode, _tools_of(episode, trail), exempt) is not None


def _covering(of: Finding | Episode, tools: set[str], exempt: Sequence[ScopedExemption]) -> ScopedExemption | None:
    return next((one for one in exempt if one.rule == of.rule and (not one.tool or one.tool in tools)), None)


def _tools_of(episode: Episode, trail: Trail) -> set[str]:
    """Tools of the calls that an episode is about, as far as they are made again."""
    return {step.tool for step in trail.steps if step.near in episode.members}


def _tools(finding: Finding, trail: Trail) -> set[str]:
    """Tools of the calls that a finding rests on, as far as the window still has them."""
    steps, first = trail.steps, trail.first
    return {steps[at - first].tool for at in finding.evidence if 0 <= at - first < len(steps)}


def _about_the_same(other: Finding, held: Finding | Episode, rank: Mapping[str, int]) -> bool:
    """Whether `other` speaks of the loop of what is held, and less precisely."""
    calls: set[Fp] = set(held.members)
    less = rank.get(other.rule, 0) < rank.get(held.rule, 0)
    return less and bool(other.members) and calls.issuperset(other.members)


def _observed(held: Sequence[tuple[Finding, ScopedExemption]]) -> Decision:
    """What is said of the held: the highest speaks, those that would have acted say why they do not."""
    spared = [(_spared(one), by) for one, by in held]
    finding, by = max(spared, key=lambda pair: (pair[0].rung, pair[0].count))
    acting = finding.rung >= Rung.NUDGE
    reason = f"{finding.reason}; {words(by)}" if acting else finding.reason
    labels = tuple(dict.fromkeys(by.label for one, by in spared if one.rung >= Rung.NUDGE))
    findings = tuple(one for one, _ in spared)
    made = Decision("observe", Rung.OBSERVE, finding.rule, finding.count, reason, finding=finding)
    told = tuple(one.spared for one in findings if one.rung >= Rung.NUDGE and one.spared)
    return replace(made, findings=findings, exempted=labels, spared=told)


def _spared(finding: Finding) -> Finding:
    """The finding as one that a person has put aside."""
    if finding.rung < Rung.NUDGE:
        return finding
    return replace(finding, spared=Spared(Exemption.FALSE_ALARM, finding.rule, finding.count, finding.evidence))
