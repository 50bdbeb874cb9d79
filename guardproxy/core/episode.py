"""One loop from its first intervention until it is left: how a new finding continues, escalates or begins one.

Pure. An episode is kept as opaque bytes beside the ring; `climb` says which rung a finding stands on, given them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise

from guardproxy.core.model import NO_FP, Episode, Finding, Flag, Kind, Rung, Step, Trail, Triple

GAP = 6
"""An episode ends after this many steps without its calls (`loop-detectors.md` section 5, from openclaw#71671)."""

MEMBERS = 8
"""Calls remembered per episode: enough for a cycle of the longest period with room for a neighbour."""

APART = 3
"""Steps between nudges of different episodes; escalation inside one is not delayed."""

_ROUND_START = int(Flag.ROUND_START)


def pack_episode(episode: Episode) -> bytes:
    """The stored form. No content: rule, fingerprints and numbers."""
    members = [fp.hex() for fp in episode.members[-MEMBERS:]]
    triple = [episode.triple.nudge, episode.triple.firm, episode.triple.cut]
    row = [1, episode.rule, episode.subject.hex(), members, int(episode.rung), episode.count, episode.at_step]
    return json.dumps([*row, triple, episode.unit], separators=(",", ":")).encode()


def unpack_episodes(stored: Iterable[bytes]) -> tuple[Episode, ...]:
    """Episodes of the stored forms, oldest first; a form of another version is left out."""
    found = []
    for form in stored:
        row = json.loads(form)
        if row[0] == 1:
            members = tuple(bytes.fromhex(fp) for fp in row[3])
            subject, triple = bytes.fromhex(row[2]), Triple(*row[7])
            found.append(Episode(row[1], subject, members, Rung(row[4]), row[5], row[6], triple, row[8]))
    return tuple(found)


def find(finding: Finding, episodes: Sequence[Episode], trail: Trail) -> Episode | None:
    """The newest episode about the same loop: the same subject, or a call in common.

    Not the rule's name: a loop that changes from a repeat into a cycle is still the loop that was spoken of. Calls that
    have come to answer something else, again and again, are another loop.
    """
    members = set(finding.members)
    for episode in reversed(episodes):
        if episode.subject == finding.subject or members.intersection(episode.members):
            return None if anew(episode, finding.evidence[-1:], trail) else episode
    return None


def anew(episode: Episode, ordinals: Iterable[int], trail: Trail) -> bool:
    """Whether a call at one of the ordinals has an answer that it never had until the episode's last decision.

    That ends an episode (`loop-detectors.md` section 5). What the trail no longer shows is not judged.
    """
    known = trail.steps[: max(0, episode.at_step - trail.first + 1)]
    for step in (trail.steps[ordinal - trail.first] for ordinal in ordinals if ordinal > episode.at_step):
        earlier = [one for one in known if one.near == step.near]
        if step.kind is Kind.CALL and earlier and not any(_answer_alike(step, one) for one in earlier):
            return True
    return False


def _answer_alike(one: Step, other: Step) -> bool:
    """As the detectors compare: the same answer, the same kind of error, or no answer to a malformed call."""
    if one.masked_result == other.masked_result or one.result == other.result:
        return True
    malformed = int(one.flags) & int(other.flags) & int(Flag.INVALID)
    return bool(malformed) or one.signature == other.signature != NO_FP


def going_on(episode: Episode, finding: Finding, trail: Trail) -> bool:
    """Whether the loop was never left since the episode's last decision."""
    if any(ordinal <= episode.at_step for ordinal in finding.evidence):
        return True
    ordinals = [episode.at_step, *member_steps(episode, trail), trail.last]
    return all(later - earlier <= GAP for earlier, later in pairwise(ordinals))


def member_steps(episode: Episode, trail: Trail) -> list[int]:
    """Ordinals of the steps since the episode's last decision that belong to it."""
    return [
        ordinal
        for ordinal, step in enumerate(trail.steps, trail.first)
        if ordinal > episode.at_step and step.near in episode.members
    ]


def climb(finding: Finding, past: Episode | None, trail: Trail) -> Rung:
    """The rung of a finding: what its own count has reached, or one up where its loop had been left and came back."""
    rung = finding.rung
    if past is None or past.at_step < trail.first or rung < Rung.NUDGE or going_on(past, finding, trail):
        return rung
    return min(max(rung, Rung(min(past.rung + 1, Rung.CUT))), highest(finding.triple))


def continued(episode: Episode, trail: Trail) -> Finding | None:
    """An episode that was firm and goes on with any of its calls: its count goes on too (case B10).

    A call of it that now answers differently ends it.
    """
    if episode.rung < Rung.FIRM or episode.at_step < trail.first or not trail.steps:
        return None
    further = member_steps(episode, trail)
    if not further or further[-1] != trail.last or _answers_differently(trail) or anew(episode, further, trail):
        return None
    ordinals = (episode.at_step, *further)
    if any(later - earlier > GAP for earlier, later in pairwise(ordinals)):
        return None
    more = _occurrences(further, trail)
    count = episode.count + more // max(1, episode.unit)
    reason = f"goes on after it was told to stop: {more} more of the same calls"
    subject, members = episode.subject, episode.members
    return Finding(episode.rule, count, episode.triple, subject, members, reason, ordinals, episode.unit)


def _occurrences(ordinals: Sequence[int], trail: Trail) -> int:
    """How many of the steps count: equal calls in one round are one occurrence (case B02)."""
    wanted, seen, number = set(ordinals), set(), 0
    for ordinal, step in enumerate(trail.steps, trail.first):
        number += int.__and__(step.flags, _ROUND_START) > 0
        if ordinal in wanted:
            seen.add((number, step.near))
    return len(seen)


def _answers_differently(trail: Trail) -> bool:
    newest: Step = trail.steps[-1]
    earlier = next((step for step in reversed(trail.steps[:-1]) if step.near == newest.near), newest)
    return earlier.result != newest.result


def highest(triple: Triple) -> Rung:
    """The last rung that the thresholds allow at all."""
    if triple.cut:
        return Rung.CUT
    return Rung.FIRM if triple.firm else Rung.NUDGE
