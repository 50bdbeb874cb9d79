"""One loop from its first word until it is left: packing, finding again, going on, coming back, escalating."""

from __future__ import annotations

from dataclasses import replace

import pytest

from guardproxy.core import episode as episodes
from guardproxy.core.model import Episode, Finding, Flag, Fp, Rung, Step, Trail, Triple
from tests.core.talk import steps

REPEAT = Triple(3, 4, 6)
SHAPES = {name: step.near for name, step in zip("abcdxyz", steps("a b c d x y z"), strict=True)}


def nears(names: str) -> tuple[Fp, ...]:
    return tuple(SHAPES[name] for name in names)


def past(rung: Rung, count: int, at: int, names: str = "a", triple: Triple = REPEAT, unit: int = 1) -> Episode:
    return Episode("repeated_call", nears(names)[0], nears(names), rung, count, at, triple, unit)


def finding(count: int, evidence: tuple[int, ...], names: str = "a", triple: Triple = REPEAT) -> Finding:
    return Finding("repeated_call", count, triple, nears(names)[0], nears(names), "why", evidence)


@pytest.mark.parametrize(
    "one",
    [
        past(Rung.NUDGE, 3, 2),
        past(Rung.CUT, 99, 1 << 40, "abcd", Triple(0, 0, 0), 4),
        Episode("budget.turns", bytes(16), (), Rung.CUT, 8, -1, Triple(0, 0, 0)),
    ],
)
def test_packing(one: Episode) -> None:
    assert episodes.unpack_episodes([episodes.pack_episode(one)]) == (one,)


def test_only_the_newest_members_are_kept() -> None:
    fps = tuple(bytes([n]) * 16 for n in range(12))
    one = Episode("cycle", fps[0], fps, Rung.NUDGE, 3, 9, REPEAT)

    assert episodes.unpack_episodes([episodes.pack_episode(one)])[0].members == fps[-episodes.MEMBERS :]


def test_another_version_is_left_out() -> None:
    good = episodes.pack_episode(past(Rung.NUDGE, 3, 2))

    assert len(episodes.unpack_episodes([b"[2,1]", good, b'["?"]'])) == 1


def flagged(name: str, *, first: bool) -> Step:
    """A step that begins a round, or stands beside another."""
    (one,) = steps(name)
    return replace(one, flags=one.flags | Flag.ROUND_START if first else one.flags & ~Flag.ROUND_START)


FOUND = {
    # members and subjects of the episodes, those of the finding: which is it (None: none)
    "none": ("", "a", None),
    "the same": ("a", "a", 0),
    "the newest": ("a,b,a", "a", 2),
    "another": ("a,b", "c", None),
    "a repeat that became a cycle": ("b", "ab", 0),
    "a cycle that became a repeat": ("ab", "b", 0),
}


@pytest.mark.parametrize("name", FOUND)
def test_find(name: str) -> None:
    earlier, names, index = FOUND[name]
    known = [past(Rung.NUDGE, 3, at, members) for at, members in enumerate(filter(None, earlier.split(",")))]
    found = episodes.find(finding(3, (), names), known, Trail(()))

    assert found == (None if index is None else known[index])


CLIMBS = {
    # ring, the episode's last decision (rung, count, at), the finding (count, evidence): the rung
    "a new loop": ("a a a", None, (3, (0, 1, 2)), Rung.NUDGE),
    "not yet": ("a a", None, (2, (0, 1)), Rung.OBSERVE),
    "going on": ("a a a a", (Rung.NUDGE, 3, 2), (4, (0, 1, 2, 3)), Rung.FIRM),
    "going on with a gap of six": ("a a a b c d x y a a a", (Rung.NUDGE, 3, 2), (3, (8, 9, 10)), Rung.NUDGE),
    "left and back: one rung up": ("a a a b c d x y z a a a", (Rung.NUDGE, 3, 2), (3, (9, 10, 11)), Rung.FIRM),
    "left after a firm word": ("a a a a b c d x y z a a a", (Rung.FIRM, 4, 3), (3, (10, 11, 12)), Rung.FINALIZE),
    "left after finalize": ("a a a b c d x y z a a a", (Rung.FINALIZE, 5, 2), (3, (9, 10, 11)), Rung.CUT),
    "back, but no loop yet": ("a a a b c d x y z a a", (Rung.NUDGE, 3, 2), (2, (9, 10)), Rung.OBSERVE),
    "an episode of an earlier span": ("a a a | a a a", (Rung.NUDGE, 3, 2), (3, (4, 5, 6)), Rung.NUDGE),
}


def trail_of(ring: str) -> Trail:
    """The trail of a ring; what stands before a boundary is not in it."""
    before, _, after = ring.rpartition("|")
    first = len(before.split()) + bool(before)
    return Trail(steps(after), first)


@pytest.mark.parametrize("name", CLIMBS)
def test_climb(name: str) -> None:
    ring, decided, (count, evidence), expected = CLIMBS[name]
    known = past(*decided) if decided else None

    assert episodes.climb(finding(count, evidence), known, trail_of(ring)) is expected


@pytest.mark.parametrize(
    ("triple", "expected"),
    [(Triple(3, 4, 6), Rung.CUT), (Triple(3, 4, 0), Rung.FIRM), (Triple(3, 0, 0), Rung.NUDGE)],
)
def test_coming_back_never_goes_higher_than_the_thresholds(triple: Triple, expected: Rung) -> None:
    trail = trail_of("a a a b c d x y z a a a")
    known = past(Rung.CUT, 9, 2, triple=triple)

    assert episodes.highest(triple) is expected
    assert episodes.climb(finding(3, (9, 10, 11), triple=triple), known, trail) is expected


ANEW = {
    # ring, ordinal of the last decision, ordinals looked at: whether a call answers as it never did before
    "the same": ("a a a a", 2, (3,), False),
    "another answer": ("a a a a2", 2, (3,), True),
    "an answer that it had before the decision": ("a2 a a a a2", 3, (4,), False),
    "one of many": ("a a a a2 b a", 2, (3, 5), True),
    "a call that was not there": ("a a a b2", 2, (3,), False),
    "nothing since": ("a a a", 2, (2,), False),
    "what was there is out of sight": ("a a | a2", 1, (3,), False),
    "the same error": ("!a !a !a !a", 2, (3,), False),
    "an error now": ("a a a !a", 2, (3,), True),
}


@pytest.mark.parametrize("name", ANEW)
def test_anew(name: str) -> None:
    ring, at, ordinals, expected = ANEW[name]
    trail = trail_of(ring)

    assert episodes.anew(past(Rung.NUDGE, 3, at), ordinals, trail) is expected
    if ordinals[-1] == trail.last:
        found = episodes.find(finding(3, ordinals), [past(Rung.NUDGE, 3, at)], trail)
        newest = episodes.anew(past(Rung.NUDGE, 3, at), ordinals[-1:], trail)
        assert (found is None) is newest


GOING_ON = {
    # ring, ordinal of the last decision, ordinals of the evidence
    "the evidence reaches back": ("a a a b c d x y z a", 2, (2, 9), True),
    "at once": ("a a a a", 2, (3,), True),
    "after six others": ("a b c d x y a", 0, (6,), True),
    "after seven": ("a b c d x y z a", 0, (7,), False),
    "never far from it": ("a b c a b c a b c a b c", 0, (11,), True),
    "left now": ("a b c d x y z b", 0, (7,), False),
}


@pytest.mark.parametrize("name", GOING_ON)
def test_going_on(name: str) -> None:
    ring, at, evidence, expected = GOING_ON[name]

    assert episodes.going_on(past(Rung.NUDGE, 3, at), finding(3, evidence), trail_of(ring)) is expected


CONTINUED = {
    # case B10: after a firm word to a pair, either half goes on with its count
    "one half": ("a b a b a b a b a", past(Rung.FIRM, 4, 7, "ab", unit=1), 5),
    "twice": ("a b a b a b a b a a", past(Rung.FIRM, 4, 7, "ab", unit=1), 6),
    "a lap of two": ("a b a b a b a b a b", past(Rung.FIRM, 4, 7, "ab", unit=2), 5),
    "half a lap": ("a b a b a b a b a", past(Rung.FIRM, 4, 7, "ab", unit=2), 4),
    "after a nudge only": ("a b a b a b a", past(Rung.NUDGE, 3, 5, "ab"), None),
    "something else came last": ("a b a b a b a b a c", past(Rung.FIRM, 4, 7, "ab"), None),
    "nothing further": ("a b a b a b a b", past(Rung.FIRM, 4, 7, "ab"), None),
    "left in between": ("a b a b c d x y z c d a", past(Rung.FIRM, 4, 3, "ab"), None),
    "it answered differently, twice": ("a a a a a2 a2", past(Rung.FIRM, 4, 3), None),
    "it answered differently once": ("a a a a a2 a", past(Rung.FIRM, 4, 3), None),
    "it answers differently now": ("a b a b a b a b a2", past(Rung.FIRM, 4, 7, "ab"), None),
    "an earlier span": ("a b a b | a", past(Rung.FIRM, 4, 3, "ab"), None),
    "nothing at all": ("a b |", past(Rung.FIRM, 4, 1, "ab"), None),
}


@pytest.mark.parametrize("name", CONTINUED)
def test_continued(name: str) -> None:
    ring, known, count = CONTINUED[name]
    found = episodes.continued(known, trail_of(ring))

    assert (found and found.count) == count
    if found:
        assert (found.rule, found.subject, found.members) == (known.rule, known.subject, known.members)
        assert found.evidence[0] == known.at_step
        assert found.evidence[-1] == len(ring.split()) - 1


@pytest.mark.parametrize(("rounds", "count"), [("aaaa aaaa", 5), ("aaaa aaaa aaaa", 6), ("aa ab ab", 6)])
def test_equal_calls_of_a_round_go_on_once(rounds: str, count: int) -> None:
    """Case B02 after the firm word to its fourth round: the next is the fifth occurrence, not the eighth."""
    together = [flagged(name, first=place == 0) for one in rounds.split() for place, name in enumerate(one)]
    known = past(Rung.FIRM, 4, len(rounds.split(maxsplit=1)[0]) - 1, "ab", unit=len(set(rounds.rsplit(maxsplit=1)[-1])))

    found = episodes.continued(known, Trail(tuple(together)))
    assert found is not None
    assert found.count == count
