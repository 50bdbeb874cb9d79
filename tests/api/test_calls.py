"""Streamed tool calls as providers really send them: cases B39 to B49 of the loop log, and their like."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.api._answer import Choice
from guardproxy.api._calls import MAX_CALLS, Calls
from guardproxy.core.model import Call
from tests.api.cases import FUZZ, delta, play, sse, values
from tests.cheap import cheap


def tc(i: Any = None, id: Any = None, n: Any = None, a: Any = None) -> dict[str, Any]:  # noqa: A002
    """One entry; what is not given is absent."""
    function = {key: value for key, value in (("name", n), ("arguments", a)) if value is not None}
    entry = {key: value for key, value in (("index", i), ("id", id)) if value is not None}
    return {**entry, "function": function}


CASES: list[tuple[str, list[list[dict[str, Any]]], list[tuple[str, str, str]]]] = [
    ("plain", [[tc(0, "a", "f", "")], [tc(0, a='{"x"')], [tc(0, a=":1}")]], [("f", '{"x":1}', "a")]),
    ("B39 no index", [[tc(id="c1", n="f", a="")], [tc(a='{"x":')], [tc(a="1}")]], [("f", '{"x":1}', "c1")]),
    (
        "B39 two calls",
        [[tc(id="c1", n="f", a="{}")], [tc(id="c2", n="g", a="{}")]],
        [("f", "{}", "c1"), ("g", "{}", "c2")],
    ),
    (
        "B39 two without arguments yet",
        [[tc(id="c1", n="f", a="")], [tc(id="c2", n="g", a="")]],
        [("f", "", "c1"), ("g", "", "c2")],
    ),
    ("B39 mixed", [[tc(id="c1", n="f", a="")], [tc(0, a='{"x":')], [tc(a="1}")]], [("f", '{"x":1}', "c1")]),
    ("B39 mixed, id again", [[tc(0, "c1", "f", "")], [tc(id="c1", a="{}")]], [("f", "{}", "c1")]),
    (
        "B40 all zero",
        [[tc(0, "a", "read", '{"p":"a"}')], [tc(0, "b", "read", '{"p":"b"}')]],
        [("read", '{"p":"a"}', "a"), ("read", '{"p":"b"}', "b")],
    ),
    (
        "B40 all zero, in fragments",
        [[tc(0, "a", "f", "")], [tc(0, a="{}")], [tc(0, "b", "g", "")], [tc(0, a="{}")]],
        [("f", "{}", "a"), ("g", "{}", "b")],
    ),
    (
        "all zero, interleaved by id",
        [[tc(0, "a", "f", '{"x"')], [tc(0, "b", "g", '{"y"')], [tc(0, "a", a=":1}")], [tc(0, "b", a=":2}")]],
        [("f", '{"x":1}', "a"), ("g", '{"y":2}', "b")],
    ),
    (
        "B41 one chunk",
        [[tc(0, n="w", a='{"c":"A"}'), tc(0, n="w", a='{"c":"B"}')]],
        [("w", '{"c":"A"}', ""), ("w", '{"c":"B"}', "")],
    ),
    (
        "B41 two chunks",
        [[tc(0, n="w", a='{"c":"A"}')], [tc(0, n="w", a='{"c":"B"}')]],
        [("w", '{"c":"A"}', ""), ("w", '{"c":"B"}', "")],
    ),
    ("B41 without index, no arguments", [[tc(n="w", a=""), tc(n="w", a="")]], [("w", "", ""), ("w", "", "")]),
    (
        "B42 all repeated",
        [[tc(0, "k", "f", "")], [tc(0, "k", "f", '{"x"')], [tc(0, "k", "f", ":1}")]],
        [("f", '{"x":1}', "k")],
    ),
    ("B42 name repeated at the end", [[tc(0, "k", "f", "{}")], [tc(0, "k", "f", "")]], [("f", "{}", "k")]),
    ("B43 late id", [[tc(0, n="f")], [tc(0, "z9")], [tc(0, a="{}")]], [("f", "{}", "z9")]),
    ("B43 late id, no index", [[tc(n="f")], [tc(id="z9")], [tc(a="{}")]], [("f", "{}", "z9")]),
    ("B43 late name", [[tc(0, "z9")], [tc(0, n="f")], [tc(0, a="{}")]], [("f", "{}", "z9")]),
    (
        "B46 interleaved",
        [[tc(0, "a", "f", "{")], [tc(1, "b", "g", "{")], [tc(0, a="}")], [tc(1, a="}")]],
        [("f", "{}", "a"), ("g", "{}", "b")],
    ),
    (
        "B48 one id for all",
        [[tc(0, "Z", "f", '{"x":1}')], [tc(1, "Z", "f", '{"x":2}')]],
        [("f", '{"x":1}', "Z"), ("f", '{"x":2}', "Z")],
    ),
    (
        "B49 one id for two, no index",
        [[tc(id="d", n="f", a='{"x":1}')], [tc(id="d", n="f", a='{"x":2}')]],
        [("f", '{"x":1}', "d"), ("f", '{"x":2}', "d")],
    ),
    ("B51 empty ids", [[tc(0, "", "f", "{}")], [tc(1, "", "g", "{}")]], [("f", "{}", ""), ("g", "{}", "")]),
    ("a new id in every fragment", [[tc(0, "r1", "f", '{"x"')], [tc(0, "r2", a=":1}")]], [("f", '{"x":1}', "r1")]),
    ("index counts fragments", [[tc(0, "k", "f", '{"x"')], [tc(1, "k", a=":1}")]], [("f", '{"x":1}', "k")]),
    ("index counts fragments, no id", [[tc(0, n="f", a='{"x"')], [tc(1, a=":1}")]], [("f", '{"x":1}', "")]),
    ("arguments as an object", [[tc(0, "a", "f", {"x": 1})]], [("f", '{"x":1}', "a")]),
    ("arguments null, index a string", [[tc("0", "a", "f")], [tc("0", a="{}")]], [("f", "{}", "a")]),
    (
        "order is that of the indices",
        [[tc(1, "b", "g", "{}")], [tc(0, "a", "f", "{}")]],
        [("f", "{}", "a"), ("g", "{}", "b")],
    ),
    (
        "a custom tool",
        [[{"index": 0, "id": "a", "custom": {"name": "sh", "input": "l"}}], [{"index": 0, "custom": {"input": "s"}}]],
        [("sh", "ls", "a")],
    ),
    ("no name at all", [[tc(0, a="{}")]], [("", "{}", "")]),
    ("junk", [[None, 3, "x", [], {}]], [("", "", "")]),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("chunks", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_repaired(chunks: list[list[dict[str, Any]]], expected: list[tuple[str, str, str]]) -> None:
    raw = sse(delta(role="assistant", content=""), *[delta(tool_calls=chunk) for chunk in chunks], delta("tool_calls"))
    out, watcher = play([raw])
    assert list(watcher.calls) == [Call(*call) for call in expected]
    assert out == raw


def test_legacy_function_call_beside_tool_calls_is_not_counted_twice() -> None:
    raw = sse(
        delta(tool_calls=[tc(0, "a", "f", "{}")]), delta(function_call={"name": "f", "arguments": "{}"}), delta("stop")
    )
    assert play([raw])[1].calls == (Call("f", "{}", "a"),)


def test_calls_are_bounded() -> None:
    calls = Calls()
    for index in range(3000):
        calls.take([tc(index, f"c{index}", "f", "{}")])
    assert len(calls.built()) == 1024


@settings(max_examples=200 * FUZZ, deadline=None)
@given(
    st.lists(
        st.lists(
            st.builds(
                tc,
                st.sampled_from([None, 0, 1, "1", -1, True]),
                st.sampled_from([None, "", "a", "b", 3]),
                st.sampled_from([None, "", "f", "g", 3]),
                st.sampled_from([None, "", "{", "}", "{}", '{"x":1}', {"x": 1}, 3]),
            )
            | values,
            max_size=3,
        ),
        max_size=8,
    )
)
def test_never_raises_and_loses_no_arguments(chunks: list[list[Any]]) -> None:
    calls = Calls()
    taken = sum(calls.take(chunk) for chunk in chunks)
    built = calls.built()
    assert sum(len(call.arguments) for call in built) == taken
    for call in built:
        (call.id + call.name + call.arguments).encode()


def test_very_many_calls_are_counted() -> None:
    calls = Calls()
    with cheap(3):
        for number in range(30_000):
            calls.take([tc(number, f"c{number}", "f", "{}")])
            calls.take([tc(number, a=" ")])
        built = calls.built()

        assert (calls.count, len(built)) == (30_000, MAX_CALLS)
        assert built[-1] == Call("f", "{} ", f"c{MAX_CALLS - 1}"), "what is not kept does not spoil what is"


def test_one_call_that_begins_again_and_again_costs_little() -> None:
    calls = Calls()
    with cheap(3):
        for _ in range(3_000):
            calls.take([tc(0, "a", "f", '{"a":"' + "x" * 300 + "}")])


def test_very_many_calls_at_once() -> None:
    choice = Choice()
    choice.take_message({"tool_calls": [tc(None, f"c{n}", "f", "{}") for n in range(5_000)]})

    assert (choice.call_count, len(choice.built()), choice.produced) == (5_000, MAX_CALLS, 10_000)
