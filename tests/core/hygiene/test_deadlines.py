"""deadlines: which calls are past theirs."""

from __future__ import annotations

import pytest

from guardproxy.core.hygiene import NOTHING
from guardproxy.core.hygiene.deadlines import Settings, deadline
from guardproxy.core.model import Ask
from guardproxy.core.rounds import latest
from tests.core import talk
from tests.core.hygiene.tidying import answered, clean, said

ON = Settings("enforce")
LIMITS = {"slow_*": 600, "f": 60, "g": 30.5}


def parallel(*answers: str | None, more: tuple[talk.Json, ...] = (), tools: str = "fgh") -> Ask:
    """Calls of `tools` in one message with these results; None: there is none."""
    calls = [(tool, "{}", tool) for tool in tools[: len(answers)]]
    results = [talk.result(text, tool) for (tool, _, _), text in zip(calls, answers, strict=True) if text is not None]
    return talk.ask(talk.user("x"), talk.called(*calls), *results, *more)


@pytest.mark.parametrize(
    ("tool", "limit"), [("f", 60), (" F ", 60), ("slow_build", 600), ("other", 0), ("g", 30.5), ("mcp__x__f", 60)]
)
def test_the_first_glob_that_fits_counts(tool: str, limit: float) -> None:
    assert deadline(tool, LIMITS) == limit


@pytest.mark.parametrize(
    ("asked", "since_ms", "late"),
    [
        (parallel("x"), 60_000, []),
        (parallel("x"), 60_001, [("f", "late", 2)]),
        (parallel("x"), 0, []),
        (parallel("x", "y"), 90_000, []),
        (parallel("x", "y"), 90_501, [("f", "late", 2), ("g", "late", 3)]),
        (parallel("x", "y", "z"), 900_000, []),  # h has none: it may have taken all of that
        (parallel("x", None), 40_000, [("g", "unanswered", 1)]),
        (parallel(None, None), 70_000, [("f", "unanswered", 1), ("g", "unanswered", 1)]),
        (parallel(None, "y"), 100_000, [("f", "unanswered", 1), ("g", "late", 2)]),
        (parallel("x", more=(talk.user("go on"),)), 900_000, []),  # a person's time, not the tool's
        (parallel(None, more=(talk.user("go on"),)), 900_000, [("f", "unanswered", 1)]),
        (parallel("x", more=(talk.said("done"),)), 900_000, []),
        (parallel("x", more=(talk.said("done"), talk.user("more"))), 900_000, []),
        (talk.ask(talk.user("x")), 900_000, []),
    ],
)
def test_which_calls_are_late(asked: Ask, since_ms: int, late: list[tuple[str, str, int]]) -> None:
    made = clean(asked, limits=LIMITS, since_ms=since_ms, deadlines=ON)

    assert [(done.tool, done.what, done.index) for done in made.done] == late
    assert len(made.edits) == sum(what == "late" for _, what, _ in late)


def test_the_words_name_tool_and_deadline_and_are_the_same_on_a_retry() -> None:
    made = clean(parallel("x", tools="g"), limits=LIMITS, since_ms=31_000, deadlines=ON)

    assert "`g` came later than its deadline of 30.5 s" in said(made)
    assert clean(parallel("x", tools="g"), limits=LIMITS, since_ms=99_000, deadlines=ON) == made


def test_a_late_failure_is_a_fact_without_words() -> None:
    made = clean(parallel("Error: not found"), limits=LIMITS, since_ms=61_000, deadlines=ON)

    assert [done.what for done in made.done] == ["late"]
    assert made.edits == ()


def test_only_the_newest_message_is_looked_at() -> None:
    asked = answered(("f", "{}", "x"), ("free", "{}", "x"))

    assert clean(asked, limits=LIMITS, since_ms=900_000, deadlines=ON).done == ()


def test_calls_written_in_texts_have_no_place_for_words() -> None:
    asked = talk.ask(
        talk.user("Use Action and Action Input"),
        talk.said('Thought: look\nAction: f\nAction Input: {"a": 1}'),
        talk.user("Observation: x"),
    )
    newest = latest(asked)
    assert newest is not None
    assert newest.written
    assert clean(asked, limits=LIMITS, since_ms=900_000, deadlines=ON) == NOTHING
