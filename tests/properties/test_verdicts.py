"""How a run is written down never changes what is decided on it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from guardproxy.core.tools import Rules
from tests.properties.runs import (
    EDIT,
    FETCH,
    KEY,
    KINDS,
    OTHER,
    READ,
    SEARCH,
    SETTINGS,
    SHELL,
    THINK,
    Did,
    Json,
    Turn,
    Written,
    bounded,
    compact,
    judged,
    messages,
    runs,
    word,
)

each_kind = pytest.mark.parametrize("kind", KINDS)

_SAID = ("read_only", "mutates", "shells", "think_like")
_PARTS = ("read", "edit", "delete", "bash", "run", "think", "list", "search", "sql", "query", "todo", "plan", "wait")
speaking = st.lists(st.sampled_from((*_PARTS, "Zebra", "x1", "mcp__a")), min_size=1, max_size=3).map("_".join)
"""Names whose words mean something, and something else than the tool is."""


@each_kind
@bounded
@given(
    st.data(),
    st.lists(speaking, min_size=6, max_size=6, unique_by=str.casefold),
    st.integers(0, 40_000).map(word),
)
def test_names_of_tools_do_not_matter(kind: str, data: Any, names: list[str], other: str) -> None:
    """Where the settings say what the tools are, and are renamed along."""
    run = data.draw(runs(kind))
    new = dict(zip((READ, FETCH, SEARCH, EDIT, SHELL, THINK), names, strict=True)) | {OTHER: other}
    renamed = Rules(
        **{name: tuple(new[tool] for tool in getattr(SETTINGS, name)) for name in _SAID},
    )
    assert renamed != SETTINGS

    plain, told = judged(messages(run)), judged(messages(run, Written(name=new.__getitem__)), renamed)
    assert told == plain


def test_a_tool_with_a_shells_name_is_none_where_the_settings_say_so() -> None:
    """Found by the property above: a row of the search's answers went on over a batch in which it was called, too."""
    told = "No results found."
    turns = [Turn((Did(SEARCH, {"query": f"record {n}"}, told),)) for n in (3, 4, 5, 6, 8)]
    turns.insert(4, Turn((Did(READ, {"path": "src/a.py"}, "def a():"), Did(SEARCH, {"query": "record 7"}, told))))
    new = {name: name for name in (READ, FETCH, EDIT, THINK, OTHER)} | {SEARCH: "bash", SHELL: "x5"}
    renamed = Rules(**{name: tuple(new[tool] for tool in getattr(SETTINGS, name)) for name in _SAID})
    assert judged(messages(turns, Written(name=new.__getitem__)), renamed) == judged(messages(turns))


@each_kind
@bounded
@given(st.data(), st.binary(min_size=1, max_size=16))
def test_the_secret_does_not_matter(kind: str, data: Any, key: bytes) -> None:
    """Fingerprints are keyed: no order of theirs may decide anything."""
    run = data.draw(runs(kind))
    assert judged(messages(run), key=key) == judged(messages(run), key=KEY)


@each_kind
@bounded
@given(st.data(), st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(kind: str, data: Any, chance: Any) -> None:
    """At any depth, another order for each call."""
    run = data.draw(runs(kind))

    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            keys = list(value)
            chance.shuffle(keys)
            return {key: shuffled(value[key]) for key in keys}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    def arguments(given: Json | str, turn: int, place: int) -> str:
        return compact(shuffled(given))

    assert judged(messages(run, Written(arguments=arguments))) == judged(messages(run))


_IDS = {
    "long": lambda turn, place: f"call_{turn * 7919 + place:024d}",
    "short": lambda turn, place: f"{turn * 10 + place}",
    "of the message": lambda turn, place: f"call_{place}",
    "none": lambda turn, place: "",
    "of a function": lambda turn, place: f"functions.f:{turn}{place}",
    "all one": lambda turn, place: "call_1",
}


@each_kind
@bounded
@given(st.data(), st.sampled_from(sorted(_IDS)))
def test_ids_do_not_matter(kind: str, data: Any, form: str) -> None:
    """Also such as come again in each message, and none at all: results stand in the order of the calls."""
    run = data.draw(runs(kind))
    assert judged(messages(run, Written(id=_IDS[form]))) == judged(messages(run))


def _spaced(value: Any) -> str:
    return " " + json.dumps(value, indent=2) + "\n"


def _escaped(value: Any) -> str:
    """Each character of each string as its escape."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_escaped(key)}:{_escaped(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_escaped, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(f"\\u{ord(sign):04x}" for sign in value) + '"'
    return json.dumps(value)


def _floats(value: Any) -> Any:
    """Whole numbers as 3.0, and a null for what is not said."""
    if isinstance(value, dict):
        return {key: _floats(item) for key, item in value.items()} | {"not_said": None}
    if isinstance(value, list):
        return [_floats(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


_FORMS = {
    "compact": lambda value: json.dumps(value, separators=(",", ":")),
    "spaced": _spaced,
    "wide": lambda value: json.dumps(value, separators=("  ,  ", "  :  ")),
    "plain characters": lambda value: json.dumps(value, ensure_ascii=False),
    "escaped": _escaped,
    "slashes": lambda value: json.dumps(value).replace("/", "\\/"),
    "floats and nulls": lambda value: json.dumps(_floats(value)),
    "an object": lambda value: value,
}


@each_kind
@bounded
@given(st.data(), st.lists(st.sampled_from(sorted(_FORMS)), min_size=1, max_size=4))
def test_how_arguments_are_serialised_does_not_matter(kind: str, data: Any, forms: list[str]) -> None:
    """One form for all calls, or another one each time."""
    run = data.draw(runs(kind))

    def arguments(given: Json | str, turn: int, place: int) -> Any:
        return given if isinstance(given, str) else _FORMS[forms[turn % len(forms)]](given)

    assert judged(messages(run, Written(arguments=arguments))) == judged(messages(run))


_VOLATILE = {
    "timestamp": lambda n: f"2026-01-{n % 28 + 1:02d}T10:{n % 60:02d}:00Z",
    "request_id": lambda n: f"req_{n:08x}",
    "elapsed_ms": lambda n: n * 3,
    "updated_at": lambda n: 1_780_000_000 + n,
    "etag": lambda n: f'W/"{n:x}"',
    "read_count": lambda n: n,
}


@each_kind
@bounded
@given(st.data(), st.lists(st.sampled_from(sorted(_VOLATILE)), min_size=1, max_size=4, unique=True), st.booleans())
def test_volatile_fields_of_results_do_not_matter(kind: str, data: Any, keys: list[str], nested: bool) -> None:
    """JSON objects gain keys that change with every answer."""
    run = data.draw(runs(kind))

    def result(told: str, turn: int, place: int) -> str:
        if not told.startswith("{"):
            return told
        value, number = json.loads(told), turn * 10 + place
        more = {key: _VOLATILE[key](number) for key in keys}
        return json.dumps({**value, "meta": more} if nested else {**more, **value})

    def base(told: str, turn: int, place: int) -> str:
        return json.dumps({**json.loads(told), "meta": {}}) if nested and told.startswith("{") else told

    assert judged(messages(run, Written(result=result))) == judged(messages(run, Written(result=base)))


_TRAILERS = {
    "wall time": lambda n: f"Wall time: {n}.{n % 10} seconds",
    "moment": lambda n: f"finished 2026-01-31T10:{n % 60:02d}:{n * 7 % 60:02d}Z",
    "request": lambda n: f"request id: req-{n:06x}",
    "tally": lambda n: f"(read {n + 2} times in this session)",
    "address": lambda n: f"<handle at 0x7f{n:08x}>",
    "uuid": lambda n: f"ref {n:08x}-0000-4000-8000-{n:012x}",
}


@each_kind
@bounded
@given(st.data(), st.sampled_from(sorted(_TRAILERS)))
def test_volatile_lines_of_results_do_not_matter(kind: str, data: Any, form: str) -> None:
    """A line that ends each text of some length: always the same, or another each time."""
    run = data.draw(runs(kind))

    def ended(told: str, number: int) -> str:
        return f"{told}\n{_TRAILERS[form](number)}" if "\n" in told and not told.startswith("{") else told

    always = Written(result=lambda told, turn, place: ended(told, 5))
    anew = Written(result=lambda told, turn, place: ended(told, turn * 10 + place))
    assert judged(messages(run, anew)) == judged(messages(run, always))


_EXPLAINING = "Run the tests cat rm patch create > a.txt sleep 5 and é \\".split()
explaining = st.lists(st.sampled_from(_EXPLAINING), max_size=4).map(" ".join)


@each_kind
@bounded
@given(st.data(), st.lists(explaining, min_size=1, max_size=5))
def test_arguments_that_do_not_count_do_not_matter(kind: str, data: Any, texts: list[str]) -> None:
    """What the settings call ignored, and what only explains a call: another one each time, or none."""
    run = data.draw(runs(kind))
    rules = Rules(ignore_args={"*": ("nonce",)}, **{name: getattr(SETTINGS, name) for name in _SAID})

    def arguments(given: Json | str, turn: int, place: int) -> str:
        if isinstance(given, str):
            return given
        return json.dumps({"description": texts[turn % len(texts)], **given, "nonce": f"{turn}/{place}"})

    assert judged(messages(run, Written(arguments=arguments)), rules) == judged(messages(run), rules)
