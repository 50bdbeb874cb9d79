"""What certainly does not fit a schema, and the far larger part that some tool would take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings as effort, strategies as st

from guardproxy.core.advice import Problem
from guardproxy.core.proposals._schema import ITEMS, KEPT, _compiled, problems
from tests.cheap import cheap

Json = dict[str, Any]
TODO = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "status": {"enum": ["open", "done", 3, None]}},
    "required": ["text"],
}


def schema(required: str = "", **properties: Any) -> Json:
    """An object schema whose arguments are these."""
    return {"type": "object", "properties": properties, "required": required.split(), "additionalProperties": False}


def kinds(wanted: Mapping[str, Any], arguments: Json) -> list[str]:
    return [f"{one.kind} {one.path}" for one in problems(wanted, arguments)]


TAKEN: dict[str, tuple[Json, Json]] = {
    "it fits": (schema("p", p={"type": "string"}), {"p": "x"}),
    "a whole number as 1.0": (schema("n", n={"type": "integer"}), {"n": 1.0}),
    "a whole number as 2.5": (schema("n", n={"type": "integer"}), {"n": 2.5}),
    "a number as text": (schema("n", n={"type": "integer"}), {"n": " 5 "}),
    "a number as true": (schema("n", n={"type": "number"}), {"n": True}),
    "a draft-4 schema and 1.0": (
        {"$schema": "http://json-schema.org/draft-04/schema#", **schema("n", n={"type": "integer"})},
        {"n": 1.0},
    ),
    "true as text": (schema("b", b={"type": "boolean"}), {"b": "True"}),
    "true as 1": (schema("b", b={"type": "boolean"}), {"b": 1}),
    "text as a number": (schema("s", s={"type": "string"}), {"s": 5}),
    "text as true": (schema("s", s={"type": "string"}), {"s": True}),
    "text as its words": (schema("s", s={"type": "string"}), {"s": ["ls", "-l"]}),
    "an object as text": (schema("o", o={"type": "object"}), {"o": '{"a": 1}'}),
    "an object as text that would not fit": (schema("o", o=TODO), {"o": '{"a": 1}'}),
    "a list as text": (schema("l", l={"type": "array", "items": {"type": "string"}}), {"l": '["a"]'}),
    "one thing for a list": (schema("l", l={"type": "array", "items": {"type": "string"}}), {"l": "a"}),
    "one number for a list": (schema("l", l={"type": "array", "items": {"type": "integer"}}), {"l": "7"}),
    "one object for a list": (schema("l", l={"type": "array", "items": TODO}), {"l": {"text": "x"}}),
    "one thing for a list of anything": (schema("l", l={"type": "array"}), {"l": 3}),
    "null for an optional argument": (schema("", s={"type": "string"}), {"s": None}),
    "null for an optional form": (schema("", s={"anyOf": [{"type": "integer"}, {"type": "object"}]}), {"s": None}),
    "null for an optional list": (schema("", s={"enum": ["a"]}), {"s": None}),
    "empty text for an optional number": (schema("", n={"type": "integer"}), {"n": ""}),
    "an empty object for an optional list": (schema("", l={"type": "array", "items": TODO}), {"l": {}}),
    "null where it is said to be nullable": (schema("s", s={"type": "string", "nullable": True}), {"s": None}),
    "null in a list of what may be null": (
        schema("l", l={"type": "array", "items": {"type": "string", "nullable": True}}),
        {"l": [None]},
    ),
    "null where there is a default": (schema("s", s={"type": "string", "default": "x"}), {"s": None}),
    "missing with a default": (schema("s", s={"type": "string", "default": "x"}), {}),
    "missing and nullable": (schema("s", s={"type": ["string", "null"]}), {}),
    "missing and nullable by a form": (schema("s", s={"anyOf": [{"type": "string"}, {"type": "null"}]}), {}),
    "missing and nullable elsewhere": (
        schema("s", s={"$ref": "#/$defs/S"}) | {"$defs": {"S": {"type": ["string", "null"]}}},
        {},
    ),
    "missing, but listed as null": (schema("s", s={"enum": ["a", None]}), {}),
    "missing words about the call": (schema("description", description={"type": "string"}), {}),
    "required, but never described": (schema("ghost", p={"type": "string"}), {}),
    "another spelling of a name": (schema("file_path", file_path={"type": "string"}), {"filePath": "x"}),
    "an argument that nobody knows": (schema("p", p={"type": "string"}), {"p": "x", "more": 1}),
    "another spelling of a value": (schema("u", u={"enum": ["celsius", "kelvin"]}), {"u": "Celsius "}),
    "a listed number as text": (schema("u", u={"enum": [1, 2]}), {"u": "1"}),
    "a constant in capitals": (schema("u", u={"const": "all"}), {"u": "ALL"}),
    "beyond a bound": (schema("n", n={"type": "integer", "maximum": 10, "minimum": 2}), {"n": 99}),
    "too long": (schema("s", s={"type": "string", "maxLength": 1, "pattern": "^a$"}), {"s": "xyz"}),
    "too short": (schema("l", l={"type": "array", "minItems": 1, "uniqueItems": True}), {"l": []}),
    "no date": (schema("d", d={"type": "string", "format": "date"}), {"d": "tomorrow"}),
    "a condition": (
        schema("p", p={"type": "string"}) | {"if": {"properties": {"p": {"const": "x"}}}, "then": {"required": ["q"]}},
        {"p": "x"},
    ),
    "what must not be": (schema("p", p={"not": {"type": "string"}}), {"p": "x"}),
    "both forms": (schema("p", p={"oneOf": [{"type": "string"}, {"type": "string"}]}), {"p": "x"}),
    "a tuple": (schema("p", p={"type": "array", "prefixItems": [{"type": "integer"}]}), {"p": [{}]}),
    "a tuple and what follows it": (
        schema("p", p={"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "object"}}),
        {"p": [1]},
    ),
    "names by a pattern": (
        schema("o", o={"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": {"type": "object"}}),
        {"o": {"x": 1}},
    ),
    "a listed value that is null": (schema("t", t=TODO), {"t": {"text": "a", "status": None}}),
    "beside a reference": (
        schema("o", o={"$ref": "#/$defs/T", "required": ["nothing"]}) | {"$defs": {"T": TODO}},
        {"o": {"text": "x"}},
    ),
    "nothing said": ({}, {"a": 1}),
    "a schema of no known types": (schema("a", a={"type": "str"}), {"a": {}}),
    "Gemini's types": ({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]}, {}),
    "a reference to nowhere": (schema("a", a={"$ref": "#/$defs/none"}), {"a": 1}),
    "a reference outside": (schema("a", a={"$ref": "https://example.org/a.json"}), {"a": 1}),
    "a reference to a file": (schema("a", a={"$ref": "file:///etc/hostname"}), {"a": 1}),
    "required as draft 3 has it": ({"type": "object", "properties": {"a": {"required": True}}}, {}),
    "properties that are none": ({"type": "object", "properties": ["a"], "required": ["a"]}, {}),
    "a list that is empty": (schema("a", a={"enum": []}), {"a": 1}),
    "a schema that refers to itself": ({"$ref": "#"}, {"a": 1}),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_some_tool_would_take_is_no_problem(name: str) -> None:
    wanted, arguments = TAKEN[name]
    assert problems(wanted, arguments) == []


REFUSED: dict[str, tuple[Json, Json, list[Problem]]] = {
    "missing": (schema("p", p={"type": "string"}), {}, [Problem("missing", "p", "string")]),
    "missing, with another name beside it": (
        schema("path", path={"type": "string"}),
        {"file": "x"},
        [Problem("missing", "path", "string"), Problem("unknown", "file")],
    ),
    "two missing": (
        schema("a b", a={"type": "string"}, b={"type": ["integer", "string"]}),
        {},
        [Problem("missing", "a", "string"), Problem("missing", "b", "integer or string")],
    ),
    "null for a required argument": (
        schema("p", p={"type": "string"}),
        {"p": None},
        [Problem("type", "p", "string", "null")],
    ),
    "text for a number": (
        schema("n", n={"type": "integer"}),
        {"n": "many"},
        [Problem("type", "n", "integer", 'string "many"')],
    ),
    "an object for text": (
        schema("s", s={"type": "string"}),
        {"s": {"a": 1}},
        [Problem("type", "s", "string", 'object {"a": 1}')],
    ),
    "objects for text": (
        schema("s", s={"type": "string"}),
        {"s": [{}]},
        [Problem("type", "s", "string", "array [{}]")],
    ),
    "text for an object": (
        schema("o", o={"type": "object"}),
        {"o": "x"},
        [Problem("type", "o", "object", 'string "x"')],
    ),
    "text for a list of objects": (
        schema("todos", todos={"type": "array", "items": TODO}),
        {"todos": "do it"},
        [Problem("type", "todos", "array", 'string "do it"')],
    ),
    "a text for an optional truth value": (
        schema("", b={"type": "boolean"}),
        {"b": "maybe"},
        [Problem("type", "b", "boolean", 'string "maybe"')],
    ),
    "deep inside": (
        schema("todos", todos={"type": "array", "items": {"$ref": "#/$defs/T"}}) | {"$defs": {"T": TODO}},
        {"todos": [{"text": "a"}, {"status": "late"}]},
        [
            Problem("enum", "todos[1].status", "open, done, 3, null", 'string "late"'),
            Problem("missing", "todos[1].text", "string"),
        ],
    ),
    "not in the list": (
        schema("u", u={"enum": ["a", "b"]}),
        {"u": "c"},
        [Problem("enum", "u", "a, b", 'string "c"')],
    ),
    "not the constant": (schema("u", u={"const": "a"}), {"u": "c"}, [Problem("enum", "u", "a", 'string "c"')]),
    "none of the forms": (
        schema("x", x={"oneOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]}),
        {"x": "y"},
        [Problem("no_form", "x", "object or array", 'string "y"')],
    ),
    "an object that may be left out": (
        schema("", t={"anyOf": [{"$ref": "#/$defs/T"}, {"type": "null"}]}) | {"$defs": {"T": TODO}},
        {"t": {"status": "open"}},
        [Problem("missing", "t.text", "string")],
    ),
    "one of several objects": (
        schema(
            "act",
            act={
                "oneOf": [
                    schema("kind x y", kind={"const": "click"}, x={"type": "integer"}, y={"type": "integer"}),
                    schema("kind text", kind={"const": "type"}, text={"type": "string"}),
                ]
            },
        ),
        {"act": {"kind": "click", "x": 1}},
        [Problem("missing", "act.y", "integer")],
    ),
    "in a map": (
        schema("m", m={"type": "object", "additionalProperties": {"type": "object"}}),
        {"m": {"k": "v"}},
        [Problem("type", "m.k", "object", 'string "v"')],
    ),
    "one of all": (
        {"allOf": [schema("a", a={"type": "string"}), schema("b", b={"type": "string"})]},
        {"a": "x"},
        [Problem("missing", "b", "string"), Problem("unknown", "a")],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_certainly_does_not_fit_is_said_exactly(name: str) -> None:
    wanted, arguments, expected = REFUSED[name]
    assert problems(wanted, arguments) == expected


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=8),
    "integer": st.integers(-(10**6), 10**6),
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
    "null": st.none(),
}
NAMES = st.sampled_from(["path", "file_path", "n", "todos", "status", "properties", "items", "required", "$ref", "a b"])


@st.composite
def fitting(draw: st.DrawFn, depth: int = 3) -> tuple[Json, Any]:
    """A schema, and a value that it takes."""
    form = draw(st.sampled_from(["scalar", "enum", "object", "array", "any"] if depth else ["scalar", "enum"]))
    if form == "scalar":
        kind = draw(st.sampled_from(sorted(SCALARS)))
        return {"type": kind}, draw(SCALARS[kind])
    if form == "enum":
        listed = draw(st.lists(st.text(max_size=4) | st.integers() | st.none(), min_size=1, max_size=4))
        return {"enum": listed}, draw(st.sampled_from(listed))
    if form == "array":
        pairs = draw(st.lists(fitting(depth - 1), min_size=1, max_size=3))
        return {"type": "array", "items": {"anyOf": [one for one, _ in pairs]}}, [value for _, value in pairs]
    if form == "any":
        pairs = draw(st.lists(fitting(depth - 1), min_size=1, max_size=3))
        return {draw(st.sampled_from(["anyOf", "oneOf"])): [one for one, _ in pairs]}, pairs[0][1]
    return draw(fitting_object(depth))


@st.composite
def fitting_object(draw: st.DrawFn, depth: int = 3) -> tuple[Json, Json]:
    """An object schema, and arguments that it takes: all that are required, some of the others."""
    members = draw(st.dictionaries(NAMES, fitting(depth - 1), max_size=4))
    required = draw(st.lists(st.sampled_from(sorted(members)), unique=True)) if members else []
    given_too = draw(st.lists(st.sampled_from(sorted(members)), unique=True)) if members else []
    wanted = {
        "type": "object",
        "properties": {name: one for name, (one, _) in members.items()},
        "required": required,
        "additionalProperties": False,
    }
    return wanted, {name: value for name, (_, value) in members.items() if name in required or name in given_too}


@effort(max_examples=120, deadline=None)
@given(fitting_object())
def test_a_call_that_fits_is_never_a_problem(made: tuple[Json, Json]) -> None:
    assert problems(*made) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
KEYWORDS = st.sampled_from(
    "type properties required items anyOf oneOf allOf enum const $ref $defs definitions additionalProperties default "
    "nullable".split()
)
ODD = st.recursive(
    JSON | st.sampled_from(["string", "object", "#", "#/$defs/a", "#/properties/n", "https://example.org"]),
    lambda inner: st.dictionaries(KEYWORDS | NAMES, inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=12,
)


@effort(max_examples=120, deadline=None)
@given(st.dictionaries(KEYWORDS, ODD, max_size=5), st.dictionaries(NAMES, JSON, max_size=4))
def test_no_schema_and_no_arguments_make_it_raise(wanted: Json, arguments: Json) -> None:
    assert isinstance(problems(wanted, arguments), list)


@effort(max_examples=60, deadline=None)
@given(fitting_object(), st.dictionaries(NAMES, JSON, max_size=4))
def test_the_order_of_keys_does_not_count(made: tuple[Json, Json], arguments: Json) -> None:
    turned = dict(reversed(arguments.items()))
    assert {(one.kind, one.path) for one in problems(made[0], arguments)} == {
        (one.kind, one.path) for one in problems(made[0], turned)
    } or any(one.kind == "unknown" for one in problems(made[0], arguments))
    assert bool(problems(made[0], arguments)) == bool(problems(made[0], turned))


@pytest.mark.parametrize(
    "arguments",
    [
        {"p": "\ud800"},
        {"p": float("nan"), "n": float("inf")},
        {"p": 10**400},
        {"p": json.loads("[" * 500 + "]" * 500)},
    ],
)
def test_values_beyond_json_are_no_problem_or_a_plain_one(arguments: Json) -> None:
    assert kinds(schema("p", p={"type": "string"}), arguments) in ([], ["type p"])


def test_long_lists_cost_no_more_than_their_first_items() -> None:
    wanted = schema("todos", todos={"type": "array", "items": TODO})
    with cheap(1.0):
        found = problems(wanted, {"todos": [{} for _ in range(100_000)]})
    assert len(found) == ITEMS
    assert problems(wanted, {"todos": [{"text": "a"}] * ITEMS + [{}]}) == [], "missed rather than paid for"


def test_nothing_is_fetched(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"type": "object"}')
    validator, _ = _compiled(schema("", a={"$ref": other.as_uri()}))
    assert validator is None
    validator, _ = _compiled(schema("", a={"type": "object"}))
    assert validator is not None


def test_validators_are_remembered_and_forgotten() -> None:
    for number in range(3 * KEPT):
        assert kinds(schema("p", p={"type": "string"}, q={"title": str(number)}), {}) == ["missing p"]


def test_a_schema_that_is_no_json_is_no_problem() -> None:
    assert problems({"type": {1, 2}}, {"a": 1}) == []
    assert problems({"properties": {"a": {"description": "x" * 300_000}}, "required": ["a"]}, {}) == []
