"""`monologue`: replies without a call that repeat themselves, are empty, or get one automatic answer."""

from __future__ import annotations

import pytest

from guardproxy.core.detectors.monologue import Settings, detect, spare
from guardproxy.core.exemption import Exemption
from guardproxy.core.model import Step, Trail
from tests.core.detectors.scripts import PRINTER, Turn, trails

CALL: Turn = ("look", "{}", "x")
HARNESS = "Your reply holds no action. Use one of the tools, please."


def talk(*replies: tuple[str, str | None]) -> Trail:
    steps: list[Step] = [PRINTER.text_step(text, reply, at_ms=0) for text, reply in replies]
    return Trail(tuple(steps))


@pytest.mark.parametrize(
    ("turns", "count"),
    [
        ([], None),
        (["hello"], None),
        (["hello"] * 3, 3),
        (["hello", "hello", CALL], None),
        (["hello", CALL, "hello"], None),
        (["hello", "goodbye"], None),  # answered by a person's short word
        ([None], 2),  # the equal request is one more
        ([None] * 3, 4),
    ],
)
def test_counts(turns: list[Turn], count: int | None) -> None:
    found = detect(trails([CALL, *turns])[-1], Settings())
    assert (found.count if found else None) == count


@pytest.mark.parametrize(
    ("replies", "nudge"),
    [
        ([("Done.", "thanks, and now b"), ("Done.", "good, and now c")], False),
        ([("Done.", "and b"), ("Done.", "and c"), ("Done.", "and d")], True),
        ([(word, HARNESS) for word in ("one", "two", "three")], False),
        ([(word, HARNESS) for word in ("one", "two", "three", "four")], True),
        ([(f"chapter {word}", "continue") for word in "abcdefghijkl"], False),
        ([(f"shall I do {word}?", "yes") for word in "abcdefghijkl"], False),
        ([(f"第{word}章", "继续") for word in "一二三四五六七八九十"], False),
        ([("", "go on"), ("", "go on")], True),
        ([("", "go on"), ("x", "go on"), ("", "go on")], False),
        ([("[guardproxy] This run is paused.", "and?")] * 9, False),  # our own words
        ([("[guardproxy] This run is paused.", "and?"), *[("Done.", "more")] * 2], True),
        ([("Done.", "more"), ("[guardproxy] This run is paused.", "and?"), ("Done.", "more")], True),
    ],
)
def test_what_makes_replies_equal(replies: list[tuple[str, str | None]], *, nudge: bool) -> None:
    found = detect(talk(*replies), Settings())
    assert (found is not None and found.rung.name == "NUDGE") is nudge


@pytest.mark.parametrize(("pause_ms", "count"), [(74_999, 4), (75_000, None)])
def test_a_heartbeat_is_a_schedule(pause_ms: int, count: int | None) -> None:
    found = detect(trails(["HEARTBEAT_OK"] * 4, pause_ms)[-1], Settings())
    assert (found.count if found else None) == count


@pytest.mark.parametrize(("pause_ms", "count"), [(599_999, 4), (600_000, None)])
@pytest.mark.parametrize("replies", [[(word, HARNESS) for word in "abcd"], [("", "go on")] * 4])
def test_ten_minutes_begin_the_count_anew(replies: list[tuple[str, str]], pause_ms: int, count: int | None) -> None:
    steps = [PRINTER.text_step(text, reply, at_ms=at * pause_ms) for at, (text, reply) in enumerate(replies)]
    found = detect(Trail(tuple(steps)), Settings())
    assert (found.count if found else None) == count


def test_a_heartbeat_says_why_it_is_spared() -> None:
    steps = [PRINTER.text_step("HEARTBEAT_OK", HARNESS, at_ms=at * 1_800_000) for at in range(8)]
    assert detect(Trail(tuple(steps)), Settings()) is None
    spared = spare(Trail(tuple(steps)), Settings())
    assert spared is not None
    assert (spared.because, spared.times) == (Exemption.LONG_PAUSES, 8)


@pytest.mark.parametrize(("pause_ms", "held"), [(2_000, False), (600_000, True)])
def test_other_words_to_one_prompt_say_why_they_are_spared(pause_ms: int, *, held: bool) -> None:
    steps = [PRINTER.text_step(word, HARNESS, at_ms=at * pause_ms) for at, word in enumerate("abcdefgh")]
    spared = spare(Trail(tuple(steps)), Settings())
    assert (spared is not None and spared.because is Exemption.LONG_PAUSES) is held


def test_evidence_is_the_newest_replies() -> None:
    found = detect(trails([CALL, "a", "b", "b", "b"])[-1], Settings())
    assert found is not None
    assert (found.count, found.evidence) == (3, (2, 3, 4))


def test_an_empty_trail_is_no_finding() -> None:
    assert detect(Trail(()), Settings()) is None
