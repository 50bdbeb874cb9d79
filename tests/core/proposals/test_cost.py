"""No schema and no arguments keep a worker: what would take too long is not judged, and what is cheap still is."""

from __future__ import annotations

import time
from typing import Any

import pytest

from guardproxy.core.proposals._cost import cost
from guardproxy.core.proposals._schema import problems

Json = dict[str, Any]
BOUND = 0.05
"""Seconds of CPU of the quickest of three: a worker stands still for no longer, however busy the machine."""


def tree(depth: int) -> tuple[Json, Json]:
    """An expression of six forms, with one wrong leaf."""
    side = {"$ref": "#/$defs/e"}
    forms = [
        {"type": "object", "properties": {"left": side, "right": side, name: {"type": "string"}}, "required": [name]}
        for name in ("and", "or", "not", "eq", "lt", "gt")
    ]
    node: Json = {"column": "x"}
    for _ in range(depth):
        node = {"left": node, "right": 1}
    return _asking("e", e={"anyOf": [{"type": "integer"}, *forms]}), {"x": node}


def shared(key: str, depth: int, times: int, value: object) -> tuple[Json, Json]:
    """Forms that lead to the same forms, again and again."""
    names = {f"e{n}": {key: [{"$ref": f"#/$defs/e{n + 1}"}] * times} for n in range(depth)}
    return _asking("e0", **names, **{f"e{depth}": {"type": "integer"}}), {"x": value}


def _asking(name: str, **named: Json) -> Json:
    return {"type": "object", "properties": {"x": {"$ref": f"#/$defs/{name}"}}, "required": ["x"], "$defs": named}


def _of(part: Json) -> Json:
    return {"type": "object", "properties": {"x": part}, "required": ["x"]}


WIDE = {"type": "object", "properties": {"p": {"type": "string"}}, "required": ["p"]}
LISTS = {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": WIDE}}}
HOSTILE = {
    "an expression": tree(7),
    "a deep expression": tree(60),
    "shared forms": shared("anyOf", 18, 2, [{}]),
    "shared forms, many": shared("anyOf", 100, 3, [{}]),
    "a chain of forms": shared("anyOf", 60, 1, [{}]),
    "a chain just told": shared("anyOf", 30, 1, [{}]),
    "all of shared forms, and fitting": shared("allOf", 28, 2, 1),
    "itself": (_asking("e", e={"anyOf": [{"$ref": "#/$defs/e"}]}), {"x": []}),
    "many forms": (_of({"anyOf": [WIDE] * 400}), {"x": {"a": "b" * 100_000}}),
    "lists of lists": (_of(LISTS), {"x": [[[{} for _ in range(32)] for _ in range(32)] for _ in range(8)]}),
    "a long list of values": (
        _of({"type": "array", "items": {"enum": [f"v{n}" for n in range(9000)]}}),
        {"x": ["z"] * 32},
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_schema_keeps_a_worker(name: str) -> None:
    wanted, arguments = HOSTILE[name]
    spent = []
    for _ in range(3):
        begun = time.thread_time()
        problems(wanted, arguments)
        spent.append(time.thread_time() - begun)
    assert min(spent) < BOUND


@pytest.mark.parametrize(
    ("wanted", "arguments"),
    [tree(1), shared("anyOf", 3, 2, [{}]), (_of({"type": "array", "items": WIDE}), {"x": [{}] * 5000})],
)
def test_what_is_cheap_is_still_judged(wanted: Json, arguments: Json) -> None:
    assert problems(wanted, arguments)


def test_too_many_wrong_items_are_told_of_the_first_few() -> None:
    part = {"type": "object", "required": [*"abcdefghijklmnop"], "properties": dict.fromkeys("abcdefghijklmnop", WIDE)}
    assert {one.path[:4] for one in problems(_of({"type": "array", "items": part}), {"x": [{} for _ in range(32)]})}
    assert not cost({"x": [{} for _ in range(32)]}, _of({"type": "array", "items": part})).tellable


@pytest.mark.parametrize(("value", "errors"), [("a", 0), (1, 0), (1.5, 2), (None, 2)])
def test_what_fits_costs_no_error(value: object, errors: int) -> None:
    found = cost(value, {"anyOf": [{"type": "string"}, {"type": "integer"}]}).errors
    assert found > errors if errors else found == 0
