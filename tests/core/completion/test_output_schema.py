"""The answer as JSON of a schema: wherever it stands in the answer, and never called wrong where it is right."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.core.completion import CHECKS
from guardproxy.core.model import Call
from tests.cheap import cheap
from tests.core.completion.finals import final, judged

SCHEMA = {
    "type": "object",
    "required": ["status"],
    "properties": {"status": {"enum": ["ok", "failed"]}, "count": {"type": "integer", "minimum": 0}},
    "additionalProperties": False,
}
GOOD = '{"status": "ok", "count": 3}'


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("text", [GOOD, f"\n{GOOD}\n", '{"status":"failed"}'])
def test_good(text: str, alone: bool) -> None:
    assert judged("output_schema", final(text), json_schema=SCHEMA, alone=alone) == ""


@pytest.mark.parametrize(
    "text",
    [
        f"Here it is:\n```json\n{GOOD}\n```\nAnything else?",
        f"```\n{GOOD}\n```",
        f"The result is {GOOD} as you asked.",
        f"Not {{this}} [but] this: {GOOD}",
        f'First {{"a": 1}}, then {GOOD}',
        f"Thought: I know.\nFinal Answer: {GOOD}",
        f"```json\n{{}}\n```\nbetter:\n```json\n{GOOD}\n```",
    ],
)
def test_words_and_fences_are_allowed_unless_it_must_stand_alone(text: str) -> None:
    assert judged("output_schema", final(text), json_schema=SCHEMA) == ""
    assert judged("output_schema", final(text), json_schema=SCHEMA, alone=True) != ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("All done.", "JSON in a given form"),
        ("", "JSON in a given form"),
        ('{"status": "ok",}', "JSON in a given form"),
        ('{"status": NaN}', "JSON in a given form"),
        ('{"status": "great"}', "status:"),
        ('{"count": -1}', '"status" is a required property'),
        ('{"status": "ok", "count": -1}', "count: the value is less than the minimum of 0"),
        ('{"status": "ok", "more": 1}', "'more' was unexpected"),
        ("[1]", "is not of type"),
    ],
)
def test_bad(text: str, expected: str) -> None:
    assert expected in judged("output_schema", final(text), json_schema=SCHEMA)


@pytest.mark.parametrize(
    "arguments",
    [GOOD, json.dumps({"answer": json.loads(GOOD)}), json.dumps({"answer": GOOD}), json.dumps({"answer": f" {GOOD} "})],
)
def test_a_final_tool_hands_it_over(arguments: str) -> None:
    candidate = final("", calls=[Call("final_answer", arguments)])

    assert judged("output_schema", candidate, json_schema=SCHEMA) == ""


def test_a_final_tool_with_something_else() -> None:
    candidate = final("", calls=[Call("final_answer", '{"answer": "yes"}')])

    assert judged("output_schema", candidate, json_schema=SCHEMA) != ""


@pytest.mark.parametrize(
    ("schema", "text", "good"),
    [
        ({"type": "string", "maxLength": 5}, "hello", True),
        ({"type": "string", "maxLength": 5}, "hello there", False),
        ({"type": ["string", "null"]}, "words", True),
        ({"required": ["a"]}, "words are no object", False),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", True),
        ({"type": "string", "format": "email"}, "no address", True),  # formats are not asserted
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, '{"n": 3.0}', True),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, '{"n": ' + "9" * 400 + "}", True),
        ({"type": "object"}, '{"a": "\\ud800"}', True),  # cannot be asked
        ({"type": "string", "pattern": r"(a*)*\1c"}, "a" * 40 + "!", True),  # the pattern gives up
        ({"type": "object"}, '{"a":' * 3000 + "1" + "}" * 3000, True),
    ],
)
def test_of_other_types(schema: dict[str, Any], text: str, good: bool) -> None:
    assert (judged("output_schema", final(text), json_schema=schema) == "") is good


def test_what_cannot_be_told_passes() -> None:
    assert judged("output_schema", final("<code>final_answer({'status': x})</code>"), json_schema=SCHEMA) == ""
    assert judged("output_schema", final("x" * 1_000_001), json_schema=SCHEMA) == ""


def test_at_most_three_errors_are_said() -> None:
    schema = {"type": "object", "required": list("abcdefgh")}

    assert judged("output_schema", final("{}"), json_schema=schema).count("required property") == 3


def test_content_of_the_answer_is_not_repeated_at_length() -> None:
    said = judged("output_schema", final(json.dumps({"status": "z" * 10_000})), json_schema=SCHEMA)

    assert "zzz" not in said
    assert len(said) < 400


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"},
        {"$ref": "#/nowhere"},
        {"$ref": "http://127.0.0.1:1/schema.json"},
        {"pattern": "("},
        {"properties": 3},
        {"$schema": "http://127.0.0.1:1/draft", "type": "object"},
    ],
)
def test_what_is_no_schema_is_refused_and_nothing_is_fetched(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^json_schema: "):
        CHECKS["output_schema"].Settings(json_schema=schema)


def test_a_schema_elsewhere_is_never_fetched() -> None:
    with pytest.raises(ValueError, match="Retrieval is disabled"):
        CHECKS["output_schema"].Settings(json_schema={"$ref": "http://127.0.0.1:1/schema.json"})


def test_neither_patterns_nor_brackets_cost_time() -> None:
    with cheap(2):
        judged(
            "output_schema", final(json.dumps("a" * 40 + "!")), json_schema={"type": "string", "pattern": "^(a|a)*$"}
        )
        judged("output_schema", final("[" * 200_000), json_schema=SCHEMA)
        judged("output_schema", final("{" * 200_000), json_schema=SCHEMA)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.text(alphabet="abc .,:", max_size=20))
def test_any_object_is_found_between_words(value: dict[str, Any], words: str) -> None:
    text = f"{words} {json.dumps(value)} {words}"

    assert judged("output_schema", final(text), json_schema={"type": "object", "const": value}) == ""
