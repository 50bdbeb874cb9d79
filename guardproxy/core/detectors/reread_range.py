"""The same parts of one thing read again and again, with other offsets, limits or page numbers.

Sees: ranges by what they cover, not by their numbers: lines 1-80, then 10-60, then 20-70; a sweep over all pages that
starts once more from the front. Forward paging through new ranges never counts, nor does a look that brings more new
than old; a look that brings some new, as overlapping windows do, counts neither way. A change in between (the thing
may be another now) and an answer that differs for the very same range forget what was read. Cost: nothing where the
newest call asks for no range; else the rounds of the window. Known false alarm: somebody who keeps one page open and
looks at its paragraphs one by one; that is why it takes five.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from guardproxy.core.detectors._count import FAILED, MUTATES, PENDING, VOID, Round, has, newest, rounds
from guardproxy.core.model import NO_FP, Finding, Fp, Step, Trail, Triple


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds count looks at what had been read before."""

    triple: Triple = Triple(5, 8, 12)
    """Looks at known parts (`loop-detectors.md` section 5; runs of the development set go up to four)."""

    share: float = 0.9
    """Part of a range that has to be known for the look to count; section 5 has half, as overlapping windows have."""

    gap: int = 6
    """Rounds from one look at the thing to the next; a longer pause starts the count anew."""


@dataclass(slots=True)
class _Read:
    """What has been read of one thing, and the looks that brought nothing."""

    settings: Settings
    known: dict[tuple[int, int], Fp] = field(default_factory=dict)  # range to its result
    counted: list[tuple[int, Step]] = field(default_factory=list)
    since: int = 0

    def forget(self) -> None:
        """The thing may be another now."""
        self.known.clear()
        self.counted.clear()

    def look(self, at: int, step: Step) -> None:
        """Take in one look."""
        part = (step.bearing.start, step.bearing.stop)
        if self.known.get(part, step.result) != step.result:
            self.forget()
        if self.since > self.settings.gap:
            self.counted.clear()
        self.since = 0
        length = part[1] - part[0]
        covered = _covered(part, self.known)
        if covered >= self.settings.share * length:
            self.counted.append((at, step))
        elif covered * 2 < length:
            self.counted.clear()
        self.known[part] = step.result


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Count the looks at known parts of what the newest round reads; the thing looked at most is reported."""
    last = newest(trail)
    if last is None:
        return None
    wanted = {step.bearing.target for step in last.steps if step.bearing.target != NO_FP}
    found = [f for target in sorted(wanted) if (f := _judge(target, list(rounds(trail)), settings))]
    return max(found, key=lambda f: f.count, default=None)


def _judge(target: Fp, past: list[Round], settings: Settings) -> Finding | None:
    read = _Read(settings)
    for one in reversed(past):
        read.since += 1
        if any(has(step.flags, MUTATES) and step.bearing.target == NO_FP for step in one.steps):
            read.forget()
        for at, step in sorted(zip(one.at, one.steps, strict=True), key=lambda pair: pair[0]):
            if step.bearing.target == target and not has(step.flags, FAILED | VOID | PENDING):
                read.look(at, step)
    looks = read.counted
    if len(looks) < 2 or looks[-1][0] not in past[0].at:
        return None
    reason = f"{looks[-1][1].tool} read {len(looks)} times what it had read before, under other numbers"
    nears = tuple(dict.fromkeys(step.near for _, step in looks))
    ordinals = tuple(at for at, _ in looks)
    return Finding("reread_range", len(looks), settings.triple, target, nears, reason, ordinals)


def _covered(part: tuple[int, int], known: Iterable[tuple[int, int]]) -> int:
    """How much of a range the known ones cover together."""
    covered, reached = 0, part[0]
    for start, stop in sorted(known):
        begin, end = max(start, reached), min(stop, part[1])
        if begin < end:
            covered += end - begin
            reached = end
    return covered
