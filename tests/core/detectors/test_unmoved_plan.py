"""`unmoved_plan`: a plan in other words, and one that advances."""

from __future__ import annotations

import json

import pytest

from guardproxy.core.detectors.unmoved_plan import Settings, detect
from guardproxy.core.model import Rung
from tests.core.detectors.scripts import Turn, rules, trails


def plan(word: str, *statuses: str, answer: str = "Plan updated", tool: str = "update_plan") -> Turn:
    return (tool, json.dumps({"steps": [{"s": f"{word} the thing", "st": one} for one in statuses]}), answer)


WORDS = ("plan", "write", "consider", "outline", "sketch", "draft")
STUCK = [plan(word, "pending", "pending", "pending") for word in WORDS]
MOVING = [plan(word, *["done"] * k, *["pending"] * (6 - k)) for k, word in enumerate(WORDS)]
LOOK: Turn = ("look", '{"at":"a"}', "saw a")


@pytest.mark.parametrize(
    ("turns", "count"),
    [
        (STUCK[:1], None),
        (STUCK[:2], 2),
        (STUCK, 6),
        (MOVING, None),
        ([*STUCK, LOOK], None),
        ([*STUCK, LOOK, STUCK[0]], None),  # kept beside the work
        ([*STUCK, ("think", "{}", "hm"), STUCK[0]], 7),
        ([STUCK[0], STUCK[1], MOVING[1], STUCK[2]], None),
        ([plan(word, "pending", "pending", answer="Error: no plan mode") for word in WORDS], None),
        ([plan(word, "open", "open", answer=f"created {n}") for n, word in enumerate(WORDS)], None),  # a batch
        ([plan(word, "open", "open", tool=f"{word}_list") for word in WORDS], None),  # other tools
    ],
)
def test_counts(turns: list[Turn], count: int | None) -> None:
    found = detect(trails(turns)[-1], Settings())
    assert (found.count if found else None) == count


def test_case_b27() -> None:
    assert rules(STUCK) == {"unmoved_plan"}
    assert rules(MOVING) == set()


def test_it_never_ends_a_run() -> None:
    found = detect(trails(STUCK * 10)[-1], Settings())
    assert found is not None
    assert found.rung is Rung.NUDGE
