"""What the rules of a policy forbid is refused from the first call on."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.core.model import Call
from guardproxy.core.proposals import deny
from guardproxy.core.tool_rules import ToolRule, ToolRules
from tests.core.proposals.turns import inspection, said

RULES = ToolRules(deny=(ToolRule("delete_*", reason="data is kept"), ToolRule("sh", paths=("/etc",))))


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        (Call("delete_row", '{"id": 1}'), True),
        (Call("Delete_Row", "not json"), True),
        (Call("read_row", '{"id": 1}'), False),
        (Call("sh", '{"command": "ls"}'), False),
        (Call("sh", '{"command": "cat /etc/passwd"}'), True),
    ],
)
@pytest.mark.parametrize("mode", ["off", "observe", "enforce"])
def test_what_is_refused(call: Call, refused: bool, mode: str) -> None:
    expected = {"off": [], "observe": ["0 observe refuse tools.deny"], "enforce": ["0 refuse tools.deny"]}[mode]
    found = inspection(settings={"deny": deny.Settings(mode)}, tools=RULES)
    assert said(found, call) == (expected if refused else [])
    assert said(found, call, repairs=9, refusals=9) == (expected if refused else [])
    assert (found is None) is (mode == "off")


@pytest.mark.parametrize(("language", "words"), [("en", "forbid"), ("zh", "不允许")])
def test_the_refusal_names_the_rules_reason(language: str, words: str) -> None:
    found = inspection(tools=RULES, language=language)
    assert found
    (one, other) = found.judge([Call("delete_row", "{}"), Call("sh", '{"command": "cat /etc/hosts"}')])
    assert one.text.startswith(GUARD_MARK)
    for part in (words, "delete_row", "data is kept"):
        assert part in one.text
    assert one.reason == "delete_row is forbidden by delete_*: data is kept"
    assert other.reason == "sh is forbidden by sh(paths=/etc)"
    assert "/etc/hosts" not in other.reason, "a reason is logged; it holds no content"


def test_only_calls_that_a_rule_is_about_are_held_back() -> None:
    found = inspection(tools=RULES)
    assert found
    assert found.concerns("delete_row")
    assert found.concerns("sh")
    assert not found.concerns("read_row")
    assert inspection(tools=ToolRules()) is None
    observed = inspection(settings={"deny": deny.Settings("observe")}, tools=RULES)
    assert observed
    assert not observed.concerns("delete_row")


@given(st.text(), st.text())
def test_no_call_makes_it_raise(tool: str, arguments: str) -> None:
    rules = ToolRules(deny=(ToolRule("*", {"a": "x"}, ("/etc",)),))
    assert said(inspection(tools=rules), Call(tool, arguments)) in ([], ["0 refuse tools.deny"])


@given(st.dictionaries(st.text(), st.integers() | st.text()))
def test_the_order_of_keys_does_not_count(arguments: dict[str, object]) -> None:
    found = inspection(tools=ToolRules(deny=(ToolRule("*", paths=("*a*",)),)))
    turned = json.dumps(dict(reversed(arguments.items())))
    assert said(found, Call("t", json.dumps(arguments))) == said(found, Call("t", turned))


def test_another_mode_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^mode: must be one of"):
        deny.Settings("")
