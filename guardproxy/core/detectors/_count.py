"""What detectors share: the trail read backwards in rounds, and the question whether news lay in between.

A round is one assistant message. Equal calls with equal results inside a round are one occurrence (goose#9136), and
the order inside a round does not count. Calls that look at nothing outside (think, calculate), results that have not
come and results that the client cleared are left out; replies without a call change nothing between calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from guardproxy.core.exemption import Exemption
from guardproxy.core.model import Flag, Fp, Kind, Step, Trail, Triple

THINK, FAILED, VOID, PENDING = int(Flag.THINK), int(Flag.FAILED), int(Flag.VOID), int(Flag.PENDING)
INVALID, MUTATES, ROUND_START = int(Flag.INVALID), int(Flag.MUTATES), int(Flag.ROUND_START)
SILENT, LONG, NO_TOOL, MEDIA = int(Flag.SILENT), int(Flag.LONG), int(Flag.NO_TOOL), int(Flag.MEDIA)
LOOKS, ZERO, SHELL = int(Flag.LOOKS), int(Flag.ZERO), int(Flag.SHELL)
SKIPPED = THINK | int(Flag.UNANSWERED) | int(Flag.CLEARED)

_CALL = Kind.CALL  # by name it costs a third of a microsecond

NEVER = Triple(0, 0, 0)
"""What is told and never spoken of."""

SCHEDULE_MS = 60_000
"""Announced pauses between equal looks from which they are a schedule: those who watch something wait for minutes."""

Pair = tuple[Fp, Fp]
Key = Pair | frozenset[Pair]

has = int.__and__
"""Flag test at C speed: the enum's own operators cost ten times as much."""


class Round(NamedTuple):
    """One assistant message: its distinct steps, their ordinals, and how many more were the same.

    `rest_ms`: how long the agent said that it pauses between this round and the next one.
    """

    steps: tuple[Step, ...]
    at: tuple[int, ...]
    twins: int
    key: Key
    rest_ms: int = 0

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The calls with their results."""
        return tuple(step.pair for step in self.steps)

    @property
    def calls(self) -> Fp | frozenset[Fp]:
        """The calls alone, whatever they were answered."""
        return self.steps[0].near if len(self.steps) == 1 else frozenset(step.near for step in self.steps)

    def ordinal(self, near: Fp) -> int:
        """The ordinal of the (first) step that is this call."""
        return next(at for at, step in zip(self.at, self.steps, strict=True) if step.near == near)

    def every(self, flag: int) -> bool:
        """Whether each step has the flag."""
        if len(self.steps) == 1:  # most are; no generator for them
            return bool(has(self.steps[0].flags, flag))
        return all(has(step.flags, flag) for step in self.steps)


class _Past:
    """What has been read of one trail. The detectors of a turn all ask the same of it."""

    __slots__ = ("calls", "found", "recurring", "rest", "trail")

    def __init__(self, trail: Trail) -> None:
        self.trail = trail
        self.found: list[Round] = []
        self.rest = _read(trail)
        self.calls = 0
        self.recurring = -1  # not counted yet


def rounds(trail: Trail) -> Iterator[Round]:
    """The rounds of a trail, newest first, made as they are asked for: most turns need one or two.

    None at all where the newest step is no evidence (a reply without a call, a thought): nothing happened that a word
    about calls could ride with.
    """
    past, place = _past(trail), 0
    found, rest = past.found, past.rest
    while True:
        if place == len(found):
            one = next(rest, None)
            if one is None:
                return
            found.append(one)
        yield found[place]
        place += 1


def newest(trail: Trail) -> Round | None:
    """The newest of the rounds: what most detectors can tell from that they have nothing to say."""
    past = _past(trail)
    if not past.found:
        one = next(past.rest, None)
        if one is None:
            return None
        past.found.append(one)
    return past.found[0]


def _read(trail: Trail) -> Iterator[Round]:
    held: list[tuple[int, Step]] = []
    ordinal = trail.first + len(trail.steps)
    if not trail.steps or trail.steps[-1].kind is not Kind.CALL:
        return
    begun, rest, before = False, 0, 0
    for step in reversed(trail.steps):
        ordinal -= 1
        if step.kind is not Kind.CALL:
            continue
        flags = step.flags
        if not has(flags, SKIPPED):
            held.append((ordinal, step))
            before += step.bearing.rest_ms  # it paused and then looked
        else:
            rest += step.bearing.rest_ms
        if has(flags, ROUND_START):
            if held:
                yield _round(held, rest)
                rest = 0
            elif not begun:
                return
            held, begun = [], True
            rest, before = rest + before, 0
    if held:
        yield _round(held, rest)


_now = _Past(Trail(()))
"""The trail asked about last: a trail never changes, so that what was read of it stays true."""


def _past(trail: Trail) -> _Past:
    global _now  # noqa: PLW0603  # a memo of one, by identity: no verdict depends on it
    past = _now
    if past.trail is not trail:
        past = _now = _Past(trail)
    return past


def _round(held: list[tuple[int, Step]], rest: int) -> Round:
    if len(held) == 1:
        at, step = held[0]
        return Round((step,), (at,), 0, step.pair, rest)
    distinct: dict[Pair, tuple[int, Step]] = {}
    for at, step in reversed(held):
        distinct.setdefault(step.pair, (at, step))
    chosen = [*distinct.values()]  # as they stand: an order by hashes would be one by the key
    key: Key = frozenset(distinct) if len(distinct) > 1 else next(iter(distinct))
    return Round(tuple(s for _, s in chosen), tuple(at for at, _ in chosen), len(held) - len(chosen), key, rest)


def recurs(trail: Trail, least: int) -> bool:
    """Whether a call of the newest round stands at least `least` times in the trail: a cheap first question."""
    past = _past(trail)
    return (past.recurring if past.recurring >= 0 else _count(past)) >= least


def repeats(trail: Trail) -> bool:
    """Whether a call of the newest round stands anywhere else in the trail, too."""
    past = _past(trail)
    return (past.recurring if past.recurring >= 0 else _count(past)) > past.calls


def _count(past: _Past) -> int:
    """How often the calls of the newest round stand in the trail altogether."""
    nears: list[Fp] = []
    steps = past.trail.steps
    for place in range(len(steps) - 1, -1, -1):
        step = steps[place]
        if step.kind is not _CALL:
            continue
        if not has(step.flags, SKIPPED):
            nears.append(step.near)
        if nears and has(step.flags, ROUND_START):
            break
    every = [step.near for step in steps]
    past.calls = 1 if len(nears) == 1 else len(set(nears))
    past.recurring = every.count(nears[0]) if len(nears) == 1 else sum(map(every.count, set(nears)))
    return past.recurring


def streak(found: Iterator[Round]) -> list[Round]:
    """The newest round and those before it, as long as calls and results stay the same."""
    run: list[Round] = []
    for one in found:
        if run and one.key != run[0].key:
            break
        run.append(one)
    return run


def in_row(found: Iterator[Round]) -> list[Round]:
    """The newest round and those before it, as long as the calls stay the same, whatever they were answered."""
    run: list[Round] = []
    for one in found:
        if run and one.calls != run[0].calls:
            break
        run.append(one)
    return run


def announced(past: list[Round], places: Sequence[int]) -> list[int]:
    """What the agent said that it pauses (ms) between rounds at these places, newest first."""
    return [sum([one.rest_ms for one in past[newer + 1 : older + 1]]) for newer, older in pairwise(places)]


def scheduled(past: list[Round], places: Sequence[int]) -> bool:
    """Whether the agent paused for SCHEDULE_MS or more between all of them, of its own will: checks by a clock."""
    rests = announced(past, places)
    return bool(rests) and min(rests) >= SCHEDULE_MS


def members(run: list[Round]) -> tuple[Fp, ...]:
    """The near actions of the rounds, each once, oldest first."""
    return tuple(dict.fromkeys(step.near for one in reversed(run) for step in one.steps))


def together(nears: tuple[Fp, ...]) -> Fp:
    """One fingerprint of several actions, in whatever order; that of the least one would be one by the key."""
    made = 0
    for near in nears:
        made ^= int.from_bytes(near)
    return made.to_bytes(16)


def evidence(run: list[Round]) -> tuple[int, ...]:
    """Ordinals of the rounds' steps, ascending."""
    return tuple(sorted(at for one in run for at in one.at))


def named(run: list[Round]) -> str:
    """The tools of the newest round, for a reason."""
    return ", ".join(dict.fromkeys(step.tool or "(no name)" for step in run[0].steps))


def news(between: list[Round], earlier: list[Round], wanted: Step, *, look: bool = False) -> Exemption | None:
    """What happened between two occurrences of a pair, given all that lay before; None: nothing.

    News is a result never seen before from a call that changes something (a bare "ok" tells of one, too), or from a
    check that fails differently than it did. Fresh plain reads are none (DESIGN section 6, case B03 against B23).
    `wanted`: the pair's step. `look`: it only shows something, or says that all is well; a result never seen before of
    anything but a look is news for it, too.
    """
    seen = {pair for one in earlier for pair in one.pairs}
    known = {near for near, _ in seen}
    acts = MUTATES | SILENT
    fresh = [step for one in between for step in one.steps if step.pair not in seen]
    if has(wanted.flags, MUTATES):  # it is a try itself, and others that end like earlier ones are no news for it
        told = {(step.tool, step.result) for one in earlier for step in one.steps}
        bare = VOID | SILENT
        fresh = [s for s in fresh if s.tool != wanted.tool or has(s.flags, bare) or (s.tool, s.result) not in told]
    if any(has(step.flags, acts) for step in fresh):
        return Exemption.STATE_CHANGE
    if any(has(step.flags, FAILED) and step.near in known for step in fresh):
        return Exemption.NEW_INFORMATION
    if look and not all(has(step.flags, LOOKS) for step in fresh):
        return Exemption.NEW_INFORMATION
    return None
