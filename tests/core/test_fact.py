"""`fact`: steps as bytes, there and back, and what comes with a report."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from guardproxy.core import fact
from guardproxy.core.bearing import ABSENT, Bearing
from guardproxy.core.fact import TOOL_NAME, is_boundary, pack, reported, stamp, unpack, unpack_all
from guardproxy.core.model import NO_FP, Flag, Kind, Step
from guardproxy.core.view import RoundFact
from tests.core.talk import PRINTER, step

FPS = st.one_of(st.just(NO_FP), st.binary(min_size=16, max_size=16))
NUMBERS = st.integers(0, ABSENT)
BEARINGS = st.builds(
    Bearing,
    target=st.binary(min_size=16, max_size=16).filter(lambda fp: fp != NO_FP),
    start=st.integers(0, 2**62),
    stop=st.integers(0, 2**62),
    shape=FPS,
    said=FPS,
    report=st.one_of(st.just(()), st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)),
    left=st.integers(-1, 10**7),
    rest_ms=st.integers(0, 86_400_000),
)
STEPS = st.builds(
    Step,
    kind=st.sampled_from(Kind),
    tool=st.text(max_size=30),
    call=FPS,
    near=FPS,
    masked=FPS,
    result=FPS,
    masked_result=FPS,
    signature=FPS,
    flags=st.integers(0, (1 << len(Flag)) - 1).map(Flag),
    at_ms=st.integers(0, 2**62),
    place=st.integers(0, ABSENT),
    bearing=st.one_of(st.just(Bearing()), BEARINGS),
)


@given(STEPS)
def test_facts_come_back_as_they_were(one: Step) -> None:
    assert unpack(pack(one)) == one
    assert is_boundary(pack(one)) == (one.kind is Kind.BOUNDARY)


@given(STEPS, st.integers(0, 2**62), st.integers(0, ABSENT))
def test_a_stamp_changes_time_and_place_alone(one: Step, at_ms: int, place: int) -> None:
    stamped = unpack(stamp(pack(one), at_ms, place))
    assert (stamped.at_ms, stamped.place) == (at_ms, place)
    assert unpack(stamp(pack(stamped), one.at_ms, one.place)) == one


@given(STEPS)
def test_facts_hold_no_content_beside_the_name(one: Step) -> None:
    assert len(pack(one)) <= 19 + TOOL_NAME + 6 * 16 + 92


@given(STEPS, st.integers(1, 30))
def test_torn_facts_are_refused(one: Step, lost: int) -> None:
    whole = pack(one)
    with pytest.raises(ValueError, match="step"):
        unpack(whole[:-lost])
    with pytest.raises(ValueError, match="step"):
        unpack(whole + bytes(lost))


@given(st.binary(max_size=200))
def test_junk_is_no_fact(junk: bytes) -> None:
    try:
        found = unpack(junk)
    except ValueError:
        return
    assert found.kind in Kind


def test_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version"):
        unpack(bytes((fact._VERSION + 1,)) + pack(step("f"))[1:])


@pytest.mark.parametrize("place", [16, 17])
def test_parts_that_are_not_known_are_refused(place: int) -> None:
    raw = bytearray(pack(step("f")))
    raw[place] = 255
    with pytest.raises(ValueError, match="torn"):
        unpack(bytes(raw))


def test_words_said_with_a_call_go_with_it() -> None:
    said = PRINTER.words("Let me  LOOK.")
    assert said == PRINTER.words("let me look.")
    assert unpack(pack(step("f"), said)).bearing.said == said
    assert PRINTER.words(" \n") == NO_FP


@pytest.mark.parametrize(
    ("rounds", "told"),
    [
        ((), []),
        ((RoundFact("a", 1, ()),), [[]]),
        ((RoundFact("a", 1, (pack(step("f")), pack(step("g")))),), [[(), (1, 2, 3, 4, 5)]]),
        ((RoundFact("a", 1, (pack(step("f")),)), RoundFact("b", 3, (pack(step("g")),))), [[()], [(1, 2, 3, 4, 5)]]),
    ],
)
def test_a_report_goes_with_the_newest_step(rounds: tuple[RoundFact, ...], told: list[list[tuple[int, ...]]]) -> None:
    after = reported(rounds, (1, 2, 3, 4, 5))
    assert [[unpack(one).bearing.report for one in part.facts] for part in after] == told
    assert [(part.digest, part.index) for part in after] == [(part.digest, part.index) for part in rounds]
    assert reported(rounds, ()) is rounds


def test_facts_of_another_version_are_left_out() -> None:
    good = pack(step("f"))

    assert [one.tool for one in unpack_all([good, b"\x09" + good[1:], good[:-1], b"", good])] == ["f", "f"]
