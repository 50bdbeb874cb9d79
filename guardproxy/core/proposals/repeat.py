"""A call that belongs to a loop which was told to stop, and which would bring nothing again, is refused.

Sees: calls equal, but for cosmetics, to those of an episode at firm or above that is still going on. A call is refused
only if it was made twice or more with the same answer and nothing has happened since: no step that is new to the trail,
none that changes something, no word of a person. So a test may run again after each edit, and a search after each new
page. Leaves alone what time itself may change: polls, and loops of replies without calls. Cost: as many steps as lie
between a call and its last time; nothing where no episode is firm. Known false refusal: a call whose answer would have
changed by itself, out of sight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from guardproxy.core import advice, episode as episodes_of, scoped_exemption
from guardproxy.core.advice import Facts
from guardproxy.core.exemption import Exemption
from guardproxy.core.fingerprint import strip_own
from guardproxy.core.model import NO_FP, Call, Decision, Episode, Flag, Fp, Kind, Rung, Step, Trail
from guardproxy.core.proposals._case import ENFORCE, OBSERVE, OFF, Case, Objection, Tries, checked
from guardproxy.core.rounds import rounds
from guardproxy.core.tool_rules import ToolRules

USELESS = frozenset(
    "repeated_call repeated_error interleaved_repeat cycle same_result error_signature nothing_new no_progress "
    "reread_range invalid_call".split()
)
"""Rules whose loops are made of calls that bring nothing again. A poll is not among them: time may bring its news."""

TWICE = 2
"""Equal answers to a call from which one more is no surprise."""

_CHANGES, _FAILED, _THINK, _PENDING = map(int, (Flag.MUTATES, Flag.FAILED, Flag.THINK, Flag.PENDING))
_NO_NEWS = _FAILED | int(Flag.INVALID | Flag.UNANSWERED)


@dataclass(frozen=True, slots=True)
class Settings:
    """`mode`: off, observe (reported, handed on) or enforce. Raises ValueError for another one."""

    mode: str = ENFORCE

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        checked(self.mode)


def wanted(settings: Settings, tools: ToolRules, decision: Decision, episodes: Sequence[Episode]) -> bool:
    """Whether there is anything to look at."""
    if settings.mode == OFF:
        return False
    if decision.episode is not None and decision.episode.rung >= Rung.FIRM:
        return True
    return bool(episodes) and any(one.rung >= Rung.FIRM for one in episodes)


def prepare(case: Case, settings: Settings) -> Repeat | None:
    """The calls that are forbidden on this turn, if there are any."""
    forbidden: dict[Fp, tuple[Episode, str]] = {}
    allowed = _allowed(case)
    for loop, mode in _standing(case, settings):
        for member in loop.members:
            known = forbidden.get(member)
            if member not in allowed and (known is None or mode == ENFORCE) and _useless(member, case.trail):
                forbidden[member] = (loop, mode)
    return Repeat(case, forbidden) if forbidden else None


def _standing(case: Case, settings: Settings) -> Iterator[tuple[Episode, str]]:
    """The loops that were told to stop and were not left, with the mode in which they are spoken of.

    Each mode has its own marks, as in `policy`: a shadow silences nobody.
    """
    every = (*case.episodes, case.decision.episode) if case.decision.episode is not None else case.episodes
    newest: dict[tuple[str, Fp], Episode] = {}
    for one in every:
        mode = settings.mode if case.mode_of(one.rule) == ENFORCE else OBSERVE
        newest[mode, one.subject] = one
    for (mode, _), one in newest.items():
        if one.rung >= Rung.FIRM and one.rule in USELESS and _goes_on(one, case.trail):
            yield one, mode


def _allowed(case: Case) -> set[Fp]:
    """The calls that a person has called a false alarm: as episodes before, or as findings of this turn."""
    held = [one for one in case.episodes if scoped_exemption.holds(one, case.trail, case.exempt)]
    spared = [
        one for one in case.decision.findings if one.spared is not None and one.spared.because is Exemption.FALSE_ALARM
    ]
    return {member for one in held for member in one.members} | {member for one in spared for member in one.members}


def _goes_on(loop: Episode, trail: Trail) -> bool:
    """Whether nobody has spoken since, the loop was never left, and no call of it has come to answer otherwise."""
    if loop.at_step < trail.first or not trail.steps:
        return False
    further = episodes_of.member_steps(loop, trail)
    if any(later - earlier > episodes_of.GAP for earlier, later in pairwise((loop.at_step, *further, trail.last))):
        return False
    return not episodes_of.anew(loop, further, trail)


def _useless(near: Fp, trail: Trail) -> bool:
    """Whether the call was answered alike at least twice, and nothing has happened since."""
    at = [place for place, step in enumerate(trail.steps) if step.near == near and step.kind is Kind.CALL]
    if len(at) < TWICE or not _alike(trail.steps[at[-1]], trail.steps[at[-2]]):
        return False
    if int(trail.steps[at[-1]].flags) & _PENDING:
        return False
    return not any(_news(place, trail.steps) for place in range(at[-1] + 1, len(trail.steps)))


def _news(place: int, steps: Sequence[Step]) -> bool:
    """Whether something happened at this step: a change, or an answer that was not known.

    A reply without a call is none: what a person says to it begins a new span, so that what is left here was said by a
    program, such as "now retry" after the answer that the model was made to give.
    """
    step = steps[place]
    if step.kind is Kind.TEXT:
        return False
    flags = int(step.flags)
    if flags & _CHANGES:
        return not flags & _FAILED
    if flags & _NO_NEWS or (flags & _THINK and not step.bearing.rest_ms):
        return False
    return not any(one.near == step.near and _alike(one, step) for one in steps[:place])


def _alike(one: Step, other: Step) -> bool:
    if one.result == other.result or one.masked_result == other.masked_result:
        return True
    return one.signature == other.signature != NO_FP


class Repeat:
    """Refuses the calls of a loop."""

    __slots__ = ("_case", "_forbidden", "mode")

    def __init__(self, case: Case, forbidden: Mapping[Fp, tuple[Episode, str]]) -> None:
        self._case = case
        self._forbidden = forbidden
        self.mode = ENFORCE if any(mode == ENFORCE for _, mode in forbidden.values()) else OBSERVE

    def concerns(self, tool: str) -> bool:
        """Whether a forbidden call is one of this tool's."""
        name = tool.strip().casefold()
        return any(step.tool.casefold() == name for step in self._case.trail.steps if step.near in self._forbidden)

    def look(self, position: int, call: Call, tries: Tries) -> Objection | None:
        """The refusal of a forbidden call. Refused proposals count as occurrences; equal ones of one answer once."""
        near = self._near(call)
        found = self._forbidden.get(near)
        if found is None:
            return None
        loop, mode = found
        made = max([loop.count, *(one.count for one in self._case.decision.findings if one.subject == loop.subject)])
        text = advice.refusal(self._case.language, loop.rule, self._facts(near, call, made), loop.unit)
        count = made + 1 + tries.refusals
        reason = f"{call.name.strip()} again, which makes {count} times, in a loop that was told to stop"
        return Objection(position, "refuse", loop.rule, text, reason, mode, loop.subject, loop.members, count)

    def _near(self, call: Call) -> Fp:
        return self._case.printer.near(call, self._case.ask.defaults.get(call.name, {}))

    def _facts(self, near: Fp, call: Call, count: int) -> Facts:
        """What the text says of the call: its newest answer, as far as the request still shows it."""
        answers = (
            strip_own(result.text)
            for turn in reversed(rounds(self._case.ask))
            for one, result in zip(turn.calls, turn.results, strict=True)
            if result is not None and self._near(one) == near
        )
        return Facts(call.name, advice.short(call.arguments), advice.short(next(answers, "")), count)
