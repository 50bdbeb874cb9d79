"""`same_result`: one answer to different calls of a tool; how strong the evidence is."""

from __future__ import annotations

import pytest

from guardproxy.core.detectors.same_result import Settings, detect
from guardproxy.core.model import Triple
from tests.core.detectors.scripts import Turn, trails

VOID, NUMBERS, INFORMATIVE = Settings().void, Settings().numbers, Settings().informative
ZERO = Settings().zero
WORDS = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen")
BARE = ("", "null", "{}", "None", "ok", "Done.", "closed", "Typed", "All checks passed!", '{"ok": true}')


def ask(answer: str, tool: str = "search") -> list[Turn]:
    return [(tool, f'{{"q":"{word}"}}', answer) for word in WORDS]


@pytest.mark.parametrize(
    ("turns", "count", "triple"),
    [
        (ask("No results found.")[:5], 5, VOID),
        (ask("the same page")[:8], 8, INFORMATIVE),
        ([("grep", f'{{"c":"grep -B{n} x"}}', "no match") for n in (1, 20, 300, 4000)], 4, NUMBERS),
        ([*ask("No results found.")[:4], ("search", '{"q":"x"}', "a lamp")], None, None),
        ([*ask("No results found.")[:4], ("open", '{"q":"x"}', "a lamp"), *ask("No results found.")[4:6]], 5, VOID),
        ([*ask("No results found.")[:4], ("write", '{"q":"x"}', "a lamp"), *ask("No results found.")[:1]], None, None),
        ([("search", '{"q":"a"}', "none")] * 5, None, None),  # one call: `repeated_call`
        (ask("Error: no such thing"), None, None),  # `error_signature`
        (ask("ok", tool="write_file"), None, None),
        (ask("", tool="create_file"), None, None),
        (ask("still running"), None, None),
        *[(ask(answer, tool="archive_mail"), None, None) for answer in BARE],
        *[(ask(answer, tool="bash"), None, None) for answer in BARE],
        (ask("closed", tool="check_port"), None, None),
        (ask("", tool="read_file"), 8, VOID),
        (ask("No matches found", tool="audit"), 8, VOID),
        (ask("taken", tool="check_domain"), 8, INFORMATIVE),
        (ask('{"count": 0}', tool="sh"), 8, ZERO),
        (ask("total 20", tool="sh"), 8, INFORMATIVE),
        (ask("total 0", tool="sh"), 8, ZERO),
        ([("sh", f'{{"command":"grep -rn {word} src"}}', "") for word in WORDS], 8, VOID),
        ([("sh", f'{{"command":"convert {word}.png {word}.jpg"}}', "") for word in WORDS], None, None),
        ([("sh", f'{{"command":"python f.py {word}"}}', "") for word in WORDS], None, None),
        ([("query", f'{{"sql":"INSERT INTO t VALUES ({n})"}}', "") for n in range(8)], None, None),
        ([("query", f'{{"sql":"SELECT * FROM t WHERE a={n}"}}', "[]") for n in range(8)], 8, NUMBERS),
    ],
)
def test_counts(turns: list[Turn], count: int | None, triple: Triple | None) -> None:
    found = detect(trails(turns)[-1], Settings())
    assert (found.count if found else None) == count
    assert (found.triple if found else None) == triple
