"""What two calls have in common: exactly, but for cosmetics, but for numbers."""

from __future__ import annotations

import pytest

from guardproxy.core.canon import _words, canonical
from guardproxy.core.model import Call
from guardproxy.core.tools import DEFAULT_RULES, tool_of
from tests.core.steps import PRINTER, step


@pytest.mark.parametrize(
    ("one", "other", "exact", "near"),
    [
        ('{"a":1,"b":2}', '{"b": 2, "a": 1}', True, True),
        ('{"a":1.0}', '{"a":1}', True, True),
        ('{"a":-0.0}', '{"a":0}', True, True),
        ('{"a":null,"b":1}', '{"b":1}', True, True),
        ('{"a":{"x":null,"y":[1,{"z":null}]}}', '{"a":{"y":[1,{}]}}', True, True),
        ("", "{}", True, True),
        ("  ", "{}", True, True),
        ('{"a":true}', '{"a":1}', False, False),
        ('{"a":"1"}', '{"a":1}', False, False),
        ('{"q":"Paris weather"}', '{"q":"paris  weather!"}', False, True),
        ('{"q":"C"}', '{"q":"D"}', False, False),
        ('{"path":"./a.ts"}', '{"path":"a.ts"}', False, True),
        ('{"path":"A.ts/x"}', '{"path":"a.ts/x"}', False, False),
        ('{"files":["b","a"]}', '{"files":["a","b"]}', False, True),
        ('{"files":[{"path":"a"}]}', '{"files":[{"path":"a"},{"path":"b"}]}', False, False),
        ('{"command":"ls","description":"list"}', '{"command":"ls","description":"look again"}', False, True),
        ('{"thought":"a"}', '{"thought":"b"}', False, False),
        ('{"command":"ls  -l /x"}', '{"command":"ls -l /x"}', False, True),
        ('{"offset":80}', '{"offset":160}', False, False),
        ('{"a":12345678901234567890}', '{"a":12345678901234567891}', False, False),
        ("not json", "not  json", False, False),
        ("[1]", "[1 ]", False, False),
        ('{"q":"ﬁn"}', '{"q":"fin"}', False, True),
    ],
)
def test_calls(one: str, other: str, *, exact: bool, near: bool) -> None:
    a, b = step("f", one), step("f", other)
    assert (a.call == b.call, a.near == b.near) == (exact, near)
    assert PRINTER.call(Call("f", one)) == a.call


def test_numbers_are_masked_but_not_those_that_page() -> None:
    assert step("grep", '{"cmd":"grep -B10 x"}').masked == step("grep", '{"cmd":"grep -B1750 x"}').masked
    assert step("read", '{"p":"v","offset":80}').masked != step("read", '{"p":"v","offset":160}').masked


def test_names_of_tools_differ_and_their_case_does_not() -> None:
    assert step("f", "{}").call != step("g", "{}").call
    assert step("Read", "{}").call == step(" read ", "{}").call
    assert step("fg", "{}").call != step("f", "g{}").call


def test_what_does_not_differ_is_the_same_object() -> None:
    canon = canonical('{"path":"src/a.ts"}', tool_of("read", DEFAULT_RULES))
    assert canon.near is canon.exact
    assert canon.masked is canon.near
    assert canon.valid


@pytest.mark.parametrize("arguments", ["{", "[]", "7", '"x"', "null", '{"a":' * 5000, '{"a":1e999', "{} {}"])
def test_what_is_no_object_is_compared_as_it_stands(arguments: str) -> None:
    canon = canonical(arguments, tool_of("f", DEFAULT_RULES))
    assert canon == (arguments, arguments, arguments, False)


@pytest.mark.parametrize(
    "text", ["two words", " two words", "two words ", "two  words", "Two Words", "a b c", "x ", "  "]
)
def test_plain_words(text: str) -> None:
    """In lower case and with one space between them, also those that are that already."""
    assert _words(text) == (" ".join(text.lower().split()) or text.lower())
