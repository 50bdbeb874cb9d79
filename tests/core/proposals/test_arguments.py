"""Calls that are written wrongly go back to the model; calls that an agent can carry out never do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings as effort, strategies as st

from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.core.model import Ask, Call, Trail
from guardproxy.core.proposals import Inspection, arguments
from tests.core.proposals.turns import inspection, said, steps
from tests.core.talk import ask, step, user

READ = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["path"],
}
SCHEMAS: dict[str, Mapping[str, object]] = {"read_file": READ, "list_dir": {"type": "object", "properties": {}}}
TOOLS = ("read_file", "list_dir", "apply_patch", "mcp__db__run_query")


def offered(*names: str) -> Ask:
    return replace(ask(user("x")), tools=names)


def check(mode: str = "enforce", *names: str, **more: Any) -> Inspection | None:
    """The check of a turn whose request offers these tools."""
    made: dict[str, Any] = {"asked": offered(*(names or TOOLS)), "schemas": SCHEMAS.get}
    return inspection(settings={"arguments": arguments.Settings(mode)}, **(made | more))


CALLS = [
    (Call("read_file", '{"path": "a"}'), ""),
    (Call("read_file", ' {"path": "a"}\n'), ""),
    (Call("read_file", '{"path": "two\nlines"}'), ""),
    (Call("read_file", '"{\\"path\\": \\"a\\"}"'), ""),
    (Call("read_file", '{"path": "a", "limit": "5"}'), ""),
    (Call("read_file", '{"path": "a", "limit": null}'), ""),
    (Call("read_file", '{"path": "a", "more": 1}'), ""),
    (Call("read_file", "{}"), "missing"),
    (Call("read_file", ""), "missing"),
    (Call("read_file", "null"), "missing"),
    (Call("read_file", '{"path": "a"'), "not_json"),
    (Call("read_file", '{"path": "a"}{"path": "b"}'), "not_json"),
    (Call("read_file", "path=a"), "not_json"),
    (Call("read_file", '["a"]'), "not_object"),
    (Call("read_file", '"a"'), "not_object"),
    (Call("read_file", '{"path": "a", "limit": "all"}'), "type"),
    (Call("read_file", '{"path": ' + "9" * 5000 + "}"), ""),
    (Call("read_file", "[" * 100_000), ""),
    (Call("list_dir", ""), ""),
    (Call("list_dir", "null"), ""),
    (Call("list_dir", "{"), "not_json"),
    (Call("apply_patch", "*** Begin Patch"), ""),
    (Call("Read_File", "{}"), ""),
    (Call("read-file", "{}"), ""),
    (Call("functions.read_file", "{}"), ""),
    (Call("run_query", "{}"), ""),
    (Call("other__list_dir", "{}"), ""),
    (Call("read_flie", "{}"), "no_tool"),
    (Call("open", "{}"), "no_tool"),
    (Call("", "{}"), "no_name"),
    (Call("  ", ""), "no_name"),
    (Call("!?", "{}"), "no_tool"),
]


@pytest.mark.parametrize(("call", "wrong"), CALLS, ids=[f"{one.name} {one.arguments[:30]}" for one, _ in CALLS])
def test_what_goes_back(call: Call, wrong: str) -> None:
    found = check()
    assert found
    objections = found.judge([call])
    assert [(one.action, one.rule) for one in objections] == ([("repair", "arguments")] if wrong else [])
    assert not wrong or wrong in objections[0].reason.split(": ")[1].split(", ")


@pytest.mark.parametrize(("repairs", "asked_again"), [(0, True), (1, True), (2, False), (3, False)])
def test_after_two_tries_the_call_is_handed_on_as_it_is(repairs: int, asked_again: bool) -> None:
    assert bool(said(check(), Call("read_file", "{"), repairs=repairs)) is asked_again
    assert said(check(), Call("read_file", "{"), refusals=5) == ["0 repair arguments"]


def test_how_often_is_a_setting() -> None:
    found = inspection(settings={"arguments": arguments.Settings("enforce", 0)}, asked=offered("read_file"))
    assert said(found, Call("x", "{}")) == []


@pytest.mark.parametrize("mode", ["off", "observe", "enforce"])
def test_modes(mode: str) -> None:
    found = check(mode)
    expected = {"off": [], "observe": ["0 observe repair arguments"], "enforce": ["0 repair arguments"]}[mode]
    assert said(found, Call("read_file", "{")) == expected
    assert (found is not None and found.concerns("anything")) is (mode == "enforce")


@pytest.mark.parametrize(
    ("names", "name", "goes_back"),
    [
        (("f",), "g", True),
        (("f", "mcp"), "g", False),
        (("f", "tool_search"), "g", False),
        (("f", "web_search"), "g", True),
    ],
)
def test_tools_that_the_list_does_not_name(names: tuple[str, ...], name: str, goes_back: bool) -> None:
    assert bool(said(check("enforce", *names), Call(name, "{}"))) is goes_back


def test_a_request_without_tools_says_nothing_of_names() -> None:
    assert check(asked=offered()) is None


@pytest.mark.parametrize(
    ("answer", "goes_back"),
    [("40 lines", False), (None, True), ("Error: no such tool: hidden", True), ("Error: it failed", True)],
)
def test_a_name_that_has_worked_in_this_run_is_known(answer: str | None, goes_back: bool) -> None:
    run = Trail((step("hidden", "{}", answer),))
    assert bool(said(check(run=run), Call("hidden", "{}"))) is goes_back


def test_the_text_says_what_is_wrong_where_and_what_there_is() -> None:
    found = check()
    assert found
    (one,) = found.judge([Call("read_file", '{"file": "a", "limit": "all"}')])
    for part in (GUARD_MARK, "`read_file`", "`path` (string) is missing", "`limit` must be integer", '"all"', "`file`"):
        assert part in one.text
    assert "all" not in one.reason, "a reason is logged; it holds no content"
    (one,) = found.judge([Call("read_flie", "{}")])
    assert "no tool of this name" in one.text
    assert "`read_file`" in one.text
    (one,) = found.judge([Call("", "{}")])
    assert "`list_dir`" in one.text
    (one,) = found.judge([Call("read_file", '{"path": "a",}')])
    assert "JSON" in one.text


def test_depths_that_can_just_be_read_are_judged_too() -> None:
    for depth in range(850, 1000):
        nested = "[" * depth + "]" * depth
        assert said(check(), Call("read_file", nested)) in ([], ["0 repair arguments"])
        assert said(check(), Call("read_file", f'{{"path": {nested}}}')) in ([], ["0 repair arguments"])


def test_many_problems_are_counted() -> None:
    names = [f"a{number}" for number in range(9)]
    wanted = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
    found = check("enforce", "f", schemas=lambda tool: wanted)
    assert found
    (one,) = found.judge([Call("f", "{}")])
    assert one.text.count("is missing") == arguments.TOLD
    assert "5 more" in one.text


def test_documents_beyond_all_measure_are_not_judged() -> None:
    assert said(check(), Call("read_file", '{"x": "' + "x" * arguments.LONGEST)) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@effort(max_examples=200, deadline=None)
@given(st.sampled_from(TOOLS) | st.text(), st.text() | JSON.map(json.dumps))
def test_no_call_makes_it_raise(name: str, text: str) -> None:
    assert said(check(), Call(name, text)) in ([], ["0 repair arguments"])


@given(
    st.text(),
    st.none() | st.integers() | st.integers().map(float) | st.integers().map(str),
    st.dictionaries(st.text(min_size=1), JSON, max_size=3),
)
def test_a_healthy_call_is_never_sent_back(path: str, limit: object, more: dict[str, object]) -> None:
    made = {**more, "limit": limit, "path": path}
    for keys in (made, dict(reversed(made.items()))):
        assert said(check(), Call("read_file", json.dumps(keys))) == []
        assert said(check(), Call("read_file", json.dumps(keys, ensure_ascii=False, indent=2))) == []


@given(st.dictionaries(st.sampled_from(["path", "limit", "x", "y"]), JSON, max_size=4))
def test_the_order_of_keys_does_not_change_the_verdict(made: dict[str, object]) -> None:
    turned = dict(reversed(made.items()))
    assert said(check(), Call("read_file", json.dumps(made))) == said(check(), Call("read_file", json.dumps(turned)))


def test_steps_of_other_runs_are_none_of_its_business() -> None:
    assert said(check(run=Trail(steps("a a a a a"))), Call("read_file", '{"path": "a"}')) == []


def test_another_mode_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^mode: must be one of"):
        arguments.Settings("on")
