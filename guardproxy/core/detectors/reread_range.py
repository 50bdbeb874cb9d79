"""The same parts of one thing read again and again, with other offsets, limits or page numbers.

Sees: ranges by what they cover, not by their numbers: lines 1-80, then 10-60, then 20-70; a sweep over all pages that
starts once more from the front. Forward paging through new ranges never counts, nor does a look that brings more new
than old; a look that brings some new, as overlapping windows do, counts neither way. A change in between (the thing
may be another now) and an answer that differs for the very same range forget what was read. Cost: nothing where the
newest call asks for no range; else the rounds of the window. Known false alarm: somebody who keeps one page open and
looks at its paragraphs one by one; that is why it takes five.
"""

from __future__ import annotations

from dataclasses import dataclass

from guardproxy.core.detectors._count import FAILED, MUTATES, PENDING, VOID, has, newest, rounds
from guardproxy.core.detectors._signs import RANGE
from guardproxy.core.model import NO_FP, Finding, Fp, Step, Trail, Triple

Part = tuple[int, int]  # from the first that was read to the one after the last


NEEDS = RANGE


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds count looks at what had been read before."""

    triple: Triple = Triple(5, 8, 12)
    """Looks at known parts (`loop-detectors.md` section 5; runs of the development set go up to four)."""

    share: float = 0.9
    """Part of a range that has to be known for the look to count; section 5 has half, as overlapping windows have."""

    gap: int = 6
    """Rounds from one look at the thing to the next; a longer pause starts the count anew."""


class _Read:
    """What has been read of one thing, oldest first, and the looks that brought nothing."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: list[Part] = []  # apart from each other, ascending
        self._results: dict[Part, Fp] = {}
        self.counted: list[tuple[int, Step]] = []
        self._at = 0

    def forget(self) -> None:
        """The thing may be another now."""
        self._known.clear()
        self._results.clear()
        self.counted.clear()

    def look(self, place: int, at: int, step: Step) -> None:
        """Take in one look, in the round that is at this place."""
        part = _part(step)
        if self._results.setdefault(part, step.result) != step.result:
            self.forget()
            self._results[part] = step.result
        if place - self._at > self._settings.gap:
            self.counted.clear()
        self._at = place
        length, covered = part[1] - part[0], _covered(part, self._known)
        if covered >= self._settings.share * length:
            self.counted.append((at, step))
        elif covered * 2 < length:
            self.counted.clear()
        if covered < length:
            self._known = _joined(self._known, part)


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Count the looks at known parts of what the newest round reads; the thing looked at most is reported."""
    last = newest(trail)
    if last is None:
        return None
    wanted = {step.bearing.target: step for step in last.steps if step.bearing.target != NO_FP}
    found = [f for step in wanted.values() if (f := _judge(step, trail, settings))]
    return max(found, key=lambda f: (f.count, f.subject), default=None)


def _judge(wanted: Step, trail: Trail, settings: Settings) -> Finding | None:
    target, (start, stop) = wanted.bearing.target, _part(wanted)
    before = sorted([_part(step) for step in trail.steps if step.bearing.target == target and step is not wanted])
    if _covered((start, stop), before) < settings.share * (stop - start):
        return None  # paging forward, as most do
    past = list(rounds(trail))
    read = _Read(settings)
    for place, one in enumerate(reversed(past)):
        if any(has(step.flags, MUTATES) and step.bearing.target == NO_FP for step in one.steps):
            read.forget()
        for at, step in zip(one.at, one.steps, strict=True):
            if step.bearing.target == target and not has(step.flags, FAILED | VOID | PENDING):
                read.look(place, at, step)
    looks = sorted(read.counted, key=lambda look: look[0])
    if len(looks) < 2 or looks[-1][0] not in past[0].at:
        return None
    reason = f"{looks[-1][1].tool} read {len(looks)} times what it had read before, under other numbers"
    nears = tuple(dict.fromkeys(step.near for _, step in looks))
    ordinals = tuple(at for at, _ in looks)
    return Finding("reread_range", len(looks), settings.triple, target, nears, reason, ordinals)


def _part(step: Step) -> Part:
    return step.bearing.start, step.bearing.stop


def _covered(part: Part, known: list[Part]) -> int:
    """How much of a range the known ones, ascending, cover together."""
    covered, reached, end = 0, *part
    for start, stop in known:
        if start >= end:
            break
        if stop > reached:
            covered += min(stop, end) - max(start, reached)
            reached = min(stop, end)
    return covered


def _joined(known: list[Part], part: Part) -> list[Part]:
    """The ranges with one more, those that meet as one."""
    start, stop = part
    apart = [one for one in known if one[1] < start or one[0] > stop]
    meeting = [one for one in known if one[1] >= start and one[0] <= stop]
    return sorted([*apart, (min([start, *(a for a, _ in meeting)]), max([stop, *(b for _, b in meeting)]))])
