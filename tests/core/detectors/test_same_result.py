"""`same_result`: one answer to different calls of a tool; how strong the evidence is."""

from __future__ import annotations

import pytest

from guardproxy.core.detectors.same_result import Settings, detect
from guardproxy.core.model import Triple
from tests.core.detectors.scripts import Turn, trails

VOID, NUMBERS, INFORMATIVE = Settings().void, Settings().numbers, Settings().informative
WORDS = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen")


def ask(answer: str, tool: str = "search") -> list[Turn]:
    return [(tool, f'{{"q":"{word}"}}', answer) for word in WORDS]


@pytest.mark.parametrize(
    ("turns", "count", "triple"),
    [
        (ask("No results found.")[:5], 5, VOID),
        (ask("the same page")[:8], 8, INFORMATIVE),
        ([("grep", f'{{"c":"grep -B{n} x"}}', "no match") for n in (1, 20, 300, 4000)], 4, NUMBERS),
        ([*ask("No results found.")[:4], ("search", '{"q":"x"}', "a lamp")], None, None),
        ([*ask("No results found.")[:4], ("open", '{"q":"x"}', "a lamp"), *ask("No results found.")[:1]], None, None),
        ([("search", '{"q":"a"}', "none")] * 5, None, None),  # one call: `repeated_call`
        (ask("Error: no such thing"), None, None),  # `error_signature`
        (ask("ok", tool="write_file"), None, None),
        (ask("", tool="create_file"), None, None),
        (ask("still running"), None, None),
    ],
)
def test_counts(turns: list[Turn], count: int | None, triple: Triple | None) -> None:
    found = detect(trails(turns)[-1], Settings())
    assert (found.count if found else None) == count
    assert (found.triple if found else None) == triple
