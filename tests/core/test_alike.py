"""Arguments that the configuration calls the same have one fingerprint, and others keep theirs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from guardproxy.core.alike import one_path
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import Call, Message
from guardproxy.core.tools import Rules
from tests.core.steps import step

RULES = Rules(
    defaults={"f": {"limit": 10, "deep": False, "q": "", "tags": []}},
    ignore_args={"F*": ("nonce",), "other": ("a",)},
    unordered_args={"f": ("labels",)},
    path_args={"*": ("path", "files")},
    time_args={"f": ("since", "window")},
)
PRINTER = Fingerprinter(b"a key", RULES)

SAME: dict[str, tuple[Any, Any]] = {
    "a default": ({"a": 1, "limit": 10}, {"a": 1}),
    "a default as a fraction": ({"limit": 10.0}, {}),
    "defaults of all kinds": ({"deep": False, "q": "", "tags": []}, {}),
    "an ignored one": ({"a": 1, "nonce": "x1"}, {"a": 1, "nonce": "x2"}),
    "an ignored one that is absent": ({"a": 1, "nonce": "x1"}, {"a": 1}),
    "an ignored one further down": ({"a": {"nonce": 1, "b": 2}}, {"a": {"b": 2}}),
    "an ignored one in a list": ({"a": [{"nonce": 1}]}, {"a": [{"nonce": 2}]}),
    "another order": ({"labels": ["b", "a"]}, {"labels": ["a", "b"]}),
    "another order of objects": ({"labels": [{"n": 2}, {"n": 1}]}, {"labels": [{"n": 1}, {"n": 2}]}),
    "another order further down": ({"x": {"labels": [2, 1]}}, {"x": {"labels": [1, 2]}}),
    "./": ({"path": "./a"}, {"path": "a"}),
    "a slash at the end": ({"path": "a/"}, {"path": "a"}),
    "a slash twice": ({"path": "a//b"}, {"path": "a/b"}),
    "there and back": ({"path": "a/../b"}, {"path": "b"}),
    "two roots": ({"path": "//a"}, {"path": "/a"}),
    "backslashes": ({"path": "a\\b\\"}, {"path": "a/b"}),
    "a path with a scheme": ({"path": "file:///a/./b"}, {"path": "file:///a/b"}),
    "paths in a list": ({"files": ["./a", "b/"]}, {"files": ["a", "b"]}),
    "paths in objects": ({"files": [{"path": "./a"}]}, {"files": [{"path": "a"}]}),
    "time stamps": ({"since": "2026-01-31T10:00:00Z"}, {"since": "2026-01-31T10:05:00+01:00"}),
    "relative times": ({"since": "now-5m"}, {"since": "now-15m"}),
    "epochs": ({"since": 1710000000}, {"since": 1710000030.5}),
    "full-width digits": ({"since": "过去５分钟"}, {"since": "过去6分钟"}),
    "a window": ({"window": {"from": 1, "to": [2, "3 h"]}}, {"window": {"from": 4, "to": [5, "6 h"]}}),
}
DIFFERENT: dict[str, tuple[Any, Any]] = {
    "not the default": ({"limit": 11}, {}),
    "a flag is no number": ({"deep": 0}, {}),
    "a text is no number": ({"limit": "10"}, {}),
    "something in the list": ({"tags": [1]}, {}),
    "a default further down": ({"a": {"limit": 10}}, {"a": {}}),
    "an order that has a meaning": ({"steps": [{"n": 2}, {"n": 1}]}, {"steps": [{"n": 1}, {"n": 2}]}),
    "more in the list": ({"labels": ["a", "a"]}, {"labels": ["a"]}),
    "another path": ({"path": "a/b"}, {"path": "a/c"}),
    "upper case in a path": ({"path": "A"}, {"path": "a"}),
    "the root and here": ({"path": "/a"}, {"path": "a"}),
    "further up": ({"path": "../a"}, {"path": "a"}),
    "a path elsewhere": ({"target": "./a"}, {"target": "a"}),
    "a word for a time": ({"since": "yesterday"}, {"since": "today"}),
    "a time elsewhere": ({"at": 1710000000}, {"at": 1710000030}),
    "no time": ({"since": None}, {"since": 1}),
    "ignored of another tool": ({"a": 1}, {"a": 2}),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME.keys())
def test_same(one: Any, other: Any) -> None:
    first, second = (step("F", json.dumps(value), printer=PRINTER) for value in (one, other))
    assert (first.call, first.near, first.masked) == (second.call, second.near, second.masked)


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_different(one: Any, other: Any) -> None:
    assert step("f", json.dumps(one), printer=PRINTER).call != step("f", json.dumps(other), printer=PRINTER).call


def under(arguments: str, **defaults: object) -> tuple[bytes, bytes]:
    made = PRINTER.step(Call("g", arguments), Message("tool", "x"), first=True, at_ms=0, defaults=defaults)
    return made.call, made.near


def test_defaults_of_a_schema_make_calls_alike_but_not_equal() -> None:
    """Where an answer is watched no schema is at hand, and a round must be known again by its exact form."""
    bare, told = under('{"q":"x"}', limit=10), under('{"q":"x","limit":10}', limit=10)
    assert bare[1] == told[1]
    assert bare[0] != told[0]
    assert under('{"q":"x","limit":11}', limit=10)[1] != bare[1]
    assert under('{"q":"x","limit":10}', limit=11)[1] != bare[1], "the memo must not mix schemas up"
    assert PRINTER.call(Call("g", '{"q":"x","limit":10}')) == told[0]


keys = st.sampled_from(("a", "b", "limit", "path", "labels", "files", "q"))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text("a./ B\\é\u200b1", max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=8,
)


@given(st.dictionaries(keys, values, max_size=4), st.randoms(), st.text(max_size=5))
def test_what_does_not_count_changes_no_fingerprint(arguments: dict[str, Any], chance: Any, noise: str) -> None:
    """Other orders of keys, another serialisation, defaults and ignored arguments added."""
    shuffled = list(arguments.items())
    chance.shuffle(shuffled)
    other = {**dict(shuffled), "nonce": noise, "absent": None}
    other = {"limit": 10, **other} if arguments.get("limit") is None else other
    other = {**other, "limit": 10} if other.get("limit") is None else other
    if isinstance(other.get("labels"), list):
        other["labels"] = list(reversed(other["labels"]))
    one = step("f", json.dumps(arguments), printer=PRINTER)
    two = step("f", json.dumps(other, indent=1, ensure_ascii=False), printer=PRINTER)
    assert (one.call, one.near, one.masked) == (two.call, two.near, two.masked)


@given(st.text("ab./\\:", max_size=12))
def test_a_path_has_one_shortest_spelling(text: str) -> None:
    short = one_path(text)
    assert one_path(short) == short
    assert "//" not in short.rpartition("://")[2]
