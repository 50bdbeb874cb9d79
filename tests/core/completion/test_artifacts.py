"""What the agent reports of itself: bounds of numbers that it gave, and nothing of those that it did not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from guardproxy.core import progress
from guardproxy.core.completion import CHECKS, Candidate
from tests.core.completion.finals import final, judged


def reporting(**numbers: int) -> Candidate:
    bare = final("Done.")
    report = progress.read(numbers) if numbers else ()
    return Candidate("Done.", (), replace(bare.ask, declared=replace(bare.ask.declared, progress=report)))


@pytest.mark.parametrize(
    ("numbers", "settings", "expected"),
    [
        ({}, {"least": 3, "most_unresolved": 0, "most_failures": 0}, ""),  # nothing reported
        ({"completed_steps": 1}, {"least": 3}, ""),  # not this number
        ({"artifacts": 3}, {"least": 3}, ""),
        ({"artifacts": 0}, {"most_unresolved": 0}, ""),
        ({"unresolved": 5}, {"least": 1}, ""),
        ({"unresolved": 0, "validation_failures": 2}, {"most_unresolved": 0, "most_failures": 2}, ""),
        ({"artifacts": 2}, {"least": 3}, "reports 2 artefacts where there must be at least 3"),
        ({"artifacts": 0}, {"least": 1}, "reports 0 artefacts"),
        ({"unresolved": 1}, {"most_unresolved": 0}, "reports 1 open items where there may be 0 at most"),
        ({"validation_failures": 3}, {"most_failures": 2}, "reports 3 failed validations"),
        ({"unresolved": 1, "validation_failures": 1}, {"most_unresolved": 0, "most_failures": 0}, "items where"),
    ],
)
def test_reports(numbers: dict[str, int], settings: dict[str, Any], expected: str) -> None:
    said = judged("artifacts", reporting(**numbers), **settings)

    assert expected in said
    assert bool(said) == bool(expected)


def test_in_chinese() -> None:
    assert "2 个产物" in judged("artifacts", reporting(artifacts=2), "zh", least=3)


@pytest.mark.parametrize(
    ("settings", "asks"),
    [({}, False), ({"least": 1}, True), ({"most_unresolved": 0}, True), ({"most_failures": 0}, True)],
)
def test_used_only_with_a_bound(settings: dict[str, Any], asks: bool) -> None:
    assert CHECKS["artifacts"].Settings(**settings).asks is asks
