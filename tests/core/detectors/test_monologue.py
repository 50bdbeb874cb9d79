"""`monologue`: replies without a call that repeat themselves, are empty, or get one automatic answer."""

from __future__ import annotations

import pytest

from guardproxy.core.detectors.monologue import Settings, detect
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
    ],
)
def test_what_makes_replies_equal(replies: list[tuple[str, str | None]], *, nudge: bool) -> None:
    found = detect(talk(*replies), Settings())
    assert (found is not None and found.rung.name == "NUDGE") is nudge


@pytest.mark.parametrize(("pause_ms", "count"), [(74_999, 4), (75_000, None)])
def test_a_heartbeat_is_a_schedule(pause_ms: int, count: int | None) -> None:
    found = detect(trails(["HEARTBEAT_OK"] * 4, pause_ms)[-1], Settings())
    assert (found.count if found else None) == count


def test_evidence_is_the_newest_replies() -> None:
    found = detect(trails([CALL, "a", "b", "b", "b"])[-1], Settings())
    assert found is not None
    assert (found.count, found.evidence) == (3, (2, 3, 4))


def test_an_empty_trail_is_no_finding() -> None:
    assert detect(Trail(()), Settings()) is None
