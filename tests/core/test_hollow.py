"""Empty answers are empty, and equal, whatever they repeat of the question."""

from __future__ import annotations

import json

import pytest

from guardproxy.core.hollow import hollow
from guardproxy.core.model import Flag
from tests.core.steps import step

QUERY = '{"query": "Late socket badge?", "count": 5}'


@pytest.mark.parametrize(
    "answer",
    [
        {"results": []},
        {"query": "Late socket badge?", "results": []},
        {"query": "late socket badge", "results": [], "took_ms": 541, "request_id": "x"},
        {"query": "q", "follow_up_questions": None, "answer": None, "images": [], "results": [], "response_time": 0.5},
        {"searchParameters": {"q": "x", "type": "search", "num": 10}, "organic": [], "credits": 0},
        {
            "took": 3,
            "timed_out": False,
            "hits": {"total": {"value": 0, "relation": "eq"}, "max_score": None, "hits": []},
        },
        {"items": [], "total": 0, "page": 3, "per_page": 10, "has_more": False, "next_cursor": None},
        {"status": "ok", "data": [], "count": 0},
        {"success": True, "documents": [], "message": "No documents found for Late socket badge?"},
        {"object": "list", "data": [], "has_more": False},
        {"ok": True, "matches": [], "asked": "Late socket badge?"},
    ],
)
def test_empty_answers(answer: dict[str, object]) -> None:
    found, plain = step("web_search", QUERY, json.dumps(answer)), step("web_search", QUERY, '{"results": []}')
    assert found.flags & (Flag.VOID | Flag.FAILED) == Flag.VOID
    assert found.result == plain.result


@pytest.mark.parametrize(
    "answer",
    [
        {"results": [{"title": "x"}]},
        {"results": [], "answer": "It opens at ten."},
        {"results": [], "total": 7},
        {"tags": [], "id": 7},
        {"errors": [], "warnings": []},
        {"user": {"name": "Ann", "orders": []}},
        {"items": [], "next_cursor": "abc", "balance": 12.5},
        {"data": [], "related": ["x"]},
    ],
)
def test_answers_that_tell_something(answer: dict[str, object]) -> None:
    assert not step("web_search", QUERY, json.dumps(answer)).flags & Flag.VOID


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('No matches found for pattern "scanBadge".', "no matches found"),
        ("No results found for x y.", "no results found"),
        ("Found 0 results.", "found 0 results"),
        ("0 results for 'x'", "0 results"),
        ("No files found matching **/*.rs", "no files found"),
        ("No open files match your search", "no open files"),
        ("No matches found", "no matches found"),
        ("no more than seven of them are blue", None),
        ("No errors found in src", None),
        ("No files were changed", None),
        ("found 10 results for x", None),
        ("No results found\nbut see there", None),
        ("{", None),
        ('{"results": []', None),
        ('{"a":' * 200 + "[]", None),
        ("", None),
    ],
)
def test_sentences(text: str, found: str | None) -> None:
    assert hollow(text, "{}") == found


def test_a_text_that_is_not_there_cannot_be_replaced() -> None:
    """An empty answer of a tool that looks is a failure of one that replaces."""
    said = "No match found for the text to replace in {}"
    view = '{"command": "str_replace", "path": "%s"}'
    one, other = (step("str_replace_editor", view % path, said.format(path)) for path in ("/a/b.py", "/c/d.py"))
    assert one.flags & (Flag.FAILED | Flag.VOID) == Flag.FAILED
    assert one.signature == other.signature
    assert step("edit", "{}", said.format("x")).flags & Flag.FAILED
    assert not step("grep", "{}", said.format("x")).flags & Flag.FAILED
