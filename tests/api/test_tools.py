"""Defaults in the schemas of a request's tools, as far as they are plain and the tool is called."""

from __future__ import annotations

from typing import Any

import pytest

from guardproxy.api import chat
from guardproxy.api._tools import CALLED, LONGEST, PROPERTIES


def called(*names: str) -> list[dict[str, Any]]:
    calls = [{"id": f"c{n}", "function": {"name": name, "arguments": "{}"}} for n, name in enumerate(names)]
    return [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": calls}]


def offered(properties: object, name: str = "f", **more: object) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"properties": properties}}, **more}


FOUND: dict[str, tuple[list[Any], dict[str, dict[str, object]]]] = {
    "plain values": (
        [offered({k: {"default": v} for k, v in {"a": 1, "b": "x", "c": False, "d": None, "e": [], "g": {}}.items()})],
        {"f": {"a": 1, "b": "x", "c": False, "d": None, "e": [], "g": {}}},
    ),
    "the older kind": ([{"name": "f", "parameters": {"properties": {"a": {"default": 1}}}}], {"f": {"a": 1}}),
    "among others": ([offered({}, "g"), offered({"a": {"default": 1}, "b": {}})], {"f": {"a": 1}}),
    "another tool": ([offered({"a": {"default": 1}}, "g")], {}),
    "too long": ([offered({"a": {"default": "x" * (LONGEST + 1)}, "b": {"default": [1]}})], {}),
    "too many": ([offered({f"a{n}": {"default": 1} for n in range(PROPERTIES + 1)})], {}),
    "none": ([offered({"a": {"type": "string"}})], {}),
    "no schema": ([{"type": "function", "function": {"name": "f"}}], {}),
    "junk for a schema": ([{"type": "function", "function": {"name": "f", "parameters": 7}}], {}),
    "junk for properties": ([offered([1])], {}),
    "junk for a property": ([offered({"a": 1, "b": {"default": 2}})], {"f": {"b": 2}}),
    "junk for tools": (["f", 7, None], {}),
}


@pytest.mark.parametrize(("tools", "found"), FOUND.values(), ids=FOUND.keys())
def test_defaults(tools: list[Any], found: dict[str, dict[str, object]]) -> None:
    ask = chat.ask_of(called("f"), tools=tools, parsed={"tools": tools, "messages": called("f")})
    assert ask.defaults == found
    assert chat.widen(ask).defaults == found


def test_only_so_many_tools_are_looked_at() -> None:
    tools = [offered({"a": {"default": 1}}, f"f{n}") for n in range(CALLED + 1)]
    assert chat.ask_of(called(*(f"f{n}" for n in range(CALLED))), tools=tools).defaults
    assert chat.ask_of(called(*(f"f{n}" for n in range(CALLED + 1))), tools=tools).defaults == {}
