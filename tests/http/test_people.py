"""What people type is checked before it is kept."""

from __future__ import annotations

import pytest

from guardproxy.errors import BadAsk
from guardproxy.http import people

LINES = {
    "plain": ("it waits", "it waits"),
    "spaces around": (" a ", "a"),
    "none": ("", ""),
    "Chinese": ("等一下", "等一下"),
}


@pytest.mark.parametrize(("text", "kept"), LINES.values(), ids=LINES.keys())
def test_lines(text: str, kept: str) -> None:
    assert people.line("why", text) == kept


@pytest.mark.parametrize("text", ["a\nb", "\x1b[2J", "x" * 501, "a\u202eb", "\udc80"])
def test_what_is_no_line(text: str) -> None:
    with pytest.raises(BadAsk, match="must be printable text of at most 500 characters") as caught:
        people.line("why", text)
    assert (caught.value.param, caught.value.status) == ("why", 400)


@pytest.mark.parametrize("text", ["the second", "one\r\ntwo\n\tthree", "第二个"])
def test_answers(text: str) -> None:
    assert people.answer("text", text) == text


@pytest.mark.parametrize("text", ["", " \n", "\x00", "a\x1b[31m", "x" * 32_001, "\udc80", "a\rb"])
def test_what_is_no_answer(text: str) -> None:
    with pytest.raises(BadAsk, match="must"):
        people.answer("text", text)


@pytest.mark.parametrize("text", ["{}", ' {"path": "a", "n": 123456789012345678901234567890}', '{"a": "\\ud800"}'])
def test_arguments_stay_as_they_were_written(text: str) -> None:
    assert people.arguments("arguments", text) == text


NO_ARGUMENTS = {
    "nothing": "",
    "a list": "[]",
    "a text": '"x"',
    "half": '{"a": ',
    "two": "{} {}",
    "no number": '{"a": NaN}',
    "endless": '{"a": -Infinity}',
    "too deep": '{"a":' + "[" * 15_000 + "]" * 15_000 + "}",
    "too long": '{"a": "' + "x" * 32_000 + '"}',
    "too many digits": '{"a": ' + "9" * 5000 + "}",
    "no text": '{"a": "\udc80"}',
}


@pytest.mark.parametrize("text", NO_ARGUMENTS.values(), ids=NO_ARGUMENTS.keys())
def test_what_are_no_arguments(text: str) -> None:
    with pytest.raises(BadAsk, match="must") as caught:
        people.arguments("arguments", text)
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("value", "text"),
    [({"a": 2**80, "b": "删除"}, '{"a":1208925819614629174706176,"b":"删除"}'), ({"a": "\ud800"}, '{"a":"\\ud800"}')],
)
def test_written(value: object, text: str) -> None:
    assert people.written(value) == text
    assert people.strict(text.encode()) == value


AMOUNTS = {
    "turns": ({"turns": 50}, {"turns": 50}),
    "money": ({"cost_usd": 0.25}, {"cost_microusd": 250_000}),
    "time": ({"wall_seconds": 1.5}, {"wall_ms": 1500}),
    "several": ({"tool_calls": 3, "total_tokens": 10.0}, {"tool_calls": 3, "total_tokens": 10}),
}


@pytest.mark.parametrize(("given", "counted"), AMOUNTS.values(), ids=AMOUNTS.keys())
def test_amounts(given: dict[str, float], counted: dict[str, int]) -> None:
    assert people.amounts(given) == counted


NO_AMOUNTS = {
    "nothing": ({}, "amounts", "say what to raise: turns, tool_calls"),
    "no such limit": ({"turn": 1}, "turn", "there is no such limit"),
    "a judged one": ({"same_call": 1}, "same_call", "there is no such limit"),
    "zero": ({"turns": 0}, "turns", "must be a whole number above 0"),
    "less": ({"turns": -5}, "turns", "must be a whole number above 0"),
    "half a turn": ({"turns": 1.5}, "turns", "must be a whole number above 0"),
    "less than can be counted": ({"cost_usd": 1e-9}, "cost_usd", "must be a number above 0"),
    "endless": ({"cost_usd": float("inf")}, "cost_usd", "must be a number above 0"),
    "no number": ({"cost_usd": float("nan")}, "cost_usd", "must be a number above 0"),
    "too many digits": ({"turns": 10**400}, "turns", "at most 1,000,000,000,000"),
    "too much": ({"turns": 10**13}, "turns", "at most 1,000,000,000,000"),
}


@pytest.mark.parametrize(("given", "param", "words"), NO_AMOUNTS.values(), ids=NO_AMOUNTS.keys())
def test_what_is_no_amount(given: dict[str, float], param: str, words: str) -> None:
    with pytest.raises(BadAsk, match=words) as caught:
        people.amounts(given)
    assert caught.value.param == param
