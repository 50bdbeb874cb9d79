"""Calls written as JSON, in the spellings of different harnesses, and arguments that are no JSON."""

from __future__ import annotations

import json

import pytest

from guardproxy.core.blobs import ENDS, FENCES, blob_in, calls_of, dumps, value_of

FORMS: dict[str, tuple[str, list[tuple[str, object]]]] = {
    "JSON after words": ('I look.\n{"tool": "s", "args": {"q": 1}}', [("s", {"q": 1})]),
    "JSON after words in brackets": ('[Expert] I look.\n\n{"tool": "s", "args": {"q": 1}}', [("s", {"q": 1})]),
    "JSON in a fence": ('I look.\n```json\n{"tool_name": "s", "parameters": {"q": 1}}\n```', [("s", {"q": 1})]),
    "a command with a name": (
        '{"thoughts": {"text": "x"}, "command": {"name": "s", "args": {"q": 1}}}',
        [("s", {"q": 1})],
    ),
    "a command alone": ('{"thought": "x", "command": "ls -l"}', [("command", {"command": "ls -l"})]),
    "arguments beside the name": ('{"tool": "read", "path": "a", "thought": "x"}', [("read", {"path": "a"})]),
    "a function in a function": ('{"function": {"name": "s", "arguments": {"q": 1}}}', [("s", {"q": 1})]),
    "arguments as text": ('{"name": "s", "arguments": "{\\"q\\": 1}"}', [("s", {"q": 1})]),
    "among other lines in brackets": ("[1]\n" * ENDS + '{"tool": "s", "args": {}}\n' + "[2]\n" * 2, [("s", {})]),
    "a name alone": ('{"name": "s"}', []),
    "an empty name": ('{"action": ""}', []),
    "no object": ('"s"', []),
    "torn": ('{"tool": "s", ', []),
}


@pytest.mark.parametrize("name", FORMS)
def test_calls_in_json(name: str) -> None:
    text, calls = FORMS[name]
    assert [(call.name, json.loads(call.arguments)) for call in blob_in(text)] == calls


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("oil", {"input": "oil"}),
        ('"oil"', {"input": "oil"}),
        ('{"q": 1}', {"q": 1}),
        ('```json\n{"q": 1}\n```', {"q": 1}),
        ("{'q': None}", {"q": None}),
        ("", {"input": ""}),
        ("[1]", {"input": "[1]"}),
        ('{"q": torn', {"input": '{"q": torn'}),
    ],
)
def test_arguments(text: str, value: object) -> None:
    assert json.loads(value_of(text)) == value


@pytest.mark.parametrize("blob", [None, 1, [], [1], ["s"], {}, {"x": 1}, [{"tool": "s", "args": {}}, 1]])
def test_what_is_no_call(blob: object) -> None:
    assert calls_of(blob) == []


def test_fences_and_texts() -> None:
    assert FENCES.findall("a\n```py\nx\n```\n ~~~\ny\n~~~\n```open") == [("py", "x\n"), ("", "y\n")]
    assert dumps({"é": 1}) == '{"é": 1}'
